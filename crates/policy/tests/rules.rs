//! Every rule finds its own examples and leaves its counter-examples alone.

use policy::{Language, Options, check, rules_of};

const LANGUAGES: [Language; 3] = [Language::Python, Language::JavaScript, Language::Bash];

fn found(code: &str, language: Language, id: &str) -> bool {
    check(code.as_bytes(), language, &Options::default()).findings.iter().any(|finding| finding.rule == id)
}

#[test]
fn every_rule_finds_its_examples_and_nothing_else() {
    let mut wrong = Vec::new();
    for language in LANGUAGES {
        for rule in rules_of(language) {
            wrong.extend(
                rule.hits
                    .iter()
                    .filter(|code| !found(code, language, &rule.id))
                    .map(|code| ("not found", &rule.id, *code)),
            );
            wrong.extend(
                rule.misses
                    .iter()
                    .filter(|code| found(code, language, &rule.id))
                    .map(|code| ("found", &rule.id, *code)),
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn ids_are_unique_and_named_for_their_language() {
    for language in LANGUAGES {
        let mut ids: Vec<_> = rules_of(language).iter().map(|rule| rule.id.as_ref()).collect();
        assert!(ids.iter().all(|id| id.starts_with(language.prefix())), "{ids:?}");
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}

#[test]
fn examples_of_the_other_rules_parse() {
    for language in LANGUAGES {
        let rules = rules_of(language).iter().filter(|rule| !rule.id.ends_with(".syntax"));
        for code in rules.flat_map(|rule| rule.hits.iter().chain(rule.misses)) {
            let report = check(code.as_bytes(), language, &Options::default());
            assert_eq!(report.syntax_error, None, "{code}");
        }
    }
}
