//! How deep the tree of a Python program can be, from its tokens alone.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

use crate::bounded::{Depth, MOST_DEPTH};

/// An upper bound. Stops counting where it is too much anyway.
pub(crate) fn bound(source: &str) -> usize {
    let mut lexer = lexer::lex(source, Mode::Module);
    let (mut depth, mut indents) = (Depth::default(), 0_usize);
    let mut most_indents = 0;
    loop {
        match lexer.next_token() {
            TokenKind::EndOfFile => break,
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => depth.open(),
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace | TokenKind::FStringEnd | TokenKind::TStringEnd => {
                depth.close();
            }
            TokenKind::Indent => {
                indents += 1;
                most_indents = most_indents.max(indents);
            }
            TokenKind::Dedent => indents = indents.saturating_sub(1),
            TokenKind::Comma | TokenKind::Newline | TokenKind::Semi => depth.beside(),
            TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringMiddle
            | TokenKind::TStringMiddle
            | TokenKind::Comment
            | TokenKind::NonLogicalNewline => {}
            _ => depth.deepen(),
        }
        if depth.most() + most_indents > MOST_DEPTH {
            return MOST_DEPTH + 1;
        }
    }
    depth.most() + most_indents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_from_tokens() {
        assert!(bound("print('hello')") < 5);
        assert!(bound(&format!("x = [{}]", "-1, ".repeat(10_000))) < 10);
        assert!(bound(&"x = f(a, b)[0] + 1\n".repeat(5000)) < 20);
        for deep in [
            format!("x = {}1{}", "(".repeat(2000), ")".repeat(2000)),
            format!("x = {}1", "1+".repeat(2000)),
            format!("x = {}1", "-".repeat(2000)),
            format!("x = {}1", "not ".repeat(2000)),
            format!("x = {}1", "lambda: ".repeat(2000)),
            format!("x = a{}", ".b".repeat(2000)),
            format!("x = a{}", "(1)".repeat(2000)),
            format!("x = {}1", "1 if x else ".repeat(2000)),
            format!("x = {}1{}", "f'{".repeat(2000), "}'".repeat(2000)),
        ] {
            assert!(bound(&deep) > MOST_DEPTH, "{}", &deep[..20]);
        }
    }
}
