//! Putting back what could decide a verdict: tests, settings and hooks of the runner.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::site::{ASIDE, Said, Script, Site};
use crate::swe::edits::{self, Power};
use crate::swe::{SweError, diff};

/// Plain git commands, with names that are shown as they are.
const CHANGED: &str =
    "cd \"$1\"; git -c core.quotePath=false status --porcelain=v1 -z --no-renames --untracked-files=all";

/// Names of new modules that stand for others: of the standard library, or of the environment.
const SHADOWS: &str = r#"cd /
python - "$@" <<'END'
import os, pkgutil, subprocess, sys
tree, words = sys.argv[1], sys.argv[2:]
paths = [p for p in sys.path if p and not (p + "/").startswith(tree + "/")]
names = set(sys.builtin_module_names) | set(getattr(sys, "stdlib_module_names", ()))
names |= {m.name for m in pkgutil.iter_modules(paths + [os.path.dirname(os.__file__)])}
for word in words:
    root, _, name = word.rpartition(":")
    path = os.path.join(root, name)
    known = any(subprocess.call(["git", "-C", tree, "cat-file", "-e", "HEAD:" + p], stderr=subprocess.DEVNULL) == 0 for p in (path, path + ".py"))
    if name in names and not known:
        sys.stdout.write(word + "\0")
END"#;

/// As it was at the commit, or gone.
const PUT_BACK: &str = r#"cd "$1"; at="$2"; shift 2
for path in "$@"; do
  if git cat-file -e "$at:$path" 2>/dev/null; then
    rm -rf -- "$path"; git checkout -q "$at" -- "$path"
  else
    git rm -r -q -f --cached --ignore-unmatch -- "$path"; rm -rf -- "$path"
  fi
done"#;

/// A file that could decide the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Which.
    pub path: String,
    /// Why it could.
    pub power: Power,
}

/// What of a tree is not as it was: files, and those of them that are new.
pub async fn changed(site: &Site, time: Duration) -> Result<(Vec<String>, Vec<String>), SweError> {
    let said = site.run(script(site, CHANGED, &[], time)).await?;
    let entries = said.out.split('\0').filter(|entry| entry.len() > 3);
    let mut all = Vec::new();
    let mut added = Vec::new();
    for entry in entries {
        let (kind, path) = entry.split_at(3);
        if kind.contains(['?', 'A']) {
            added.push(path.to_owned());
        }
        all.push(path.to_owned());
    }
    Ok((all, added))
}

/// Finds the files of a patch that could decide the verdict, and puts them back. Those that the instance's own solution
/// touches as well are left alone: `known`.
pub async fn neutralise(
    site: &Site,
    patch: &str,
    known: &[String],
    test_files: &[String],
    time: Duration,
) -> Result<Vec<Edit>, SweError> {
    let (mut all, mut added) = changed(site, time).await?;
    // What is ignored by git is named by the patch alone.
    for path in diff::named(patch) {
        if !all.contains(&path) {
            added.push(path.clone());
            all.push(path);
        }
    }
    let folders = edits::test_folders(test_files);
    let mut edits: Vec<Edit> = Vec::new();
    // Where the solution is in a part that runs tests, so may another be.
    let parts: Vec<&str> = known.iter().filter_map(|path| edits::runner(path)).collect();
    let is_known = |path: &str| {
        known.iter().any(|known| known == path) || edits::runner(path).is_some_and(|part| parts.contains(&part))
    };
    for path in all.iter().filter(|path| !is_known(path)) {
        let power = if test_files.contains(path) { Some(Power::Tests) } else { edits::power(path, &folders) };
        edits.extend(power.map(|power| Edit { path: path.clone(), power }));
    }
    let modules = edits::modules(&added, test_files);
    let words: Vec<String> = modules.iter().map(|(root, name)| format!("{root}:{name}")).collect();
    if !words.is_empty() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = site.run(script(site, SHADOWS, &words, time)).await?;
        for (root, name) in said.out.split('\0').filter_map(|word| word.rsplit_once(':')) {
            let path = if root.is_empty() { name.to_owned() } else { format!("{root}/{name}") };
            let shadows = |added: &&String| {
                added.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with(['/', '.']))
                    && !known.contains(added)
            };
            let found = added.iter().filter(shadows).filter(|added| !edits.iter().any(|edit| edit.path == **added));
            let found: Vec<Edit> = found.map(|path| Edit { path: path.clone(), power: Power::Shadow }).collect();
            edits.extend(found);
        }
    }
    let paths: Vec<&str> = edits.iter().map(|edit| edit.path.as_str()).collect();
    put_back(site, "HEAD", &paths, time).await?;
    Ok(edits)
}

/// Puts the test patch into the tree, over whatever became of its files.
pub async fn restore(site: &Site, test_patch: &str, commit: &str, time: Duration) -> Result<Said, SweError> {
    let files = diff::files(test_patch);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    put_back(site, commit, &files, time).await?;
    apply_tests(site, test_patch, time).await
}

/// The same as the official script does it: all files by one command, which does nothing if one of them is new.
pub async fn restore_officially(site: &Site, test_patch: &str, commit: &str, time: Duration) -> Result<Said, SweError> {
    let files = diff::files(test_patch);
    let mut words = vec![commit];
    words.extend(files.iter().map(String::as_str));
    site.run(script(site, "cd \"$1\"; shift; git checkout \"$@\"; true", &words, time)).await?;
    apply_tests(site, test_patch, time).await
}

async fn apply_tests(site: &Site, test_patch: &str, time: Duration) -> Result<Said, SweError> {
    let file = format!("{ASIDE}/test.diff");
    // Some rows lack the last line's end.
    site.write(&file, format!("{}\n", test_patch.trim_end_matches('\n')).as_bytes()).await?;
    site.run(script(site, "exec 2>&1; cd \"$1\"; git apply -v \"$2\"", &[&file], time)).await
}

async fn put_back(site: &Site, at: &str, paths: &[&str], time: Duration) -> Result<(), SweError> {
    // A command line has its bounds.
    for paths in paths.chunks(500) {
        let mut words = vec![at];
        words.extend(paths);
        site.run(script(site, PUT_BACK, &words, time)).await?;
    }
    Ok(())
}

fn script<'a>(site: &Site, text: &'a str, words: &[&str], time: Duration) -> Script<'a> {
    let mut arguments = vec![site.tree().to_owned()];
    arguments.extend(words.iter().map(|&word| word.to_owned()));
    Script { text, arguments, time, ..Script::default() }
}
