//! Whether an output is the expected one.

use regex::Regex;

use super::compare::near;
use super::task::Compare;
use super::value::shorter;

/// A pattern that must match all of the output, but for blanks at its end.
pub(crate) fn whole(pattern: &str) -> Result<Regex, regex::Error> {
    Regex::new(&format!(r"\A(?:{pattern})\s*\z"))
}

/// Compares what was written with what was expected; says what differs. Checkers are asked elsewhere.
pub fn outputs(expected: &str, got: &str, how: &Compare) -> Result<(), String> {
    let same = match how {
        Compare::Exact => expected == got,
        Compare::Regex => whole(expected).is_ok_and(|pattern| pattern.is_match(got)),
        Compare::Lines => lines(expected).eq(lines(got)),
        Compare::Tokens => expected.split_whitespace().eq(got.split_whitespace()),
        Compare::Float { rel, abs } => tokens_near(expected, got, *rel, *abs),
        Compare::Unordered => sorted(lines(expected)) == sorted(lines(got)),
        Compare::Sandboxfusion => sandboxfusion(expected, got),
        Compare::Livecodebench => livecodebench(expected, got),
        Compare::Apps => apps(expected, got),
        Compare::Rstrip | Compare::Json | Compare::Checker { .. } => rstrip(expected) == rstrip(got),
    };
    if same { Ok(()) } else { Err(difference(expected, got)) }
}

fn rstrip(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    while lines.last() == Some(&"") {
        lines.pop();
    }
    lines
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

fn sorted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut lines: Vec<&str> = lines.collect();
    lines.sort_unstable();
    lines
}

fn tokens_near(expected: &str, got: &str, rel: f64, abs: f64) -> bool {
    let same = |(a, b): (&str, &str)| {
        a == b
            || match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => near(a, b, rel, abs),
                _ => false,
            }
    };
    expected.split_whitespace().count() == got.split_whitespace().count()
        && expected.split_whitespace().zip(got.split_whitespace()).all(same)
}

/// Stripped lines in lower case, as many of them, each equal or, as a whole, a number within 1e-5.
fn sandboxfusion(expected: &str, got: &str) -> bool {
    let lines = |text: &str| -> Vec<String> { text.trim().lines().map(|line| line.trim().to_lowercase()).collect() };
    let is_near = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() / a.abs().max(1e-10) < 1e-5,
        _ => false,
    };
    let (a, b) = (lines(expected), lines(got));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a == b || is_near(a, b))
}

/// Stripped lines; where they differ, each word as a decimal number.
fn livecodebench(expected: &str, got: &str) -> bool {
    let lines = |text: &str| -> Vec<String> { text.trim().lines().map(|line| line.trim().to_owned()).collect() };
    let (a, b) = (lines(expected), lines(got));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a == b || tokens_near(a, b, 0.0, 0.0))
}

/// A cascade: stripped lines, then numbers that are close, then words in any order of lines.
fn apps(expected: &str, got: &str) -> bool {
    lines(expected).eq(lines(got))
        || tokens_near(expected, got, 1e-5, 1e-8)
        || (!expected.trim().is_empty() && sorted(lines(expected)) == sorted(lines(got)))
}

fn difference(expected: &str, got: &str) -> String {
    let (a, b) = (rstrip(expected), rstrip(got));
    let at = a.iter().zip(&b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    match (a.get(at), b.get(at)) {
        (Some(a), Some(b)) => {
            format!("line {}: expected `{}`, got `{}`", at + 1, shorter(a, 200), shorter(b, 200))
        }
        (Some(a), None) => format!("line {} is missing: expected `{}`", at + 1, shorter(a, 200)),
        (None, Some(b)) => format!("line {} should not be there: `{}`", at + 1, shorter(b, 200)),
        (None, None) => "blanks or line ends differ".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_forgives_what_it_says_and_no_more() {
        let float = Compare::Float { rel: 1e-6, abs: 1e-9 };
        for (how, expected, got, is_same) in [
            (&Compare::Rstrip, "3\n", "3", true),
            (&Compare::Rstrip, "1 2\n3\n", "1 2  \n3\n\n\n", true),
            (&Compare::Rstrip, "3", " 3", false),
            (&Compare::Rstrip, "1\n2", "1", false),
            (&Compare::Exact, "3\n", "3", false),
            (&Compare::Lines, "a\nb", "  a\n\nb ", true),
            (&Compare::Lines, "a\nb", "a b", false),
            (&Compare::Tokens, "1 2\n3", "1\n2 3", true),
            (&Compare::Tokens, "12", "1 2", false),
            (&float, "0.3 x", "0.30000001 x", true),
            (&float, "0.3", "0.3 0.3", false),
            (&float, "1", "nan", false),
            (&Compare::Unordered, "a\nb", "b\na", true),
            (&Compare::Regex, r"\d+", "123\n", true),
            (&Compare::Regex, r"\d+", "a 123", false),
            (&Compare::Regex, "a|b", "ab", false),
            (&Compare::Sandboxfusion, "YES\n1.0", "yes\n1.000001", true),
            (&Compare::Sandboxfusion, "YES\n1", "YES", false),
            (&Compare::Sandboxfusion, "1.0 2.0", "1.000001 2.0", false),
            (&Compare::Livecodebench, "1.0 2", "1 2.00", true),
            (&Compare::Livecodebench, "1\n2", "1", false),
            (&Compare::Apps, "a\nb", "b\na", true),
        ] {
            assert_eq!(outputs(expected, got, how).is_ok(), is_same, "{how:?} {expected:?} {got:?}");
        }
    }
}
