//! The way in: code and options go in, a report comes out.

use types::{Finding, OwnRule, Policy};

use crate::bounded::{self, MOST_BYTES, Trouble};
use crate::imports::ImportsOf;
use crate::index::Index;
use crate::language::Language;
use crate::position::Lines;
use crate::rule::{Rule, Shape};
use crate::sink::{Sink, finding};
use crate::verdict::{Report, SyntaxError};
use crate::{bash, javascript, python, rules};

/// Code in code in code is read so often.
const MOST_LEVELS: usize = 2;

/// How code is judged.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What findings do.
    pub policy: Policy,
    /// Version of the interpreter that would run it; the newest if that is not known.
    pub version: Option<(u8, u8)>,
    /// Lists of modules.
    pub imports: ImportsOf,
    /// Rules on top of the table.
    pub rules: Vec<OwnRule>,
    /// Ids of rules that are left out.
    pub ignore: Vec<String>,
}

/// Reads code and judges it. Never panics, never runs anything, and takes a time that grows with the code's size alone.
#[must_use]
pub fn check(source: &[u8], language: Language, options: &Options) -> Report {
    let mut report = read_code(source, language, options, MOST_LEVELS);
    report.judge(options.policy);
    report
}

/// Judges a command that is started without a shell, and the code that it is given to run.
#[must_use]
pub fn check_command(argv: &[String], options: &Options) -> Report {
    let index = Index::new(&[]);
    let lines = Lines::new("");
    let read = || {
        let mut sink = Sink::new((rules::index(Language::Bash), &index), &options.imports, &options.ignore, &lines);
        // There is nothing else to read.
        sink.room = MOST_BYTES;
        bash::read_command(argv, &mut sink);
        let inner = sink.take_inner();
        (sink.finish(), inner)
    };
    let (command, inner) = match bounded::run(0, read) {
        Ok((findings, inner)) => (Report { findings, ..Report::default() }, inner),
        Err(_) => (only(Language::Bash, Shape::ReaderFailed, ""), Vec::new()),
    };
    let read = |(language, code, _): (Language, String, _)| read_code(code.as_bytes(), language, options, MOST_LEVELS);
    Report::join(std::iter::once(command).chain(inner.into_iter().map(read)), options.policy)
}

/// `levels` is how often code in code is read from here on.
fn read_code(source: &[u8], language: Language, options: &Options, levels: usize) -> Report {
    if source.len() > MOST_BYTES {
        return only(language, Shape::TooLarge, &format!("{} bytes, the limit is {MOST_BYTES}", source.len()));
    }
    let text = python::decode(source);
    let depth = match language {
        Language::Python => python::bound(&text),
        Language::JavaScript | Language::TypeScript => javascript::bound(&text, language),
        Language::Bash => 0,
    };
    let own: Vec<Rule> = options.rules.iter().filter_map(|rule| Rule::own(rule, language)).collect();
    let read = || {
        let lines = Lines::new(&text);
        let own = Index::new(&own);
        let mut sink = Sink::new((rules::index(language), &own), &options.imports, &options.ignore, &lines);
        let error = match language {
            Language::Python => {
                if let Some(encoding) = python::hiding_encoding(&text) {
                    sink.shape(Shape::Encoding, encoding, 0);
                }
                python::read(&text, options.version, &lines, &mut sink)
            }
            Language::JavaScript | Language::TypeScript => javascript::read(&text, language, &lines, &mut sink),
            Language::Bash => bash::read(&text, &lines, &mut sink),
        };
        let inner = sink.take_inner();
        (report(language, sink, error), inner)
    };
    match bounded::run(depth, read) {
        Ok((report, inner)) => with_inner(report, inner, options, levels),
        Err(Trouble::TooDeep) => only(language, Shape::TooDeep, ""),
        Err(Trouble::Failed) => only(language, Shape::ReaderFailed, ""),
    }
}

/// Adds what is found in texts that the code runs; it stands where the text does. One that cannot be parsed does not run.
fn with_inner(
    mut report: Report,
    inner: Vec<(Language, String, (u32, u32))>,
    options: &Options,
    levels: usize,
) -> Report {
    for (language, code, (line, column)) in inner {
        if levels == 0 {
            report.findings.extend(only(language, Shape::TooDeep, "").findings);
            continue;
        }
        let read = read_code(code.as_bytes(), language, options, levels - 1);
        if read.syntax_error.is_none() {
            report.findings.extend(read.findings.into_iter().map(|finding| Finding { line, column, ..finding }));
        }
    }
    report.findings.sort_by_key(|finding| (finding.line, finding.column));
    report
}

/// Code that cannot be parsed cannot be judged: that is a finding too.
fn report(language: Language, sink: Sink<'_>, error: Option<SyntaxError>) -> Report {
    let mut report = Report { findings: sink.finish(), syntax_error: error, ..Report::default() };
    if let (Some(error), Some(rule)) = (&report.syntax_error, rules::index(language).find_shape(Shape::Syntax)) {
        let place = report.findings.partition_point(|f| (f.line, f.column) < (error.line, error.column));
        report.findings.insert(place, finding(rule, &error.message, error.line, error.column));
    }
    report
}

/// A report with a single finding, about all of the code.
fn only(language: Language, shape: Shape, seen: &str) -> Report {
    let rule = rules::index(language).find_shape(shape);
    Report { findings: rule.map(|rule| finding(rule, seen, 1, 1)).into_iter().collect(), ..Report::default() }
}
