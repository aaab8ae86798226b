//! Values as text: JSON, and Python's literals. Read by a parser of our own; nothing is ever evaluated.

mod constructors;
mod strings;
mod sums;

use super::{Int, MOST_DEPTH, Tag, Value};

use constructors::construct;
pub(crate) use sums::is_near;

/// Why a text is no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why} at character {at}")]
pub struct LiteralError {
    why: &'static str,
    at: usize,
}

impl Value {
    /// Reads JSON; an object with the one key `$py` holds a Python literal.
    pub fn from_json(text: &str) -> Result<Self, LiteralError> {
        Reader::new(text, Language::Json).whole()
    }

    /// Reads a Python literal, the usual constructors included: `Decimal('1')`, `set()`, `float('nan')`.
    pub fn from_python(text: &str) -> Result<Self, LiteralError> {
        Reader::new(text, Language::Python).whole()
    }

    /// Reads the literal that `text` begins with, or a sum of such, and says where it ends. Names and calls are none here:
    /// what they mean depends on what is around them.
    pub(crate) fn literal_prefix(text: &str) -> Result<(Self, usize), LiteralError> {
        let mut reader = Reader { strict: true, ..Reader::new(text, Language::Python) };
        let value = reader.value()?;
        Ok((value, reader.at))
    }

    /// The same without sums: what may stand behind a sign that belongs to something before it.
    pub(crate) fn term_prefix(text: &str) -> Result<(Self, usize), LiteralError> {
        let mut reader = Reader { strict: true, ..Reader::new(text, Language::Python) };
        let value = reader.product()?;
        Ok((value, reader.at))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Json,
    Python,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    language: Language,
    depth: usize,
    /// Whether only what every Python reads in this way is a value.
    strict: bool,
}

type Read<T> = Result<T, LiteralError>;

impl<'a> Reader<'a> {
    fn new(text: &'a str, language: Language) -> Self {
        Self { text, at: 0, language, depth: 0, strict: false }
    }

    fn whole(mut self) -> Read<Value> {
        let mut value = self.value()?;
        self.skip();
        if self.language == Language::Python && self.peek() == Some(',') {
            value = Value::Tuple(self.rest_of_tuple(value)?);
        }
        if self.at < self.text.len() { self.wrong("something follows the value") } else { Ok(value) }
    }

    fn wrong<T>(&self, why: &'static str) -> Read<T> {
        Err(LiteralError { why, at: self.text[..self.at].chars().count() })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn skip(&mut self) {
        while let Some(c) = self.peek() {
            if c == '#' && self.language == Language::Python {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if c.is_whitespace() {
                self.at += c.len_utf8();
            } else {
                return;
            }
        }
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.skip();
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn want(&mut self, wanted: char, why: &'static str) -> Read<()> {
        if self.eat(wanted) { Ok(()) } else { self.wrong(why) }
    }

    fn value(&mut self) -> Read<Value> {
        if self.strict { self.sum() } else { self.atom() }
    }

    fn atom(&mut self) -> Read<Value> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return self.wrong("a value is nested too deeply");
        }
        self.skip();
        let value = match self.peek() {
            None => self.wrong("a value is missing"),
            Some('[') => {
                self.next();
                Ok(Value::List(self.items(']')?))
            }
            Some('{') => {
                self.next();
                self.braces()
            }
            Some('"') if self.language == Language::Json => self.json_string().map(Value::Str),
            Some(c) if c.is_ascii_digit() || c == '-' => self.number(),
            Some(_) if self.language == Language::Json => self.json_word(),
            Some('(') => {
                self.next();
                self.parentheses()
            }
            Some('"' | '\'') => self.strings(),
            Some('.') if self.rest().starts_with("...") => {
                self.at += 3;
                Ok(Value::Tagged(Tag::Ellipsis, Vec::new()))
            }
            Some('+' | '.') => self.number(),
            Some(_) => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn items(&mut self, end: char) -> Read<Vec<Value>> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(self.value()?);
            if !self.eat(',') {
                self.want(end, "`,` or the closing bracket is missing")?;
                break;
            }
            self.skip();
            if self.language == Language::Json && self.peek() == Some(end) {
                return self.wrong("a value is missing");
            }
        }
        Ok(items)
    }

    fn rest_of_tuple(&mut self, first: Value) -> Read<Vec<Value>> {
        let mut items = vec![first];
        while self.eat(',') {
            self.skip();
            if matches!(self.peek(), None | Some(')')) {
                break;
            }
            items.push(self.value()?);
        }
        Ok(items)
    }

    fn parentheses(&mut self) -> Read<Value> {
        if self.eat(')') {
            return Ok(Value::Tuple(Vec::new()));
        }
        let first = self.value()?;
        if self.eat(')') {
            return Ok(first);
        }
        let items = self.rest_of_tuple(first)?;
        self.want(')', "`)` is missing")?;
        Ok(Value::Tuple(items))
    }

    fn braces(&mut self) -> Read<Value> {
        if self.eat('}') {
            return Ok(Value::Dict(Vec::new()));
        }
        let first = self.value()?;
        if self.language == Language::Python && !self.eat(':') {
            let mut items = vec![first];
            if self.eat(',') {
                items.extend(self.items('}')?);
            } else {
                self.want('}', "`}` is missing")?;
            }
            return Ok(Value::Set(items));
        }
        if self.language == Language::Json {
            self.want(':', "`:` is missing")?;
            if first.as_str().is_none() {
                return self.wrong("a key must be a string");
            }
        }
        let mut pairs = vec![(first, self.value()?)];
        while self.eat(',') {
            if self.language == Language::Python && self.eat('}') {
                return Ok(Value::Dict(pairs));
            }
            let key = self.value()?;
            if self.language == Language::Json && key.as_str().is_none() {
                return self.wrong("a key must be a string");
            }
            self.want(':', "`:` is missing")?;
            pairs.push((key, self.value()?));
        }
        self.want('}', "`}` is missing")?;
        if self.language == Language::Json
            && let [(Value::Str(key), Value::Str(text))] = &pairs[..]
            && key == "$py"
        {
            return Value::from_python(text).map_err(|error| LiteralError { why: error.why, at: self.at });
        }
        Ok(Value::Dict(pairs))
    }

    fn json_word(&mut self) -> Read<Value> {
        for (word, value) in [
            ("null", Value::None),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("NaN", Value::Float(f64::NAN)),
            ("Infinity", Value::Float(f64::INFINITY)),
        ] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.wrong("no JSON value")
    }

    fn json_string(&mut self) -> Read<String> {
        let start = self.at;
        self.next();
        loop {
            match self.next() {
                None => return self.wrong("a string does not end"),
                Some('"') => break,
                Some('\\') => drop(self.next()),
                Some(_) => {}
            }
        }
        serde_json::from_str(&self.text[start..self.at])
            .or_else(|_| self.wrong("a string has an escape that is no character"))
    }

    /// Digits, signs, a point, an exponent, `j`; and the sum of a real and an imaginary one.
    fn number(&mut self) -> Read<Value> {
        let first = self.signed()?;
        self.skip();
        if self.language == Language::Python && !self.strict && matches!(self.peek(), Some('+' | '-')) {
            let second = self.signed()?;
            return match (first, second) {
                (Value::Int(real), Value::Complex(0.0, imaginary)) => Ok(Value::Complex(real.to_float(), imaginary)),
                (Value::Float(real), Value::Complex(0.0, imaginary)) => Ok(Value::Complex(real, imaginary)),
                _ => self.wrong("values cannot be computed"),
            };
        }
        Ok(first)
    }

    fn signed(&mut self) -> Read<Value> {
        let mut negative = false;
        while let Some(sign @ ('-' | '+')) = self.peek() {
            negative ^= sign == '-';
            self.next();
            self.skip();
        }
        if self.peek().is_some_and(char::is_alphabetic) {
            return self.signed_word(negative);
        }
        let rest = self.rest();
        let radix = match rest.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ => 10,
        };
        if radix != 10 && self.language == Language::Python {
            self.at += 2;
            return self.digits(negative, radix);
        }
        let end = rest
            .char_indices()
            .find(|(i, c)| {
                let after_exponent = *i > 0 && matches!(rest.as_bytes()[i - 1], b'e' | b'E');
                !(c.is_ascii_digit()
                    || matches!(c, '.' | '_' | 'e' | 'E')
                    || (after_exponent && matches!(c, '+' | '-')))
            })
            .map_or(rest.len(), |(i, _)| i);
        if self.strict && rest[..end].contains('_') {
            return self.wrong("no plain number");
        }
        let digits = rest[..end].replace('_', "");
        if digits.bytes().all(|byte| byte.is_ascii_digit()) && !rest[end..].starts_with(['j', 'J']) {
            return self.digits(negative, 10);
        }
        let Ok(float) = digits.parse::<f64>() else { return self.wrong("no number") };
        self.at += end;
        let float = if negative { -float } else { float };
        if self.language == Language::Python && matches!(self.peek(), Some('j' | 'J')) {
            self.next();
            return Ok(Value::Complex(0.0, float));
        }
        Ok(Value::Float(float))
    }

    fn signed_word(&mut self, negative: bool) -> Read<Value> {
        let value = if self.language == Language::Json { self.json_word()? } else { self.word()? };
        match value {
            Value::Float(float) => Ok(Value::Float(if negative { -float } else { float })),
            _ => self.wrong("no number"),
        }
    }

    fn digits(&mut self, negative: bool, radix: u32) -> Read<Value> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_digit(radix) && c != '_').unwrap_or(rest.len());
        if end == 0 {
            return self.wrong("a digit is missing");
        }
        if self.strict && (rest[..end].contains('_') || (radix == 10 && end > 1 && rest.starts_with('0'))) {
            return self.wrong("no plain number");
        }
        self.at += end;
        let digits = rest[..end].chars().filter_map(|c| c.to_digit(radix));
        Ok(Value::Int(Int::from_digits(negative, digits, radix)))
    }

    /// A name: a constant, the prefix of a string, or a constructor.
    fn word(&mut self) -> Read<Value> {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len());
        let word = &rest[..end];
        if matches!(rest[end..].chars().next(), Some('"' | '\'')) && word.len() <= 2 {
            return self.strings();
        }
        if word.is_empty() {
            return self.wrong("no literal");
        }
        if self.strict && !matches!(word, "None" | "True" | "False") {
            return self.wrong("a name");
        }
        self.at += end;
        match word {
            "None" | "null" => return Ok(Value::None),
            "True" | "true" => return Ok(Value::Bool(true)),
            "False" | "false" => return Ok(Value::Bool(false)),
            "nan" | "NaN" | "math.nan" => return Ok(Value::Float(f64::NAN)),
            "inf" | "Infinity" | "math.inf" => return Ok(Value::Float(f64::INFINITY)),
            "Ellipsis" => return Ok(Value::Tagged(Tag::Ellipsis, Vec::new())),
            _ => {}
        }
        let name = word.rsplit('.').next().unwrap_or(word);
        self.want('(', "an unknown name")?;
        let arguments = self.items(')')?;
        match construct(name, &arguments) {
            Some(value) => Ok(value),
            None => self.wrong("a call that is no literal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_literals_are_read_as_python_shows_them() {
        for (text, shown) in [
            ("(1, {2, 3}, b'x')", "(1, {2, 3}, b'x')"),
            ("1,", "(1,)"),
            ("()", "()"),
            ("-0x1F", "-31"),
            ("1_000_000_000_000_000_000_000", "1000000000000000000000"),
            ("1e400", "inf"),
            ("float('-inf')", "-inf"),
            ("'a' \"b\" '''c'd'''", "\"abc'd\""),
            (r"'\x41\u00fc\n\\'", r"'Aü\n\\'"),
            (r"r'\n'", r"'\\n'"),
            (r"b'\xff\0'", r"b'\xff\x00'"),
            ("{'a': 1, 2: None,}", "{'a': 1, 2: None}"),
            ("3-4j", "(3-4j)"),
            ("Decimal('1.50')", "Decimal('1.50')"),
            ("Fraction(2, -4)", "Fraction(-1, 2)"),
            ("datetime.date(2024, 2, 29)", "date('2024-02-29')"),
            ("frozenset([1])", "frozenset({1})"),
            ("''", "''"),
            ("[1, # one\n 2]", "[1, 2]"),
            ("range(3)", "range(0, 3)"),
        ] {
            assert_eq!(Value::from_python(text).map(|value| value.to_string()), Ok(shown.to_owned()), "{text}");
        }
    }

    #[test]
    fn nothing_but_literals_is_a_literal() {
        for text in [
            "",
            "__import__('os')",
            "open('/etc/passwd')",
            "1+1",
            "[1, 2",
            "'abc",
            "x",
            "f'{1}'",
            "lambda: 1",
            "[x for x in y]",
            "1 2",
            r"'\ud800'",
            "b'ü'",
        ] {
            assert!(Value::from_python(text).is_err(), "{text}");
        }
        assert!(Value::from_python(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn json_keeps_big_numbers_and_finds_literals_anywhere() {
        let value = Value::from_json(r#"{"a": [123456789012345678901234567890, {"$py": "(1,)"}], "b": 1.0}"#).unwrap();
        assert_eq!(value.to_string(), "{'a': [123456789012345678901234567890, (1,)], 'b': 1.0}");
        for text in ["[1,]", "{1: 2}", "'a'", "01x", "{\"a\": 1,}", "nul", "(1)"] {
            assert!(Value::from_json(text).is_err(), "{text}");
        }
    }
}
