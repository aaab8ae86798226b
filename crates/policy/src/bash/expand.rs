//! What words become: expansions of variables, braces, and what small programs print.

use std::iter::Peekable;
use std::str::Chars;

use super::walk::MOST_TEXT;

/// Words that one word may become.
pub(super) const MOST_WORDS: usize = 64;

/// `${name…}` of a variable with this value, or of none.
pub(super) fn changed(value: Option<&str>, how: &str) -> Option<String> {
    if let Some(rest) =
        how.strip_prefix(":-").or_else(|| how.strip_prefix(":=")).or_else(|| how.strip_prefix(['-', '=']))
    {
        return Some(value.filter(|value| !value.is_empty()).map_or_else(|| unquoted(rest), str::to_owned));
    }
    // `${x:+y}` is `y` wherever there is an `x`.
    if let Some(rest) = how.strip_prefix(":+").or_else(|| how.strip_prefix('+')) {
        return Some(unquoted(rest));
    }
    let value = value?;
    // `${x:?}` is `x`, or the end.
    if how.is_empty() || how.starts_with(":?") || how.starts_with('?') || how == "[@]" || how == "[*]" {
        return Some(value.to_owned());
    }
    if let Some(index) = how.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let mut items = value.split_whitespace();
        return match index.strip_prefix('-') {
            Some(back) => items.rev().nth(back.parse::<usize>().ok()?.checked_sub(1)?),
            None => items.nth(index.parse().ok()?),
        }
        .map(str::to_owned);
    }
    if let Some(from) = how.strip_prefix("[@]:").or_else(|| how.strip_prefix("[*]:")) {
        let from = from.split(':').next().unwrap_or_default().trim().parse().ok()?;
        return Some(value.split_whitespace().skip(from).collect::<Vec<_>>().join(" "));
    }
    match how {
        "@Q" | "@E" | "@A" | "@P" => return Some(value.to_owned()),
        "^^" | "@U" => return Some(value.to_uppercase()),
        ",," | "@L" => return Some(value.to_lowercase()),
        "^" | "," => {
            let mut chars = value.chars();
            let first = chars.next()?;
            let first = if how == "^" { first.to_ascii_uppercase() } else { first.to_ascii_lowercase() };
            return Some(first.to_string() + chars.as_str());
        }
        _ => {}
    }
    if let Some(range) = how.strip_prefix(':') {
        let (from, count) = range.split_once(':').map_or((range, None), |(from, count)| (from, Some(count)));
        let from: usize = from.trim().parse().ok()?;
        let count = count.map_or(Ok(usize::MAX), |count| count.trim().parse()).ok()?;
        return Some(value.chars().skip(from).take(count).collect());
    }
    if let Some(rest) = how.strip_prefix('/') {
        let (all, rest) = rest.strip_prefix('/').map_or((false, rest), |rest| (true, rest));
        let (old, new) = rest.split_once('/').unwrap_or((rest, ""));
        let plain = !old.is_empty() && !has_pattern(old) && value.len() * (new.len() + 1) <= MOST_TEXT;
        return plain.then(|| if all { value.replace(old, new) } else { value.replacen(old, new, 1) });
    }
    let start = how.strip_prefix("##").or_else(|| how.strip_prefix('#'));
    let end = how.strip_prefix("%%").or_else(|| how.strip_prefix('%'));
    match (start, end) {
        (Some(start), _) if !has_pattern(start) => Some(value.strip_prefix(start).unwrap_or(value).to_owned()),
        (_, Some(end)) if !has_pattern(end) => Some(value.strip_suffix(end).unwrap_or(value).to_owned()),
        _ => None,
    }
}

fn has_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn unquoted(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '"' | '\'')).collect()
}

/// `a{b,c}d`, as often as there are braces, up to a bound.
pub(super) fn braces(text: &str) -> Vec<String> {
    let mut words = vec![text.to_owned()];
    for _ in 0..6 {
        let mut more = Vec::new();
        let mut any = false;
        for word in words {
            match split_braces(&word) {
                Some((before, list, after)) => {
                    any = true;
                    let room = MOST_WORDS.saturating_sub(more.len());
                    more.extend(list.split(',').take(room).map(|part| format!("{before}{part}{after}")));
                }
                None => more.push(word),
            }
        }
        words = more;
        if !any {
            break;
        }
    }
    words
}

/// The innermost list that comes first.
fn split_braces(word: &str) -> Option<(&str, &str, &str)> {
    let end = word.find('}')?;
    let start = word.get(..end)?.rfind('{')?;
    let list = word.get(start + 1..end)?;
    list.contains(',').then(|| (&word[..start], list, &word[end + 1..]))
}

/// What `echo` or `printf` print.
pub(super) fn printed(program: &str, words: &[Option<String>]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(Option::as_deref).collect::<Option<_>>()?;
    if program == "printf" {
        let words = if words.first() == Some(&"--") { &words[1..] } else { &words[..] };
        let (format, values) = words.split_first()?;
        return formatted(format, values);
    }
    let flags = words.iter().take_while(|word| matches!(**word, "-n" | "-e" | "-ne" | "-en" | "-E")).count();
    let escapes = words[..flags].iter().any(|flag| flag.contains('e'));
    let text = words[flags..].join(" ");
    Some(if escapes { unescaped(&text) } else { text })
}

/// A format of `printf` with `%s`, `%b` and `%d`.
pub(super) fn formatted(format: &str, values: &[&str]) -> Option<String> {
    let format = unescaped(format);
    let mut values = values.iter();
    let mut parts = format.split('%');
    let mut text = parts.next()?.to_owned();
    while let Some(part) = parts.next() {
        match part.chars().next() {
            Some('s' | 'd') => text.push_str(values.next().copied().unwrap_or_default()),
            Some('b') => text.push_str(&unescaped(values.next().copied().unwrap_or_default())),
            // `%%`
            None => {
                text.push('%');
                text.push_str(parts.next().unwrap_or_default());
                continue;
            }
            Some(_) => return None,
        }
        text.push_str(&part[1..]);
        if text.len() > MOST_TEXT {
            return None;
        }
    }
    Some(text)
}

/// `\x72\155`
fn unescaped(text: &str) -> String {
    let mut result = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            result.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => result.push('\n'),
            Some('t') => result.push('\t'),
            Some('x') => result.push(code(&mut chars, 16, 2, 0)),
            Some(c @ '0'..='7') => result.push(code(&mut chars, 8, 3, c.to_digit(8).unwrap_or(0))),
            Some(c) => result.push(c),
            None => result.push('\\'),
        }
    }
    result
}

fn code(chars: &mut Peekable<Chars<'_>>, radix: u32, most: u32, mut value: u32) -> char {
    for _ in 0..most {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
        chars.next();
        value = value * radix + digit;
    }
    char::from_u32(value).unwrap_or('\u{fffd}')
}

/// What a program makes of a known text on its standard input.
pub(super) fn filtered(program: &str, words: &[Option<String>], text: &str) -> Option<String> {
    let has = |flag: &str| words.iter().flatten().any(|word| word == flag);
    match program {
        "cat" | "tee" if words.is_empty() => Some(text.to_owned()),
        "rev" => Some(text.trim_end_matches('\n').chars().rev().collect()),
        "base64" if has("-d") || has("--decode") || has("-D") => crate::decode::base64(text),
        "xxd" if has("-p") => crate::decode::hex(text),
        "tr" => match (words.first(), words.get(1), words.len()) {
            (Some(Some(from)), Some(Some(to)), 2) if is_rot13(from, to) => Some(crate::decode::rot13(text)),
            (Some(Some(upper)), Some(Some(lower)), 2) if is_case(upper) && is_case(lower) => {
                Some(if lower.contains("low") || lower == "a-z" { text.to_lowercase() } else { text.to_uppercase() })
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_case(set: &str) -> bool {
    matches!(set, "a-z" | "A-Z" | "[:upper:]" | "[:lower:]")
}

fn is_rot13(from: &str, to: &str) -> bool {
    matches!((from, to), ("a-z", "n-za-m") | ("A-Za-z", "N-ZA-Mn-za-m") | ("a-zA-Z", "n-za-mN-ZA-M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansions_of_known_values_are_known() {
        for (value, how, result) in [
            (Some("arm"), ":1", Some("rm")),
            (Some("armx"), ":1:2", Some("rm")),
            (Some("arm"), "#a", Some("rm")),
            (Some("rmx"), "%x", Some("rm")),
            (Some("RM"), ",,", Some("rm")),
            (Some("axm"), "/ax/r", Some("rm")),
            (Some("a rm b"), "[1]", Some("rm")),
            (None, ":-rm", Some("rm")),
            (Some("x"), ":-rm", Some("x")),
            (Some("rm"), "#*", None),
            (None, ":1", None),
        ] {
            assert_eq!(changed(value, how).as_deref(), result, "{value:?} {how}");
        }
        assert_eq!(braces("/{etc,usr}"), ["/etc", "/usr"]);
        assert_eq!(braces("{a,b}{c,d}"), ["ac", "ad", "bc", "bd"]);
        assert!(braces(&"{a,b}".repeat(20)).len() <= MOST_WORDS * 2);
        assert_eq!(braces("{}"), ["{}"]);
    }

    #[test]
    fn what_is_printed_is_known() {
        let words = |words: &[&str]| words.iter().map(|word| Some((*word).to_owned())).collect::<Vec<_>>();
        assert_eq!(printed("printf", &words(&["%s%s", "r", "m"])).as_deref(), Some("rm"));
        assert_eq!(printed("printf", &words(&["\\x72\\155"])).as_deref(), Some("rm"));
        assert_eq!(printed("echo", &words(&["-n", "rm"])).as_deref(), Some("rm"));
        assert_eq!(printed("echo", &[None]), None);
        assert_eq!(filtered("rev", &[], "mr\n").as_deref(), Some("rm"));
        assert_eq!(filtered("base64", &words(&["-d"]), "cm0=\n").as_deref(), Some("rm"));
    }
}
