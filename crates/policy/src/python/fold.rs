//! Arithmetic on what is known: texts that are put together, numbers that are computed.

use std::cmp::Ordering;

use ruff_python_ast::Operator;

use crate::value::{MOST_ITEMS, MOST_TEXT, Value, Values};

/// More digits than any program wants.
const GIANT_BITS: i128 = 10_000_000;

/// The result of an operator, as far as it is known.
pub(super) fn operate(left: &Values, operator: Operator, right: &Values) -> Values {
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        return number(a, operator, b).map(|n| Values::one(Value::Int(n))).unwrap_or_default();
    }
    match operator {
        Operator::Add => {
            if let (Some(a), Some(b)) = (left.as_text(), right.as_text()) {
                return Values::text(format!("{a}{b}"));
            }
            match (left.as_list(), right.as_list()) {
                (Some(a), Some(b)) if a.len() + b.len() <= MOST_ITEMS => {
                    Values::one(Value::List(a.iter().chain(b).cloned().collect()))
                }
                _ => Values::default(),
            }
        }
        Operator::Mult => match (left.as_text(), right.as_int()) {
            (Some(text), Some(times)) => repeat(text, times),
            _ => Values::default(),
        },
        Operator::Mod => left.as_text().map(|text| percent(text, right)).unwrap_or_default(),
        // `Path("a") / "b"` is a path still.
        Operator::Div => {
            let mut path: Values =
                left.paths().filter(|path| path.ends_with("()")).map(|p| Value::Path(p.into())).collect();
            if let (Some(a), Some(b), false) = (left.as_text(), right.as_text(), path.is_empty()) {
                path.join(Values::text(format!("{a}/{b}")));
            }
            path
        }
        // `os.O_WRONLY | os.O_CREAT` is any of them.
        Operator::BitOr => {
            let mut either = left.clone();
            either.join(right.clone());
            either
        }
        _ => Values::default(),
    }
}

fn repeat(text: &str, times: i128) -> Values {
    match usize::try_from(times) {
        Ok(times) if times.saturating_mul(text.len()) <= MOST_TEXT => Values::text(text.repeat(times)),
        _ => Values::default(),
    }
}

fn number(a: i128, operator: Operator, b: i128) -> Option<i128> {
    match operator {
        Operator::Add => Some(a.saturating_add(b)),
        Operator::Sub => Some(a.saturating_sub(b)),
        Operator::Mult => Some(a.saturating_mul(b)),
        Operator::Pow => u32::try_from(b).ok().map(|b| a.saturating_pow(b)).or((b > 0 && a > 1).then_some(i128::MAX)),
        Operator::LShift => {
            let bits = u32::try_from(b).ok()?;
            Some(if bits < 120 { a.checked_shl(bits)? } else { i128::MAX })
        }
        Operator::FloorDiv => a.checked_div_euclid(b),
        Operator::BitXor => Some(a ^ b),
        _ => None,
    }
}

/// Whether a power has so many digits that computing it is the attack.
pub(super) fn is_giant_power(base: &Values, exponent: &Values) -> bool {
    let (Some(base), Some(exponent)) = (base.as_int(), exponent.as_int()) else { return false };
    let bits = i128::from(128 - base.unsigned_abs().leading_zeros());
    base.unsigned_abs() > 1 && bits.saturating_mul(exponent) > GIANT_BITS
}

/// `"%s" % x` with `%s`, `%c` and `%(name)s`.
fn percent(text: &str, right: &Values) -> Values {
    for value in right.iter() {
        if let Value::Map(named) = value {
            let named = named.iter().filter_map(|(name, value)| Some((format!("%({name})s"), plain(value)?)));
            return replace_all(text, named).map(Values::text).unwrap_or_default();
        }
    }
    let items: Vec<Value> = match right.as_list() {
        Some(items) => items.iter().take(8).cloned().collect(),
        None => right.iter().take(1).cloned().collect(),
    };
    let mut places = text.match_indices('%').map(|(at, _)| text[at + 1..].chars().next());
    let shown = |item: &Value| match (places.next().flatten(), item) {
        (Some('c'), Value::Int(code)) => u32::try_from(*code).ok().and_then(char::from_u32).map(String::from),
        _ => plain(item),
    };
    let items: Vec<String> = items.iter().filter_map(shown).collect();
    fill(&text.replace("%c", "%s"), "%s", &items)
}

/// `"{}{x}".format(a, x=b)` with bare, numbered or named braces.
pub(super) fn format(text: &str, arguments: &[Values], named: &[(String, Values)]) -> Values {
    let known = |values: &Values| values.iter().find_map(plain);
    let items: Option<Vec<String>> = arguments.iter().map(known).collect();
    let Some(items) = items else { return Values::default() };
    let numbered = items.iter().enumerate().take(10).map(|(number, item)| (format!("{{{number}}}"), item.clone()));
    let named = named.iter().take(10).filter_map(|(name, values)| Some((format!("{{{name}}}"), known(values)?)));
    replace_all(text, numbered.chain(named)).map(|text| fill(&text, "{}", &items)).unwrap_or_default()
}

fn replace_all(text: &str, parts: impl Iterator<Item = (String, String)>) -> Option<String> {
    let mut text = text.to_owned();
    for (place, item) in parts.take(20) {
        if text.contains(&place) {
            text = text.replace(&place, &item);
        }
        if text.len() > MOST_TEXT {
            return None;
        }
    }
    Some(text)
}

fn fill(text: &str, place: &str, items: &[String]) -> Values {
    let mut result = String::new();
    let mut parts = text.split(place);
    result.push_str(parts.next().unwrap_or_default());
    for (number, part) in parts.enumerate() {
        let Some(item) = items.get(number) else { return Values::default() };
        result.push_str(item);
        result.push_str(part);
        if result.len() > MOST_TEXT {
            return Values::default();
        }
    }
    Values::text(result)
}

/// As `str` would show it.
pub(super) fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.to_string()),
        Value::Int(number) => Some(number.to_string()),
        Value::Path(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Gives(_)
        | Value::Space(_)
        | Value::Getter(_)
        | Value::Range(_)
        | Value::Own => None,
    }
}

/// `"".join(list)`.
pub(super) fn join(between: &str, items: &[Value]) -> Values {
    let mut result = String::new();
    for (number, item) in items.iter().enumerate() {
        let Some(text) = plain(item) else { return Values::default() };
        if number > 0 {
            result.push_str(between);
        }
        result.push_str(&text);
        if result.len() > MOST_TEXT {
            return Values::default();
        }
    }
    Values::text(result)
}

/// Methods of text that give another known text.
pub(super) fn method(text: &str, name: &str, arguments: &[Values], named: &[(String, Values)]) -> Values {
    let argument = |n: usize| arguments.get(n).and_then(Values::as_text);
    match name {
        "lower" | "casefold" => Values::text(text.to_lowercase()),
        "upper" => Values::text(text.to_uppercase()),
        "strip" if arguments.is_empty() => Values::text(text.trim().to_owned()),
        "strip" | "lstrip" | "rstrip" => match argument(0) {
            Some(set) => {
                let set: Vec<char> = set.chars().collect();
                let text = match name {
                    "lstrip" => text.trim_start_matches(&set[..]),
                    "rstrip" => text.trim_end_matches(&set[..]),
                    _ => text.trim_matches(&set[..]),
                };
                Values::text(text.to_owned())
            }
            None => Values::text(text.trim().to_owned()),
        },
        "replace" => match (argument(0), argument(1)) {
            (Some(old), Some(new)) if text.len() * (new.len() + 1) <= MOST_TEXT * 8 => {
                Values::text(text.replace(old, new))
            }
            _ => Values::default(),
        },
        "removeprefix" => Values::text(argument(0).and_then(|p| text.strip_prefix(p)).unwrap_or(text).to_owned()),
        "removesuffix" => Values::text(argument(0).and_then(|p| text.strip_suffix(p)).unwrap_or(text).to_owned()),
        "join" => arguments.first().and_then(Values::as_list).map(|items| join(text, items)).unwrap_or_default(),
        "format" => format(text, arguments, named),
        "__add__" => argument(0).map(|more| Values::text(format!("{text}{more}"))).unwrap_or_default(),
        "__mod__" => arguments.first().map(|right| percent(text, right)).unwrap_or_default(),
        "swapcase" => {
            let swap = |c: char| if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            Values::text(text.chars().map(swap).collect())
        }
        "translate" => {
            let table = arguments.first().map(|table| table.under(None)).unwrap_or_default();
            let (Some(from), Some(to)) = (table.texts().next(), table.texts().nth(1)) else { return Values::default() };
            let to: Vec<char> = to.chars().collect();
            let turn =
                |c: char| from.chars().position(|known| known == c).and_then(|at| to.get(at).copied()).unwrap_or(c);
            Values::text(text.chars().map(turn).collect())
        }
        "encode" | "decode" | "title" | "capitalize" => Values::text(text.to_owned()),
        "split" => {
            let parts: Vec<Value> = match argument(0) {
                Some("") => Vec::new(),
                Some(at) => text.split(at).take(MOST_ITEMS).map(|part| Value::Text(part.into())).collect(),
                None => text.split_whitespace().take(MOST_ITEMS).map(|part| Value::Text(part.into())).collect(),
            };
            Values::one(Value::List(parts.into()))
        }
        _ => Values::default(),
    }
}

/// What a decoder of the standard library makes of a known text.
pub(super) fn decoded(path: &str, text: &str, codec: Option<&str>) -> Option<String> {
    match path {
        "base64.b64decode"
        | "base64.standard_b64decode"
        | "base64.urlsafe_b64decode"
        | "base64.decodebytes"
        | "binascii.a2b_base64" => crate::decode::base64(text),
        "base64.b16decode" | "binascii.a2b_hex" | "binascii.unhexlify" => crate::decode::hex(text),
        "codecs.decode" | "codecs.encode" => match codec?.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "rot13" => Some(crate::decode::rot13(text)),
            "hex" | "hexcodec" => crate::decode::hex(text),
            "base64" | "base64codec" => crate::decode::base64(text),
            _ => Some(text.to_owned()),
        },
        _ => None,
    }
}

/// `text[lower:upper:step]`
pub(super) fn slice(text: &str, lower: Option<i128>, upper: Option<i128>, step: Option<i128>) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let length = i128::try_from(chars.len()).ok()?;
    let step = step.unwrap_or(1);
    let place = |index: i128| if index < 0 { (index + length).max(0) } else { index.min(length) };
    let picked: Vec<char> = match step.cmp(&0) {
        Ordering::Greater => {
            let (from, to) = (place(lower.unwrap_or(0)), place(upper.unwrap_or(length)));
            let (from, to, step) =
                (usize::try_from(from).ok()?, usize::try_from(to).ok()?, usize::try_from(step).ok()?);
            chars.iter().take(to).skip(from).step_by(step).copied().collect()
        }
        Ordering::Equal => return None,
        Ordering::Less => {
            let from = lower.map_or(length - 1, |index| place(index).min(length - 1));
            let to = upper.map_or(-1, place);
            let within = |at: usize| i128::try_from(at).is_ok_and(|at| at <= from && at > to);
            let step = usize::try_from(step.checked_neg()?).ok()?;
            chars.iter().enumerate().rev().filter(|(at, _)| within(*at)).map(|(_, c)| *c).step_by(step).collect()
        }
    };
    Some(picked.into_iter().collect())
}
