//! Sums and products of literals, as Python reckons them: `3 * 5 * 7`, `2.0 / 3.0`, `"ab" + "c"`.
//!
//! Only what is exact here as there: small integers, floats, texts put together. Anything else is no literal.

use super::{Int, Read, Reader, Value};

/// Up to here every integer is a float.
const EXACT: u64 = 1 << 53;

impl Reader<'_> {
    /// Terms with `+` and `-` between them.
    pub(super) fn sum(&mut self) -> Read<Value> {
        let mut value = self.product()?;
        loop {
            let reckon: Reckon = match self.operator() {
                Some('+') => plus,
                Some('-') => minus,
                _ => return Ok(value),
            };
            self.next();
            let other = self.product()?;
            value = self.reckoned(reckon(&value, &other))?;
        }
    }

    /// Factors with `*` and `/` between them; `//` is none of them.
    pub(super) fn product(&mut self) -> Read<Value> {
        let mut value = self.power()?;
        loop {
            let reckon: Reckon = match self.operator() {
                Some('*') => times,
                Some('/') if !self.rest().starts_with("//") => divided_by,
                _ => return Ok(value),
            };
            self.next();
            let other = self.power()?;
            value = self.reckoned(reckon(&value, &other))?;
        }
    }

    /// A literal, or one to the power of another. A sign belongs to the whole, and powers of powers are left alone.
    fn power(&mut self) -> Read<Value> {
        self.skip();
        let is_signed = matches!(self.peek(), Some('-' | '+'));
        let base = self.atom()?;
        if self.operator() != Some('*') || !self.rest().starts_with("**") {
            return Ok(base);
        }
        self.at += 2;
        let exponent = self.atom()?;
        let is_tower = self.operator() == Some('*') && self.rest().starts_with("**");
        let power = match (base, exponent) {
            (Value::Int(Int::Small(base)), Value::Int(Int::Small(exponent))) if !is_signed && !is_tower => {
                u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent)).map(Value::int)
            }
            _ => None,
        };
        self.reckoned(power)
    }

    fn operator(&mut self) -> Option<char> {
        self.skip();
        self.peek()
    }

    fn reckoned(&self, value: Option<Value>) -> Read<Value> {
        value.map_or_else(|| self.wrong("values cannot be computed"), Ok)
    }
}

type Reckon = fn(&Value, &Value) -> Option<Value>;

fn plus(a: &Value, b: &Value) -> Option<Value> {
    if let (Value::Str(a), Value::Str(b)) = (a, b) {
        return Some(Value::Str(format!("{a}{b}")));
    }
    number(a, b, i64::checked_add, |a, b| a + b)
}

fn minus(a: &Value, b: &Value) -> Option<Value> {
    number(a, b, i64::checked_sub, |a, b| a - b)
}

fn times(a: &Value, b: &Value) -> Option<Value> {
    number(a, b, i64::checked_mul, |a, b| a * b)
}

fn divided_by(a: &Value, b: &Value) -> Option<Value> {
    let (a, b) = (float(a)?, float(b)?);
    (b != 0.0).then(|| Value::Float(a / b))
}

fn number(
    a: &Value,
    b: &Value,
    of_integers: fn(i64, i64) -> Option<i64>,
    of_floats: fn(f64, f64) -> f64,
) -> Option<Value> {
    match (a, b) {
        (Value::Int(Int::Small(a)), Value::Int(Int::Small(b))) => of_integers(*a, *b).map(Value::int),
        _ => Some(Value::Float(of_floats(float(a)?, float(b)?))),
    }
}

/// A number as the float that Python makes of it. A truth value is left alone.
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(float) => Some(*float),
        Value::Int(int @ Int::Small(small)) if small.unsigned_abs() <= EXACT => Some(int.to_float()),
        _ => None,
    }
}

/// What `abs(a - b) < limit` says, or `<=`; nothing if that is not for numbers of ours to say.
pub(crate) fn is_near(a: &Value, b: &Value, limit: &Value, or_equal: bool) -> Option<bool> {
    let distance = match minus(a, b)? {
        Value::Int(Int::Small(distance)) => Value::int(distance.checked_abs()?),
        Value::Float(distance) => Value::Float(distance.abs()),
        _ => return None,
    };
    let (distance, limit) = (float(&distance)?, float(limit)?);
    Some(distance < limit || or_equal && distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        Value::literal_prefix(text).ok().filter(|(_, end)| *end == text.len()).map(|(value, _)| value.to_string())
    }

    #[test]
    fn sums_are_what_python_makes_of_them() {
        for (text, value) in [
            ("3 * 5 * 7", "105"),
            ("2 + 3 * 4 - 1", "13"),
            ("(2 + 3) * 4", "20"),
            ("2.0 / 3.0", "0.6666666666666666"),
            ("1 / 3", "0.3333333333333333"),
            ("6/5", "1.2"),
            ("7 - 0.5", "6.5"),
            ("1 - -1", "2"),
            ("-1 * 2", "-2"),
            ("0 ** 0", "1"),
            ("2 ** 62", "4611686018427387904"),
            ("'ab' 'c' + \"d\"", "'abcd'"),
            ("[1, 0 ** 0, (3 + 5, 3 * 5)]", "[1, 1, (8, 15)]"),
            ("{'a': 1 + 1}", "{'a': 2}"),
        ] {
            assert_eq!(read(text).as_deref(), Some(value), "{text}");
        }
    }

    #[test]
    fn what_is_not_exact_here_is_no_literal() {
        for text in [
            "7 // 2",
            "7 % 2",
            "-2 ** 2",
            "2 ** -1",
            "2 ** 3 ** 2",
            "2 ** 63",
            "2.0 ** 2",
            "9223372036854775807 + 1",
            "9007199254740993 / 1",
            "9007199254740993 + 0.5",
            "1 / 0",
            "1.0 / 0.0",
            "True + 1",
            "1 + None",
            "'a' * 2",
            "[1] + [2]",
            "1 + 2j",
            "1 +",
            "1 + x",
            "* 1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn nearness_is_that_of_abs() {
        let near = |a: &str, b: &str, limit: &str, or_equal| {
            let value = |text| Value::from_python(text).unwrap();
            is_near(&value(a), &value(b), &value(limit), or_equal)
        };
        assert_eq!(near("0.33", "0.33000001", "1e-6", false), Some(true));
        assert_eq!(near("0.3", "0.33", "1e-6", false), Some(false));
        assert_eq!(near("3", "5", "2", false), Some(false));
        assert_eq!(near("3", "5", "2", true), Some(true));
        assert_eq!(near("float('nan')", "1", "1e-6", false), Some(false));
        assert_eq!(near("'x'", "1", "1e-6", false), None);
        assert_eq!(near("True", "1", "1e-6", false), None);
    }
}
