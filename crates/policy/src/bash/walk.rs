//! Walks a shell program and follows what words are known to be.

use std::collections::{HashMap, HashSet};

use super::command::{self, Known};
use super::parse::Parser;
use super::tree::{Command, List, Part, Pipeline, Redirect, Text, What, Word};
use crate::rule::Shape;
use crate::sink::Sink;
use crate::text::{is_root, is_system_path};

/// Texts are followed up to here.
const MOST_TEXT: usize = 1024;
/// Words that one word may become.
const MOST_WORDS: usize = 64;
/// Text that is run as code, within text that is run as code.
const MOST_INNER: usize = 4;
/// Bytes of text that are read again as code, in all.
const MOST_REREAD: usize = 64 << 10;

/// Walks one program.
pub(super) struct Walker<'s, 'k> {
    pub(super) sink: &'s mut Sink<'k>,
    variables: HashMap<String, Option<String>>,
    functions: HashSet<String>,
    /// Functions around this place.
    inside: Vec<String>,
    /// Loops around this place: whether something leaves them.
    loops: Vec<bool>,
    /// Here-documents to come that a shell reads.
    expected: usize,
    inner: usize,
    reread: usize,
}

impl<'s, 'k> Walker<'s, 'k> {
    pub(super) fn new(sink: &'s mut Sink<'k>) -> Self {
        Self {
            sink,
            variables: HashMap::new(),
            functions: HashSet::new(),
            inside: Vec::new(),
            loops: Vec::new(),
            expected: 0,
            inner: 0,
            reread: 0,
        }
    }

    pub(super) fn list(&mut self, list: &List) {
        for pipeline in list {
            self.pipeline(pipeline);
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        let mut names = Vec::new();
        for command in &pipeline.commands {
            names.push(self.command(command));
        }
        let last = names.last().cloned().flatten();
        if names.len() > 1
            && let Some(last) = last.filter(|last| last.reads_program)
        {
            let before = names.iter().rev().skip(1).flatten();
            let fetched = before.clone().any(|known| command::fetches(&known.name));
            if command::is_shell(&last.name) || (fetched && command::is_interpreter(&last.name)) {
                let at = pipeline.commands.last().map_or(0, |command| command.at);
                self.sink.shape(Shape::PipeToShell, &last.name, at);
            }
        }
        if let (Some(function), Some(first)) = (self.inside.last(), pipeline.commands.first()) {
            let calls = names.iter().flatten().filter(|known| known.name == *function).count();
            if calls > 1 || (calls == 1 && pipeline.background) {
                let function = function.clone();
                self.sink.shape(Shape::ForkLoop, &function, first.at);
            }
        }
    }

    /// Tells what a command does; gives its name if that is known.
    fn command(&mut self, command: &Command) -> Option<Known> {
        let known = match &command.what {
            What::Simple { assignments, words } => {
                for assignment in assignments {
                    let values: Vec<Option<String>> =
                        assignment.values.iter().flat_map(|word| self.expand(word)).collect();
                    let value = values.into_iter().collect::<Option<Vec<_>>>().map(|values| values.join(" "));
                    self.variables.insert(assignment.name.clone(), value);
                }
                let words: Vec<Option<String>> = words.iter().flat_map(|word| self.expand(word)).collect();
                self.started(&words, command.at)
            }
            What::Compound(lists) => {
                for list in lists {
                    self.list(list);
                }
                None
            }
            What::For { name, words, body } => {
                let mut values: Vec<Option<String>> = words.iter().flat_map(|word| self.expand(word)).collect();
                self.variables.insert(name.clone(), values.pop().flatten().filter(|_| values.is_empty()));
                self.loops.push(true);
                self.list(body);
                self.loops.pop();
                None
            }
            What::Loop { test, body, endless } => {
                self.list(test);
                self.loops.push(false);
                self.list(body);
                let left = self.loops.pop().unwrap_or(true);
                if *endless && !left {
                    self.sink.shape(Shape::EndlessLoop, "", command.at);
                }
                None
            }
            What::Function { name, body } => {
                self.functions.insert(name.clone());
                self.inside.push(name.clone());
                let loops = std::mem::take(&mut self.loops);
                self.command(body);
                self.loops = loops;
                self.inside.pop();
                None
            }
            What::Document(word) => {
                let text = self.expand(word).into_iter().next().flatten();
                if self.expected > 0 {
                    self.expected -= 1;
                    if let Some(text) = text {
                        self.code(&text, command.at);
                    }
                }
                None
            }
            What::Nothing(words) => {
                for word in words {
                    self.expand(word);
                }
                None
            }
        };
        for redirect in &command.redirects {
            self.redirect(redirect, known.as_ref());
        }
        known
    }

    fn redirect(&mut self, redirect: &Redirect, known: Option<&Known>) {
        let reads_program = known.is_some_and(|known| known.reads_program && command::is_shell(&known.name));
        let at = redirect.target.at;
        match redirect.text {
            Text::Document => self.expected += usize::from(reads_program),
            Text::Word => {
                let text = self.expand(&redirect.target).into_iter().next().flatten();
                if let Some(text) = text.filter(|_| reads_program) {
                    self.code(&text, at);
                }
            }
            Text::None => {
                for path in self.expand(&redirect.target).into_iter().flatten() {
                    if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
                        self.sink.shape(Shape::DevTcp, &path, at);
                    } else if redirect.writes && path.starts_with("/dev/") && is_system_path(&path) {
                        self.sink.shape(Shape::WriteDevice, &path, at);
                    } else if redirect.writes && is_system_path(&path) {
                        self.sink.shape(Shape::SystemWrite, &path, at);
                    }
                }
            }
        }
    }

    /// The words that a word becomes: known ones as text. What it runs is walked on the way.
    fn expand(&mut self, word: &Word) -> Vec<Option<String>> {
        let mut text = Some(String::new());
        let mut splits = false;
        for part in &word.parts {
            let known = match part {
                Part::Text(more) => Some(more.clone()),
                Part::Variable(name) => {
                    splits |= !word.quoted;
                    self.variables.get(name).cloned().flatten().or_else(|| (name == "HOME").then(|| "$HOME".to_owned()))
                }
                Part::Output(list) => self.output(list),
                Part::Unknown => None,
            };
            text = match (text, known) {
                (Some(text), Some(more)) if text.len() + more.len() <= MOST_TEXT => Some(text + &more),
                // Code in a here-document may be long, and is nothing but text.
                (Some(text), Some(more)) if text.is_empty() && word.parts.len() == 1 => Some(more),
                _ => None,
            };
        }
        let Some(text) = text else { return vec![None] };
        self.sink.text(&text, word.at);
        if splits {
            return text.split_whitespace().take(MOST_WORDS).map(|word| Some(word.to_owned())).collect();
        }
        match text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(list) if !word.quoted && list.contains(',') => {
                list.split(',').take(MOST_WORDS).map(|word| Some(word.to_owned())).collect()
            }
            _ => vec![Some(text)],
        }
    }

    /// Walks a list that is run for what it prints; gives that, if it is `echo` and nothing else. Each word is expanded
    /// once: twice would be a million times at twenty levels.
    fn output(&mut self, list: &List) -> Option<String> {
        if let [Pipeline { commands, .. }] = &list[..]
            && let [Command { what: What::Simple { assignments, words }, redirects, at }] = &commands[..]
            && assignments.is_empty()
            && redirects.is_empty()
            && matches!(words.first().and_then(Word::bare), Some("echo" | "printf"))
        {
            let words: Vec<Option<String>> = words.iter().take(MOST_WORDS).flat_map(|word| self.expand(word)).collect();
            self.started(&words, *at);
            return join(words.get(1..).unwrap_or_default());
        }
        self.list(list);
        None
    }

    /// A program is started with these words.
    pub(super) fn started(&mut self, words: &[Option<String>], at: usize) -> Option<Known> {
        let words = command::unwrap(words);
        let (first, rest) = words.split_first()?;
        let Some(first) = first else {
            self.sink.shape(Shape::DynamicCommand, "", at);
            return None;
        };
        let name = first.rsplit('/').next().unwrap_or(first).to_owned();
        if self.functions.contains(&name) {
            return Some(Known { name, reads_program: false });
        }
        match name.as_str() {
            "break" | "exit" | "return" => self.loops.iter_mut().for_each(|left| *left = true),
            "rm" => self.remove(rest, at),
            "dd" => self.copy(rest, at),
            "chmod" => {
                let open = |word: &str| {
                    matches!(word, "777" | "0777" | "a+rwx" | "a=rwx" | "ugo+rwx" | "+rwx" | "1777" | "a+w")
                };
                if rest.iter().flatten().any(|word| open(word)) {
                    self.sink.shape(Shape::OpenMode, "", at);
                }
            }
            "eval" => self.run_text(join(rest).as_deref(), at),
            "source" | "." if matches!(rest.first(), Some(None)) => self.sink.shape(Shape::CodeFromText, &name, at),
            "find" => self.find(rest, at),
            "xargs" | "parallel" => {
                let start = rest.iter().position(|word| word.as_ref().is_some_and(|word| !word.starts_with('-')));
                if let Some(start) = start {
                    self.started(&rest[start..], at);
                }
            }
            "trap" => {
                if let Some(Some(text)) = rest.first() {
                    self.code(text, at);
                }
            }
            "kill" if rest.iter().flatten().any(|word| word == "-1" || word == "1") && rest.len() > 1 => {
                self.sink.command("kill -1", at);
            }
            "env" | "printenv" | "set" | "export" if rest.is_empty() => self.sink.command("printenv", at),
            _ if name.starts_with("mkfs") => self.sink.command("mkfs", at),
            _ if command::is_shell(&name) => self.shell(&name, rest, at),
            _ => {}
        }
        self.sink.command(&name, at);
        let reads_program = command::reads_program(&name, rest);
        Some(Known { name, reads_program })
    }

    fn remove(&mut self, rest: &[Option<String>], at: usize) {
        let flags = rest.iter().flatten().filter(|word| word.starts_with('-'));
        let recursive =
            flags.clone().any(|flag| flag == "--recursive" || (!flag.starts_with("--") && flag.contains(['r', 'R'])));
        if !recursive {
            return;
        }
        let targets = rest.iter().flatten().filter(|word| !word.starts_with('-'));
        let root = targets.clone().find(|word| is_root(word)).cloned();
        match root {
            Some(root) => self.sink.shape(Shape::RemoveRoot, &root, at),
            None => self.sink.shape(Shape::RemoveTree, "", at),
        }
    }

    fn copy(&mut self, rest: &[Option<String>], at: usize) {
        let raw = |word: &&String| {
            let target = word.strip_prefix("of=").is_some_and(|path| path.starts_with("/dev/") && is_system_path(path));
            let source = word
                .strip_prefix("if=")
                .is_some_and(|path| path.starts_with("/dev/sd") || path.starts_with("/dev/nvme"));
            target || source
        };
        if let Some(word) = rest.iter().flatten().find(raw) {
            self.sink.shape(Shape::WriteDevice, word, at);
        }
    }

    fn find(&mut self, rest: &[Option<String>], at: usize) {
        let is =
            |word: &Option<String>, names: &[&str]| word.as_ref().is_some_and(|word| names.contains(&word.as_str()));
        if rest.iter().any(|word| is(word, &["-delete"])) {
            match rest.first() {
                Some(Some(root)) if is_root(root) => self.sink.shape(Shape::RemoveRoot, root, at),
                _ => self.sink.shape(Shape::RemoveTree, "", at),
            }
        }
        if let Some(start) = rest.iter().position(|word| is(word, &["-exec", "-execdir", "-ok", "-okdir"])) {
            self.started(&rest[start + 1..], at);
        }
    }

    /// `sh -c text`, `sh <(…)`.
    fn shell(&mut self, name: &str, rest: &[Option<String>], at: usize) {
        let flag = |word: &Option<String>| {
            word.as_ref().is_some_and(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('c'))
        };
        if let Some(place) = rest.iter().position(flag) {
            self.run_text(rest.get(place + 1).and_then(Option::as_deref), at);
        } else if matches!(rest.first(), Some(None)) {
            self.sink.shape(Shape::CodeFromText, name, at);
        }
    }

    /// Text that is run as code.
    fn run_text(&mut self, text: Option<&str>, at: usize) {
        match text {
            Some(text) => self.code(text, at),
            None => self.sink.shape(Shape::CodeFromText, "", at),
        }
    }

    fn code(&mut self, text: &str, at: usize) {
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

fn join(words: &[Option<String>]) -> Option<String> {
    words.iter().cloned().collect::<Option<Vec<_>>>().map(|words| words.join(" "))
}
