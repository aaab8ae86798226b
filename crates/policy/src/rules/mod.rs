//! The tables: one for each language.

mod bash;
mod javascript;
mod python;

use std::borrow::Cow;
use std::sync::LazyLock;

use types::Severity;

use crate::index::Index;
use crate::language::Language;
use crate::rule::{Match, Names, Rule};

/// The rules of one language.
#[must_use]
pub const fn of(language: Language) -> &'static [Rule] {
    match language {
        Language::Python => python::RULES,
        Language::JavaScript | Language::TypeScript => javascript::RULES,
        Language::Bash => bash::RULES,
    }
}

/// Every rule.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    [python::RULES, javascript::RULES, bash::RULES].into_iter().flatten()
}

/// The table of a language, ready to be asked.
pub(crate) fn index(language: Language) -> &'static Index<'static> {
    static PYTHON: LazyLock<Index<'static>> = LazyLock::new(|| Index::new(python::RULES));
    static JAVASCRIPT: LazyLock<Index<'static>> = LazyLock::new(|| Index::new(javascript::RULES));
    static BASH: LazyLock<Index<'static>> = LazyLock::new(|| Index::new(bash::RULES));
    match language {
        Language::Python => &PYTHON,
        Language::JavaScript | Language::TypeScript => &JAVASCRIPT,
        Language::Bash => &BASH,
    }
}

/// One row.
const fn row(
    (id, severity, points): (&'static str, Severity, u32),
    message: &'static str,
    matches: Match,
    hits: &'static [&'static str],
    misses: &'static [&'static str],
) -> Rule {
    Rule { id: Cow::Borrowed(id), severity, points, message: Cow::Borrowed(message), matches, hits, misses }
}

const fn import(names: &'static [&'static str]) -> Match {
    Match::Import(Names::Fixed(names))
}

const fn name(names: &'static [&'static str]) -> Match {
    Match::Name(Names::Fixed(names))
}

const fn call(names: &'static [&'static str]) -> Match {
    Match::Call(Names::Fixed(names))
}

const fn attribute(names: &'static [&'static str]) -> Match {
    Match::Attribute(Names::Fixed(names))
}

const fn method(names: &'static [&'static str]) -> Match {
    Match::Method(Names::Fixed(names))
}

const fn command(names: &'static [&'static str]) -> Match {
    Match::Command(Names::Fixed(names))
}
