//! What a shell completes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::process::Command;

use common::{saggar, text};

#[test]
fn bash_completes_subcommands_and_options() {
    for (words, expected) in
        [("saggar sess", "session"), ("saggar session snaps", "snapshot"), ("saggar run --time", "--timeout")]
    {
        let line = format!(
            "source <({} completion bash); COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); \
             _saggar saggar \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            env!("CARGO_BIN_EXE_saggar")
        );
        let output = Command::new("bash").args(["-c", &line]).output().unwrap();
        let said = text(&output.stdout);
        assert!(said.split_whitespace().any(|word| word == expected), "{words}: {said} {}", text(&output.stderr));
    }
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = saggar(&["completion", shell]).output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains("saggar"), "{shell}");
    }
    assert_eq!(saggar(&["completion", "tcl"]).output().unwrap().status.code(), Some(2));
}
