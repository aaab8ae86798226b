//! What can be said of a program by reading it: pure, synchronous, bounded in time and depth.
//!
//! Each language has a reader that parses the code, follows names to what they stand for and tells facts: an import, a
//! use of `os.system`, a loop without an end. Rules are rows of a table that say which facts count and how much; a
//! policy says what follows from that. It is advice and a cheap gate: the wall is the sandbox.

mod bash;
mod bounded;
mod check;
mod command;
mod decode;
mod escape;
mod imports;
mod index;
mod javascript;
mod language;
mod position;
mod python;
mod rule;
mod rules;
mod scope;
mod sink;
mod text;
mod value;
mod verdict;

pub use bounded::python as bounded_python;
pub use check::{Options, check, check_command};
pub use command::{PRESET, PRESETS, preset};
pub use imports::{Imports, ImportsOf};
pub use language::Language;
pub use rule::{Match, Names, Rule, Shape};
pub use rules::{all as rules, of as rules_of};
pub use verdict::{Report, SyntaxError};
