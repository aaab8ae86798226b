//! What a model is asked: the task, the program to improve, what was wrong with it, and what others came to.
//!
//! Nothing of a hidden case is in it: feedback is the judge's, and that has none.

use std::fmt::Write;

use engine::llm::Message;

use super::generator::{Edits, Known, Repair};
use super::scoring::Scoring;
use super::task::Spec;
use super::{blocks, bundle};

/// Public tests that are shown at most.
const MOST_TESTS: usize = 20;
/// What is shown of a program that is not the one to improve.
const MOST_OTHER: usize = 6_000;
/// What is shown of feedback.
const MOST_FEEDBACK: usize = 8_000;

/// What goes into a question.
pub(crate) struct Material<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) parent: Option<&'a Known>,
    pub(crate) best: Option<&'a Known>,
    pub(crate) others: &'a [Known],
}

/// The whole question.
pub(crate) fn messages(material: &Material<'_>) -> Vec<Message> {
    vec![Message::system(system(material)), Message::user(user(material))]
}

/// The question after an answer that was none.
pub(crate) fn again(mut messages: Vec<Message>, repair: &Repair) -> Vec<Message> {
    let reason = format!(
        "No program could be made of your answer: {}. Answer again, in the form that was asked for.",
        repair.reason
    );
    messages.extend([Message::assistant(cut(&repair.answer, MOST_FEEDBACK)), Message::user(reason)]);
    messages
}

fn system(material: &Material<'_>) -> String {
    let Spec { language, generator, .. } = material.spec;
    let mut text = format!(
        "You write programs in {language}. Each program you propose is run in a sandbox and scored from outside; the score \
         is all that counts.\n"
    );
    if generator.edits == Edits::Diff && material.parent.is_some() {
        text.push_str(
            "Answer with changes to the current program, one or more blocks of exactly this form:\n\
             <<<<<<< SEARCH\nlines of the current program, copied exactly\n=======\nthe lines in their place\n>>>>>>> REPLACE\n",
        );
    } else if material.spec.main.is_some() {
        let example = bundle::join([("path/of/the/file", "its whole text\n")]);
        // Writing into memory does not fail.
        let _ = writeln!(
            text,
            "The program has several files. Answer with those that change, each whole and after a line that names it:\n{example}"
        );
    } else {
        let _ = writeln!(text, "Answer with the whole program in one block:\n```{language}\n# the program\n```");
    }
    if material.spec.program.as_deref().is_some_and(blocks::has_marks) {
        text.push_str("Only what is between EVOLVE-BLOCK-START and EVOLVE-BLOCK-END may change; keep these lines.\n");
    }
    text
}

fn user(material: &Material<'_>) -> String {
    let Material { spec, parent, best, others } = material;
    let mut text = format!("# Task\n{}\n", spec.prompt.trim());
    if let Some(main) = &spec.main {
        let _ = writeln!(text, "The file that is run is `{main}`.");
    }
    if !spec.entry.is_empty() {
        let _ = writeln!(text, "The program must define `{}`.", spec.entry);
    }
    text.push_str(&tests(spec));
    if let Some(parent) = parent {
        let _ = write!(text, "\n# Current program (attempt {}, score {})\n", parent.iteration, shown(parent.score));
        text.push_str(&fenced(&parent.code, &spec.language));
        if !parent.feedback.is_empty() {
            let _ = write!(text, "\n# What was wrong with it\n{}\n", cut(&parent.feedback, MOST_FEEDBACK));
        }
    }
    if let Some(best) = best.filter(|best| parent.is_none_or(|parent| parent.iteration != best.iteration)) {
        let _ = write!(text, "\n# Best program so far (attempt {}, score {})\n", best.iteration, shown(best.score));
        text.push_str(&fenced(&cut(&best.code, MOST_OTHER), &spec.language));
    }
    for other in others.iter().filter(|other| best.is_none_or(|best| best.iteration != other.iteration)) {
        let _ = write!(text, "\n# Another program (attempt {}, score {})\n", other.iteration, shown(other.score));
        text.push_str(&fenced(&cut(&other.code, MOST_OTHER), &spec.language));
        if !other.feedback.is_empty() {
            let _ = write!(text, "What was wrong with it:\n{}\n", cut(&other.feedback, MOST_FEEDBACK / 4));
        }
    }
    text.push_str(if parent.is_some() {
        "\nPropose a program with a higher score.\n"
    } else {
        "\nWrite the program.\n"
    });
    text
}

/// Tests that may be known. Hidden ones are not even counted.
fn tests(spec: &Spec) -> String {
    let Scoring::Cases(task) = &spec.scoring else { return String::new() };
    let mut text = String::new();
    for case in task.cases.iter().filter(|case| !case.hidden).take(MOST_TESTS) {
        if let Some(test) = &case.test {
            let _ = writeln!(text, "{}", cut(test.trim_end(), 2_000));
        } else if case.stdin.is_some() || case.stdout.is_some() {
            let (stdin, stdout) =
                (case.stdin.as_deref().unwrap_or_default(), case.stdout.as_deref().unwrap_or_default());
            let _ = writeln!(text, "input {:?} must print {:?}", cut(stdin, 500), cut(stdout, 500));
        } else {
            let raw = |raw: &Option<Box<serde_json::value::RawValue>>| {
                raw.as_ref().map(|raw| cut(raw.get(), 500)).unwrap_or_default()
            };
            let expected =
                if case.expected.is_some() { format!(" returns {}", raw(&case.expected)) } else { String::new() };
            let raises = case.expected_exception.as_ref().map(|name| format!(" raises {name}")).unwrap_or_default();
            let _ = writeln!(text, "{}(*{}){expected}{raises}", spec.entry, raw(&case.args));
        }
    }
    if text.is_empty() { text } else { format!("\n# Tests\n{text}") }
}

fn fenced(code: &str, language: &str) -> String {
    // A fence longer than any in the program.
    let fence = if code.contains("```") { "````````" } else { "```" };
    let gap = if code.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{code}{gap}{fence}\n")
}

fn shown(score: f64) -> String {
    format!("{score:.6}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The text, or its beginning and its end.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let half = most / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}
