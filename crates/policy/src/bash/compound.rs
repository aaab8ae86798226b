//! Commands that hold other commands.

use std::rc::Rc;

use super::parse::{Parser, Wrong};
use super::tree::{Command, List, Pipeline, What, Word};

impl Parser<'_> {
    /// A compound command, if one begins here.
    pub(super) fn what(&mut self) -> Result<Option<What>, Wrong> {
        if self.peek() == Some('(') {
            if self.after(1) == Some('(') && self.is_arithmetic() {
                let mut word = Word { at: self.place(), ..Word::default() };
                self.arithmetic(&mut word, ('(', ')'))?;
                return Ok(Some(What::Nothing(vec![word])));
            }
            self.at += 1;
            let list = self.list()?;
            if !self.eat(")") {
                return Err(self.unexpected());
            }
            return Ok(Some(What::Compound(vec![list])));
        }
        if self.eat_word("{") {
            let list = self.list()?;
            self.expect("}")?;
            return Ok(Some(What::Compound(vec![list])));
        }
        if self.eat_word("if") {
            return self.choice().map(Some);
        }
        for (word, until) in [("while", false), ("until", true)] {
            if self.eat_word(word) {
                let test = self.list()?;
                let body = self.body()?;
                let endless = is_constant(&test, until);
                return Ok(Some(What::Loop { test, body, endless }));
            }
        }
        if self.eat_word("for") || self.eat_word("select") {
            return self.each().map(Some);
        }
        if self.eat_word("case") {
            return self.case().map(Some);
        }
        if self.eat_word("[[") {
            return self.test().map(Some);
        }
        if self.eat_word("function") {
            self.blanks();
            let name = self.take_while(|c| !c.is_whitespace() && !";&|<>(){}".contains(c));
            self.blanks();
            if self.eat("(") {
                self.blanks();
                let _ = self.eat(")");
            }
            return self.function(name.to_owned()).map(Some);
        }
        if self.eat_word("coproc") {
            self.blanks();
            let command = self.deeper(Self::command)?;
            let pipeline = Pipeline { commands: vec![command], background: true };
            return Ok(Some(What::Compound(vec![vec![pipeline]])));
        }
        Ok(None)
    }

    pub(super) fn choice(&mut self) -> Result<What, Wrong> {
        let mut lists = Vec::new();
        loop {
            lists.push(self.list()?);
            self.expect("then")?;
            lists.push(self.list()?);
            if self.eat_word("elif") {
                continue;
            }
            if self.eat_word("else") {
                lists.push(self.list()?);
            }
            self.expect("fi")?;
            return Ok(What::Compound(lists));
        }
    }

    pub(super) fn body(&mut self) -> Result<List, Wrong> {
        self.lines()?;
        if self.eat_word("{") {
            let list = self.list()?;
            self.expect("}")?;
            return Ok(list);
        }
        self.expect("do")?;
        let list = self.list()?;
        self.expect("done")?;
        Ok(list)
    }

    pub(super) fn each(&mut self) -> Result<What, Wrong> {
        self.blanks();
        if self.peek() == Some('(') {
            let start = self.at;
            self.skip_balanced('(', ')')?;
            let clauses = self.source.get(start..self.at).unwrap_or_default();
            let middle = clauses.split(';').nth(1).unwrap_or("x").trim();
            let endless = middle.is_empty() || middle == "1" || middle == "true";
            self.separator()?;
            let body = self.body()?;
            return Ok(What::Loop { test: List::new(), body, endless });
        }
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.lines()?;
        let mut words = Vec::new();
        if self.eat_word("in") {
            loop {
                self.blanks();
                match self.word()? {
                    Some(word) => words.push(word),
                    None => break,
                }
            }
        }
        self.separator()?;
        let body = self.body()?;
        Ok(What::For { name: name.to_owned(), words, body })
    }

    /// A semicolon or line ends, if any.
    pub(super) fn separator(&mut self) -> Result<(), Wrong> {
        self.blanks();
        let _ = self.eat(";");
        self.lines()
    }

    pub(super) fn case(&mut self) -> Result<What, Wrong> {
        self.blanks();
        let subject = self.word()?.ok_or_else(|| self.unexpected())?;
        self.expect("in")?;
        let mut lists = vec![only(subject)];
        loop {
            self.lines()?;
            if self.eat_word("esac") {
                return Ok(What::Compound(lists));
            }
            let _ = self.eat("(");
            loop {
                self.blanks();
                let pattern = self.word()?.ok_or_else(|| self.unexpected())?;
                lists.push(only(pattern));
                self.blanks();
                if !self.eat("|") {
                    break;
                }
            }
            if !self.eat(")") {
                return Err(self.unexpected());
            }
            lists.push(self.list()?);
            self.lines()?;
            if !(self.eat(";;&") || self.eat(";;") || self.eat(";&") || self.is_word("esac")) {
                return Err(self.unexpected());
            }
        }
    }

    /// `[[ … ]]`: words of which some may run commands.
    pub(super) fn test(&mut self) -> Result<What, Wrong> {
        let place = self.place();
        let mut words = Vec::new();
        loop {
            self.lines()?;
            if self.eat_word("]]") {
                return Ok(What::Nothing(words));
            }
            if self.at >= self.source.len() {
                return Err(Wrong::at(place, "this `[[` is not closed"));
            }
            match self.word()? {
                Some(word) => words.push(word),
                None => {
                    self.next();
                }
            }
        }
    }

    pub(super) fn function(&mut self, name: String) -> Result<What, Wrong> {
        self.lines()?;
        let body = self.deeper(Self::command)?;
        if matches!(body.what, What::Simple { .. }) {
            return Err(Wrong::at(body.at, "the body of a function must be in braces"));
        }
        Ok(What::Function { name, body: Rc::new(body) })
    }
}

/// A list that only expands a word.
fn only(word: Word) -> List {
    let at = word.at;
    let command = Command { at, what: What::Nothing(vec![word]), redirects: Vec::new() };
    vec![Pipeline { commands: vec![command], background: false }]
}

/// `true` or `:` alone, or `false` for `until`.
fn is_constant(test: &List, until: bool) -> bool {
    let [Pipeline { commands, .. }] = &test[..] else { return false };
    let [Command { what: What::Simple { words, .. }, .. }] = &commands[..] else { return false };
    let [word] = &words[..] else { return false };
    match word.bare() {
        Some("true" | ":") => !until,
        Some("false") => until,
        _ => false,
    }
}
