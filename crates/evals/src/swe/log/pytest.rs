//! pytest, in the five ways in which it is read.

use std::borrow::Cow;

use super::words;
use crate::swe::statuses::{FAILED, SKIPPED, Statuses, WORDS};

/// The summary of `-rA`: a status, then the id up to the first space.
pub(super) fn plain(log: &str) -> Statuses {
    summary(log, str::to_owned)
}

/// The same; a parameter that is a path is cut to its last part.
pub(super) fn options(log: &str) -> Statuses {
    summary(log, |id| {
        let brackets = id.find('[').zip(id.rfind(']')).filter(|(open, close)| open < close);
        let Some((open, close)) = brackets else { return id.to_owned() };
        let (name, parameter) = (&id[..open], &id[open + 1..close]);
        let is_path = parameter.starts_with('/') && !parameter.starts_with("//") && !parameter.contains('*');
        match parameter.rsplit_once('/') {
            Some((_, last)) if is_path => format!("{name}[/{last}]"),
            _ => format!("{name}[{parameter}]"),
        }
    })
}

/// The same as the first, for a project whose parameters are printed by number in some versions.
pub(super) fn matplotlib(log: &str) -> Statuses {
    plain(&log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))
}

/// `--verbose`, as SWE-smith has it: the id, then the status; and the summary, where there is one.
pub(super) fn verbose(log: &str) -> Statuses {
    let mut statuses = Statuses::default();
    for line in log.split('\n') {
        match words(line)[..] {
            [first, second, ..] if WORDS.contains(&first) && !is_count(first, second) => statuses.put(second, first),
            [id, second, ..] if line.starts_with(id) => {
                if let Some(status) = WORDS.iter().find(|word| second.starts_with(**word)) {
                    statuses.put(id, status);
                }
            }
            _ => {}
        }
    }
    statuses
}

fn summary(log: &str, name: impl Fn(&str) -> String) -> Statuses {
    let mut statuses = Statuses::default();
    for line in log.split('\n').filter(|line| begins(line)) {
        let line = if line.starts_with(FAILED) { Cow::from(line.replace(" - ", " ")) } else { Cow::from(line) };
        if let [status, id, ..] = words(&line)[..]
            && !is_count(status, id)
        {
            statuses.put(name(id), status);
        }
    }
    statuses
}

/// Without colours; an id is all that follows the status, or comes before it where an older pytest wrote that last.
pub(super) fn second(log: &str) -> Statuses {
    let mut statuses = Statuses::default();
    for line in log.split('\n') {
        let line = without_controls(&without_colours(line));
        if begins(&line) {
            let end = if line.starts_with(FAILED) { line.find(" - ") } else { None };
            let words = words(&line[..end.unwrap_or(line.len())]);
            if let [status, id, ..] = words[..]
                && !is_count(status, id)
            {
                statuses.put(words[1..].join(" "), status);
            }
        } else if WORDS.iter().any(|word| line.ends_with(word)) {
            let words = words(&line);
            if let [id @ .., status] = &words[..]
                && !id.is_empty()
            {
                statuses.put(id.join(" "), status);
            }
        }
    }
    statuses
}

fn begins(line: &str) -> bool {
    WORDS.iter().any(|word| line.starts_with(word))
}

/// `SKIPPED [2] file:line: why` counts tests and names none.
fn is_count(status: &str, id: &str) -> bool {
    let number = id.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    status == SKIPPED
        && number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Without `[31m` and its like. What stood around one is not looked at again.
fn without_colours(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(open) = rest.find('[') {
        let (before, after) = rest.split_at(open);
        kept.push_str(before);
        let digits = after[1..].find(|character: char| !character.is_ascii_digit()).unwrap_or(after.len() - 1);
        if digits > 0 && after[1 + digits..].starts_with('m') {
            rest = &after[digits + 2..];
        } else {
            kept.push('[');
            rest = &after[1..];
        }
    }
    kept + rest
}

fn without_controls(line: &str) -> String {
    line.chars().filter(|character| !('\u{1}'..='\u{1f}').contains(character)).collect()
}
