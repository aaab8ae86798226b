//! From an answer to a program: the whole of it, blocks of SEARCH and REPLACE, or a unified diff.

use super::{blocks, bundle};
use crate::judge::extract_code;

/// What was proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Words of a model, with a program or a change of one in them.
    Text(String),
    /// A program and nothing else.
    Code(String),
}

impl Form {
    /// As it was said.
    #[must_use]
    pub fn text(&self) -> &str {
        let (Self::Text(text) | Self::Code(text)) = self;
        text
    }
}

/// The program that is meant, or what is wrong with the answer, for whoever gave it.
pub(crate) fn apply(form: &Form, parent: &str, start: Option<&str>, language: &str) -> Result<String, String> {
    // A tree is what it starts as, also where a line of repairs has no parent.
    let tree = start.filter(|start| bundle::split(start).is_some());
    let parent = if parent.is_empty() { tree.unwrap_or_default() } else { parent };
    let proposed = match (form, diff_in(form)) {
        (Form::Text(text), _) if text.contains("<<<<<<< SEARCH") => search_replace(text, parent)?,
        (Form::Text(_), Some(diff)) if tree.is_some() => unified_tree(&diff, parent)?,
        (Form::Text(_), Some(diff)) => unified(&diff, parent)?,
        (Form::Text(text) | Form::Code(text), _) if tree.is_some() => bundle::merged(parent, text)?,
        (Form::Text(text), None) => extract_code(text, language),
        (Form::Code(code), _) => code.clone(),
    };
    if proposed.trim().is_empty() {
        return Err("the answer holds no program".to_owned());
    }
    match start {
        Some(start) if tree.is_some() && !bundle::has_files_of(&proposed, start) => {
            Err("the lines that name files must stay as they are".to_owned())
        }
        Some(start) => blocks::keep_all(start, &proposed),
        None => Ok(proposed),
    }
}

/// Applies every block in turn. A text that is searched must be there, and only once.
fn search_replace(text: &str, parent: &str) -> Result<String, String> {
    let mut program = parent.to_owned();
    let mut rest = text;
    let mut count = 0;
    while let Some(start) = rest.find("<<<<<<< SEARCH") {
        let body = rest[start..].split_once('\n').map_or("", |(_, body)| body);
        let cut = |what: &str| format!("block {} has no line `{what}`", count + 1);
        let (search, after) = split_at_line(body, "=======").ok_or_else(|| cut("======="))?;
        let (replace, after) = split_at_line(after, ">>>>>>> REPLACE").ok_or_else(|| cut(">>>>>>> REPLACE"))?;
        count += 1;
        program = replaced(&program, search, replace).map_err(|why| format!("block {count}: {why}"))?;
        rest = after;
    }
    Ok(program)
}

/// What is before a line and what is after it.
fn split_at_line<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == mark {
            return Some((&text[..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn replaced(program: &str, search: &str, replace: &str) -> Result<String, String> {
    if search.trim().is_empty() {
        // Nothing to search for: it is added at the end, which is what is meant for an empty program.
        let gap = if program.is_empty() || program.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{program}{gap}{replace}"));
    }
    let exact = program.matches(search).count();
    if exact == 1 {
        return Ok(program.replacen(search, replace, 1));
    }
    if exact > 1 {
        return Err(format!("its SEARCH text is there {exact} times; add lines around it"));
    }
    // Blanks at the ends of lines are not meant.
    let lines: Vec<&str> = program.lines().collect();
    let wanted: Vec<&str> = search.lines().collect();
    let is_at =
        |at: &usize| lines[*at..*at + wanted.len()].iter().zip(&wanted).all(|(a, b)| a.trim_end() == b.trim_end());
    let places: Vec<usize> = (0..(lines.len() + 1).saturating_sub(wanted.len())).filter(is_at).collect();
    match places[..] {
        [at] => {
            let before = lines[..at].iter().map(|line| format!("{line}\n"));
            let after = lines[at + wanted.len()..].iter().map(|line| format!("{line}\n"));
            let middle = replace.lines().map(|line| format!("{line}\n"));
            Ok(before.chain(middle).chain(after).collect())
        }
        [] => Err("its SEARCH text is not in the program; copy it line by line".to_owned()),
        _ => Err("its SEARCH text is there several times; add lines around it".to_owned()),
    }
}

/// A unified diff in an answer: a block that says so, or the answer as a whole.
fn diff_in(form: &Form) -> Option<String> {
    let text = form.text();
    let is_diff = |text: &str| {
        text.lines().any(|line| line.starts_with("@@ "))
            && text.lines().any(|line| line.starts_with("--- "))
            && text.lines().any(|line| line.starts_with("+++ "))
    };
    if is_diff(text.trim_start()) && (text.trim_start().starts_with("--- ") || text.trim_start().starts_with("diff ")) {
        return Some(text.to_owned());
    }
    for fence in ["```diff", "```patch", "```udiff"] {
        if let Some(start) = text.find(fence) {
            let body = text[start..].split_once('\n')?.1;
            let body = split_at_line(body, "```").map_or(body, |(body, _)| body);
            return body.lines().any(|line| line.starts_with("@@")).then(|| body.to_owned());
        }
    }
    None
}

/// Applies a unified diff of one file. Line numbers are a hint: models miscount.
fn unified(diff: &str, parent: &str) -> Result<String, String> {
    let mut lines: Vec<&str> = parent.lines().collect();
    let mut shift: isize = 0;
    let mut hunks = 0;
    let mut at = diff.lines().peekable();
    while let Some(line) = at.next() {
        let Some(head) = line.strip_prefix("@@") else { continue };
        hunks += 1;
        let (mut old, mut new) = (Vec::new(), Vec::new());
        while let Some(line) = at.next_if(|line| !line.starts_with("@@") && !line.starts_with("diff --git")) {
            match line.split_at_checked(1) {
                None => {
                    old.push("");
                    new.push("");
                }
                Some((" ", text)) => {
                    old.push(text);
                    new.push(text);
                }
                Some(("-", text)) => old.push(text),
                Some(("+", text)) => new.push(text),
                Some(_) => {}
            }
        }
        // A blank line after the last hunk is the answer's, not the file's.
        while old.last() == Some(&"") && new.last() == Some(&"") {
            old.pop();
            new.pop();
        }
        let number = head.trim_start_matches([' ', '-']).split([',', ' ']).next().and_then(|n| n.parse::<isize>().ok());
        let near = number.map_or(0, |number| (number - 1 + shift).max(0)).unsigned_abs();
        let place = place(&lines, &old, near)
            .ok_or_else(|| format!("hunk {hunks} does not fit: its lines are not in the program"))?;
        lines.splice(place..place + old.len(), new.iter().copied());
        shift += new.len().cast_signed() - old.len().cast_signed();
    }
    if hunks == 0 {
        return Err("the diff has no hunk".to_owned());
    }
    Ok(lines.join("\n") + "\n")
}

/// Applies a unified diff of several files.
fn unified_tree(diff: &str, parent: &str) -> Result<String, String> {
    let files = bundle::split(parent).ok_or("there is no program to change")?;
    let mut files: Vec<(&str, String)> = files.into_iter().map(|(path, text)| (path, text.to_owned())).collect();
    let mut part = String::new();
    let mut place: Option<usize> = None;
    let lines: Vec<&str> = diff.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let next = lines.get(index + 1).copied().unwrap_or_default();
        if line.starts_with("--- ") && next.starts_with("+++ ") {
            finish(&mut files, place, &part)?;
            part.clear();
            let name = next[4..].split('\t').next().unwrap_or_default().trim();
            let name = name.strip_prefix("b/").unwrap_or(name);
            let found = files.iter().position(|(path, _)| *path == name);
            place = Some(found.ok_or_else(|| format!("the program has no file `{name}`"))?);
        } else if place.is_some() && !line.starts_with("+++ ") || line.starts_with('@') {
            part.push_str(line);
            part.push('\n');
        }
    }
    finish(&mut files, place, &part)?;
    Ok(bundle::join(files.iter().map(|(path, text)| (*path, text.as_str()))))
}

/// Applies what a diff says of one file.
fn finish(files: &mut [(&str, String)], place: Option<usize>, part: &str) -> Result<(), String> {
    match place.and_then(|place| files.get_mut(place)) {
        Some((path, text)) => {
            *text = unified(part, text).map_err(|why| format!("`{path}`: {why}"))?;
            Ok(())
        }
        None if part.is_empty() => Ok(()),
        None => Err("the diff does not say which file it changes".to_owned()),
    }
}

/// Where these lines are, as near as can be to where they should be.
fn place(lines: &[&str], old: &[&str], near: usize) -> Option<usize> {
    let fits = |at: &usize| {
        let here = lines.get(*at..*at + old.len());
        here.is_some_and(|here| here.iter().zip(old).all(|(a, b)| a.trim_end() == b.trim_end()))
    };
    (0..=lines.len()).filter(fits).min_by_key(|at| at.abs_diff(near))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "def f(x):\n    y = x\n    return y\n\ndef g(x):\n    return x\n";

    fn made(text: &str) -> Result<String, String> {
        apply(&Form::Text(text.to_owned()), PARENT, None, "python")
    }

    #[test]
    fn every_form_of_an_answer_is_understood() {
        let want = PARENT.replace("y = x\n", "y = x + 1\n");
        for answer in [
            format!("Here:\n```python\n{want}```\n"),
            "<<<<<<< SEARCH\n    y = x\n=======\n    y = x + 1\n>>>>>>> REPLACE\n".to_owned(),
            "I change one line.\n\n<<<<<<< SEARCH\n    y = x   \n    return y\n=======\n    y = x + 1\n    return y\n>>>>>>> REPLACE".to_owned(),
            "```diff\n--- a/f.py\n+++ b/f.py\n@@ -1,3 +1,3 @@\n def f(x):\n-    y = x\n+    y = x + 1\n     return y\n```\n".to_owned(),
            "--- a\n+++ b\n@@ -7,2 +7,2 @@\n-    y = x\n+    y = x + 1\n     return y\n".to_owned(),
        ] {
            assert_eq!(made(&answer).as_deref(), Ok(want.as_str()), "{answer}");
        }
        assert_eq!(made("x = 1"), Ok("x = 1".to_owned()));
    }

    #[test]
    fn files_of_a_tree_are_changed_by_every_form() {
        let tree =
            |x: u8, y: u8| bundle::join([("main.py", &*format!("x = {x}\n")), ("lib/a.py", &*format!("y = {y}\n"))]);
        let made = |text: &str| apply(&Form::Text(text.to_owned()), &tree(1, 1), Some(&tree(0, 0)), "python");
        assert_eq!(made("===== FILE: lib/a.py =====\n```python\ny = 2\n```\n"), Ok(tree(1, 2)));
        assert_eq!(made("<<<<<<< SEARCH\ny = 1\n=======\ny = 2\n>>>>>>> REPLACE"), Ok(tree(1, 2)));
        let diff = "--- a/main.py\n+++ b/main.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n--- a/lib/a.py\n+++ b/lib/a.py\n@@ -1 +1 @@\n-y = 1\n+y = 2\n";
        assert_eq!(made(diff), Ok(tree(2, 2)));
        assert_eq!(made(&format!("```diff\n{diff}```\n")), Ok(tree(2, 2)));
        let code = Form::Code("===== FILE: main.py =====\nx = 7\n".to_owned());
        assert_eq!(apply(&code, "", Some(&tree(0, 0)), "python"), Ok(tree(7, 0)));
        for (answer, why) in [
            ("y = 2\n", "names no file"),
            ("===== FILE: lib/b.py =====\ny\n", "no file `lib/b.py`"),
            ("--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-x\n+y\n", "no file `b.py`"),
            ("<<<<<<< SEARCH\ny = 1\n=======\n===== FILE: lib/b.py =====\n>>>>>>> REPLACE", "must stay"),
            ("<<<<<<< SEARCH\n===== FILE: lib/a.py =====\n=======\n>>>>>>> REPLACE", "must stay"),
        ] {
            let error = made(answer).unwrap_err();
            assert!(error.contains(why), "{answer}: {error}");
        }
    }

    #[test]
    fn what_does_not_fit_says_why() {
        for (answer, why) in [
            ("<<<<<<< SEARCH\n    z = x\n=======\n    y\n>>>>>>> REPLACE", "not in the program"),
            ("<<<<<<< SEARCH\n(x):\n=======\n(y):\n>>>>>>> REPLACE", "2 times"),
            ("<<<<<<< SEARCH\n    y = x\n=======\n    y = 2", "no line `>>>>>>> REPLACE`"),
            ("```diff\n@@ -1 +1 @@\n-nothing like it\n+y\n```", "hunk 1 does not fit"),
            ("```python\n\n```", "no program"),
            ("", "no program"),
        ] {
            let error = made(answer).unwrap_err();
            assert!(error.contains(why), "{answer}: {error}");
        }
    }
}
