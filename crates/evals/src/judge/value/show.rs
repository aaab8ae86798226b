//! Values as a Python programmer reads them, cut where they get long.

use std::fmt::{self, Display, Formatter, Write};

use super::{Tag, Value};

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(int) => write!(f, "{int}"),
            Self::Float(float) => f.write_str(&float_text(*float)),
            Self::Complex(real, imaginary) => {
                let sign = if imaginary.is_sign_negative() { "" } else { "+" };
                write!(f, "({}{sign}{}j)", trimmed(*real), trimmed(*imaginary))
            }
            Self::Str(text) => quoted(text, f),
            Self::Bytes(bytes) => {
                f.write_str("b'")?;
                bytes.iter().try_for_each(|byte| match byte {
                    b'\'' => f.write_str("\\'"),
                    b'\\' => f.write_str("\\\\"),
                    b'\n' => f.write_str("\\n"),
                    0x20..=0x7e => f.write_char(char::from(*byte)),
                    other => write!(f, "\\x{other:02x}"),
                })?;
                f.write_char('\'')
            }
            Self::List(items) => list("[", items, "]", f),
            Self::Tuple(items) if items.len() == 1 => list("(", items, ",)", f),
            Self::Tuple(items) => list("(", items, ")", f),
            Self::Set(items) if items.is_empty() => f.write_str("set()"),
            Self::Set(items) => list("{", items, "}", f),
            Self::FrozenSet(items) if items.is_empty() => f.write_str("frozenset()"),
            Self::FrozenSet(items) => list("frozenset({", items, "})", f),
            Self::Dict(pairs) => {
                f.write_char('{')?;
                for (index, (key, item)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}: {item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_char('}')
            }
            Self::Tagged(tag, words) => tagged(*tag, words, f),
        }
    }
}

fn tagged(tag: Tag, words: &[Value], f: &mut Formatter<'_>) -> fmt::Result {
    match (tag, words) {
        (Tag::Ellipsis, _) => f.write_str("Ellipsis"),
        (Tag::Record, [Value::Str(name), _, Value::Tuple(pairs)]) => {
            write!(f, "{name}(")?;
            for (index, pair) in pairs.iter().enumerate() {
                if let Value::Tuple(pair) = pair
                    && let [Value::Str(field), value] = &pair[..]
                {
                    write!(f, "{}{field}={value}", if index == 0 { "" } else { ", " })?;
                }
            }
            f.write_char(')')
        }
        (Tag::Range, [start, stop, Value::Int(super::Int::Small(1))]) => write!(f, "range({start}, {stop})"),
        (Tag::Array, [_, items]) => write!(f, "array({items})"),
        (Tag::Decimal, words) => list("Decimal(", words, ")", f),
        (Tag::Fraction, words) => list("Fraction(", words, ")", f),
        (tag, words) => {
            f.write_str(tag.name())?;
            list("(", words, ")", f)
        }
    }
}

fn list(open: &str, items: &[Value], close: &str, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(open)?;
    for (index, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
    }
    f.write_str(close)
}

fn quoted(text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    f.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            '\\' => f.write_str("\\\\")?,
            c if c == quote => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\x{:02x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char(quote)
}

fn float_text(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{float:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |digits| ("-", digits));
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{float:?}")
}

fn trimmed(float: f64) -> String {
    let text = float_text(float);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

impl Value {
    /// As JSON, as far as JSON has words for it.
    pub(crate) fn to_json(&self) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let array = |items: &[Self]| {
            let items: Vec<String> = items.iter().map(Self::to_json).collect();
            format!("[{}]", items.join(","))
        };
        match self {
            Self::None => "null".to_owned(),
            Self::Bool(truth) => truth.to_string(),
            Self::Int(int) => int.to_string(),
            Self::Float(float) if float.is_finite() => float_text(*float),
            Self::Str(string) => text(string),
            Self::List(items) | Self::Tuple(items) | Self::Set(items) | Self::FrozenSet(items) => array(items),
            Self::Dict(pairs) => {
                let key = |key: &Self| key.as_str().map_or_else(|| text(&key.to_string()), text);
                let pairs: Vec<String> =
                    pairs.iter().map(|(name, item)| format!("{}:{}", key(name), item.to_json())).collect();
                format!("{{{}}}", pairs.join(","))
            }
            Self::Float(_) | Self::Complex(..) | Self::Bytes(_) | Self::Tagged(..) => text(&self.to_string()),
        }
    }
}

/// The most characters of a value, an output or a message that a result shows.
pub(crate) const MOST_SHOWN: usize = 2000;

/// A text of bounded length; what is cut is said.
pub(crate) struct Cut {
    text: String,
    left: usize,
    beyond: usize,
}

impl Cut {
    fn new(most: usize) -> Self {
        Self { text: String::new(), left: most, beyond: 0 }
    }

    fn finish(self) -> String {
        if self.beyond == 0 { self.text } else { format!("{}… ({} more characters)", self.text, self.beyond) }
    }
}

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.left == 0 {
                self.beyond += 1;
            } else {
                self.left -= 1;
                self.text.push(c);
            }
        }
        Ok(())
    }
}

/// Shows something, cut to `MOST_SHOWN` characters.
pub(crate) fn short(value: &dyn Display) -> String {
    shorter(value, MOST_SHOWN)
}

/// Shows something, cut to `most` characters.
pub(crate) fn shorter(value: &dyn Display, most: usize) -> String {
    let mut cut = Cut::new(most);
    // Writing into memory does not fail.
    let _ = write!(cut, "{value}");
    cut.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_look_as_in_python() {
        for (float, text) in
            [(1.0, "1.0"), (0.1, "0.1"), (1e16, "1e+16"), (1e-5, "1e-05"), (-2.5e300, "-2.5e+300"), (0.0, "0.0")]
        {
            assert_eq!(float_text(float), text);
        }
    }

    #[test]
    fn what_is_long_is_cut_and_said_so() {
        assert_eq!(shorter(&"abcdef", 4), "abcd… (2 more characters)");
    }
}
