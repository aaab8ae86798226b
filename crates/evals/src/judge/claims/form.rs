//! The form of a test that is nothing but claims, read word by word: no statement but those below is one of it.

use std::collections::HashSet;

use super::{Claim, Says};
use crate::judge::value::Value;

/// Functions of Python's own that a claim may use.
pub(super) const BUILTINS: [&str; 2] = ["abs", "tuple"];

/// The claims of `source`: assignments of literals, and one `def check(candidate)` of asserts. Whether [`BUILTINS`] are
/// Python's own there is not to be seen from it alone.
pub(super) fn read(source: &str, has_builtins: bool) -> Option<Vec<Claim>> {
    // A character by its name, which we have no table of; ends of lines that Python makes others of.
    if source.contains("\\N") || source.contains('\r') {
        return None;
    }
    let mut claims = Vec::new();
    let mut check: Option<(&str, &str)> = None;
    for line in logical_lines(source)? {
        let text = line.trim_start_matches([' ', '\t']);
        let indent = &line[..line.len() - text.len()];
        match (indent.is_empty(), check) {
            (true, None) if text.starts_with("def check(") => check = Some((parameter(text)?, "")),
            (true, _) => is_idle(text).then_some(())?,
            (false, Some((parameter, own))) if own.is_empty() || own == indent => {
                check = Some((parameter, indent));
                statement(text, parameter, has_builtins, &mut claims)?;
            }
            (false, _) => return None,
        }
    }
    Some(claims).filter(|claims| !claims.is_empty())
}

/// The lines that Python sees: brackets and strings may go over several of a text. Nothing if it has one that is joined
/// by a backslash, or brackets and strings that do not end.
fn logical_lines(source: &str) -> Option<Vec<&str>> {
    let bytes = source.as_bytes();
    let (mut lines, mut start, mut at, mut depth) = (Vec::new(), 0, 0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at += source[at..].find('\n').unwrap_or(source.len() - at) - 1,
            b'\\' => return None,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b'"' | b'\'' => at = string_end(bytes, at)? - 1,
            b'\n' if depth == 0 => {
                lines.push(&source[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    lines.push(&source[start..]);
    let says_something = |line: &&str| !matches!(line.trim_start().chars().next(), None | Some('#'));
    (depth == 0).then(|| lines.into_iter().filter(says_something).collect())
}

/// Where the string that begins at `at` ends.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let quote = bytes[at];
    let is_triple = bytes[at..].starts_with(&[quote; 3]);
    let end: &[u8] = if is_triple { &[quote; 3] } else { &[quote] };
    at += end.len();
    while !bytes.get(at..)?.starts_with(end) {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'\n' if !is_triple => return None,
            _ => at += 1,
        }
    }
    Some(at + end.len())
}

/// `candidate` of `def check(candidate):`.
fn parameter(text: &str) -> Option<&str> {
    let (name, rest) = text.strip_prefix("def check(")?.split_once(')')?;
    (is_name(name.trim()) && rest.trim_start().strip_prefix(':').is_some_and(is_end)).then_some(name.trim())
}

/// A statement that does nothing: a string, or a name for a literal.
fn is_idle(text: &str) -> bool {
    if text.starts_with(['"', '\'']) {
        return matches!(Value::literal_prefix(text), Ok((Value::Str(_), end)) if is_end(&text[end..]));
    }
    let Some((name, value)) = text.split_once('=') else { return false };
    is_name(name.trim_end())
        && name.trim_end() != "check"
        && !BUILTINS.contains(&name.trim_end())
        && matches!(Value::literal_prefix(value), Ok((value_of, end)) if is_simple(&value_of) && is_end(&value[end..]))
}

/// A statement of `check`: a claim, or one that does nothing.
fn statement(text: &str, parameter: &str, has_builtins: bool, claims: &mut Vec<Claim>) -> Option<()> {
    let Some(claimed) = text.strip_prefix("assert").filter(|rest| rest.starts_with([' ', '\t'])) else {
        // A function that is not called does nothing either; one of HumanEval's tests begins so.
        let rest = ["pass", "print"].iter().find_map(|word| text.strip_prefix(word));
        return (rest.is_some_and(is_end) || (text.starts_with(['"', '\'']) && is_idle(text))).then_some(());
    };
    let claimed = claimed.trim_start();
    if let Some(rest) = claimed.strip_prefix("True") {
        return message(rest, parameter).map(|_| ());
    }
    let inside = BUILTINS.map(|name| claimed.strip_prefix(name)?.strip_prefix('(').filter(|_| parameter != name));
    let (args, kwargs, says, rest) = match inside {
        [Some(distance), _] if has_builtins => near(distance, parameter)?,
        [_, Some(items)] if has_builtins => has_items(items, parameter)?,
        _ => plain(claimed, parameter)?,
    };
    let shown = match message(rest, parameter)? {
        Message::None => Some(text.lines().next().unwrap_or_default().trim().to_owned()),
        Message::Text(text) => Some(text),
        Message::Computed => None,
    };
    claims.push(Claim { args, kwargs, says, shown });
    Some(())
}

type Said<'a> = (Value, Value, Says, &'a str);

/// `candidate(…)`, also with `not` before it, `== …` or `is …` behind it.
fn plain<'a>(claimed: &'a str, parameter: &str) -> Option<Said<'a>> {
    let (negated, call) = match claimed.strip_prefix("not ") {
        Some(rest) => (true, rest.trim_start()),
        None => (false, claimed),
    };
    let (args, kwargs, rest) = called(call, parameter)?;
    let rest = rest.trim_start();
    let (says, rest) = if negated {
        (Says::Fails, rest)
    } else if let Some(rest) = rest.strip_prefix("==") {
        let (value, end) = Value::literal_prefix(rest).ok().filter(|(value, _)| is_simple(value))?;
        (Says::Equals(value), &rest[end..])
    } else if let Some(rest) = rest.strip_prefix("is ") {
        let (value, end) = Value::literal_prefix(rest).ok()?;
        (Says::Is(Some(value).filter(|value| matches!(value, Value::None | Value::Bool(_)))?), &rest[end..])
    } else {
        (Says::Holds, rest)
    };
    Some((args, kwargs, says, rest))
}

/// What follows `abs(`: `candidate(…) - 0.5) < 1e-6`.
fn near<'a>(distance: &'a str, parameter: &str) -> Option<Said<'a>> {
    let (args, kwargs, rest) = called(after_blanks(distance), parameter)?;
    let rest = after_blanks(rest).strip_prefix('-')?;
    // No sum: what is taken away from a difference comes after it.
    let (value, end) = Value::term_prefix(rest).ok()?;
    let rest = after_blanks(&rest[end..]).strip_prefix(')')?.trim_start().strip_prefix('<')?;
    let (or_equal, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
    let (limit, end) = Value::literal_prefix(rest).ok()?;
    Some((args, kwargs, Says::Near { value, limit, or_equal }, &rest[end..]))
}

/// What follows `tuple(`: `candidate(…)) == tuple([…])`.
fn has_items<'a>(call: &'a str, parameter: &str) -> Option<Said<'a>> {
    let (args, kwargs, rest) = called(after_blanks(call), parameter)?;
    let rest = after_blanks(rest).strip_prefix(')')?.trim_start().strip_prefix("==")?;
    let rest = rest.trim_start().strip_prefix("tuple(")?;
    let (value, end) = Value::literal_prefix(rest).ok().filter(|(value, _)| is_simple(value))?;
    let (Value::List(items) | Value::Tuple(items)) = value else { return None };
    Some((args, kwargs, Says::HasItems(items), after_blanks(&rest[end..]).strip_prefix(')')?))
}

/// The arguments of a call of `parameter`, and what comes after it.
fn called<'a>(call: &'a str, parameter: &str) -> Option<(Value, Value, &'a str)> {
    arguments(call.strip_prefix(parameter)?.strip_prefix('(')?)
}

/// What follows a claim.
enum Message {
    None,
    /// A text that says it in words.
    Text(String),
    /// One that is put together with what a call gives, which only the test itself does.
    Computed,
}

fn message(rest: &str, parameter: &str) -> Option<Message> {
    if is_end(rest) {
        return Some(Message::None);
    }
    let rest = rest.trim_start().strip_prefix(',')?;
    match Value::literal_prefix(rest) {
        Ok((Value::Str(text), end)) if is_end(&rest[end..]) => Some(Message::Text(text)),
        _ => is_computed(rest.trim_start(), parameter).then_some(Message::Computed),
    }
}

/// `"text" + str(candidate(…))`, also of its length.
fn is_computed(text: &str, parameter: &str) -> bool {
    let shown = || {
        let end = text.starts_with(['"', '\'']).then(|| string_end(text.as_bytes(), 0))??;
        let call = text[end..].trim_start().strip_prefix('+')?.trim_start().strip_prefix("str(")?;
        let (call, closed) = call.strip_prefix("len(").map_or((call, ")"), |call| (call, "))"));
        called(call, parameter)?.2.strip_prefix(closed)
    };
    shown().is_some_and(is_end)
}

/// Arguments that are literals, up to the closing bracket; and what comes after it.
fn arguments(mut rest: &str) -> Option<(Value, Value, &str)> {
    let (mut args, mut kwargs) = (Vec::new(), Vec::new());
    loop {
        rest = after_blanks(rest);
        if let Some(rest) = rest.strip_prefix(')') {
            return Some((Value::Tuple(args), Value::Dict(kwargs), rest));
        }
        let keyword = rest.split_once('=').filter(|(name, value)| is_name(name.trim_end()) && !value.starts_with('='));
        let (value, end) = Value::literal_prefix(keyword.map_or(rest, |(_, value)| value)).ok()?;
        let simple = Some(value).filter(is_simple)?;
        match keyword {
            Some((name, value)) => {
                let name = Value::text(name.trim_end());
                if kwargs.iter().any(|(other, _)| *other == name) {
                    return None;
                }
                kwargs.push((name, simple));
                rest = &value[end..];
            }
            None if kwargs.is_empty() => {
                args.push(simple);
                rest = &rest[end..];
            }
            None => return None,
        }
        rest = after_blanks(rest);
        if !rest.starts_with(')') {
            rest = rest.strip_prefix(',')?;
        }
    }
}

/// Inside brackets ends of lines and comments are blanks.
fn after_blanks(mut rest: &str) -> &str {
    loop {
        rest = rest.trim_start();
        match rest.strip_prefix('#') {
            Some(comment) => rest = comment.split_once('\n').map_or("", |(_, next)| next),
            None => return rest,
        }
    }
}

fn is_end(rest: &str) -> bool {
    matches!(rest.trim_start().chars().next(), None | Some('#'))
}

fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether the literal means the same wherever it stands: nothing that Python would first make something of.
fn is_simple(value: &Value) -> bool {
    match value {
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::Bytes(_) => true,
        Value::List(items) | Value::Tuple(items) => items.iter().all(is_simple),
        Value::Dict(pairs) => {
            let texts: HashSet<&str> = pairs.iter().filter_map(|(name, _)| name.as_str()).collect();
            let numbers: HashSet<i64> = pairs.iter().filter_map(|(name, _)| name.as_int()).collect();
            texts.len() + numbers.len() == pairs.len() && pairs.iter().all(|(_, value)| is_simple(value))
        }
        Value::Complex(..) | Value::Set(_) | Value::FrozenSet(_) | Value::Tagged(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> Option<Vec<String>> {
        let one = |claim: &Claim| format!("{} {} {:?}", claim.args, claim.kwargs, claim.says);
        read(source, true).map(|claims| claims.iter().map(one).collect())
    }

    #[test]
    fn claims_about_calls_are_read() {
        let source = "METADATA = {\n    'author': 'x', 'dataset': [1]\n}\n\n\ndef check(candidate):\n    \"\"\"doc\"\"\"\n\n    # simple\n    assert True, \"prints\"\n    assert candidate([1, -2], key='#') == (1, \"a\" 'b'), 'no'  # why\n    assert candidate(\n        [1,  # one\n         2],\n    ) is None\n    assert not candidate()\n    assert candidate(0.5)\n";
        let expected = [
            "([1, -2],) {'key': '#'} Equals(Tuple([Int(Small(1)), Str(\"ab\")]))",
            "([1, 2],) {} Is(None)",
            "() {} Fails",
            "(0.5,) {} Holds",
        ];
        assert_eq!(shown(source), Some(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn sums_distances_and_messages_that_are_put_together_are_read() {
        let source = "def check(f):\n    assert f(3 * 5) == (3 + 5, 2), 'no: ' + str(f(3 * 5))\n    assert abs(f(1.5) - 2.0/3.0) <= 1e-06\n    assert f('a') == 1, 'n' + str(len(f('a')))  # so\n";
        let expected = [
            "(15,) {} Equals(Tuple([Int(Small(8)), Int(Small(2))]))",
            "(1.5,) {} Near { value: Float(0.6666666666666666), limit: Float(1e-6), or_equal: true }",
            "('a',) {} Equals(Int(Small(1)))",
        ];
        assert_eq!(shown(source), Some(expected.map(str::to_owned).to_vec()));
        let words: Vec<bool> = read(source, true).unwrap().iter().map(|claim| claim.shown.is_some()).collect();
        assert_eq!(words, [false, true, false]);
        assert_eq!(read(source, false), None);
        let source = "def check(f):\n    print\n    assert tuple(f({'a': 1, 5: 2})) == tuple([1, 'b']), 'no'\n";
        let expected = "({'a': 1, 5: 2},) {} HasItems([Int(Small(1)), Str(\"b\")])";
        assert_eq!(shown(source), Some(vec![expected.to_owned()]));
        assert_eq!(read(source, false), None);
        assert_eq!(read("tuple = 1\ndef check(f):\n    assert f(1) == 1\n", true), None);
        assert_eq!(read("abs = 1\ndef check(f):\n    assert f(1) == 1\n", true), None);
    }

    #[test]
    fn nothing_else_is_a_claim() {
        for line in [
            "assert candidate(1) == 1 or True",
            "assert candidate(1) == 1 == 1",
            "assert candidate(1) == x",
            "assert candidate(1) == {1}",
            "assert candidate(1) == {1: 2, 1: 3}",
            "assert candidate(1) == {1: 2, True: 3}",
            "assert candidate(1) == {1.5: 2}",
            "assert tuple(candidate(1)) == tuple(x)",
            "assert tuple(candidate(1)) == tuple(candidate(2))",
            "assert tuple(candidate(1)) == tuple('ab')",
            "assert tuple(candidate(1)) == tuple([1], [2])",
            "assert tuple(candidate(1)) == tuple([1])[0]",
            "assert tuple(candidate(1)) == (1,)",
            "assert tuple(candidate(1)) != tuple([1])",
            "assert tuple(candidate(1), 2) == tuple([1])",
            "assert not tuple(candidate(1)) == tuple([1])",
            "print(1)",
            "printed",
            "assert candidate(1) == {'a': 1, 'a': 2}",
            "assert candidate(1) == 012",
            "assert candidate(1) == 1 + x",
            "assert candidate(1) == 7 // 2",
            "assert candidate(1) == 1 - 2 - candidate(1)",
            "assert abs(candidate(1) - 1 - 1) < 1e-6",
            "assert abs(candidate(1) + 1) < 1e-6",
            "assert abs(candidate(1) - x) < 1e-6",
            "assert abs(candidate(1) - 1) < x",
            "assert abs(candidate(1) - 1) > 1e-6",
            "assert abs(candidate(1) - 1, 2) < 1e-6",
            "assert not abs(candidate(1) - 1) < 1e-6",
            "assert candidate(1) == 1, 'a' + str(x)",
            "assert candidate(1) == 1, 'a' + str(candidate(1)) + 1",
            "assert candidate(1) == 1, 'a' + repr(candidate(1))",
            "assert candidate(1) == 1, 'a' + str(len(candidate(1))",
            "assert candidate(1) == -x",
            "assert candidate(1) == [1][0]",
            "assert candidate(1) == nan",
            "assert candidate(1) == f'x'",
            "assert candidate(1) == '\\N{BULLET}'",
            "assert candidate(1) == 1, 2",
            "assert candidate(1) == 1; x = 1",
            "assert candidate(1) != 1",
            "assert candidate(1)(2) == 1",
            "assert candidate(1).x == 1",
            "assert candidate(*[1]) == 1",
            "assert candidate(a=1, 2) == 1",
            "assert candidate(x == 1) == 1",
            "assert candidate(1) ==\\\n 1",
            "assert (candidate(1) == 1, 'always true')",
            "assert candidated(1) == 1",
            "assert other(1) == 1",
            "assert candidate(1) is 1",
            "assert candidate(1) == 1 if x else 2",
            "for x in [1]: assert candidate(x) == 1",
            "x = candidate(1)",
            "pass",
            "assert True",
        ] {
            assert_eq!(read(&format!("def check(candidate):\n    {line}\n"), true), None, "{line}");
        }
        for source in [
            "",
            "import math\ndef check(candidate):\n    assert candidate(1) == 1\n",
            "def check(candidate):\n    assert candidate(1) == 1\ncheck(f)\n",
            "def check(candidate):\n    assert candidate(1) == 1\ndef check(candidate):\n    assert candidate(1) == 2\n",
            "def check(candidate):\n    assert candidate(1) == 1\n        assert candidate(1) == 1\n",
            "def check(candidate, x=1):\n    assert candidate(1) == 1\n",
            "def check(candidate):\n    assert candidate('a\n",
            "@skip\ndef check(candidate):\n    assert candidate(1) == 1\n",
            "assert candidate(1) == 1\n",
            "def check(candidate):\n    assert candidate(1) == 1\ncheck = 1\n",
            "def check(candidate):\r\n    assert candidate(1) == 1\r\n",
        ] {
            assert_eq!(read(source, true), None, "{source}");
        }
        assert_eq!(read(&format!("def check(c):\n    assert c({}", "[".repeat(100_000)), true), None);
        assert_eq!(
            read(&format!("def check(c):\n    assert c({}1) == 1", "-".repeat(100_000)), true).map(|c| c.len()),
            Some(1)
        );
    }
}
