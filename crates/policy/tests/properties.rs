//! No bytes make a reader panic, hang or overflow.

use policy::{Language, Options, check, check_command};
use proptest::prelude::*;
use types::Policy;

const LANGUAGES: [Language; 4] = [Language::Python, Language::JavaScript, Language::TypeScript, Language::Bash];

/// Pieces of which programs are made, in any order.
const PIECES: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\"",
    "`",
    "\\",
    "\n",
    " ",
    "\t",
    ";",
    ",",
    ".",
    ":",
    "=",
    "==",
    "=>",
    "->",
    "+",
    "-",
    "*",
    "/",
    "//",
    "/*",
    "*/",
    "#",
    "%",
    "<",
    ">",
    "<<",
    ">>",
    "|",
    "||",
    "&",
    "&&",
    "!",
    "?",
    "@",
    "$",
    "$(",
    "${",
    "$((",
    "f'",
    "f\"",
    "'''",
    "\"\"\"",
    "b'",
    "r'",
    "`${",
    "0",
    "1",
    "10**10",
    "1e9",
    "x",
    "os",
    "eval",
    "import ",
    "from ",
    "as ",
    "def ",
    "class ",
    "lambda ",
    "if ",
    "else ",
    "elif ",
    "then ",
    "fi ",
    "for ",
    "in ",
    "while ",
    "do ",
    "done ",
    "case ",
    "esac ",
    "try:",
    "except:",
    "with ",
    "async ",
    "await ",
    "yield ",
    "return ",
    "match ",
    "function ",
    "const ",
    "let ",
    "new ",
    "typeof ",
    "<<E\n",
    "E\n",
    "rm -rf /",
    "require('fs')",
    "os.system",
    "getattr(os,'x')",
    "__import__('os')",
    "é",
    "\u{2028}",
    "\u{0}",
    "\u{feff}",
    "    ",
    "import os\n",
    "a=os\n",
    "''.join(",
    "\"%s\"%",
    "[::-1]",
    "echo ",
    "eval \"$x\"",
    "bash -c '",
    "type ",
    "keyof ",
    "A<",
    "/re/",
    "global x\n",
    "x:=",
];

fn fails_nowhere(code: &[u8]) {
    for language in LANGUAGES {
        let report = check(code, language, &Options { policy: Policy::Strict, ..Options::default() });
        let failed = report.findings.iter().any(|finding| finding.rule.ends_with(".source.unreadable"));
        assert!(!failed, "{language:?}: {:?}", String::from_utf8_lossy(code));
        assert!(report.findings.iter().all(|finding| finding.line >= 1 && finding.column >= 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_reader_panic(code in prop::collection::vec(any::<u8>(), 0..400)) {
        fails_nowhere(&code);
    }

    #[test]
    fn no_text_makes_a_reader_panic(code in "\\PC{0,300}") {
        fails_nowhere(code.as_bytes());
    }

    #[test]
    fn no_mixture_of_pieces_makes_a_reader_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..120)) {
        fails_nowhere(pieces.concat().as_bytes());
    }

    #[test]
    fn no_repetition_makes_a_reader_panic(
        before in prop::sample::select(PIECES),
        unit in prop::collection::vec(prop::sample::select(PIECES), 1..4),
        times in 1_usize..3000,
    ) {
        fails_nowhere(format!("{before}{}", unit.concat().repeat(times)).as_bytes());
    }

    #[test]
    fn no_words_make_a_command_fail(argv in prop::collection::vec("\\PC{0,20}|rm|-rf|/|bash|-c|python3|env|sudo", 0..8)) {
        let report = check_command(&argv, &Options::default());
        prop_assert!(report.findings.iter().all(|finding| !finding.rule.ends_with(".source.unreadable")));
    }
}

#[test]
fn what_is_too_large_or_too_deep_is_a_finding() {
    let large = vec![b'a'; (1 << 20) + 1];
    let deep = format!("x = {}", "[".repeat(50_000));
    for language in LANGUAGES {
        let options = Options { policy: Policy::Guard, ..Options::default() };
        let report = check(&large, language, &options);
        assert_eq!(report.refused_by, Some(format!("{}.source.too_large", language.prefix())));
        if language != Language::Bash {
            let report = check(deep.as_bytes(), language, &options);
            assert_eq!(report.refused_by, Some(format!("{}.source.too_deep", language.prefix())));
        }
    }
    let deep = format!("echo {}", "$(echo ".repeat(5000));
    let report = check(deep.as_bytes(), Language::Bash, &Options { policy: Policy::Guard, ..Options::default() });
    assert_eq!(report.refused_by.as_deref(), Some("bash.source.too_deep"));
}
