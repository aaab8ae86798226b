//! Whether a value is the expected one. Both are plain data: nobody's `__eq__` is asked.

use std::collections::HashMap;

use super::task::Compare;
use super::value::{Int, Tag, Value, shorter};

/// Where two values differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// From the outside in, such as `[0]['a']`.
    place: String,
    why: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.place.is_empty() { f.write_str(&self.why) } else { write!(f, "at {}: {}", self.place, self.why) }
    }
}

type Same = Result<(), Difference>;

/// Compares what came with what was expected.
pub(crate) fn values(expected: &Value, got: &Value, how: &Compare) -> Same {
    match how {
        Compare::Float { rel, abs } => Rules { tolerance: Some((*rel, *abs)), loose: false }.same(expected, got, ""),
        Compare::Json | Compare::Livecodebench => EXACT.same(&as_json(expected), &as_json(got), ""),
        Compare::Apps => apps(expected, got),
        Compare::Unordered => unordered(expected, got),
        _ => EXACT.same(expected, got, ""),
    }
}

const EXACT: Rules = Rules { tolerance: None, loose: false };

#[derive(Clone, Copy)]
struct Rules {
    tolerance: Option<(f64, f64)>,
    /// Lists and tuples are the same.
    loose: bool,
}

impl Rules {
    fn same(self, expected: &Value, got: &Value, place: &str) -> Same {
        let differ = || {
            let kinds = (expected.type_name(), got.type_name());
            let (expected, got) = (shorter(expected, 200), shorter(got, 200));
            let why = if kinds.0 == kinds.1 {
                format!("expected {expected}, got {got}")
            } else {
                format!("expected {expected} ({}), got {got} ({})", kinds.0, kinds.1)
            };
            Err(Difference { place: place.to_owned(), why })
        };
        let decide = |same: bool| if same { Ok(()) } else { differ() };
        match (expected, got) {
            (Value::None, Value::None) => Ok(()),
            (Value::Bool(a), Value::Bool(b)) => decide(a == b),
            (Value::Str(a), Value::Str(b)) => decide(a == b),
            (Value::Bytes(a), Value::Bytes(b)) => decide(a == b),
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => self.sequence(a, b, place),
            (Value::List(a), Value::Tuple(b)) | (Value::Tuple(a), Value::List(b)) if self.loose => {
                self.sequence(a, b, place)
            }
            (Value::Set(a) | Value::FrozenSet(a), Value::Set(b) | Value::FrozenSet(b)) => set(a, b, place),
            (Value::Dict(a), Value::Dict(b)) => self.dict(a, b, place),
            (expected, Value::Tagged(tag, words)) => match self.special(expected, *tag, words, place) {
                Some(same) => same,
                None => differ(),
            },
            (Value::Tagged(Tag::Fraction | Tag::Decimal, _), _) => decide(numbers(expected, got, self.tolerance)),
            (expected, got) => decide(numbers(expected, got, self.tolerance)),
        }
    }

    fn sequence(self, expected: &[Value], got: &[Value], place: &str) -> Same {
        for (index, (a, b)) in expected.iter().zip(got).enumerate() {
            self.same(a, b, &format!("{place}[{index}]"))?;
        }
        if expected.len() == got.len() {
            return Ok(());
        }
        let why = format!("expected {} items, got {}", expected.len(), got.len());
        Err(Difference { place: place.to_owned(), why })
    }

    fn dict(self, expected: &[(Value, Value)], got: &[(Value, Value)], place: &str) -> Same {
        let found: HashMap<Vec<u8>, &Value> = got.iter().map(|(name, value)| (key(name), value)).collect();
        let wanted: HashMap<Vec<u8>, &Value> = expected.iter().map(|(name, value)| (key(name), value)).collect();
        for (name, value) in expected {
            let Some(other) = found.get(&key(name)) else {
                let why = format!("the key {} is missing", shorter(name, 200));
                return Err(Difference { place: place.to_owned(), why });
            };
            self.same(value, other, &format!("{place}[{}]", shorter(name, 60)))?;
        }
        match got.iter().find(|(name, _)| !wanted.contains_key(&key(name))) {
            None => Ok(()),
            Some((name, _)) => {
                let why = format!("the key {} should not be there", shorter(name, 200));
                Err(Difference { place: place.to_owned(), why })
            }
        }
    }

    /// What came is more than a builtin type.
    fn special(self, expected: &Value, tag: Tag, words: &[Value], place: &str) -> Option<Same> {
        let Value::Tagged(expected_tag, expected_words) = expected else {
            return self.special_as_plain(expected, tag, words, place);
        };
        if *expected_tag != tag {
            let got = Value::Tagged(tag, words.to_vec());
            return numbers(expected, &got, self.tolerance).then_some(Ok(()));
        }
        match tag {
            Tag::Decimal | Tag::Fraction => {
                let got = Value::Tagged(tag, words.to_vec());
                numbers(expected, &got, self.tolerance).then_some(Ok(()))
            }
            Tag::Mine | Tag::Yours | Tag::Class | Tag::Module | Tag::Import => None,
            Tag::Array => Some(self.same(expected_words.get(1)?, words.get(1)?, place)),
            Tag::Ellipsis
            | Tag::Range
            | Tag::TimeDelta
            | Tag::DateTime
            | Tag::Date
            | Tag::Time
            | Tag::Record
            | Tag::Frame => Some(self.sequence(expected_words, words, place)),
        }
    }

    /// Arrays, records and tables by what they hold.
    fn special_as_plain(self, expected: &Value, tag: Tag, words: &[Value], place: &str) -> Option<Same> {
        match (tag, words) {
            (Tag::Array, [_, items]) => Some(Self { loose: true, ..self }.same(expected, items, place)),
            (Tag::Record, [_, Value::Str(kind), Value::Tuple(pairs)]) => {
                let pairs: Vec<(Value, Value)> = pairs.iter().filter_map(pair).collect();
                match expected {
                    Value::Dict(fields) => Some(self.dict(fields, &pairs, place)),
                    Value::Tuple(items) if kind == "namedtuple" => {
                        let got: Vec<Value> = pairs.into_iter().map(|(_, value)| value).collect();
                        Some(self.sequence(items, &got, place))
                    }
                    _ => None,
                }
            }
            (Tag::Frame, [Value::List(columns), _, Value::List(rows)]) => self.frame(expected, columns, rows, place),
            (Tag::DateTime | Tag::Date | Tag::Time, [text @ Value::Str(_)]) if expected.as_str().is_some() => {
                Some(self.same(expected, text, place))
            }
            (Tag::Decimal | Tag::Fraction, _) => {
                let got = Value::Tagged(tag, words.to_vec());
                numbers(expected, &got, self.tolerance).then_some(Ok(()))
            }
            _ => None,
        }
    }

    /// A table as a list of records, or as columns by name.
    fn frame(self, expected: &Value, columns: &[Value], rows: &[Value], place: &str) -> Option<Same> {
        let cells = |row: &Value| if let Value::List(cells) = row { cells.clone() } else { Vec::new() };
        let got = match expected {
            Value::List(_) => Value::List(
                rows.iter().map(|row| Value::Dict(columns.iter().cloned().zip(cells(row)).collect())).collect(),
            ),
            Value::Dict(_) => {
                let column = |index: usize| rows.iter().filter_map(|row| cells(row).get(index).cloned()).collect();
                Value::Dict(
                    columns.iter().enumerate().map(|(i, name)| (name.clone(), Value::List(column(i)))).collect(),
                )
            }
            _ => return None,
        };
        Some(self.same(expected, &got, place))
    }
}

/// The same items, each as often, in any order.
fn set(expected: &[Value], got: &[Value], place: &str) -> Same {
    let (a, b) = (keys(expected), keys(got));
    if a == b {
        return Ok(());
    }
    let missing = expected.iter().find(|item| !b.contains_key(&key(item)));
    let extra = got.iter().find(|item| !a.contains_key(&key(item)));
    let why = match (missing, extra) {
        (Some(item), _) => format!("{} is missing", shorter(item, 200)),
        (None, Some(item)) => format!("{} should not be there", shorter(item, 200)),
        (None, None) => "an item is there another number of times".to_owned(),
    };
    Err(Difference { place: place.to_owned(), why })
}

fn pair(value: &Value) -> Option<(Value, Value)> {
    let Value::Tuple(items) = value else { return None };
    let [name, value] = &items[..] else { return None };
    Some((name.clone(), value.clone()))
}

/// Numbers by value, whatever their types; a truth value is no number.
fn numbers(expected: &Value, got: &Value, tolerance: Option<(f64, f64)>) -> bool {
    let (Some(a), Some(b)) = (Number::of(expected), Number::of(got)) else { return false };
    match tolerance {
        None => a.same(&b),
        Some((rel, abs)) => {
            let ((ar, ai), (br, bi)) = (a.parts(), b.parts());
            near(ar, br, rel, abs) && near(ai, bi, rel, abs)
        }
    }
}

/// NaN and infinities only where they were expected.
pub(super) fn near(expected: f64, got: f64, rel: f64, abs: f64) -> bool {
    if expected.is_nan() || got.is_nan() {
        return expected.is_nan() && got.is_nan();
    }
    if expected.is_infinite() || got.is_infinite() {
        return expected.total_cmp(&got).is_eq();
    }
    (expected - got).abs() <= abs.max(rel * expected.abs().max(got.abs()))
}

enum Number<'a> {
    Int(&'a Int),
    Float(f64),
    Complex(f64, f64),
    /// Significant digits without zeros at their ends, and the power of ten.
    Decimal(bool, String, i64),
    Ratio(&'a Int, &'a Int),
}

impl<'a> Number<'a> {
    fn of(value: &'a Value) -> Option<Self> {
        match value {
            Value::Int(int) => Some(Self::Int(int)),
            Value::Float(float) => Some(Self::Float(*float)),
            Value::Complex(real, imaginary) => Some(Self::Complex(*real, *imaginary)),
            Value::Tagged(Tag::Decimal, words) => decimal(words.first()?.as_str()?),
            Value::Tagged(Tag::Fraction, words) => match &words[..] {
                [Value::Int(over), Value::Int(under)] => Some(Self::Ratio(over, under)),
                _ => None,
            },
            _ => None,
        }
    }

    fn parts(&self) -> (f64, f64) {
        match self {
            Self::Int(int) => (int.to_float(), 0.0),
            Self::Float(float) => (*float, 0.0),
            Self::Complex(real, imaginary) => (*real, *imaginary),
            Self::Decimal(negative, digits, power) => {
                let text = format!("{}{digits}e{power}", if *negative { "-" } else { "" });
                (text.parse().unwrap_or(f64::NAN), 0.0)
            }
            Self::Ratio(over, under) => (over.to_float() / under.to_float(), 0.0),
        }
    }

    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Int(a), Self::Float(b)) | (Self::Float(b), Self::Int(a)) => Int::from_float(*b).as_ref() == Some(*a),
            (Self::Float(a), Self::Float(b)) => near(*a, *b, 0.0, 0.0),
            (Self::Decimal(an, a, ap), Self::Decimal(bn, b, bp)) => (an, a, ap) == (bn, b, bp),
            (Self::Decimal(negative, digits, power), Self::Int(int))
            | (Self::Int(int), Self::Decimal(negative, digits, power)) => {
                matches!(decimal(&int.to_string()), Some(Self::Decimal(n, d, p)) if (n, &d, p) == (*negative, digits, *power))
            }
            (Self::Ratio(a, b), Self::Ratio(c, d)) => a == c && b == d,
            (Self::Ratio(over, under), Self::Int(int)) | (Self::Int(int), Self::Ratio(over, under)) => {
                **under == Int::Small(1) && over == int
            }
            (a, b) => {
                let ((ar, ai), (br, bi)) = (a.parts(), b.parts());
                near(ar, br, 0.0, 0.0) && near(ai, bi, 0.0, 0.0)
            }
        }
    }
}

/// A decimal's text, so that 1.50 and 1.5 are the same.
fn decimal(text: &str) -> Option<Number<'static>> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let float: f64 = text.parse().ok()?;
        return Some(Number::Float(if negative { -float } else { float }));
    }
    let power = exponent.parse::<i64>().ok()? - i64::try_from(part.len()).ok()?;
    let kept = digits.trim_end_matches('0');
    let power = power.saturating_add(i64::try_from(digits.len() - kept.len()).ok()?);
    let kept = kept.trim_start_matches('0');
    if kept.is_empty() {
        return Some(Number::Decimal(false, "0".to_owned(), 0));
    }
    Some(Number::Decimal(negative, kept.to_owned(), power))
}

/// Bytes that are equal for equal values, for looking up what may be anywhere.
fn key(value: &Value) -> Vec<u8> {
    let whole = match value {
        Value::Float(float) => Int::from_float(*float),
        _ => None,
    };
    match (value, whole) {
        (_, Some(int)) => Value::Int(int).to_wire(),
        (Value::FrozenSet(items) | Value::Set(items), _) => {
            let mut keys: Vec<Vec<u8>> = items.iter().map(key).collect();
            keys.sort();
            [b"set".to_vec(), keys.concat()].concat()
        }
        (Value::Tuple(items), _) => {
            let keys: Vec<Vec<u8>> = items.iter().map(key).collect();
            [b"tuple".to_vec(), keys.concat()].concat()
        }
        (Value::List(items), _) => {
            let keys: Vec<Vec<u8>> = items.iter().map(key).collect();
            [b"list".to_vec(), keys.concat()].concat()
        }
        (Value::Dict(pairs), _) => {
            let mut keys: Vec<Vec<u8>> = pairs.iter().map(|(a, b)| [key(a), key(b)].concat()).collect();
            keys.sort();
            [b"dict".to_vec(), keys.concat()].concat()
        }
        (value, _) => value.to_wire(),
    }
}

fn keys(items: &[Value]) -> HashMap<Vec<u8>, usize> {
    let mut counts = HashMap::new();
    for item in items {
        *counts.entry(key(item)).or_default() += 1;
    }
    counts
}

/// Items in any order, of any container of items.
fn unordered(expected: &Value, got: &Value) -> Same {
    let items = |value: &Value| match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => Some(items.clone()),
        Value::Tagged(Tag::Array, words) => match words.get(1) {
            Some(Value::List(items)) => Some(items.clone()),
            _ => None,
        },
        _ => None,
    };
    match (items(expected), items(got)) {
        (Some(a), Some(b)) => set(&a, &b, ""),
        _ => EXACT.same(expected, got, ""),
    }
}

/// What is left of a value once JSON has carried it.
fn as_json(value: &Value) -> Value {
    match value {
        Value::List(items) | Value::Tuple(items) => Value::List(items.iter().map(as_json).collect()),
        Value::Dict(pairs) => Value::Dict(pairs.iter().map(|(name, item)| (json_key(name), as_json(item))).collect()),
        Value::Tagged(Tag::Array, words) => words.get(1).map_or(Value::None, as_json),
        other => other.clone(),
    }
}

fn json_key(key: &Value) -> Value {
    match key {
        Value::Str(_) => key.clone(),
        Value::Bool(true) => Value::text("true"),
        Value::Bool(false) => Value::text("false"),
        Value::None => Value::text("null"),
        other => Value::Str(other.to_string()),
    }
}

/// APPS takes the answer itself, or the answer as the first item of a list, tuples being lists.
fn apps(expected: &Value, got: &Value) -> Same {
    let (expected, got) = (as_json(expected), as_json(got));
    let first = EXACT.same(&expected, &got, "");
    match &expected {
        Value::List(items) if first.is_err() => match items.first() {
            Some(item) if EXACT.same(item, &got, "").is_ok() => Ok(()),
            _ => first,
        },
        _ => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(expected: &str, got: &str, how: &Compare) -> bool {
        values(&Value::from_python(expected).unwrap(), &Value::from_python(got).unwrap(), how).is_ok()
    }

    #[test]
    fn exact_is_equal_in_value_and_kind_of_container() {
        for (expected, got, is_same) in [
            ("2", "2.0", true),
            ("2.0", "2", true),
            ("1", "True", false),
            ("True", "1", false),
            ("0", "False", false),
            ("None", "0", false),
            ("[1, 2]", "(1, 2)", false),
            ("[1, 2]", "[2, 1]", false),
            ("{1, 2}", "{2, 1}", true),
            ("{1, 2}", "{2.0, 1}", true),
            ("{1, 2}", "[1, 2]", false),
            ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", true),
            ("{'a': 1}", "{'a': 1, 'b': 2}", false),
            ("{1: 'a'}", "{'1': 'a'}", false),
            ("'1'", "1", false),
            ("'a'", "b'a'", false),
            ("nan", "nan", true),
            ("1.0", "nan", false),
            ("0.1", "0.10000000000000002", false),
            ("Decimal('1.50')", "Decimal('1.5')", true),
            ("3", "Decimal('3')", true),
            ("0.5", "Fraction(1, 2)", true),
            ("1180591620717411303424", "1180591620717411303424", true),
            ("1180591620717411303424", "1180591620717411303425", false),
            ("1e22", "10000000000000000000000", true),
            ("{(1, 2), (3, 4)}", "{(3, 4), (1, 2)}", true),
            ("[[1], {'a': (2,)}]", "[[1], {'a': (2,)}]", true),
            ("1+2j", "1+2j", true),
            ("datetime.date(2024, 1, 2)", "datetime.date(2024, 1, 2)", true),
            ("datetime.date(2024, 1, 2)", "datetime.date(2024, 1, 3)", false),
        ] {
            assert_eq!(same(expected, got, &Compare::Exact), is_same, "{expected} {got}");
        }
    }

    #[test]
    fn tolerance_is_for_numbers_and_never_for_what_is_none() {
        let how = Compare::Float { rel: 1e-6, abs: 1e-9 };
        for (expected, got, is_same) in [
            ("0.3", "0.30000000000000004", true),
            ("[1, {'a': 2.0}]", "[1.0000000001, {'a': 2}]", true),
            ("1.0", "1.1", false),
            ("1.0", "nan", false),
            ("1.0", "inf", false),
            ("inf", "inf", true),
            ("inf", "-inf", false),
            ("1.0", "'1.0'", false),
            ("1.0", "True", false),
            ("'a'", "'b'", false),
        ] {
            assert_eq!(same(expected, got, &how), is_same, "{expected} {got}");
        }
    }

    #[test]
    fn order_and_containers_are_forgiven_where_asked() {
        assert!(same("[1, 2, 2]", "(2, 1, 2)", &Compare::Unordered));
        assert!(!same("[1, 2, 2]", "[1, 1, 2]", &Compare::Unordered));
        assert!(same("[[1, 2], [3]]", "[[3], [1, 2]]", &Compare::Unordered));
        assert!(same("[1, [2]]", "(1, (2,))", &Compare::Json));
        assert!(same("{'1': 2}", "{1: 2}", &Compare::Json));
        assert!(same("[5]", "5", &Compare::Apps));
        assert!(!same("[5, 6]", "6", &Compare::Apps));
    }

    #[test]
    fn a_difference_says_where() {
        let expected = Value::from_python("{'a': [1, 2]}").unwrap();
        let got = Value::from_python("{'a': [1, 3]}").unwrap();
        let difference = values(&expected, &got, &Compare::Exact).unwrap_err();
        assert_eq!(difference.to_string(), "at ['a'][1]: expected 2, got 3");
    }
}
