//! From bytes to text, as the interpreter would read them.

use std::borrow::Cow;

/// Encodings in which ASCII is ASCII: what is read here is what runs.
const PLAIN: &[&str] = &["utf-8", "utf8", "u8", "utf-8-sig", "ascii", "us-ascii", "latin-1", "latin1", "l1", "8859"];
const PLAIN_FAMILIES: &[&str] = &["iso-8859-", "iso8859-", "windows-125", "cp125", "cp437", "cp850", "koi8-", "mac-"];

/// The text. Bytes that are no UTF-8 are replaced: they stand in comments and texts, or nothing runs.
pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    String::from_utf8_lossy(bytes)
}

/// The encoding that the first two lines declare, if code could hide in it: in UTF-7 or with escapes a comment can
/// hold a statement.
pub(crate) fn hiding_encoding(text: &str) -> Option<&str> {
    let name = text.lines().take(2).find_map(declared)?;
    let lower = name.to_ascii_lowercase().replace('_', "-");
    let plain = PLAIN.contains(&lower.as_str()) || PLAIN_FAMILIES.iter().any(|family| lower.starts_with(family));
    (!plain).then_some(name)
}

/// `coding: NAME` or `coding=NAME` in a comment.
fn declared(line: &str) -> Option<&str> {
    let comment = line.trim_start_matches([' ', '\t', '\x0c']).strip_prefix('#')?;
    let after = &comment[comment.find("coding")? + "coding".len()..];
    let name = after.strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)).unwrap_or(name.len());
    name.get(..end).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_that_hide_code_are_told_from_those_that_do_not() {
        for bad in ["# coding: utf-7", "#!/usr/bin/python\n# -*- coding=unicode_escape -*-", "# vim: coding:rot13"] {
            assert!(hiding_encoding(bad).is_some(), "{bad}");
        }
        for good in
            ["# -*- coding: utf-8 -*-", "# coding: latin-1", "x = 1\n\n# coding: utf-7", "# coding conventions", ""]
        {
            assert_eq!(hiding_encoding(good), None, "{good}");
        }
    }
}
