//! How deep the tree of a JavaScript or TypeScript program can be, from its characters alone.
//!
//! oxc's parser recurses without a limit, so the limit must come first. Where it cannot be told whether a slash divides
//! or begins a pattern, everything that follows is taken to nest.

use crate::bounded::{Depth, MOST_DEPTH};
use crate::language::Language;

/// What stands before this place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Something that has a value: a slash divides it.
    Value,
    /// Something that wants one: a slash begins a pattern.
    Operator,
    /// The end of a block or of an object.
    Brace,
    /// A slash may be either.
    Unclear,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    /// Around a test or a loop's head: a statement follows it.
    Head,
    Round,
    Square,
    Curly,
    /// In a template; its text goes on after it.
    Template,
}

/// Words that want something after them.
const PREFIXES: &[&str] = &[
    "abstract",
    "asserts",
    "async",
    "case",
    "class",
    "const",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "function",
    "if",
    "for",
    "while",
    "implements",
    "import",
    "in",
    "infer",
    "instanceof",
    "interface",
    "is",
    "keyof",
    "let",
    "new",
    "readonly",
    "return",
    "satisfies",
    "as",
    "switch",
    "throw",
    "try",
    "typeof",
    "unique",
    "var",
    "void",
    "with",
    "catch",
    "finally",
    "enum",
    "type",
    "declare",
    "namespace",
    "module",
    "break",
    "continue",
];
/// Words that go on with what stands before them.
const GOES_ON: &[&str] = &[
    "else",
    "catch",
    "finally",
    "while",
    "in",
    "instanceof",
    "of",
    "as",
    "satisfies",
    "from",
    "extends",
    "implements",
    "is",
];
const HEADS: &[&str] = &["if", "while", "for", "with"];

#[expect(clippy::struct_excessive_bools, reason = "what the last token was, in its several respects")]
struct Scanner<'s> {
    bytes: &'s [u8],
    at: usize,
    depth: Depth,
    open: Vec<Bracket>,
    before: Before,
    /// Whether the last word was one after which round brackets are a head.
    head: bool,
    /// Whether the last token was a dot: a word after it is a name.
    dot: bool,
    /// Whether a line ended since the last token.
    line: bool,
    /// Whether the last token was a semicolon: only `else` goes on after it.
    semicolon: bool,
    types: bool,
}

/// An upper bound. Stops counting where it is too much anyway.
pub(crate) fn bound(source: &str, language: Language) -> usize {
    let mut scanner = Scanner {
        bytes: source.as_bytes(),
        at: 0,
        depth: Depth::default(),
        open: Vec::new(),
        before: Before::Operator,
        head: false,
        dot: false,
        line: false,
        semicolon: false,
        types: language == Language::TypeScript,
    };
    if source.starts_with("#!") {
        scanner.skip_line();
    }
    while scanner.depth.most() <= MOST_DEPTH && scanner.token().is_some() {}
    scanner.depth.most()
}

impl Scanner<'_> {
    fn peek(&self, n: usize) -> Option<u8> {
        self.bytes.get(self.at + n).copied()
    }

    fn starts_with(&self, text: &[u8]) -> bool {
        self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(text))
    }

    /// Reads one token; nothing at the end, or where nothing is certain any more.
    fn token(&mut self) -> Option<()> {
        let byte = self.peek(0)?;
        match byte {
            b'\n' | b'\r' => {
                self.line = true;
                self.at += 1;
                return Some(());
            }
            b' ' | b'\t' | 0x0b | 0x0c => {
                self.at += 1;
                return Some(());
            }
            _ if self.is_separator() => {
                self.line = true;
                self.at += 3;
                return Some(());
            }
            b'/' if self.peek(1) == Some(b'/') => {
                self.skip_line();
                return Some(());
            }
            b'/' if self.peek(1) == Some(b'*') => return self.skip_comment(),
            // Comments of old browsers, in some files and not in others.
            b'<' if self.starts_with(b"<!--") => return self.give_up(),
            b'-' if self.line && self.starts_with(b"-->") => return self.give_up(),
            _ => {}
        }
        if std::mem::take(&mut self.semicolon) && !self.starts_with(b"else") {
            self.depth.restart();
        }
        let (dot, line) = (std::mem::take(&mut self.dot), std::mem::take(&mut self.line));
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | b'\\' | b'#' | b'0'..=b'9' | 0x80.. => self.word(dot, line),
            b'"' | b'\'' => self.string(byte)?,
            b'`' => {
                self.at += 1;
                // What stands before it is its tag, and may have one itself.
                self.depth.deepen();
                self.template()?;
            }
            b'/' => match self.before {
                Before::Value => self.operator(),
                Before::Operator => self.pattern()?,
                Before::Brace | Before::Unclear => return self.give_up(),
            },
            b'(' | b'[' | b'{' => self.open(byte),
            b')' | b']' | b'}' => self.close(byte)?,
            b',' | b';' => {
                self.at += 1;
                self.depth.beside();
                self.semicolon = byte == b';';
                self.before = Before::Operator;
            }
            b'.' => {
                self.dot = self.peek(1) != Some(b'.');
                self.operator();
            }
            b'+' | b'-' if self.peek(1) == Some(byte) => {
                self.at += 2;
                self.depth.deepen();
                // After a value it belongs to that, before one it wants it.
                self.before = Before::Unclear;
            }
            b'<' if self.types => {
                // Commas between the angles do not end what is nested in them.
                self.depth.deepen_for_good();
                self.operator();
            }
            _ => self.operator(),
        }
        Some(())
    }

    fn operator(&mut self) {
        self.at += 1;
        self.depth.deepen();
        self.before = Before::Operator;
        self.head = false;
    }

    fn word(&mut self, dot: bool, line: bool) {
        let start = self.at;
        while let Some(byte) = self.peek(0) {
            let is_part = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'\\' | b'#') || byte >= 0x80;
            if !is_part || self.is_separator() {
                break;
            }
            self.at += 1;
        }
        let word = self.bytes.get(start..self.at).and_then(|word| std::str::from_utf8(word).ok()).unwrap_or_default();
        let goes_on = dot || GOES_ON.contains(&word);
        let ended = match self.before {
            Before::Brace => true,
            Before::Value => line && !self.is_within_brackets(),
            Before::Operator | Before::Unclear => false,
        };
        if ended && !goes_on {
            self.depth.restart();
        }
        if dot {
            self.before = Before::Value;
            self.head = false;
            return;
        }
        if word == "else" {
            // `if (a); else if (a); else …` nests, whatever ends its parts.
            self.depth.deepen_for_good();
        }
        self.head = HEADS.contains(&word) || (word == "await" && self.head);
        self.before = if PREFIXES.contains(&word) {
            self.depth.deepen();
            Before::Operator
        } else if matches!(word, "yield" | "await" | "of") {
            self.depth.deepen();
            Before::Unclear
        } else {
            Before::Value
        };
    }

    fn is_within_brackets(&self) -> bool {
        matches!(self.open.last(), Some(Bracket::Round | Bracket::Square | Bracket::Head | Bracket::Template))
    }

    fn open(&mut self, byte: u8) {
        self.at += 1;
        let bracket = match byte {
            b'(' if self.head => Bracket::Head,
            b'(' => Bracket::Round,
            b'[' => Bracket::Square,
            _ => Bracket::Curly,
        };
        self.open.push(bracket);
        self.depth.open();
        self.before = Before::Operator;
        self.head = false;
    }

    fn close(&mut self, byte: u8) -> Option<()> {
        self.at += 1;
        match (self.open.pop(), byte) {
            (Some(Bracket::Template), b'}') => {
                self.depth.close_flat();
                return self.template();
            }
            (Some(Bracket::Head), b')') => self.before = Before::Operator,
            (Some(Bracket::Round), b')') | (Some(Bracket::Square), b']') => self.before = Before::Value,
            (Some(Bracket::Curly), b'}') => self.before = Before::Brace,
            // Brackets that do not match: whatever a parser makes of that.
            _ => return self.give_up(),
        }
        self.depth.close();
        self.head = false;
        Some(())
    }

    /// A text in quotes, on one line.
    fn string(&mut self, quote: u8) -> Option<()> {
        self.at += 1;
        loop {
            match self.peek(0) {
                Some(byte) if byte == quote => break,
                Some(b'\\') => self.at += if self.starts_with(b"\\\r\n") { 3 } else { 2 },
                Some(b'\n' | b'\r') | None => return self.give_up(),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        self.before = Before::Value;
        Some(())
    }

    /// The text of a template, up to its end or to the next place that is filled.
    fn template(&mut self) -> Option<()> {
        loop {
            match self.peek(0)? {
                b'`' => {
                    self.at += 1;
                    self.before = Before::Value;
                    return Some(());
                }
                b'\\' => self.at += 2,
                b'$' if self.peek(1) == Some(b'{') => {
                    self.at += 2;
                    self.open.push(Bracket::Template);
                    self.depth.open();
                    self.before = Before::Operator;
                    return Some(());
                }
                _ => self.at += 1,
            }
        }
    }

    /// `/…/`, on one line.
    fn pattern(&mut self) -> Option<()> {
        self.at += 1;
        let mut class = false;
        loop {
            match self.peek(0) {
                Some(b'\n' | b'\r') | None => return self.give_up(),
                Some(_) if self.is_separator() => return self.give_up(),
                Some(b'\\') => self.at += 1,
                Some(b'[') => class = true,
                Some(b']') => class = false,
                Some(b'/') if !class => break,
                Some(_) => {}
            }
            self.at += 1;
        }
        self.at += 1;
        self.before = Before::Value;
        Some(())
    }

    /// U+2028 and U+2029 end lines too.
    fn is_separator(&self) -> bool {
        self.starts_with(b"\xe2\x80\xa8") || self.starts_with(b"\xe2\x80\xa9")
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n' && byte != b'\r') && !self.is_separator() {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Option<()> {
        let rest = self.bytes.get(self.at + 2..)?;
        let end = rest.windows(2).position(|pair| pair == b"*/")?;
        self.line |= rest.get(..end)?.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0xe2));
        self.at += end + 4;
        Some(())
    }

    /// From here on everything is taken to nest: each sign, and each word that is long enough to.
    fn give_up(&mut self) -> Option<()> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let signs = rest.iter().filter(|byte| byte.is_ascii_punctuation()).count();
        for _ in 0..(signs + rest.len() / 4).min(MOST_DEPTH + 1) {
            self.depth.deepen();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound_of(source: &str) -> usize {
        bound(source, Language::TypeScript)
    }

    #[test]
    fn ordinary_code_is_shallow() {
        assert!(bound_of("console.log('hello')") < 10);
        for flat in [
            "const a = require('a');\n",
            "function f(a, b) { return a / b }\n",
            "if (a) { b() } else { c() }\nd()\n",
            "a = b\n",
            "foo(bar)\n",
            "const s = `${a}/${b}`;\n",
            "x = /[/(]+/.test(y) ? 1 : 2;\n",
            "let t = i / 2;\n",
            "class A { m() { return 1 } }\n",
            "export const f = (a: number): string => `${a}`;\n",
            "// it's (((( a comment\n",
            "/* ((( */ a();\n",
            "x = '((((';\n",
        ] {
            let depth = bound_of(&flat.repeat(500));
            assert!(depth < 40, "{flat} {depth}");
        }
        assert!(bound_of(&format!("x = [{}]", "-1, ".repeat(10_000))) < 10);
        assert!(bound_of(&format!("x = `{}`", "${a} ".repeat(10_000))) < 20);
    }

    #[test]
    fn what_nests_is_deep() {
        for (unit, end) in [
            ("(", ")"),
            ("[", "]"),
            ("{a:", "}"),
            ("`${", "}`"),
            ("- ", ""),
            ("!", ""),
            ("typeof ", ""),
            ("new ", ""),
            ("a.", ""),
            ("1+", ""),
            ("a=>", ""),
            ("(a=", ")=>1"),
            ("a?b:", ""),
            ("await ", ""),
            ("a=", ""),
            ("f(", ")"),
            ("/x/.y+", ""),
            ("//x\u{2028}(", ")"),
            ("'\\\n'+", ""),
            ("b[", "]"),
            ("function(){return ", "}"),
            ("a**", ""),
            ("1..", ""),
            ("``", ""),
            ("async()=>", ""),
            ("async\n", ""),
            ("<!--\n(", ")"),
        ] {
            let source = format!("x = {}1{}", unit.repeat(2000), end.repeat(2000));
            assert!(bound_of(&source) > MOST_DEPTH, "{unit}");
        }
        for unit in ["if(a)\n", "if(a);else ", "for(;;)\n", "a:\n", "do\n", "{", "while(a)\n", "if(a){}else ", "label:"]
        {
            assert!(bound_of(&unit.repeat(2000)) > MOST_DEPTH, "{unit}");
        }
        for unit in ["A<x,", "A<", "keyof\n", "readonly ", "A extends B ? C : ", "[", "{a:"] {
            assert!(bound_of(&format!("type T = {}", unit.repeat(2000))) > MOST_DEPTH, "{unit}");
        }
        // Attempts to have brackets taken for text.
        for trick in ["x++ /((((((((((/ y;", "{}/((((((((((/;", "if(a)/))/;((((((((((", "(a)/((((((((((/2;"] {
            assert!(bound_of(&trick.repeat(400)) > MOST_DEPTH, "{trick}");
        }
    }
}
