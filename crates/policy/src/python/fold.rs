//! Arithmetic on what is known: texts that are put together, numbers that are computed.

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
        Operator::Div => left.paths().filter(|path| path.ends_with("()")).map(|p| Value::Path(p.into())).collect(),
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

/// `"%s" % x` with `%s` alone.
fn percent(text: &str, right: &Values) -> Values {
    let items: Vec<String> = match right.as_list() {
        Some(items) => items.iter().take(8).filter_map(plain).collect(),
        None => right.iter().filter_map(plain).take(1).collect(),
    };
    fill(text, "%s", &items)
}

/// `"{}{}".format(a, b)` with bare or numbered braces.
pub(super) fn format(text: &str, arguments: &[Values]) -> Values {
    let items: Option<Vec<String>> = arguments.iter().map(|values| values.iter().find_map(plain)).collect();
    let Some(items) = items else { return Values::default() };
    let mut text = text.to_owned();
    for (number, item) in items.iter().enumerate().take(10) {
        text = text.replace(&format!("{{{number}}}"), item);
        if text.len() > MOST_TEXT {
            return Values::default();
        }
    }
    fill(&text, "{}", &items)
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
        Value::Path(_) | Value::List(_) | Value::Space(_) | Value::Getter(_) | Value::Range(_) | Value::Own => None,
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
pub(super) fn method(text: &str, name: &str, arguments: &[Values]) -> Values {
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
        "format" => format(text, arguments),
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
