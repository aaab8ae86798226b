//! Words: quotes, escapes and expansions.

use super::parse::{Parser, Wrong};
use super::tree::{List, Part, Word};

/// Whether text is in double quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
}

/// What ends a word that is not quoted.
const META: &[char] = &[' ', '\t', '\n', ';', '&', '|', '<', '>', '(', ')'];

impl Parser<'_> {
    /// One word; empty if there is none here.
    pub(super) fn word(&mut self) -> Result<Option<Word>, Wrong> {
        let mut word = Word { at: self.place(), ..Word::default() };
        let start = self.at;
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.after(1) == Some('(') => {
                    self.at += 2;
                    let list = self.substitution()?;
                    word.add(if c == '<' { Part::Output(list) } else { Part::Into(list) });
                }
                '(' if self.at > start && self.is_extended_glob() => {
                    self.skip_balanced('(', ')')?;
                    word.add(Part::Unknown);
                }
                c if META.contains(&c) => break,
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') => {}
                        Some(c) => {
                            word.quoted = true;
                            word.push(c);
                        }
                        None => word.push('\\'),
                    }
                }
                '\'' => self.single(&mut word)?,
                '"' => {
                    self.next();
                    word.quoted = true;
                    self.double(&mut word, Some('"'))?;
                }
                '$' => self.dollar(&mut word, Quotes::None)?,
                '`' => self.backticks(&mut word)?,
                c => {
                    self.next();
                    word.push(c);
                }
            }
        }
        // An empty text in quotes is a word as well.
        Ok((self.at > start).then_some(word))
    }

    /// `@(a|b)` and its kin.
    fn is_extended_glob(&self) -> bool {
        matches!(self.before(), Some('@' | '?' | '*' | '+' | '!'))
    }

    fn single(&mut self, word: &mut Word) -> Result<(), Wrong> {
        let place = self.place();
        self.next();
        word.quoted = true;
        // Nothing in it is special, but a word that is quoted and empty is there.
        if word.parts.is_empty() {
            word.add(Part::Text(String::new()));
        }
        loop {
            match self.next() {
                Some('\'') => return Ok(()),
                Some(c) => word.push(c),
                None => return Err(Wrong::at(place, "this quote is not closed")),
            }
        }
    }

    /// Text in which only `$`, backticks and escapes are special, up to `end` or the end of all.
    pub(super) fn double(&mut self, word: &mut Word, end: Option<char>) -> Result<(), Wrong> {
        let place = self.place();
        if word.parts.is_empty() {
            word.add(Part::Text(String::new()));
        }
        loop {
            match self.peek() {
                None if end.is_none() => return Ok(()),
                None => return Err(Wrong::at(place, "this quote is not closed")),
                Some(c) if Some(c) == end => {
                    self.next();
                    return Ok(());
                }
                Some('\\') => {
                    self.next();
                    match self.next() {
                        Some('\n') => {}
                        Some(c @ ('$' | '`' | '"' | '\\')) => word.push(c),
                        Some(c) => {
                            word.push('\\');
                            word.push(c);
                        }
                        None => word.push('\\'),
                    }
                }
                Some('$') => self.dollar(word, Quotes::Double)?,
                Some('`') => self.backticks(word)?,
                Some(c) => {
                    self.next();
                    word.push(c);
                }
            }
        }
    }

    fn dollar(&mut self, word: &mut Word, quotes: Quotes) -> Result<(), Wrong> {
        self.next();
        match self.peek() {
            Some('(') if self.after(1) == Some('(') && self.is_arithmetic() => self.arithmetic(word, ('(', ')'))?,
            Some('(') => {
                self.next();
                let list = self.substitution()?;
                word.add(Part::Output(list));
            }
            Some('{') => self.braces(word)?,
            Some('\'') if quotes == Quotes::None => self.ansi(word)?,
            Some('"') => {}
            Some('[') => self.arithmetic(word, ('[', ']'))?,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                word.add(Part::Variable(name.to_owned()));
            }
            Some(c) if c.is_ascii_digit() || "@*".contains(c) => {
                self.next();
                word.add(Part::Variable(c.to_string()));
            }
            Some(c) if "#?$!-".contains(c) => {
                self.next();
                word.add(Part::Unknown);
            }
            _ => word.push('$'),
        }
        Ok(())
    }

    /// Numbers, which may be what commands print.
    pub(super) fn arithmetic(&mut self, word: &mut Word, (open, close): (char, char)) -> Result<(), Wrong> {
        let (start, place) = (self.at, self.place());
        self.skip_balanced(open, close)?;
        let text = self.since(start);
        let mut inner = Word::default();
        self.deeper(|parser| parser.inner(text, place).double(&mut inner, None))?;
        word.parts.extend(inner.parts.into_iter().filter(|part| matches!(part, Part::Output(_))));
        word.add(Part::Unknown);
        Ok(())
    }

    /// `${name}` and all that can follow the name.
    fn braces(&mut self, word: &mut Word) -> Result<(), Wrong> {
        let place = self.place();
        self.next();
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if self.peek() == Some('}') && !name.is_empty() {
            self.next();
            word.add(Part::Variable(name.to_owned()));
            return Ok(());
        }
        let start = self.at;
        // What follows may run commands: `${x:-$(id)}`.
        self.deeper(|parser| {
            let mut inner = Word::default();
            let end = loop {
                match parser.peek() {
                    None => return Err(Wrong::at(place, "this `${` is not closed")),
                    Some('}') => {
                        let end = parser.at;
                        parser.next();
                        break end;
                    }
                    Some('\\') => {
                        parser.next();
                        parser.next();
                    }
                    Some('\'') if !word.quoted => parser.single(&mut inner)?,
                    Some('"') => {
                        parser.next();
                        parser.double(&mut inner, Some('"'))?;
                    }
                    Some('$') => parser.dollar(&mut inner, Quotes::None)?,
                    Some('`') => parser.backticks(&mut inner)?,
                    Some(_) => {
                        parser.next();
                    }
                }
            };
            let outputs = inner.parts.into_iter().filter(|part| matches!(part, Part::Output(_)));
            word.parts.extend(outputs);
            let how = parser.source.get(start..end).map(str::to_owned);
            word.add(match how {
                Some(how) if how.len() < 100 && !how.contains(['$', '`', '\\']) => {
                    Part::Changed { name: name.to_owned(), how }
                }
                _ => Part::Unknown,
            });
            Ok(())
        })
    }

    /// `$'\x72m'`
    fn ansi(&mut self, word: &mut Word) -> Result<(), Wrong> {
        let place = self.place();
        self.next();
        word.quoted = true;
        loop {
            match self.next() {
                None => return Err(Wrong::at(place, "this quote is not closed")),
                Some('\'') => return Ok(()),
                Some('\\') => {
                    let c = match self.next() {
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some('r') => '\r',
                        Some('e' | 'E') => '\x1b',
                        Some('x') => self.code(2, 16),
                        Some('u') => self.code(4, 16),
                        Some('U') => self.code(8, 16),
                        Some(c @ '0'..='7') => {
                            let first = c.to_digit(8).unwrap_or(0);
                            let (rest, digits) = self.digits(2, 8);
                            char::from_u32(first * 8_u32.pow(digits) + rest).unwrap_or('\u{fffd}')
                        }
                        Some(c) => c,
                        None => return Err(Wrong::at(place, "this quote is not closed")),
                    };
                    word.push(c);
                }
                Some(c) => word.push(c),
            }
        }
    }

    fn code(&mut self, most: u32, radix: u32) -> char {
        char::from_u32(self.digits(most, radix).0).unwrap_or('\u{fffd}')
    }

    fn digits(&mut self, most: u32, radix: u32) -> (u32, u32) {
        let (mut value, mut count) = (0_u32, 0);
        while count < most
            && let Some(digit) = self.peek().and_then(|c| c.to_digit(radix))
        {
            self.next();
            value = value.wrapping_mul(radix).wrapping_add(digit);
            count += 1;
        }
        (value, count)
    }

    /// The list up to `)`, of which the opening has been read.
    fn substitution(&mut self) -> Result<List, Wrong> {
        let place = self.place();
        self.deeper(|parser| {
            let list = parser.list()?;
            match parser.peek() {
                Some(')') => {
                    parser.next();
                    Ok(list)
                }
                Some(_) => Err(parser.unexpected()),
                None => Err(Wrong::at(place, "this substitution is not closed")),
            }
        })
    }

    /// Backticks hold text of their own, with escapes of their own.
    fn backticks(&mut self, word: &mut Word) -> Result<(), Wrong> {
        let place = self.place();
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None => return Err(Wrong::at(place, "this backtick is not closed")),
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c @ ('`' | '\\' | '$')) => text.push(c),
                    Some(c) => {
                        text.push('\\');
                        text.push(c);
                    }
                    None => return Err(Wrong::at(place, "this backtick is not closed")),
                },
                Some(c) => text.push(c),
            }
        }
        let list = self.deeper(|parser| parser.inner(&text, place).program())?;
        word.add(Part::Output(list));
        Ok(())
    }
}
