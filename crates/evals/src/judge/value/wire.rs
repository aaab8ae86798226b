//! Values as the bytes of marshal, version 2: what every Python 3 reads and writes. Bytes from tested code are only read
//! here, never by an interpreter.

use super::{Int, MOST_DEPTH, Tag, Value};

/// The most values in one message: each costs us more than a byte.
const MOST_VALUES: usize = 1 << 20;

/// Why bytes are no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end too early.
    #[error("the answer is cut short")]
    Short,
    /// Something follows the value.
    #[error("something follows the answer")]
    Long,
    /// A kind that is no plain data.
    #[error("the answer is no plain data")]
    Kind,
    /// Nested too deeply.
    #[error("the answer is nested too deeply")]
    Deep,
    /// Too many parts.
    #[error("the answer has too many parts")]
    Many,
    /// Text that is no UTF-8.
    #[error("the answer has a text that is not valid Unicode")]
    Text,
}

impl Value {
    /// Reads one value and nothing after it.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader { bytes, values: 0 };
        let value = reader.value(0)?.ok_or(WireError::Kind)?;
        if reader.bytes.is_empty() { Ok(value) } else { Err(WireError::Long) }
    }

    /// The bytes of the value.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(self, &mut bytes);
        bytes
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    values: usize,
}

impl<'a> Reader<'a> {
    /// `None` is the mark that ends a dictionary.
    fn value(&mut self, depth: usize) -> Result<Option<Value>, WireError> {
        if depth > MOST_DEPTH {
            return Err(WireError::Deep);
        }
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(WireError::Many);
        }
        let [kind] = self.array()?;
        Ok(Some(match kind {
            b'0' => return Ok(None),
            b'N' => Value::None,
            b'T' => Value::Bool(true),
            b'F' => Value::Bool(false),
            b'.' => Value::Tagged(Tag::Ellipsis, Vec::new()),
            b'i' => Value::int(i64::from(i32::from_le_bytes(self.array()?))),
            b'I' => Value::int(i64::from_le_bytes(self.array()?)),
            b'l' => self.long()?,
            b'g' => Value::Float(f64::from_le_bytes(self.array()?)),
            b'y' => Value::Complex(f64::from_le_bytes(self.array()?), f64::from_le_bytes(self.array()?)),
            b's' => Value::Bytes(self.counted()?.to_vec()),
            b'u' | b't' | b'a' | b'A' => self.text()?,
            b'(' => tagged(self.items(depth)?),
            b'[' => Value::List(self.items(depth)?),
            b'<' => Value::Set(self.members(depth)?),
            b'>' => Value::FrozenSet(self.members(depth)?),
            b'{' => self.dict(depth)?,
            _ => return Err(WireError::Kind),
        }))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.bytes.split_at_checked(count).ok_or(WireError::Short)?;
        self.bytes = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)?.try_into().map_err(|_| WireError::Short)
    }

    fn count(&mut self) -> Result<usize, WireError> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        // Each thing counted takes a byte at least: nothing is reserved for what cannot come.
        if count > self.bytes.len() { Err(WireError::Short) } else { Ok(count) }
    }

    fn counted(&mut self) -> Result<&'a [u8], WireError> {
        let count = self.count()?;
        self.take(count)
    }

    fn text(&mut self) -> Result<Value, WireError> {
        let bytes = self.counted()?;
        std::str::from_utf8(bytes).map(Value::text).map_err(|_| WireError::Text)
    }

    fn long(&mut self) -> Result<Value, WireError> {
        let count = i32::from_le_bytes(self.array()?);
        let size = count.unsigned_abs() as usize;
        let digits = self.take(size.checked_mul(2).ok_or(WireError::Short)?)?;
        let digits: Vec<u16> =
            digits.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]) & 0x7fff).collect();
        Ok(Value::Int(Int::from_15_bits(count < 0, &digits)))
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Value>, WireError> {
        let count = self.count()?;
        (0..count).map(|_| self.value(depth + 1)?.ok_or(WireError::Kind)).collect()
    }

    /// Members of a set.
    fn members(&mut self, depth: usize) -> Result<Vec<Value>, WireError> {
        let items = self.items(depth)?;
        if items.iter().all(can_be_key) { Ok(items) } else { Err(WireError::Kind) }
    }

    fn dict(&mut self, depth: usize) -> Result<Value, WireError> {
        let mut pairs = Vec::new();
        while let Some(key) = self.value(depth + 1)? {
            if !can_be_key(&key) {
                return Err(WireError::Kind);
            }
            pairs.push((key, self.value(depth + 1)?.ok_or(WireError::Kind)?));
        }
        Ok(Value::Dict(pairs))
    }
}

/// Whether Python would take it for a key. No Python has written one that it would not; one that reads it again would raise.
fn can_be_key(value: &Value) -> bool {
    match value {
        Value::List(_) | Value::Dict(_) | Value::Set(_) => false,
        Value::Tuple(items) | Value::Tagged(_, items) => items.iter().all(can_be_key),
        _ => true,
    }
}

/// A tuple that starts with an Ellipsis and a known name is the thing of that name.
fn tagged(items: Vec<Value>) -> Value {
    if let [Value::Tagged(Tag::Ellipsis, none), Value::Str(name), ..] = &items[..]
        && none.is_empty()
        && let Some(tag) = Tag::by_name(name)
    {
        return Value::Tagged(tag, items.into_iter().skip(2).collect());
    }
    Value::Tuple(items)
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::None => out.push(b'N'),
        Value::Bool(true) => out.push(b'T'),
        Value::Bool(false) => out.push(b'F'),
        Value::Int(int) => write_int(int, out),
        Value::Float(float) => {
            out.push(b'g');
            out.extend(float.to_le_bytes());
        }
        Value::Complex(real, imaginary) => {
            out.push(b'y');
            out.extend(real.to_le_bytes());
            out.extend(imaginary.to_le_bytes());
        }
        Value::Str(text) => write_counted(b'u', text.as_bytes(), out),
        Value::Bytes(bytes) => write_counted(b's', bytes, out),
        Value::List(items) => write_items(b'[', items, out),
        Value::Tuple(items) => write_items(b'(', items, out),
        Value::Set(items) => write_items(b'<', items, out),
        Value::FrozenSet(items) => write_items(b'>', items, out),
        Value::Dict(pairs) => {
            out.push(b'{');
            for (key, item) in pairs {
                write(key, out);
                write(item, out);
            }
            out.push(b'0');
        }
        Value::Tagged(tag, words) => {
            write_head(b'(', words.len() + 2, out);
            out.push(b'.');
            write_counted(b'u', tag.name().as_bytes(), out);
            for word in words {
                write(word, out);
            }
        }
    }
}

fn write_int(int: &Int, out: &mut Vec<u8>) {
    if let Int::Small(small) = int
        && let Ok(short) = i32::try_from(*small)
    {
        out.push(b'i');
        return out.extend(short.to_le_bytes());
    }
    let (negative, digits) = int.to_15_bits();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    out.push(b'l');
    out.extend(if negative { -count } else { count }.to_le_bytes());
    for digit in digits {
        out.extend(digit.to_le_bytes());
    }
}

fn write_items(kind: u8, items: &[Value], out: &mut Vec<u8>) {
    write_head(kind, items.len(), out);
    for item in items {
        write(item, out);
    }
}

fn write_counted(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    write_head(kind, bytes.len(), out);
    out.extend(bytes);
}

fn write_head(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let text = "[None, True, -5, 2**70, 1.5, (1+2j), 'ü', b'x', (1,), {1, 2}, frozenset({3}), {'a': [1]}, ...]"
            .replace("2**70", "1180591620717411303424");
        let value = Value::from_python(&text).unwrap();
        assert_eq!(Value::from_wire(&value.to_wire()), Ok(value));
    }

    #[test]
    fn hostile_bytes_are_refused_and_cost_nothing() {
        let deep = [b"(\x01\0\0\0".repeat(5000), b"N".to_vec()].concat();
        for (bytes, error) in [
            (&b""[..], WireError::Short),
            (b"[\xff\xff\xff\xff", WireError::Short),
            (b"c\0\0\0\0", WireError::Kind),
            (b"S", WireError::Kind),
            (b"R\0\0\0\0", WireError::Kind),
            (b"NN", WireError::Long),
            (b"0", WireError::Kind),
            (b"u\x01\0\0\0\xff", WireError::Text),
            (b"l\0\0\0\x80", WireError::Short),
            (&deep, WireError::Deep),
        ] {
            assert_eq!(Value::from_wire(bytes), Err(error), "{bytes:?}");
        }
    }
}
