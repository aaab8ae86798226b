//! Python's strings and bytes, with their prefixes, quotes and escapes.

use super::{Read, Reader};
use crate::judge::Value;

impl Reader<'_> {
    /// One string or several beside each other.
    pub(super) fn strings(&mut self) -> Read<Value> {
        let mut whole = self.string()?;
        loop {
            self.skip();
            let rest = self.rest();
            let quote = rest.find(['"', '\'']);
            let is_string = quote.is_some_and(|at| at <= 2 && rest[..at].chars().all(|c| "rRbBuU".contains(c)));
            if !is_string {
                return Ok(whole);
            }
            match (&mut whole, self.string()?) {
                (Value::Str(text), Value::Str(more)) => text.push_str(&more),
                (Value::Bytes(bytes), Value::Bytes(more)) => bytes.extend(more),
                _ => return self.wrong("text and bytes beside each other"),
            }
        }
    }

    fn string(&mut self) -> Read<Value> {
        let (mut raw, mut bytes) = (false, false);
        let quote = loop {
            match self.next() {
                Some('r' | 'R') => raw = true,
                Some('b' | 'B') => bytes = true,
                Some('u' | 'U') => {}
                Some(quote @ ('"' | '\'')) => break quote,
                _ => return self.wrong("no string"),
            }
        };
        let triple: String = [quote; 3].iter().collect();
        let end = if self.rest().starts_with(&triple[1..]) {
            self.at += 2;
            triple.as_str()
        } else {
            &triple[..1]
        };
        let mut out = Vec::new();
        while !self.rest().starts_with(end) {
            let Some(c) = self.next() else { return self.wrong("a string does not end") };
            if c == '\\' && !raw {
                self.escape(bytes, &mut out)?;
            } else if bytes && !c.is_ascii() {
                return self.wrong("bytes must be ASCII");
            } else {
                push(c, &mut out);
                if raw && c == '\\' {
                    self.next().into_iter().for_each(|next| push(next, &mut out));
                }
            }
        }
        self.at += end.len();
        if bytes {
            return Ok(Value::Bytes(out));
        }
        String::from_utf8(out).map(Value::Str).or_else(|_| self.wrong("no text"))
    }

    fn escape(&mut self, bytes: bool, out: &mut Vec<u8>) -> Read<()> {
        let Some(c) = self.next() else { return self.wrong("a string does not end") };
        let simple = match c {
            '\n' => return Ok(()),
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'v' => '\x0b',
            '\\' | '\'' | '"' => c,
            'x' => return self.code(2, bytes, out),
            'u' if !bytes => return self.code(4, false, out),
            'U' if !bytes => return self.code(8, false, out),
            '0'..='7' => {
                let rest = self.rest();
                let more = rest.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let number = u32::from_str_radix(&format!("{c}{}", &rest[..more]), 8).unwrap_or(0);
                self.at += more;
                return self.put(number, bytes, out);
            }
            other => {
                push('\\', out);
                other
            }
        };
        push(simple, out);
        Ok(())
    }

    fn code(&mut self, digits: usize, bytes: bool, out: &mut Vec<u8>) -> Read<()> {
        let number = self.rest().get(..digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let Some(number) = number else { return self.wrong("an escape without its digits") };
        self.at += digits;
        self.put(number, bytes, out)
    }

    fn put(&self, number: u32, bytes: bool, out: &mut Vec<u8>) -> Read<()> {
        if bytes {
            return match u8::try_from(number) {
                Ok(byte) => {
                    out.push(byte);
                    Ok(())
                }
                Err(_) => self.wrong("no byte"),
            };
        }
        match char::from_u32(number) {
            Some(c) => {
                push(c, out);
                Ok(())
            }
            None => self.wrong("an escape that is no character"),
        }
    }
}

fn push(c: char, out: &mut Vec<u8>) {
    out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
}
