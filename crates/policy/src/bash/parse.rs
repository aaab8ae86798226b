//! The shell's grammar, by hand: one pass, each character read once or twice, no deeper than a limit.

use super::tree::{Assignment, Command, List, Part, Pipeline, Redirect, Text, What, Word, push};

/// Commands within commands. Scripts have five levels or six.
const MOST_DEPTH: usize = 60;

/// Bytes of `name[…]=` that are looked at: what is longer is no assignment.
const MOST_SUBSCRIPT: usize = 256;

/// Words that end a list rather than begin a command.
const ENDS: &[&str] = &["then", "do", "done", "fi", "elif", "else", "esac", "}", "in"];

/// Why a program cannot be read.
#[derive(Debug)]
pub(super) enum Wrong {
    Syntax { at: usize, message: String },
    TooDeep,
}

impl Wrong {
    pub(super) fn at(at: usize, message: &str) -> Self {
        Self::Syntax { at, message: message.to_owned() }
    }
}

/// A here-document whose text is still to come.
struct Awaited {
    delimiter: String,
    /// Tabs before its lines are not part of it.
    strip: bool,
    /// Nothing in it is expanded.
    literal: bool,
}

/// Reads one program.
pub(super) struct Parser<'s> {
    pub(super) source: &'s str,
    /// The next byte.
    pub(super) at: usize,
    /// Where the source begins in the whole program, if it is a part with offsets of its own.
    base: Option<usize>,
    depth: usize,
    awaited: Vec<Awaited>,
    /// Texts of here-documents that were read, in order.
    arrived: Vec<Word>,
}

impl<'s> Parser<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, at: 0, base: None, depth: 0, awaited: Vec::new(), arrived: Vec::new() }
    }

    /// A parser for text that stands in this one's at `place`.
    pub(super) fn inner<'t>(&self, text: &'t str, place: usize) -> Parser<'t> {
        Parser { base: Some(place), depth: self.depth, ..Parser::new(text) }
    }

    /// For text that a command of the program runs.
    pub(super) fn part(source: &'s str, place: usize, depth: usize) -> Self {
        Self { base: Some(place), depth, ..Self::new(source) }
    }

    /// Offset in the whole program.
    pub(super) fn place(&self) -> usize {
        self.base.unwrap_or(self.at)
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.source.get(self.at..)?.chars().next()
    }

    /// The character `n` bytes on, if those before it are one byte each.
    pub(super) fn after(&self, n: usize) -> Option<char> {
        self.source.get(self.at + n..)?.chars().next()
    }

    pub(super) fn before(&self) -> Option<char> {
        self.source.get(..self.at)?.chars().next_back()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.source.get(self.at..).is_some_and(|rest| rest.starts_with(text));
        if found {
            self.at += text.len();
        }
        found
    }

    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'s str {
        let start = self.at;
        while self.peek().is_some_and(&fits) {
            self.next();
        }
        self.since(start)
    }

    pub(super) fn unexpected(&self) -> Wrong {
        let seen: String = match self.peek() {
            Some('\n') => "end of line".to_owned(),
            Some(_) => {
                let rest = self.source.get(self.at..).unwrap_or_default();
                format!("`{}`", rest.split_whitespace().next().unwrap_or_default().chars().take(20).collect::<String>())
            }
            None => "end of the code".to_owned(),
        };
        Wrong::Syntax { at: self.place(), message: format!("unexpected {seen}") }
    }

    pub(super) fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Wrong>) -> Result<T, Wrong> {
        if self.depth >= MOST_DEPTH {
            return Err(Wrong::TooDeep);
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// All of it.
    pub(super) fn program(mut self) -> Result<List, Wrong> {
        let list = self.list()?;
        if self.at < self.source.len() {
            return Err(self.unexpected());
        }
        Ok(list)
    }

    /// Spaces, escaped line ends and comments.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.after(1) == Some('\n') => self.at += 2,
                Some('#') if self.before().is_none_or(|c| c.is_whitespace() || ";&|()".contains(c)) => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.next();
                    }
                }
                _ => return,
            }
        }
    }

    /// Blanks and line ends; here-documents begin after a line end.
    pub(super) fn lines(&mut self) -> Result<(), Wrong> {
        loop {
            self.blanks();
            if self.peek() != Some('\n') {
                return Ok(());
            }
            self.at += 1;
            self.documents()?;
        }
    }

    fn documents(&mut self) -> Result<(), Wrong> {
        for awaited in std::mem::take(&mut self.awaited) {
            let place = self.place();
            let mut text = String::new();
            loop {
                if self.at >= self.source.len() {
                    break;
                }
                let rest = self.source.get(self.at..).unwrap_or_default();
                let line = rest.split('\n').next().unwrap_or_default();
                self.at = (self.at + line.len() + 1).min(self.source.len());
                let line = if awaited.strip { line.trim_start_matches('\t') } else { line };
                if line == awaited.delimiter {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            let mut word = Word { at: place, parts: Vec::new(), quoted: true };
            if awaited.literal {
                word.add(Part::Text(text));
            } else {
                self.deeper(|parser| parser.inner(&text, place).double(&mut word, None))?;
            }
            self.arrived.push(word);
        }
        Ok(())
    }

    /// Commands up to something that no command begins with.
    pub(super) fn list(&mut self) -> Result<List, Wrong> {
        let mut list = List::new();
        loop {
            self.lines()?;
            list.extend(self.arrived.drain(..).map(document));
            if self.is_end() {
                return Ok(list);
            }
            let mut pipeline = self.pipeline()?;
            self.blanks();
            match self.peek() {
                Some('&') if self.after(1) == Some('&') => {
                    self.at += 2;
                    self.operand()?;
                }
                Some('|') if self.after(1) == Some('|') => {
                    self.at += 2;
                    self.operand()?;
                }
                Some('&') => {
                    self.at += 1;
                    pipeline.background = true;
                }
                Some(';') if self.after(1) != Some(';') => self.at += 1,
                Some('\n') | None => {}
                _ if self.is_end() => {}
                _ => return Err(self.unexpected()),
            }
            push(&mut list, pipeline);
        }
    }

    /// After `&&`, `||` and `|` a command must come, on the next line if need be.
    fn operand(&mut self) -> Result<(), Wrong> {
        self.lines()?;
        if self.is_end() { Err(self.unexpected()) } else { Ok(()) }
    }

    /// Whether a list ends here.
    fn is_end(&self) -> bool {
        match self.peek() {
            None | Some(')') => true,
            Some(';') => self.after(1) == Some(';') || self.after(1) == Some('&'),
            Some(_) => ENDS.iter().any(|word| *word != "in" && self.is_word(word)),
        }
    }

    /// Whether this very word comes next.
    pub(super) fn is_word(&self, word: &str) -> bool {
        let Some(rest) = self.source.get(self.at..).and_then(|rest| rest.strip_prefix(word)) else { return false };
        rest.chars().next().is_none_or(|c| c.is_whitespace() || ";&|<>()".contains(c))
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.at += word.len();
        }
        found
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<(), Wrong> {
        self.lines()?;
        if self.eat_word(word) {
            return Ok(());
        }
        let Wrong::Syntax { at, message } = self.unexpected() else { return Err(Wrong::TooDeep) };
        Err(Wrong::Syntax { at, message: format!("{message} where `{word}` was expected") })
    }

    fn pipeline(&mut self) -> Result<Pipeline, Wrong> {
        let mut pipeline = Pipeline::default();
        loop {
            self.blanks();
            while self.eat_word("!") || self.eat_word("time") {
                self.blanks();
                let _ = self.eat_word("-p");
                self.blanks();
            }
            let command = self.deeper(Self::command)?;
            push(&mut pipeline.commands, command);
            self.blanks();
            if self.peek() != Some('|') || self.after(1) == Some('|') {
                return Ok(pipeline);
            }
            self.at += 1;
            let _ = self.eat("&");
            self.operand()?;
        }
    }

    pub(super) fn command(&mut self) -> Result<Command, Wrong> {
        let at = self.place();
        let what = self.what()?;
        let mut redirects = Vec::new();
        let what = match what {
            Some(what) => {
                loop {
                    self.blanks();
                    match self.redirect()? {
                        Some(redirect) => redirects.push(redirect),
                        None => break,
                    }
                }
                what
            }
            None => self.simple(&mut redirects)?,
        };
        Ok(Command { at, what, redirects })
    }

    fn simple(&mut self, redirects: &mut Vec<Redirect>) -> Result<What, Wrong> {
        let (mut assignments, mut words) = (Vec::new(), Vec::<Word>::new());
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                continue;
            }
            if words.is_empty()
                && let Some(assignment) = self.assignment()?
            {
                assignments.push(assignment);
                continue;
            }
            let Some(word) = self.word()? else { break };
            push(&mut words, word);
            // `name ()` begins a function; `name(` within a command is nothing.
            if words.len() == 1 && assignments.is_empty() {
                let start = self.at;
                self.blanks();
                if self.eat("(") {
                    self.blanks();
                    if self.eat(")") {
                        let name = words.first().and_then(Word::bare).unwrap_or_default().to_owned();
                        return self.function(name);
                    }
                    return Err(self.unexpected());
                }
                self.at = start;
            } else if matches!(
                words.first().and_then(Word::bare),
                Some("declare" | "local" | "export" | "readonly" | "typeset")
            ) && self.peek() == Some('(')
            {
                self.at += 1;
                words.extend(self.items()?);
            }
        }
        if assignments.is_empty() && words.is_empty() && redirects.is_empty() {
            return Err(self.unexpected());
        }
        Ok(What::Simple { assignments, words })
    }

    /// `name=value`, `name+=value`, `name[i]=value`, `name=(…)`.
    fn assignment(&mut self) -> Result<Option<Assignment>, Wrong> {
        let start = self.at;
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            self.at = start;
            return Ok(None);
        }
        let mut index = None;
        if self.peek() == Some('[') {
            let rest = self.source.get(self.at..).unwrap_or_default();
            let near = &rest[..rest.floor_char_boundary(MOST_SUBSCRIPT)];
            let Some(length) = near.find("]=").or_else(|| near.find("]+=")) else {
                self.at = start;
                return Ok(None);
            };
            // `x[$(id)]=1` runs what is in the brackets.
            let text = near.get(..length).unwrap_or_default();
            let mut word = Word::default();
            let place = self.place();
            // What cannot be parsed there does not run either.
            let _ = self.deeper(|parser| parser.inner(text, place).double(&mut word, None));
            index = Some(word);
            self.at += length + 1;
        }
        let append = self.eat("+");
        if !self.eat("=") {
            self.at = start;
            return Ok(None);
        }
        let values = if self.eat("(") { self.items()? } else { self.word()?.into_iter().collect() };
        Ok(Some(Assignment { name: name.to_owned(), index, append, values }))
    }

    /// The items of an array, up to `)`.
    fn items(&mut self) -> Result<Vec<Word>, Wrong> {
        let mut items = Vec::new();
        loop {
            self.lines()?;
            if self.eat(")") {
                return Ok(items);
            }
            match self.word()? {
                Some(word) => items.push(word),
                None => return Err(self.unexpected()),
            }
        }
    }

    fn redirect(&mut self) -> Result<Option<Redirect>, Wrong> {
        let start = self.at;
        // A number or `{name}` straight before it says which descriptor.
        if self.eat("{") {
            let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            if name.is_empty() || !self.eat("}") {
                self.at = start;
            }
        } else {
            self.take_while(|c| c.is_ascii_digit());
        }
        let is_redirect = matches!(self.peek(), Some('<' | '>')) && self.after(1) != Some('(')
            || self.source.get(self.at..).is_some_and(|rest| rest.starts_with("&>"));
        if !is_redirect {
            self.at = start;
            return Ok(None);
        }
        for operator in ["<<<", "<<-", "<<", "<>", "<&", "<", "&>>", "&>", ">>", ">|", ">&", ">"] {
            if self.eat(operator) {
                self.blanks();
                let target = self.word()?.ok_or_else(|| self.unexpected())?;
                if matches!(operator, "<<" | "<<-") {
                    self.awaited.push(Awaited {
                        delimiter: plain(&target),
                        strip: operator == "<<-",
                        literal: target.quoted,
                    });
                }
                let text = match operator {
                    "<<<" => Text::Word,
                    "<<" | "<<-" => Text::Document,
                    _ => Text::None,
                };
                return Ok(Some(Redirect { writes: operator.contains('>'), target, text }));
            }
        }
        Err(self.unexpected())
    }

    /// Whether the `((` here is arithmetic: then `))` ends it.
    pub(super) fn is_arithmetic(&self) -> bool {
        let Some(rest) = self.source.as_bytes().get(self.at..) else { return false };
        let mut depth = 0_usize;
        for (number, byte) in rest.iter().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return number > 0 && rest.get(number - 1) == Some(&b')');
                    }
                }
                // No arithmetic has these; programs do.
                b';' | b'"' | b'\'' | b'`' if depth > 0 => return false,
                _ => {}
            }
        }
        false
    }

    /// From one bracket to its partner.
    pub(super) fn skip_balanced(&mut self, open: char, close: char) -> Result<(), Wrong> {
        let place = self.place();
        let mut depth = 0_usize;
        while let Some(c) = self.next() {
            if c == open {
                depth += 1;
            } else if c == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(());
                }
            } else if depth == 0 {
                break;
            }
        }
        Err(Wrong::at(place, "this bracket is not closed"))
    }

    pub(super) fn since(&self, start: usize) -> &'s str {
        self.source.get(start..self.at).unwrap_or_default()
    }
}

/// The text of a here-document, which comes after the command that reads it.
fn document(word: Word) -> Pipeline {
    let command = Command { at: word.at, what: What::Document(word), redirects: Vec::new() };
    Pipeline { commands: vec![command], background: false }
}

fn plain(word: &Word) -> String {
    word.parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None }).collect()
}
