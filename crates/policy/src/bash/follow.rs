//! What goes from one command to another: words given to functions, files that are brought and run.

use super::command;
use super::parse::Parser;
use super::tree::Command;
use super::walk::{MOST_BODY, MOST_INNER, MOST_REREAD, MOST_ROUNDS, Walker, join};
use super::weigh::weigh_command;
use crate::rule::Shape;
use crate::text::is_root;

/// Programs whose words are for people, or are searched for.
const PRINTS: &[&str] =
    &["echo", "printf", "man", "which", "type", "command", "help", "grep", "rg", "git", "alias", ":"];

impl Walker<'_, '_> {
    /// Walks a function once more with what it is given, if that is little.
    pub(super) fn invoke(&mut self, name: &str, body: &Command, given: &[Option<String>]) {
        let mut room = MOST_BODY;
        let again = self.inside.iter().any(|function| function == name);
        if again || given.is_empty() || self.rounds >= MOST_ROUNDS || !weigh_command(body, &mut room) {
            return;
        }
        self.rounds += 1;
        let before = self.give(given);
        self.inside.push(name.to_owned());
        let loops = std::mem::take(&mut self.loops);
        self.command(body);
        self.loops = loops;
        self.inside.pop();
        self.variables.extend(before);
    }

    /// Sets `$1` and its kin; gives what they were.
    pub(super) fn give(&mut self, given: &[Option<String>]) -> Vec<(String, Option<String>)> {
        let all = join(given);
        let numbered = (1..10).map(|number: usize| (number.to_string(), given.get(number - 1).cloned().flatten()));
        let values = numbered.chain([("@".to_owned(), all.clone()), ("*".to_owned(), all)]);
        values.map(|(name, value)| (name.clone(), self.variables.insert(name, value).flatten())).collect()
    }

    /// A file holds what was brought from elsewhere.
    pub(super) fn bring(&mut self, path: &str) {
        self.brought.insert(path.strip_prefix("./").unwrap_or(path).to_owned());
    }

    /// A file that was brought from elsewhere is run.
    pub(super) fn runs_brought(&mut self, written: &str, name: &str, rest: &[Option<String>], at: usize) {
        if self.brought.is_empty() {
            return;
        }
        let runs = command::is_interpreter(name) || matches!(name, "source" | ".");
        let script = rest.iter().flatten().find(|word| !word.starts_with('-')).filter(|_| runs);
        let file = |path: &str| path.strip_prefix("./").unwrap_or(path).to_owned();
        let itself = Some(file(written)).filter(|_| written.contains('/'));
        if script.map(|path| file(path)).into_iter().chain(itself).any(|path| self.brought.contains(&path)) {
            self.sink.shape(Shape::PipeToShell, name, at);
        }
    }

    /// A program that is not known is told to remove everything: that is what it does, whatever its name.
    pub(super) fn as_remove(&mut self, rest: &[Option<String>], at: usize) {
        let flags = || rest.iter().flatten().filter(|word| word.starts_with('-') && !word.starts_with("--"));
        let has = |letter: char| flags().any(|flag| flag.to_ascii_lowercase().contains(letter));
        let root = rest.iter().flatten().find(|word| !word.starts_with('-') && is_root(word));
        if let Some(root) = root.filter(|_| has('r') && has('f')) {
            self.sink.shape(Shape::RemoveRoot, root, at);
        }
    }

    /// Any program may start the one that it is given: `ld.so /bin/rm -rf /`.
    pub(super) fn holds_remove(&mut self, name: &str, rest: &[Option<String>], at: usize) {
        if rest.is_empty() || PRINTS.contains(&name) {
            return;
        }
        let is_remove =
            |word: &Option<String>| word.as_deref().is_some_and(|word| word == "rm" || word.ends_with("/rm"));
        if let Some(place) = rest.iter().position(is_remove) {
            self.as_remove(rest.get(place + 1..).unwrap_or_default(), at);
        }
    }

    /// `chown` and `chmod` of everything.
    pub(super) fn owners(&mut self, rest: &[Option<String>], at: usize) {
        let all =
            rest.iter().flatten().any(|word| word == "--recursive" || (word.starts_with('-') && word.contains('R')));
        if let Some(root) = rest.iter().flatten().find(|word| all && matches!(word.as_str(), "/" | "/*" | "//")) {
            self.sink.shape(Shape::SystemWrite, root, at);
        }
    }

    /// Text that is run as code.
    pub(super) fn run_text(&mut self, text: Option<&str>, at: usize) {
        match text {
            Some(text) => self.code(text, at),
            None if self.fetched => self.sink.shape(Shape::PipeToShell, "", at),
            None => self.sink.shape(Shape::CodeFromText, "", at),
        }
    }

    pub(super) fn code(&mut self, text: &str, at: usize) {
        self.reread = self.reread.saturating_add(text.len());
        if self.inner >= MOST_INNER || self.reread > MOST_REREAD {
            self.sink.shape(Shape::TooDeep, "", at);
            return;
        }
        self.inner += 1;
        // What cannot be parsed does not run either.
        if let Ok(list) = Parser::part(text, at, self.inner * 8).program() {
            self.list(&list);
        }
        self.inner -= 1;
    }
}
