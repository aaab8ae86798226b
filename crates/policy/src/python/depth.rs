//! How deep the tree of a Python program can be, from its tokens alone.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

use crate::bounded::{Depth, MOST_DEPTH};

/// An upper bound. Stops counting where it is too much anyway.
///
/// It holds for what is no Python either: a parser that has met a mistake goes on where it was. A bracket that another
/// kind seems to close stays open, and a `lambda` waits for its colon past commas and lines.
pub(crate) fn bound(source: &str) -> usize {
    let mut lexer = lexer::lex(source, Mode::Module);
    let (mut depth, mut indents) = (Depth::default(), 0_usize);
    let mut most_indents = 0;
    // What would close each open level, and how many `lambda`s wait outside it.
    let mut open: Vec<(TokenKind, usize)> = Vec::new();
    let mut waiting = 0_usize;
    loop {
        let token = lexer.next_token();
        match token {
            TokenKind::EndOfFile => break,
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => {
                open.push((closer(token), std::mem::take(&mut waiting)));
                depth.open();
            }
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace | TokenKind::FStringEnd | TokenKind::TStringEnd => {
                match open.pop_if(|(closer, _)| *closer == token) {
                    Some((_, outside)) => {
                        waiting = outside;
                        depth.close();
                    }
                    None => depth.deepen(),
                }
            }
            TokenKind::Indent => {
                indents += 1;
                most_indents = most_indents.max(indents);
            }
            TokenKind::Dedent => indents = indents.saturating_sub(1),
            TokenKind::Comma | TokenKind::Newline | TokenKind::Semi if waiting == 0 => depth.beside(),
            TokenKind::Lambda => {
                waiting += 1;
                depth.deepen();
            }
            TokenKind::Colon => {
                waiting = waiting.saturating_sub(1);
                depth.deepen();
            }
            TokenKind::Comma
            | TokenKind::Newline
            | TokenKind::Semi
            | TokenKind::Name
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

/// What closes what `opener` opens.
fn closer(opener: TokenKind) -> TokenKind {
    match opener {
        TokenKind::Lpar => TokenKind::Rpar,
        TokenKind::Lsqb => TokenKind::Rsqb,
        TokenKind::Lbrace => TokenKind::Rbrace,
        TokenKind::FStringStart => TokenKind::FStringEnd,
        _ => TokenKind::TStringEnd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_from_tokens() {
        assert!(bound("print('hello')") < 5);
        assert!(bound(&format!("x = [{}]", "-1, ".repeat(10_000))) < 10);
        assert!(bound(&"x = f(a, b)[0] + 1\n".repeat(5000)) < 20);
        assert!(bound(&"x = sorted(a, key=lambda b, c=(1, -2): {b: [c]})\n".repeat(5000)) < 20);
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
            // Mistakes past which a parser goes on, one level deeper each time.
            "\nlambda ".repeat(2000),
            "\0,lambda ".repeat(2000),
            "lambda ;:".repeat(2000),
            "<<E\n${]".repeat(2000),
        ] {
            assert!(bound(&deep) > MOST_DEPTH, "{}", &deep[..20]);
        }
    }
}
