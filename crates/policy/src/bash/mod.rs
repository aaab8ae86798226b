//! The shell: a reader of our own, because each one there is was slower than allowed or written in C (ADR 0011).

mod command;
mod compound;
mod expand;
mod follow;
mod parse;
mod programs;
mod substitute;
mod tree;
mod walk;
mod weigh;
mod words;

use parse::{Parser, Wrong};
use walk::Walker;

use crate::position::Lines;
use crate::rule::Shape;
use crate::sink::Sink;
use crate::verdict::SyntaxError;

/// Tells the sink what the program does, as far as it can be seen; says where it cannot be parsed.
pub(crate) fn read(source: &str, lines: &Lines<'_>, sink: &mut Sink<'_>) -> Option<SyntaxError> {
    match Parser::new(source).program() {
        Ok(list) => {
            Walker::new(sink).list(&list);
            None
        }
        Err(Wrong::TooDeep) => {
            sink.shape(Shape::TooDeep, "", 0);
            None
        }
        Err(Wrong::Syntax { at, message }) => {
            let (line, column) = lines.place(at);
            Some(SyntaxError { line, column, message })
        }
    }
}

/// Tells the sink about a command that is started without a shell.
pub(crate) fn read_command(argv: &[String], sink: &mut Sink<'_>) {
    let words = argv.iter().map(|word| Some(word.clone())).collect::<Vec<_>>();
    Walker::new(sink).started(&words, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parses(source: &str) -> bool {
        Parser::new(source).program().is_ok()
    }

    #[test]
    fn what_bash_reads_is_read() {
        for good in [
            "",
            "\n\n",
            "# only a comment",
            "echo a b c",
            "a=1 b=2 cmd x",
            "a=(1 2 3); echo \"${a[@]}\"",
            "a[1]=2",
            "x+=y",
            "if true; then echo; elif false; then :; else x; fi",
            "while read -r x; do echo \"$x\"; done < file",
            "for i in 1 2 3; do echo $i; done",
            "for i; do :; done",
            "for ((i=0;i<3;i++)); do echo $i; done",
            "case $x in a|b) echo;; (c) x ;; *) y;; esac",
            "case x in esac",
            "f() { echo; }",
            "function f { echo; }",
            "function f() ( echo )",
            "(cd x && make)",
            "{ a; b; } > out 2>&1",
            "a | b |& c",
            "a && b || c &",
            "! a",
            "[[ $a == b* && -f x ]]",
            "[[ $a =~ ^(x|y)$ ]]",
            "((i++))",
            "echo $((1 + (2 * 3)))",
            "echo $(date) `date`",
            "cat <<EOF\nhello $x\nEOF\necho",
            "cat <<'EOF' | sort\n$(no)\nEOF",
            "cat <<-E\n\tx\n\tE",
            "cat <<< word",
            "diff <(a) <(b)",
            "echo \"a $(echo \"b $(c)\") d\"",
            "echo ${x:-y} ${x//a/b} ${#x} ${x:1:2} ${!x}",
            "echo 'single \" quote' \"double ' quote\"",
            "echo a\\ b \\\n c",
            "echo $'a\\x41\\n'",
            "ls *.{a,b} ?(x) @(a|b)",
            "time -p ls",
            "coproc cat",
            "x=$(cat <<E\nhi\nE\n)",
            "until false; do break; done",
            "select x in a b; do break; done",
            "trap 'rm x' EXIT",
            "exec 3<>file",
            "echo >&2",
            "echo &>all",
            "cmd {fd}>x",
            "a=; b",
            "if a; then b; fi | c",
            "printf '%s\\n' \"${a[@]:1}\"",
            "declare -a x=(1 2)",
            "echo }",
            "echo a#b",
            "while :; do :; done",
            "echo $((x>1?2:3))",
            "let x=1",
            "((a)) && b",
            "( (a); b )",
            "echo \"${x:-\"y z\"}\"",
            "echo ${x:-'}'}",
            "[ -f x ] && y",
            "x=`a \\`b\\``",
        ] {
            assert!(parses(good), "{good}");
        }
    }

    #[test]
    fn what_bash_refuses_is_refused() {
        for bad in [
            "if true; then",
            "fi",
            "echo 'x",
            "echo \"x",
            "(a",
            "a)",
            "{ a",
            "for i in 1; echo; done",
            "while true; done x y",
            "a &&",
            "| a",
            "case x in a) b",
            "done",
            "echo $(a",
            "echo `a",
            "f() a",
            "a || ;",
            "[[ a",
            "echo ${x",
            ";;",
        ] {
            assert!(!parses(bad), "{bad}");
        }
    }
}
