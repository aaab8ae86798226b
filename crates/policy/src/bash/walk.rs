//! Walks a shell program and follows what words are known to be.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::command::{self, Known};
use super::expand;
use super::tree::{Assignment, Command, List, Part, Pipeline, Redirect, Text, What, Word};
use super::weigh::weigh;
use crate::language::Language;
use crate::rule::Shape;
use crate::sink::Sink;
use crate::text::{is_root, is_system_path};

/// Texts are followed up to here.
pub(super) const MOST_TEXT: usize = 1024;
/// Bytes of a program's name.
const MOST_NAME: usize = 255;
/// Text that is run as code, within text that is run as code.
pub(super) const MOST_INNER: usize = 4;
/// Programs that start a program that starts a program.
const MOST_WRAPPED: usize = 16;
/// Bytes of a loop's body that is walked for each of its values, more or less.
pub(super) const MOST_BODY: usize = 1024;
/// Bodies of loops that are walked for each of their values, in all.
pub(super) const MOST_ROUNDS: usize = 32;
/// Bytes of text that are read again as code, in all.
pub(super) const MOST_REREAD: usize = 64 << 10;

/// Walks one program.
pub(super) struct Walker<'s, 'k> {
    pub(super) sink: &'s mut Sink<'k>,
    pub(super) variables: HashMap<String, Option<String>>,
    /// What variables were before a branch that may not be taken changed them.
    pub(super) older: HashMap<String, String>,
    /// Branches around this place.
    pub(super) branches: usize,
    /// Functions so far, with their bodies.
    pub(super) functions: HashMap<String, Rc<Command>>,
    pub(super) aliases: HashMap<String, String>,
    /// Variables that are another name of a variable.
    pub(super) references: HashMap<String, String>,
    /// Variables (with `$`) and files that hold what was brought from elsewhere.
    pub(super) brought: HashSet<String>,
    /// What comes to the next command's standard input, if that is known.
    pub(super) piped: Option<String>,
    /// Programs so far that bring text from elsewhere.
    pub(super) fetches: usize,
    /// Whether what this command is given was brought from elsewhere.
    pub(super) fetched: bool,
    /// Whether the working folder is the root or a folder of the system.
    pub(super) in_root: bool,
    /// Programs around this one that start it.
    pub(super) wrapped: usize,
    /// Bodies of loops that were walked once more for another value.
    pub(super) rounds: usize,
    /// Functions around this place.
    pub(super) inside: Vec<String>,
    /// Loops around this place: whether something leaves them.
    pub(super) loops: Vec<bool>,
    /// Here-documents to come that a shell reads.
    pub(super) expected: usize,
    /// Or an interpreter of another language.
    pub(super) expected_language: Option<Language>,
    /// What commands in the words of this one have printed.
    pub(super) outputs: Vec<Option<String>>,
    /// The same, where the words are expanded once more.
    pub(super) replay: Option<std::vec::IntoIter<Option<String>>>,
    pub(super) inner: usize,
    pub(super) reread: usize,
}

impl<'s, 'k> Walker<'s, 'k> {
    pub(super) fn new(sink: &'s mut Sink<'k>) -> Self {
        Self {
            sink,
            variables: HashMap::new(),
            older: HashMap::new(),
            branches: 0,
            functions: HashMap::new(),
            references: HashMap::new(),
            brought: HashSet::new(),
            aliases: HashMap::new(),
            piped: None,
            fetches: 0,
            fetched: false,
            in_root: false,
            wrapped: 0,
            rounds: 0,
            inside: Vec::new(),
            loops: Vec::new(),
            expected: 0,
            expected_language: None,
            outputs: Vec::new(),
            replay: None,
            inner: 0,
            reread: 0,
        }
    }

    pub(super) fn list(&mut self, list: &List) {
        self.last_of(list);
    }

    /// Walks a list; gives its first program that runs what it reads.
    pub(super) fn last_of(&mut self, list: &List) -> Option<Known> {
        let mut reader = None;
        for pipeline in list {
            let first = self.pipeline(pipeline);
            reader = reader.or(first.filter(|known| known.reads_program));
        }
        reader
    }

    fn assignment(&mut self, assignment: &Assignment) {
        let index = assignment.index.as_ref().and_then(|index| self.expand(index).into_iter().next().flatten());
        let fetches = self.fetches;
        let mut values: Vec<Option<String>> = assignment.values.iter().flat_map(|word| self.expand(word)).collect();
        if self.fetches > fetches {
            self.brought.insert(format!("${}", assignment.name));
        }
        for value in values.iter_mut().flatten() {
            // `x=([key]=value)`
            if let Some((key, rest)) = value.strip_prefix('[').and_then(|keyed| keyed.split_once("]=")) {
                let (place, rest) = (format!("{}[{key}]", assignment.name), rest.to_owned());
                self.variables.insert(place, Some(rest.clone()));
                *value = rest;
            }
        }
        let mut value = values.into_iter().collect::<Option<Vec<_>>>().map(|values| values.join(" "));
        let before = self.variables.get(&assignment.name).cloned().flatten();
        if let Some(index) = &index {
            self.variables.insert(format!("{}[{index}]", assignment.name), value.clone());
        }
        if assignment.append || index.is_some() {
            let between = if index.is_some() && before.is_some() { " " } else { "" };
            let before = before.clone().unwrap_or_default() + between;
            value = value.filter(|more| before.len() + more.len() <= MOST_TEXT).map(|more| before + &more);
        }
        match before.filter(|before| self.branches > 0 && value.as_ref() != Some(before)) {
            Some(before) => drop(self.older.entry(assignment.name.clone()).or_insert(before)),
            None if self.branches == 0 => drop(self.older.remove(&assignment.name)),
            None => {}
        }
        self.variables.insert(assignment.name.clone(), value);
    }

    pub(super) fn set(&mut self, name: &str, value: Option<String>) {
        self.variables.insert(name.to_owned(), value);
    }

    /// The texts that a command gets with `<<<`. Each is expanded here and nowhere else: what is walked twice at each of
    /// twenty levels is walked a million times.
    pub(super) fn here_strings(&mut self, command: &Command) -> Vec<Option<String>> {
        let words = command.redirects.iter().filter(|redirect| redirect.text == Text::Word);
        words.map(|redirect| self.expand(&redirect.target).into_iter().next().flatten()).collect()
    }

    /// A command of words, once as its variables are, and once as they were where that is not certain.
    pub(super) fn simple(&mut self, words: &[Word], at: usize) -> Option<Known> {
        let (before, was_fetched) = (self.fetches, self.fetched);
        self.outputs.clear();
        let expanded: Vec<Option<String>> = words.iter().flat_map(|word| self.expand(word)).collect();
        let outputs = std::mem::take(&mut self.outputs);
        self.fetched |= self.fetches > before;
        let known = self.started(&expanded, at);
        self.fetched = was_fetched;
        let older = |part: &Part| matches!(part, Part::Variable(name) if self.older.contains_key(name));
        if words.iter().any(|word| word.parts.iter().any(older)) {
            let older = self.older.clone();
            let now: Vec<(String, Option<String>)> = older
                .into_iter()
                .map(|(name, value)| (name.clone(), self.variables.insert(name, Some(value)).flatten()))
                .collect();
            // What commands in the words print is not found out again.
            self.replay = Some(outputs.into_iter());
            let expanded: Vec<Option<String>> = words.iter().flat_map(|word| self.expand(word)).collect();
            self.replay = None;
            self.started(&expanded, at);
            self.variables.extend(now);
        }
        known
    }

    pub(super) fn pipeline(&mut self, pipeline: &Pipeline) -> Option<Known> {
        let mut names: Vec<Option<Known>> = Vec::new();
        let was_fetched = self.fetched;
        // The first reads what all around it is given.
        let outer = self.piped.take();
        for command in &pipeline.commands {
            self.piped = match names.last() {
                None => outer.clone(),
                Some(known) => known.as_ref().and_then(|known| known.says.clone()),
            };
            let before = self.fetches;
            names.push(self.command(command));
            // All that comes after it gets what it has brought.
            self.fetched |= self.fetches > before;
        }
        self.fetched = was_fetched;
        self.piped = outer;
        if let [before @ .., Some(last)] = &names[..]
            && !before.is_empty()
            && last.reads_program
        {
            let fetched = before.iter().flatten().any(|known| command::fetches(&known.name));
            if command::is_shell(&last.name)
                || matches!(last.name.as_str(), "source" | ".")
                || (fetched && command::is_interpreter(&last.name))
            {
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
        names.into_iter().next().flatten()
    }

    /// Tells what a command does; gives its name if that is known.
    pub(super) fn command(&mut self, command: &Command) -> Option<Known> {
        let texts = self.here_strings(command);
        if let Some(given) = texts.first().cloned().flatten() {
            self.piped = Some(given);
        }
        let known = match &command.what {
            What::Simple { assignments, words } => {
                for assignment in assignments {
                    self.assignment(assignment);
                }
                self.simple(words, command.at)
            }
            What::Compound(lists) => {
                let before = self.in_root;
                self.branches += 1;
                let mut reader = None;
                for list in lists {
                    let last = self.last_of(list);
                    reader = reader.or(last.filter(|known| known.reads_program));
                }
                self.branches -= 1;
                self.in_root |= before;
                reader
            }
            What::For { name, words, body } => {
                let values: Vec<Option<String>> = words.iter().flat_map(|word| self.expand(word)).collect();
                self.branches += 1;
                self.loops.push(true);
                let known: Option<Vec<String>> = values.into_iter().take(MOST_ROUNDS + 1).collect();
                let mut room = MOST_BODY;
                let fits = |known: &Vec<String>| match known.len() {
                    0 => false,
                    1 => true,
                    many => weigh(body, &mut room) && self.rounds + many <= MOST_ROUNDS,
                };
                if let Some(known) = known.filter(fits) {
                    self.rounds += known.len() - 1;
                    for value in known {
                        self.variables.insert(name.clone(), Some(value));
                        self.list(body);
                    }
                } else {
                    self.variables.insert(name.clone(), None);
                    self.list(body);
                }
                self.loops.pop();
                self.branches -= 1;
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
                self.functions.insert(name.clone(), Rc::clone(body));
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
                    let language = self.expected_language.take();
                    match (text, language) {
                        (Some(text), Some(language)) => self.sink.inner(language, &text, command.at),
                        (Some(text), None) => self.code(&text, command.at),
                        (None, _) => {}
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
        let mut texts = texts.into_iter();
        for redirect in &command.redirects {
            let text = if redirect.text == Text::Word { texts.next().flatten() } else { None };
            self.redirect(redirect, text, known.as_ref());
        }
        known
    }

    fn redirect(&mut self, redirect: &Redirect, text: Option<String>, known: Option<&Known>) {
        let reads = known.filter(|known| known.reads_program);
        let language = reads.and_then(|known| command::language_of(&known.name));
        let reads_program = reads.is_some_and(|known| {
            command::is_shell(&known.name) || language.is_some() || matches!(known.name.as_str(), "source" | ".")
        });
        let at = redirect.target.at;
        match redirect.text {
            Text::Document => {
                self.expected += usize::from(reads_program);
                self.expected_language = language;
            }
            Text::Word => match (text.filter(|_| reads_program), language) {
                (Some(text), Some(language)) => self.sink.inner(language, &text, at),
                (Some(text), None) => self.code(&text, at),
                (None, _) => {}
            },
            Text::None => {
                let before = self.fetches;
                let paths = self.expand(&redirect.target);
                if let Some(Part::Text(start)) = redirect.target.parts.first()
                    && (start.starts_with("/dev/tcp/") || start.starts_with("/dev/udp/"))
                {
                    self.sink.shape(Shape::DevTcp, start, at);
                }
                if reads_program && !redirect.writes && self.fetches > before {
                    self.sink.shape(Shape::PipeToShell, "<", at);
                }
                let brings =
                    redirect.writes && (self.fetched || known.is_some_and(|known| command::fetches(&known.name)));
                for path in paths.into_iter().flatten() {
                    if brings {
                        self.bring(&path);
                    }
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

    /// A program is started with these words.
    pub(super) fn started(&mut self, words: &[Option<String>], at: usize) -> Option<Known> {
        // `xargs xargs xargs …`
        if self.wrapped >= MOST_WRAPPED {
            self.sink.shape(Shape::TooDeep, "", at);
            return None;
        }
        self.wrapped += 1;
        let known = self.program(words, at);
        self.wrapped -= 1;
        known
    }

    fn program(&mut self, words: &[Option<String>], at: usize) -> Option<Known> {
        let written = words.first().and_then(Option::as_deref);
        if let Some((name, body)) = written.and_then(|name| self.functions.get_key_value(name)) {
            let (name, body) = (name.clone(), Rc::clone(body));
            self.invoke(&name, &body, words.get(1..).unwrap_or_default());
            return Some(Known { name, reads_program: false, says: None });
        }
        if let Some(meant) = written.filter(|_| !self.aliases.is_empty()).and_then(|name| self.aliases.remove(name)) {
            // An alias is not one again in what it stands for.
            let meant = meant.split_whitespace().map(|word| Some(word.to_owned()));
            let words: Vec<Option<String>> = meant.chain(words.iter().skip(1).cloned()).collect();
            return self.started(&words, at);
        }
        let words = command::unwrap(words);
        let (first, rest) = words.split_first()?;
        let Some(first) = first else {
            self.sink.shape(Shape::DynamicCommand, "", at);
            self.as_remove(rest, at);
            return None;
        };
        let name = first.rsplit('/').next().unwrap_or(first);
        // No file has a longer name.
        if name.len() > MOST_NAME {
            return None;
        }
        let name = match command::meant(name) {
            // A pattern in place of a name.
            Some(meant) => meant.to_owned(),
            None => name.to_owned(),
        };
        self.runs_brought(first, &name, rest, at);
        self.holds_remove(&name, rest, at);
        if first.starts_with("./") || first.starts_with("../") {
            self.as_remove(rest, at);
        }
        self.fetches += usize::from(command::fetches(&name));
        if let Some((language, code)) = command::code_of(&name, rest) {
            match code {
                Some(code) => self.sink.inner(language, &code, at),
                None => self.sink.shape(Shape::CodeFromText, &name, at),
            }
        }
        if let Some(text) = &self.piped
            && let Some(language) = command::language_of(&name)
            && command::reads_program(&name, rest)
        {
            self.sink.inner(language, text, at);
        }
        self.targets(&name, rest, at);
        self.keeps(&name, rest);
        match name.as_str() {
            "break" | "exit" | "return" => self.loops.iter_mut().for_each(|left| *left = true),
            "rm" => self.remove(rest, at),
            "dd" => self.copy(rest, at),
            "chmod" => self.modes(rest, at),
            "nc" | "ncat" | "netcat" | "socat" => self.connection(&name, rest, at),
            "awk" | "gawk" | "mawk" | "nawk" => self.pattern_program(rest, at),
            "eval" => self.run_text(join(rest).as_deref(), at),
            "source" | "." if matches!(rest.first(), Some(None)) => self.run_text(None, at),
            "find" => self.find(rest, at),
            "xargs" | "parallel" => self.xargs(rest, at),
            "trap" => {
                if let Some(text) = rest.iter().flatten().find(|word| *word != "--") {
                    self.code(text, at);
                }
            }
            "env" if rest.first().is_some_and(|word| word.as_deref() == Some("-S")) => {
                self.run_text(join(&rest[1..]).as_deref(), at);
            }
            "uv" | "poetry" | "pipenv" | "conda" | "hatch" | "pdm" | "rye" | "pnpm" | "npm" if matches!(rest.first(), Some(Some(word)) if word == "run" || word == "exec") =>
            {
                let rest = rest.get(1..).unwrap_or_default();
                let inner = rest.get(command::flags(rest, &["-n", "-p", "--with"], false)..).unwrap_or_default();
                if !inner.is_empty() {
                    self.started(inner, at);
                }
            }
            "chown" => self.owners(rest, at),
            "cd" | "pushd" if self.in_root => {
                self.set("OLDPWD", Some("/".to_owned()));
                self.in_root = matches!(rest.first(), Some(Some(folder)) if is_root(folder));
            }
            "cd" | "pushd" => self.in_root = matches!(rest.first(), Some(Some(folder)) if is_root(folder)),
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
        let says = match name.as_str() {
            "echo" | "printf" => expand::printed(&name, rest),
            "which" | "type" => rest.iter().flatten().find(|word| !word.starts_with('-')).cloned(),
            "command" => rest.get(1).cloned().flatten(),
            "find" | "ls" => rest.iter().flatten().find(|word| is_root(word)).cloned(),
            _ => None,
        };
        Some(Known { name, reads_program, says })
    }
}

pub(super) fn join(words: &[Option<String>]) -> Option<String> {
    words.iter().cloned().collect::<Option<Vec<_>>>().map(|words| words.join(" "))
}
