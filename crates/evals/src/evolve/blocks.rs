//! `EVOLVE-BLOCK-START` and `EVOLVE-BLOCK-END`: what of a program may change.
//!
//! Whatever is proposed, the text outside the blocks is the starting program's own: it is put together from there, never
//! compared and trusted.

use super::bundle;

/// A program in turns: fixed, open, fixed, … and fixed at the end. Lines with marks belong to what is fixed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) fixed: Vec<&'a str>,
    pub(crate) open: Vec<&'a str>,
}

/// Whether the marks of a program are in order; a program without any is open as a whole.
pub(crate) fn check(program: &str) -> Result<(), &'static str> {
    parts(program).map(drop)
}

/// The same for every file of a tree.
pub(crate) fn check_all(program: &str) -> Result<(), &'static str> {
    match bundle::split(program) {
        Some(files) => files.iter().try_for_each(|(_, text)| check(text)),
        None => check(program),
    }
}

/// Whether a program, or any file of a tree, has marks.
pub(crate) fn has_marks(program: &str) -> bool {
    program.lines().any(|line| mark(line).is_some())
}

/// Splits a program at its marks; nothing if it has none.
pub(crate) fn parts(program: &str) -> Result<Option<Parts<'_>>, &'static str> {
    let (mut fixed, mut open) = (Vec::new(), Vec::new());
    let (mut from, mut at) = (0, 0);
    let mut inside = false;
    for line in program.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        match (mark(line), inside) {
            (Some(Mark::Start), false) => {
                fixed.push(&program[from..end]);
                (from, inside) = (end, true);
            }
            (Some(Mark::End), true) => {
                open.push(&program[from..start]);
                (from, inside) = (start, false);
            }
            (Some(Mark::Start), true) => return Err("an EVOLVE-BLOCK-START stands inside a block"),
            (Some(Mark::End), false) => return Err("an EVOLVE-BLOCK-END has no start"),
            (None, _) => {}
        }
    }
    if inside {
        return Err("an EVOLVE-BLOCK-START has no end");
    }
    if open.is_empty() {
        return Ok(None);
    }
    fixed.push(&program[from..]);
    Ok(Some(Parts { fixed, open }))
}

enum Mark {
    Start,
    End,
}

/// A mark in a comment of any language: nothing but signs before it.
fn mark(line: &str) -> Option<Mark> {
    let word = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if word.strip_prefix("EVOLVE-BLOCK-START").is_some_and(ends) {
        return Some(Mark::Start);
    }
    word.strip_prefix("EVOLVE-BLOCK-END").is_some_and(ends).then_some(Mark::End)
}

/// The same for the files of a tree: where one has marks, those without any stay as they are.
pub(crate) fn keep_all(start: &str, proposed: &str) -> Result<String, String> {
    let (Some(own), Some(theirs)) = (bundle::split(start), bundle::split(proposed)) else {
        return keep(start, proposed);
    };
    if !has_marks(start) {
        return Ok(proposed.to_owned());
    }
    let mut kept = Vec::with_capacity(own.len());
    for ((path, own), (_, theirs)) in own.into_iter().zip(theirs) {
        let text =
            if has_marks(own) { keep(own, theirs).map_err(|why| format!("`{path}`: {why}"))? } else { own.to_owned() };
        kept.push((path, text));
    }
    Ok(bundle::join(kept.iter().map(|(path, text)| (*path, text.as_str()))))
}

/// A proposal with everything outside the blocks as it was at the start.
pub(crate) fn keep(start: &str, proposed: &str) -> Result<String, String> {
    let Some(own) = parts(start)? else { return Ok(proposed.to_owned()) };
    let open: Vec<String> = match parts(proposed) {
        Ok(Some(theirs)) if theirs.open.len() == own.open.len() => {
            theirs.open.iter().map(|text| (*text).to_owned()).collect()
        }
        Ok(Some(theirs)) => {
            return Err(format!("the program has {} evolve blocks, the answer {}", own.open.len(), theirs.open.len()));
        }
        Ok(None) if own.open.len() == 1 => vec![without(proposed, own.fixed[0], own.fixed[1])],
        Ok(None) => return Err("the answer has no EVOLVE-BLOCK marks, and the program has several blocks".to_owned()),
        Err(why) => return Err(why.to_owned()),
    };
    let mut text = String::with_capacity(proposed.len() + start.len());
    for (fixed, open) in own.fixed.iter().zip(&open) {
        text.push_str(fixed);
        text.push_str(open);
        if !open.is_empty() && !open.ends_with('\n') {
            text.push('\n');
        }
    }
    text.push_str(own.fixed.last().copied().unwrap_or_default());
    Ok(text)
}

/// What an answer without marks means by the block: itself, less what it repeats of the text around it.
fn without(proposed: &str, before: &str, after: &str) -> String {
    let bare = |text: &str| text.lines().filter(|line| mark(line).is_none()).collect::<Vec<_>>().join("\n");
    let (before, after) = (bare(before), bare(after));
    let mut text = proposed.trim_matches('\n');
    if !before.trim().is_empty() {
        text = text.strip_prefix(before.trim_matches('\n')).unwrap_or(text);
    }
    if !after.trim().is_empty() {
        text = text.strip_suffix(after.trim_matches('\n')).unwrap_or(text);
    }
    text.trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "import a\n# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n\ndef run():\n    return x\n";

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let kept = |proposed: &str| keep(START, proposed).unwrap();
        let want = START.replace("x = 1", "x = 2");
        for proposed in [
            want.as_str(),
            "import os\n# EVOLVE-BLOCK-START\nx = 2\n# EVOLVE-BLOCK-END\ndef run(): return 99\n",
            "x = 2\n",
            "import a\nx = 2\n\ndef run():\n    return x\n",
        ] {
            assert_eq!(kept(proposed), want, "{proposed}");
        }
        assert_eq!(keep("a\n", "b\n").unwrap(), "b\n");
    }

    #[test]
    fn of_a_tree_with_marks_only_what_is_between_them_changes() {
        let tree = |a: &str, b: &str| bundle::join([("main.py", a), ("lib.py", b)]);
        let kept = keep_all(&tree(START, "y = 1\n"), &tree(&START.replace("x = 1", "x = 2"), "y = 2\n")).unwrap();
        assert_eq!(kept, tree(&START.replace("x = 1", "x = 2"), "y = 1\n"));
        assert_eq!(
            keep_all(&tree("x = 1\n", "y = 1\n"), &tree("x = 2\n", "y = 2\n")).unwrap(),
            tree("x = 2\n", "y = 2\n")
        );
    }

    #[test]
    fn marks_of_any_language_count_and_others_do_not() {
        let program = "// EVOLVE-BLOCK-START v1\nint x;\n/* EVOLVE-BLOCK-END */\nint EVOLVE;\n";
        assert_eq!(parts(program).unwrap().unwrap().open, ["int x;\n"]);
        assert!(parts("# EVOLVE-BLOCK-STARTED\nx\n").unwrap().is_none());
        assert!(parts("print('EVOLVE-BLOCK-START')\n").unwrap().is_none());
        assert!(check("# EVOLVE-BLOCK-START\nx\n").is_err());
        assert!(check("# EVOLVE-BLOCK-END\n").is_err());
        assert!(keep(&START.repeat(2), "x = 2").is_err());
    }
}
