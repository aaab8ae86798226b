//! What test runners print, read as the official parsers read it: with all their quirks, for the lists of tests that must
//! pass were made by them.

mod django;
mod others;
mod pytest;
mod seaborn;
mod sympy;

use super::Statuses;

/// A way to read a log.
#[derive(Debug, Clone, Copy)]
pub struct Parser {
    read: Read,
}

type Read = fn(&str) -> Statuses;

/// Every name in the registry of `swebench` that is about Python, and the projects that use it.
const PARSERS: &[(&str, Read, &[&str])] = &[
    ("pytest", pytest::plain, &["pytest-dev/pytest"]),
    ("astroid", pytest::plain, &["pylint-dev/astroid"]),
    ("flask", pytest::plain, &["pallets/flask"]),
    ("marshmallow", pytest::plain, &["marshmallow-code/marshmallow"]),
    ("pvlib", pytest::plain, &["pvlib/pvlib-python"]),
    ("pyvista", pytest::plain, &["pyvista/pyvista"]),
    ("sqlfluff", pytest::plain, &["sqlfluff/sqlfluff"]),
    ("xarray", pytest::plain, &["pydata/xarray"]),
    ("pytest_options", pytest::options, &[]),
    ("pydicom", pytest::options, &["pydicom/pydicom"]),
    ("requests", pytest::options, &["psf/requests"]),
    ("pylint", pytest::options, &["pylint-dev/pylint"]),
    ("pytest_v2", pytest::second, &[]),
    ("astropy", pytest::second, &["astropy/astropy"]),
    ("scikit", pytest::second, &["scikit-learn/scikit-learn"]),
    ("sphinx", pytest::second, &["sphinx-doc/sphinx"]),
    ("matplotlib", pytest::matplotlib, &["matplotlib/matplotlib"]),
    ("seaborn", seaborn::read, &["mwaskom/seaborn"]),
    ("django", django::read, &["django/django"]),
    ("sympy", sympy::read, &["sympy/sympy"]),
    // Not of that registry: SWE-smith's, and for any repository.
    ("smith", pytest::verbose, &[]),
    ("unittest", django::read, &[]),
    ("gotest", others::go, &[]),
    ("cargo", others::cargo, &[]),
    ("jest", others::jest, &[]),
    ("junit", others::junit, &[]),
];

impl Parser {
    /// By its name in a row, such as `parse_log_pytest_v2`; the first part may be missing.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let short = name.strip_prefix("parse_log_").unwrap_or(name);
        PARSERS.iter().find(|(known, ..)| *known == short).map(|&(_, read, _)| Self { read })
    }

    /// The one that a project's rows were made with.
    #[must_use]
    pub fn of(repo: &str) -> Option<Self> {
        PARSERS.iter().find(|(.., repos)| repos.contains(&repo)).map(|&(_, read, _)| Self { read })
    }

    /// Reads a log.
    #[must_use]
    pub fn read(self, log: &str) -> Statuses {
        (self.read)(log)
    }
}

/// What Python takes for white space; it has four more than Unicode.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Words of a line, as Python's `split()` has them.
fn words(line: &str) -> Vec<&str> {
    line.split(is_space).filter(|word| !word.is_empty()).collect()
}

fn trimmed(line: &str) -> &str {
    line.trim_matches(is_space)
}
