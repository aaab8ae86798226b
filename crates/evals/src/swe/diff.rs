//! Which files a patch is about.

use std::sync::LazyLock;

use regex::Regex;

#[expect(clippy::unwrap_used, reason = "a constant, which a test reads")]
static HEADER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^diff --git a/.* b/(.*)$").unwrap());

/// Endings of files in a test patch that hold no tests.
const NO_TESTS: &[&str] = &[".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"];

/// Every file that a patch made by git names.
#[must_use]
pub fn files(patch: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for found in HEADER.captures_iter(patch) {
        let name = found[1].trim_end_matches('\r').to_owned();
        if !files.contains(&name) {
            files.push(name);
        }
    }
    files
}

/// Those that can be tested; no name among them could be taken for an option.
#[must_use]
pub fn test_files(patch: &str) -> Vec<String> {
    let mut files = files(patch);
    files.retain(|file| !NO_TESTS.iter().any(|ending| file.ends_with(ending)) && !file.starts_with('-'));
    files
}

/// Every name in a patch, made by git or not, without the first part of each.
#[must_use]
pub fn named(patch: &str) -> Vec<String> {
    let mut names = files(patch);
    let lines: Vec<&str> = patch.lines().collect();
    for pair in lines.windows(2) {
        if let (Some(old), Some(new)) = (pair[0].strip_prefix("--- "), pair[1].strip_prefix("+++ ")) {
            for name in [old, new] {
                let name = name.split('\t').next().unwrap_or(name).trim().trim_matches('"');
                let Some((_, name)) = name.split_once('/').filter(|_| name != "/dev/null") else { continue };
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
            }
        }
    }
    names
}

/// Whether a patch reaches for what git keeps of itself, or out of the tree: then it is none.
#[must_use]
pub fn leaves_the_tree(patch: &str) -> bool {
    let begins = ["diff --git ", "rename to ", "rename from ", "copy to ", "copy from ", "Index: "];
    let outside = |part: &str| part == ".." || part.eq_ignore_ascii_case(".git");
    let names_outside = |line: &str| line.split(['/', ' ', '\t', '"', '\\']).any(|part| outside(part.trim()));
    let lines: Vec<&str> = patch.lines().collect();
    lines.iter().enumerate().any(|(at, line)| {
        let next = lines.get(at + 1).is_some_and(|next| line.starts_with("--- ") && next.starts_with("+++ "));
        let last = at > 0 && line.starts_with("+++ ") && lines[at - 1].starts_with("--- ");
        (next || last || begins.iter().any(|begin| line.starts_with(begin))) && names_outside(line)
    })
}

/// The patch that undoes another.
#[must_use]
pub fn reversed(patch: &str) -> String {
    let mut undone = String::with_capacity(patch.len());
    // Lines of a hunk that are still to come, old and new ones; outside of hunks lines are headers.
    let (mut old, mut new) = (0, 0);
    let mut renames: Option<&str> = None;
    let mut before: Option<&str> = None;
    for line in patch.lines() {
        let inside = old > 0 || new > 0;
        let turned = match line.chars().next() {
            Some('-') if inside => {
                old -= 1;
                format!("+{}", &line[1..])
            }
            Some('+') if inside => {
                new -= 1;
                format!("-{}", &line[1..])
            }
            Some('\\') => line.to_owned(),
            _ if inside => {
                (old, new) = (old - 1, new - 1);
                line.to_owned()
            }
            _ => {
                if let Some(rest) = line.strip_prefix("--- ") {
                    before = Some(rest);
                    continue;
                }
                if let Some(rest) = line.strip_prefix("rename from ") {
                    renames = Some(rest);
                    continue;
                }
                if let (Some(rest), Some(first)) = (line.strip_prefix("+++ "), before.take()) {
                    format!("--- {}\n+++ {}", side(rest, "a/"), side(first, "b/"))
                } else if let (Some(rest), Some(first)) = (line.strip_prefix("rename to "), renames.take()) {
                    format!("rename from {rest}\nrename to {first}")
                } else if let Some(mode) = line.strip_prefix("new file mode ") {
                    format!("deleted file mode {mode}")
                } else if let Some(mode) = line.strip_prefix("deleted file mode ") {
                    format!("new file mode {mode}")
                } else if let Some((counts, rest)) = hunk(line) {
                    (old, new) = (counts.0.1, counts.1.1);
                    format!("@@ -{},{} +{},{} @@{rest}", counts.1.0, counts.1.1, counts.0.0, counts.0.1)
                } else if line.starts_with("index ") {
                    // Only for patches of other trees.
                    continue;
                } else {
                    line.to_owned()
                }
            }
        };
        undone.push_str(&turned);
        undone.push('\n');
    }
    undone
}

fn side(name: &str, first: &str) -> String {
    let other = if first == "a/" { "b/" } else { "a/" };
    name.strip_prefix(other).map_or_else(|| name.to_owned(), |rest| format!("{first}{rest}"))
}

/// Where a hunk begins and how long it is, on both sides.
type Counts = ((usize, usize), (usize, usize));

fn hunk(line: &str) -> Option<(Counts, &str)> {
    let (ranges, rest) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| match text.split_once(',') {
        Some((at, count)) => Some((at.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    Some(((range(old)?, range(new)?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_by_their_headers() {
        let patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\ndiff --git a/a b.py b/a b.py\ndiff --git a/i.png b/i.png\ndiff --git a/-x b/-x\n";
        assert_eq!(files(patch), ["x.py", "a b.py", "i.png", "-x"]);
        assert_eq!(test_files(patch), ["x.py", "a b.py"]);
    }

    #[test]
    fn a_patch_is_undone() {
        let patch = "diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,4 @@ def f():\n a\n--- b\n+++ c\n+d\n e\ndiff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n";
        let undone = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,4 +1,3 @@ def f():\n a\n+-- b\n-++ c\n-d\n e\ndiff --git a/n b/n\ndeleted file mode 100644\n--- a/n\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n";
        assert_eq!(reversed(patch), undone);
    }

    #[test]
    fn a_patch_stays_in_the_tree() {
        for bad in [
            "--- a/x\n+++ b/.git/config\n",
            "--- a/x\n+++ b/../../env/x.py\n",
            "diff --git a/x b/.GIT/hooks/post-checkout\n",
            "rename to .git/hooks/post-checkout\n",
        ] {
            assert!(leaves_the_tree(bad), "{bad}");
        }
        for good in [
            "--- a/.github/x\n+++ b/.github/x\n",
            "--- a/.gitignore\n+++ b/.gitignore\n",
            "+++ b/x.py\n+x = '../.git'\n--- ../.git\n",
        ] {
            assert!(!leaves_the_tree(good), "{good}");
        }
    }
}
