//! What became of each hunk of a patch that does not apply, from what `git apply --verbose --reject` says.

use std::fmt;

/// One hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The file that it is for.
    pub file: String,
    /// Which of that file, from 1 on; 0 for the file as a whole.
    pub number: usize,
    /// What was said.
    pub fate: Fate,
}

/// What became of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It fits.
    Fits,
    /// What it is to replace is not there.
    Rejected,
    /// The file cannot be patched at all, and why.
    Impossible(String),
}

impl fmt::Display for Hunk {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, number, fate } = self;
        match fate {
            Fate::Fits => write!(to, "{file}: hunk {number} fits"),
            Fate::Rejected => write!(to, "{file}: hunk {number} does not: the lines that it is about are not there"),
            Fate::Impossible(why) => write!(to, "{file}: {why}"),
        }
    }
}

/// Reads what the commands said.
#[must_use]
pub fn read(said: &str) -> Vec<Hunk> {
    let part = said.split("+ git apply --verbose --reject\n").nth(1).unwrap_or(said);
    let part = part.split("\n+ ").next().unwrap_or(part);
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut file = "";
    let mut checked = "";
    for line in part.lines() {
        let number = |text: &str| text.trim_start_matches(|c: char| !c.is_ascii_digit()).to_owned();
        let number = |text: &str| number(text).chars().take_while(char::is_ascii_digit).collect::<String>().parse();
        let (number, fate) = if let Some(rest) = line.strip_prefix("Applying patch ") {
            file = rest.split(" with ").next().unwrap_or(rest);
            continue;
        } else if let Some(rest) = line.strip_prefix("Checking patch ") {
            checked = rest.trim_end_matches("...").rsplit(" => ").next().unwrap_or(rest);
            continue;
        } else if let Some(rest) = line.strip_prefix("Applied patch ") {
            file = rest.strip_suffix(" cleanly.").unwrap_or(rest);
            (Ok(1), Fate::Fits)
        } else if line.starts_with("Hunk #") {
            (number(line), Fate::Fits)
        } else if line.starts_with("Rejected hunk #") {
            (number(line), Fate::Rejected)
        } else if let Some(why) = line.strip_prefix("error: ")
            && !why.starts_with("patch failed: ")
            && !why.starts_with("while searching for")
        {
            file = if checked.is_empty() { "the patch" } else { checked };
            let why = why.strip_prefix(file).and_then(|why| why.strip_prefix(": ")).unwrap_or(why);
            (Ok(0), Fate::Impossible(why.to_owned()))
        } else {
            continue;
        };
        hunks.extend(number.ok().map(|number| Hunk { file: file.to_owned(), number, fate }));
    }
    // Of a file whose hunks are told one by one nothing has to be said as a whole.
    let told: Vec<String> = hunks.iter().filter(|hunk| hunk.number > 0).map(|hunk| hunk.file.clone()).collect();
    hunks.retain(|hunk| hunk.number > 0 || !told.contains(&hunk.file));
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hunk_is_told() {
        let said = "+ git apply --verbose\nerror: patch failed: a.py:1\n+ git apply --verbose --reject\nChecking patch a.py...\nerror: while searching for:\nno such line\n\nerror: patch failed: a.py:1\nChecking patch b.py...\nChecking patch gone.py...\nerror: gone.py: No such file or directory\nApplying patch a.py with 1 reject...\nRejected hunk #1.\nHunk #2 applied cleanly.\nApplied patch b.py cleanly.\n+ patch --batch\nHunk #9 FAILED\n";
        let hunk = |file: &str, number, fate| Hunk { file: file.to_owned(), number, fate };
        let wanted = [
            hunk("gone.py", 0, Fate::Impossible("No such file or directory".to_owned())),
            hunk("a.py", 1, Fate::Rejected),
            hunk("a.py", 2, Fate::Fits),
            hunk("b.py", 1, Fate::Fits),
        ];
        assert_eq!(read(said), wanted);
        let corrupt = read("+ git apply --verbose --reject\nerror: corrupt patch at line 6\n");
        assert_eq!(corrupt, [hunk("the patch", 0, Fate::Impossible("corrupt patch at line 6".to_owned()))]);
    }
}
