//! Texts in disguise: what a decoder would make of them, where the text is known and the result is text.

use crate::value::MOST_TEXT;

/// Either alphabet, with or without padding.
pub(crate) fn base64(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for c in text.bytes().filter(|c| !c.is_ascii_whitespace()).take_while(|c| *c != b'=') {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Two digits for each byte.
pub(crate) fn hex(text: &str) -> Option<String> {
    let digits: Vec<u32> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    if digits.len() > MOST_TEXT {
        return None;
    }
    digits.chunks_exact(2).map(|pair| char::from_u32(pair[0] * 16 + pair[1])).collect()
}

/// Thirteen letters further.
pub(crate) fn rot13(text: &str) -> String {
    let turn = |c: char| match c {
        'a'..='m' | 'A'..='M' => char::from_u32(u32::from(c) + 13).unwrap_or(c),
        'n'..='z' | 'N'..='Z' => char::from_u32(u32::from(c) - 13).unwrap_or(c),
        other => other,
    };
    text.chars().map(turn).collect()
}

/// `%65`
pub(crate) fn percent(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(c) = rest.next() {
        if c != b'%' {
            bytes.push(c);
            continue;
        }
        let digit = |c: Option<u8>| c.and_then(|c| char::from(c).to_digit(16));
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_are_taken_out_of_their_disguise() {
        for text in ["c3lzdGVt", "c3lz dGVt\n"] {
            assert_eq!(base64(text).as_deref(), Some("system"));
        }
        assert_eq!(base64("cm0=").as_deref(), Some("rm"));
        assert_eq!((base64("~"), base64("/w==")), (None, None));
        assert_eq!(hex("7379 7374656D").as_deref(), Some("system"));
        assert_eq!(rot13("flfgrZ"), "systeM");
        assert_eq!((percent("%65xec").as_deref(), percent("%6")), (Some("exec"), None));
    }
}
