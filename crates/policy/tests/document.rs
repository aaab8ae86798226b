//! The tables of docs/POLICY.md are those of the program. `UPDATE_DOCS=1` writes them anew.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use policy::{Language, Match, Names, Rule, rules_of};

const BEGIN: &str = "<!-- rules: begin -->\n";
const END: &str = "<!-- rules: end -->\n";

fn tables() -> String {
    let mut text = String::new();
    for (title, language) in
        [("Python", Language::Python), ("JavaScript and TypeScript", Language::JavaScript), ("Shell", Language::Bash)]
    {
        let rules = rules_of(language);
        writeln!(text, "\n### {title}: {} rules\n", rules.len()).unwrap();
        writeln!(text, "| rule | severity | points | says | matches |\n|---|---|---|---|---|").unwrap();
        for rule in rules {
            let message = rule.message.replace("{}", "…").replace('|', "\\|");
            let (severity, points) = (rule.severity.name(), rule.points);
            writeln!(text, "| `{}` | {severity} | {points} | {message} | {} |", rule.id, matches(rule)).unwrap();
        }
    }
    text.push('\n');
    text
}

fn matches(rule: &Rule) -> String {
    let (kind, names) = match &rule.matches {
        Match::Import(names) => ("import of", names),
        Match::Name(names) => ("use of", names),
        Match::Call(names) => ("call of", names),
        Match::Attribute(names) => ("attribute", names),
        Match::Method(names) => ("method", names),
        Match::Text(names) => ("text", names),
        Match::Command(names) => ("command", names),
        Match::Shape(shape) => return format!("{shape:?}"),
    };
    format!("{kind} {}", list(names))
}

fn list(names: &Names) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" ")
}

#[test]
fn the_document_has_the_rules_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/POLICY.md");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let tables = tables();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{tables}{END}{after}")).unwrap();
    } else {
        assert!(written == tables, "the rules changed: UPDATE_DOCS=1 cargo test -p saggar-policy --test document");
    }
}
