//! A rule: which facts count, and how much.

use std::borrow::Cow;

use types::{OwnMatch, OwnRule, Severity};

use crate::language::Language;

/// One row of a language's table.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Language, group and thing: `python.import.subprocess`.
    pub id: Cow<'static, str>,
    /// How bad.
    pub severity: Severity,
    /// How bad, as a number.
    pub points: u32,
    /// What a person reads; `{}` is what was seen.
    pub message: Cow<'static, str>,
    /// What it matches.
    pub matches: Match,
    /// Programs in which it must be found.
    pub hits: &'static [&'static str],
    /// Programs in which it must not be found.
    pub misses: &'static [&'static str],
}

/// The facts that a rule is about.
#[derive(Debug, Clone)]
pub enum Match {
    /// A module, or anything below it, is imported by whatever means.
    Import(Names),
    /// A name stands for one of these, called or not. `x.*` is everything below `x`.
    Name(Names),
    /// One of these is called.
    Call(Names),
    /// An attribute of this name, of whatever.
    Attribute(Names),
    /// A method of this name is called on something that is not known.
    Method(Names),
    /// A text contains one of these, upper or lower case.
    Text(Names),
    /// A command of the shell is called so.
    Command(Names),
    /// Something that is more than a name.
    Shape(Shape),
}

/// Names in the tables are part of the program; own rules bring theirs.
#[derive(Debug, Clone)]
pub enum Names {
    /// Of a table.
    Fixed(&'static [&'static str]),
    /// Of a policy file.
    Own(Vec<String>),
}

impl Names {
    /// Every name.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (fixed, own) = match self {
            Self::Fixed(names) => (*names, &[][..]),
            Self::Own(names) => (&[][..], names.as_slice()),
        };
        fixed.iter().copied().chain(own.iter().map(String::as_str))
    }
}

/// What the readers recognise beyond names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A module that is not on the allow-list.
    NotAllowed,
    /// A module on the deny-list.
    Denied,
    /// The code cannot be parsed.
    Syntax,
    /// Larger than is read.
    TooLarge,
    /// Nested deeper than is read.
    TooDeep,
    /// The reader itself failed.
    ReaderFailed,
    /// An encoding in which code can hide.
    Encoding,
    /// A module is reached through another one.
    Through,
    /// A module that is imported is chosen at run time.
    DynamicImport,
    /// Which attribute of a sensitive module is used is chosen at run time.
    DynamicName,
    /// What is called of a sensitive module is chosen at run time.
    DynamicCall,
    /// A loop that nothing ends.
    EndlessLoop,
    /// A loop of very many turns.
    GiantRange,
    /// A text or list repeated very often.
    GiantRepeat,
    /// A power of very many digits.
    GiantPower,
    /// A process that starts itself again and again.
    ForkLoop,
    /// Text of a command that destroys.
    Destructive,
    /// A path that climbs out.
    Traversal,
    /// Writing where the system or other people keep things.
    SystemWrite,
    /// Opening a file to write.
    FileWrite,
    /// Text run as code.
    CodeFromText,
    /// Removing a whole system or home.
    RemoveRoot,
    /// Removing a folder and all below it.
    RemoveTree,
    /// Writing a raw device.
    WriteDevice,
    /// Making everything writable for everybody.
    OpenMode,
    /// A download or a text that goes straight into a shell.
    PipeToShell,
    /// A command whose name is made at run time.
    DynamicCommand,
    /// A connection by the shell's own device files.
    DevTcp,
}

impl Rule {
    /// A rule of a policy file, if it is about this language.
    pub(crate) fn own(rule: &OwnRule, language: Language) -> Option<Self> {
        let fits = rule
            .language
            .as_deref()
            .is_none_or(|name| Language::by_name(name).is_some_and(|wanted| wanted.prefix() == language.prefix()));
        let names = || Names::Own(rule.names.clone());
        let matches = match rule.matches {
            OwnMatch::Import => Match::Import(names()),
            OwnMatch::Name => Match::Name(names()),
            OwnMatch::Call => Match::Call(names()),
            OwnMatch::Attribute => Match::Attribute(names()),
            OwnMatch::Method => Match::Method(names()),
            OwnMatch::Text => Match::Text(names()),
            OwnMatch::Command => Match::Command(names()),
        };
        fits.then(|| Self {
            id: Cow::Owned(rule.id.clone()),
            severity: rule.severity,
            points: rule.points.unwrap_or_else(|| usual_points(rule.severity)),
            message: Cow::Owned(rule.message.clone().unwrap_or_else(|| "`{}` is against the policy file".to_owned())),
            matches,
            hits: &[],
            misses: &[],
        })
    }
}

const fn usual_points(severity: Severity) -> u32 {
    match severity {
        Severity::Info => 0,
        Severity::Low => 1,
        Severity::Medium => 3,
        Severity::High => 5,
        Severity::Critical => 10,
    }
}
