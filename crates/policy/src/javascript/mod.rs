//! JavaScript and TypeScript, as oxc's parser reads them.

mod bind;
mod call;
mod compound;
mod depth;
mod names;
mod reader;

use oxc_allocator::Allocator;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::SourceType;

use crate::language::Language;
use crate::position::Lines;
use crate::sink::Sink;
use crate::verdict::SyntaxError;

pub(crate) use depth::bound;

/// Tells the sink what the program does, as far as it can be seen; says where it cannot be parsed.
pub(crate) fn read(source: &str, language: Language, lines: &Lines<'_>, sink: &mut Sink<'_>) -> Option<SyntaxError> {
    let allocator = Allocator::default();
    let kind = SourceType::unambiguous();
    let kind = if language == Language::TypeScript { kind.with_typescript(true) } else { kind };
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, source, kind).with_options(options).parse();
    reader::read(&parsed.program, sink);
    let error = parsed.diagnostics.iter().next()?;
    let at = error.labels.first().map_or(0, |label| usize::try_from(label.offset()).unwrap_or(0));
    let (line, column) = lines.place(at);
    Some(SyntaxError { line, column, message: error.message.to_string() })
}
