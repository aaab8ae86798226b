//! Python, as ruff's parser reads it.

mod bind;
mod call;
mod depth;
mod fold;
mod known;
mod literal;
mod names;
mod reader;
mod source;

use ruff_python_ast::{Mod, PythonVersion};
use ruff_python_parser::{Mode, ParseOptions, Parsed, parse_unchecked};

use crate::position::Lines;
use crate::sink::Sink;
use crate::verdict::SyntaxError;

pub(crate) use depth::bound;
pub(crate) use source::{decode, hiding_encoding};

/// Tells the sink what the program does, as far as it can be seen; says where it cannot be parsed.
pub(crate) fn read(
    source: &str,
    version: Option<(u8, u8)>,
    lines: &Lines<'_>,
    sink: &mut Sink<'_>,
) -> Option<SyntaxError> {
    let version = version.map_or_else(PythonVersion::latest, |(major, minor)| PythonVersion { major, minor });
    let parsed = parse_unchecked(source, ParseOptions::from(Mode::Module).with_target_version(version));
    if let Mod::Module(module) = parsed.syntax() {
        reader::read(&module.body, sink);
    }
    first_error(&parsed, lines)
}

fn first_error(parsed: &Parsed<Mod>, lines: &Lines<'_>) -> Option<SyntaxError> {
    let wrong = parsed.errors().iter().map(|error| (error.location.start(), error.error.to_string()));
    let newer = parsed.unsupported_syntax_errors().iter().map(|error| (error.range.start(), error.to_string()));
    let (at, message) = wrong.chain(newer).min_by_key(|(at, _)| *at)?;
    let (line, column) = lines.place(at.to_usize());
    Some(SyntaxError { line, column, message })
}
