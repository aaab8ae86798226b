//! Tests that are nothing but claims about calls: `def check(candidate):` and, below it, `assert candidate(…) == …` with
//! literals or sums of them, also of what `tuple(…)` makes of it, or how near a number is. They need no sandbox of their
//! own: the calls are made, and what came back is compared here.
//!
//! Whatever is not exactly of this form, or leaves a claim open, is run as the program that it is.

mod form;

use std::collections::HashMap;

use super::calls::{names, raised};
use super::result::{Finished, Verdict};
use super::task::{Runner, Task, Test};
use super::value::{Int, Value, is_near, shorter};

/// What a test claims, in its order.
#[derive(Debug, PartialEq)]
pub(crate) struct Claims(Vec<Claim>);

/// One `assert`.
#[derive(Debug, PartialEq)]
struct Claim {
    args: Value,
    kwargs: Value,
    says: Says,
    /// What a failure is told by: its message, or its line. Nothing if the test itself must find the words.
    shown: Option<String>,
}

/// What is claimed of the value that comes back.
#[derive(Debug, PartialEq)]
enum Says {
    Equals(Value),
    /// `tuple(…) == tuple([…])`.
    HasItems(Vec<Value>),
    /// `None`, `True` or `False` itself.
    Is(Value),
    Holds,
    Fails,
    /// `abs(… - value) < limit`, or `<=`.
    Near {
        value: Value,
        limit: Value,
        or_equal: bool,
    },
}

impl Claims {
    /// The claims of a test, if it is of that form.
    pub(crate) fn of(test: &Test, task: &Task) -> Option<Self> {
        let is_python = matches!(task.language(), "python" | "python3" | "py");
        let is_check = matches!(test.runner, Runner::Auto | Runner::Check) && !task.entry.is_empty();
        // What the tested code begins with itself has done what it does, or the code has not loaded.
        let is_set_up = test.setup.is_empty() || task.code.starts_with(&test.setup);
        // Unless somebody has called something else by its name.
        let is_taken = |name: &&str| test.setup.contains(*name) || task.entry.contains(*name);
        let has_builtins = !form::BUILTINS.iter().any(is_taken) && !test.setup.contains("import *");
        if is_python && is_check && is_set_up { form::read(&test.source, has_builtins).map(Self) } else { None }
    }

    /// Arguments of every call, for the harness.
    pub(crate) fn calls(&self) -> Value {
        Value::List(self.0.iter().map(|claim| Value::Tuple(vec![claim.args.clone(), claim.kwargs.clone()])).collect())
    }

    /// The verdict, or nothing if a value is more than it can be judged by. Everything in `answer` was said by tested
    /// code.
    pub(crate) fn conclude(&self, answer: &[u8]) -> Option<Finished> {
        let tampered = || Some(Finished::new(Verdict::Tampered, "its answer is none of the judge's words"));
        let Ok(Value::Tuple(words)) = Value::from_wire(answer) else { return None };
        let answers = match &words[..] {
            [Value::Str(kind), Value::List(answers)] if kind == "answers" => answers,
            [Value::Str(kind), Value::Str(what)] if kind == "missing" => {
                return Some(Finished {
                    exception: Some(("NameError".to_owned(), None)),
                    ..Finished::new(Verdict::Exception, what)
                });
            }
            [Value::Str(kind), _] if kind == "unsupported" => return None,
            _ => return tampered(),
        };
        for (index, claim) in self.0.iter().enumerate() {
            let Some(Value::Tuple(words)) = answers.get(index) else { return tampered() };
            match &words[..] {
                [Value::Str(kind), value, _] if kind == "value" => {
                    if !claim.says.of(value)? {
                        let detail = format!("the assertion failed: {}", shorter(claim.shown.as_ref()?, 500));
                        return Some(Finished::new(Verdict::WrongAnswer, detail));
                    }
                }
                [Value::Str(kind), kinds, Value::Str(message), line] if kind == "raised" => {
                    return Some(raised(&names(kinds), message, line, "it raised "));
                }
                [Value::Str(kind), Value::Str(code)] if kind == "left" => {
                    let detail = format!("it left with sys.exit({}) before it answered", shorter(code, 100));
                    return Some(Finished::new(Verdict::ExitedEarly, detail));
                }
                [Value::Str(kind), _] if kind == "unsupported" => return None,
                _ => return tampered(),
            }
        }
        Some(Finished::pass(String::new()))
    }
}

impl Says {
    /// Whether it is so; nothing if that cannot be said from here.
    fn of(&self, got: &Value) -> Option<bool> {
        match (self, got) {
            (Self::Equals(expected), got) => equal(expected, got),
            (Self::HasItems(expected), Value::List(got) | Value::Tuple(got)) => equal_items(expected, got),
            (Self::HasItems(_), _) | (_, Value::Tagged(..)) => None,
            (Self::Is(only), got) => Some(only == got),
            (Self::Holds, got) => Some(is_true(got)),
            (Self::Fails, got) => Some(!is_true(got)),
            (Self::Near { value, limit, or_equal }, got) => is_near(got, value, limit, *or_equal),
        }
    }
}

/// As Python's `==` has it between a literal and plain data.
fn equal(expected: &Value, got: &Value) -> Option<bool> {
    match (expected, got) {
        (_, Value::Tagged(..) | Value::Complex(..) | Value::Set(_) | Value::FrozenSet(_)) => None,
        (Value::None, Value::None) => Some(true),
        (Value::Str(a), Value::Str(b)) => Some(a == b),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a == b),
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => equal_items(a, b),
        (Value::Dict(a), Value::Dict(b)) => {
            if a.len() != b.len() {
                return Some(false);
            }
            // What came may have anything as a key, the same twice; what a claim compares with texts is open.
            let mut found = HashMap::new();
            for (name, value) in b {
                if found.insert(name.as_str()?, value).is_some() {
                    return None;
                }
            }
            all(a
                .iter()
                .map(|(name, value)| found.get(name.as_str()?).map_or(Some(false), |other| equal(value, other))))
        }
        (a, b) => match (number(a), number(b)) {
            (Some(a), Some(b)) => same_number(&a, &b),
            _ => Some(false),
        },
    }
}

fn equal_items(a: &[Value], b: &[Value]) -> Option<bool> {
    if a.len() != b.len() {
        return Some(false);
    }
    all(a.iter().zip(b).map(|(a, b)| equal(a, b)))
}

/// The first that is not so decides; one that is open leaves it open.
fn all(mut parts: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    parts
        .try_fold(true, |_, part| match part {
            Some(true) => Ok(true),
            other => Err(other),
        })
        .map_or_else(|end| end, Some)
}

/// A truth value is a number to Python.
fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(truth) => Some(Value::int(i64::from(*truth))),
        Value::Int(_) | Value::Float(_) => Some(value.clone()),
        _ => None,
    }
}

#[expect(clippy::float_cmp, reason = "Python's == is meant")]
fn same_number(a: &Value, b: &Value) -> Option<bool> {
    /// Up to here every integer is a float.
    const EXACT: u64 = 1 << 53;
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a == b),
        (Value::Float(a), Value::Float(b)) => Some(a == b),
        (Value::Int(Int::Small(int)), Value::Float(float)) | (Value::Float(float), Value::Int(Int::Small(int)))
            if int.unsigned_abs() <= EXACT =>
        {
            Some(Int::Small(*int).to_float() == *float)
        }
        _ => None,
    }
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::None => false,
        Value::Bool(truth) => *truth,
        Value::Int(int) => *int != Int::Small(0),
        Value::Float(float) => *float != 0.0,
        Value::Complex(real, imaginary) => *real != 0.0 || *imaginary != 0.0,
        Value::Str(text) => !text.is_empty(),
        Value::Bytes(bytes) => !bytes.is_empty(),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => !items.is_empty(),
        Value::Dict(pairs) => !pairs.is_empty(),
        Value::Tagged(..) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(expected: &str, got: &str) -> Option<bool> {
        equal(&Value::from_python(expected).unwrap(), &Value::from_python(got).unwrap())
    }

    #[test]
    fn literals_equal_what_python_says_they_equal() {
        for (a, b) in [
            ("1", "True"),
            ("1.0", "1"),
            ("0", "-0.0"),
            ("[1, (2, 'x')]", "[True, (2.0, 'x')]"),
            ("{'a': [1], 'b': None}", "{'b': None, 'a': [1]}"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("b'x'", "b'x'"),
        ] {
            assert_eq!(says(a, b), Some(true), "{a} {b}");
        }
        for (a, b) in [
            ("1", "'1'"),
            ("[1]", "(1,)"),
            ("None", "False"),
            ("''", "b''"),
            ("[1, 2]", "[1]"),
            ("{'a': 1}", "{'b': 1}"),
            ("1.0", "float('nan')"),
            ("0", "None"),
            ("0", "[]"),
        ] {
            assert_eq!(says(a, b), Some(false), "{a} {b}");
        }
        for (a, b) in [
            ("1", "Decimal('1')"),
            ("[1]", "[{1}]"),
            ("1", "1+0j"),
            ("{1: 2}", "{1: 2}"),
            ("{1: 2}", "{'a': 2}"),
            ("9007199254740993", "9007199254740992.0"),
        ] {
            assert_eq!(says(a, b), None, "{a} {b}");
        }
        let items = Says::HasItems(vec![Value::int(1), Value::int(2)]);
        for (got, says) in [
            ("[1, 2]", Some(true)),
            ("(1, 2.0)", Some(true)),
            ("[2, 1]", Some(false)),
            ("[1]", Some(false)),
            ("{1, 2}", None),
            ("1", None),
        ] {
            assert_eq!(items.of(&Value::from_python(got).unwrap()), says, "{got}");
        }
        let twice = Value::Dict(vec![(Value::text("a"), Value::int(1)), (Value::text("a"), Value::int(2))]);
        let other = Value::from_python("{'a': 1, 'b': 2}").unwrap();
        assert_eq!(equal(&other, &twice), None);
    }
}
