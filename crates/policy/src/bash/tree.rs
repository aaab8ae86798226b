//! What a shell program is made of.

use std::rc::Rc;

/// Commands one after another.
pub(super) type List = Vec<Pipeline>;

/// Commands whose output goes into the next.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    pub(super) commands: Vec<Command>,
    pub(super) background: bool,
}

/// One command.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) at: usize,
    pub(super) what: What,
    pub(super) redirects: Vec<Redirect>,
}

/// What kind of command.
#[derive(Debug)]
pub(super) enum What {
    /// A program, a builtin or a function, with its words; or assignments alone.
    Simple { assignments: Vec<Assignment>, words: Vec<Word> },
    /// Lists that run in some order, if at all.
    Compound(Vec<List>),
    /// `for`: the name takes each word.
    For { name: String, words: Vec<Word>, body: List },
    /// `while`, `until` and `for (( ))`.
    Loop { test: List, body: List, endless: bool },
    /// A function of this name.
    Function { name: String, body: Rc<Command> },
    /// The text of a here-document.
    Document(Word),
    /// Nothing that starts a program: arithmetic, tests.
    Nothing(Vec<Word>),
}

/// `name=value`
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// `name[index]=value`
    pub(super) index: Option<Word>,
    /// `name+=value`
    pub(super) append: bool,
    pub(super) values: Vec<Word>,
}

/// `> file` and its kin.
#[derive(Debug)]
pub(super) struct Redirect {
    pub(super) writes: bool,
    pub(super) target: Word,
    /// Whether it is a here-document or a here-string.
    pub(super) text: Text,
}

/// What a redirection brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// A file.
    None,
    /// Lines that come later.
    Document,
    /// The word itself.
    Word,
}

/// One word, with all its quotes resolved.
#[derive(Debug, Default)]
pub(super) struct Word {
    pub(super) at: usize,
    pub(super) parts: Vec<Part>,
    /// Whether any of it was quoted: then it is one word, whatever it holds.
    pub(super) quoted: bool,
}

/// A part of a word.
#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    Variable(String),
    /// `${name…}`: what follows the name, as it stands.
    Changed {
        name: String,
        how: String,
    },
    /// `$( )`, backticks, `<( )`.
    Output(List),
    /// `>( )`: what is written there goes into it.
    Into(List),
    /// Something that only a shell can compute.
    Unknown,
}

impl Word {
    /// The word, if it is plain text without any quotes: only then can it be a reserved word.
    pub(super) fn bare(&self) -> Option<&str> {
        match (&self.parts[..], self.quoted) {
            ([Part::Text(text)], false) => Some(text),
            _ => None,
        }
    }

    pub(super) fn push(&mut self, c: char) {
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push(c),
            _ => self.add(Part::Text(c.to_string())),
        }
    }

    pub(super) fn add(&mut self, part: Part) {
        push(&mut self.parts, part);
    }
}

/// Adds to what mostly has one: a list that grows by itself takes room for four, and a program has thousands.
pub(super) fn push<T>(list: &mut Vec<T>, item: T) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(item);
}
