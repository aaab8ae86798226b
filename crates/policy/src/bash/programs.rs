//! What single programs do by their arguments.

use super::command;
use super::expand::{self, MOST_WORDS};
use super::walk::{Walker, join};
use crate::rule::Shape;
use crate::text::{is_root, is_system_path};

impl Walker<'_, '_> {
    /// Files that a program writes by its arguments.
    pub(super) fn targets(&mut self, name: &str, rest: &[Option<String>], at: usize) {
        let mut words = rest.iter().flatten().filter(|word| !word.starts_with('-'));
        let targets: Vec<&String> = match name {
            "cp" | "mv" | "ln" | "install" | "rsync" if rest.len() > 1 => words.next_back().into_iter().collect(),
            "tee" | "truncate" | "sponge" => words.collect(),
            "curl" | "wget" => {
                let place = rest.iter().flatten().position(|word| matches!(word.as_str(), "-o" | "-O" | "--output"));
                place.and_then(|place| rest.iter().flatten().nth(place + 1)).into_iter().collect()
            }
            "find" => {
                let place = rest.iter().flatten().position(|word| word.starts_with("-fprint"));
                place.and_then(|place| rest.iter().flatten().nth(place + 1)).into_iter().collect()
            }
            "sed" if rest.iter().flatten().any(|word| word.starts_with("-i") || word == "--in-place") => {
                words.skip(1).collect()
            }
            _ => return,
        };
        if matches!(name, "curl" | "wget") {
            for path in &targets {
                self.bring(path);
            }
        }
        // What is moved away is gone, and what is made equal to another folder too.
        let gone = match name {
            "mv" => rest.iter().flatten().rev().skip(1).find(|word| is_root(word)),
            "rsync" if rest.iter().flatten().any(|word| word.starts_with("--delete")) => {
                targets.iter().copied().find(|word| is_root(word))
            }
            _ => None,
        };
        if let Some(root) = gone {
            self.sink.shape(Shape::RemoveRoot, root, at);
        }
        for path in targets.into_iter().filter(|path| path.starts_with('/') || path.starts_with("$HOME/.")) {
            if is_system_path(path) {
                let shape = if path.starts_with("/dev/") { Shape::WriteDevice } else { Shape::SystemWrite };
                self.sink.shape(shape, path, at);
            }
        }
    }

    /// Variables, functions and aliases that a builtin sets.
    pub(super) fn keeps(&mut self, name: &str, rest: &[Option<String>]) {
        match name {
            "declare" | "local" | "export" | "readonly" | "typeset" | "alias" => {
                for word in rest.iter().flatten() {
                    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.starts_with('-')) else {
                        continue;
                    };
                    let flag = |flag: &str| rest.iter().flatten().any(|word| word == flag);
                    if name != "alias" && flag("-n") {
                        self.references.insert(key.to_owned(), value.to_owned());
                    } else if name != "alias" && flag("-l") {
                        self.set(key, Some(value.to_lowercase()));
                    } else if name == "alias" {
                        self.aliases.insert(key.to_owned(), value.to_owned());
                    } else {
                        self.set(key, Some(value.to_owned()));
                    }
                }
            }
            "unset" => rest.iter().flatten().for_each(|word| {
                self.functions.remove(word);
                self.variables.remove(word);
            }),
            "set" if rest.first().is_some_and(|word| word.as_deref() == Some("--")) => {
                let all = join(&rest[1..]);
                self.set("@", all.clone());
                self.set("*", all);
                for (number, word) in rest.iter().enumerate().skip(1).take(9) {
                    self.set(&number.to_string(), word.clone());
                }
            }
            "printf" if rest.first().is_some_and(|word| word.as_deref() == Some("-v")) => {
                if let Some(Some(variable)) = rest.get(1) {
                    let value = expand::printed("printf", rest.get(2..).unwrap_or_default());
                    self.set(variable, value);
                }
            }
            "read" => {
                let names: Vec<&String> = rest.iter().flatten().filter(|word| !word.starts_with('-')).collect();
                let text = self.piped.clone();
                let parts: Vec<&str> = text.as_deref().unwrap_or_default().split([' ', ',', ':', '\t', '\n']).collect();
                for (number, name) in names.iter().enumerate() {
                    let value = match (&text, names.len()) {
                        (Some(text), 1) => Some(text.clone()),
                        _ => parts.get(number).map(|part| (*part).to_owned()).filter(|_| text.is_some()),
                    };
                    self.variables.insert((*name).clone(), value);
                }
            }
            "mapfile" | "readarray" => {
                let lines = self.piped.as_ref().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
                if let Some(Some(variable)) = rest.iter().rev().find(|word| word.is_some()) {
                    self.set(variable, lines);
                }
            }
            _ => {}
        }
    }

    pub(super) fn xargs(&mut self, rest: &[Option<String>], at: usize) {
        let start = command::flags(rest, command::XARGS, false);
        let Some(inner) = rest.get(start..).filter(|inner| !inner.is_empty()) else { return };
        let piped = self.piped.clone();
        let shell = inner.first().is_some_and(|word| word.as_deref().is_some_and(command::is_shell));
        if shell && self.fetched {
            self.sink.shape(Shape::PipeToShell, "xargs", at);
        }
        let place = rest.iter().take(start).flatten().position(|word| word.starts_with("-I"));
        let mark = place.and_then(|place| match rest.iter().flatten().nth(place)?.strip_prefix("-I")? {
            "" => rest.iter().flatten().nth(place + 1).map(String::as_str),
            attached => Some(attached),
        });
        if let (Some(mark), Some(piped)) = (mark, &piped)
            && !mark.is_empty()
            && piped.len() <= 64
        {
            // Wherever the mark stands, there is what comes in.
            let put = |word: &String| if word.len() <= 1024 { word.replace(mark, piped.trim()) } else { word.clone() };
            let words: Vec<Option<String>> = inner.iter().map(|word| word.as_ref().map(put)).collect();
            self.started(&words, at);
            return;
        }
        let more = piped.iter().flat_map(|text| text.split_whitespace()).take(MOST_WORDS);
        let words: Vec<Option<String>> = inner
            .iter()
            .filter(|word| word.as_deref() != Some(":::"))
            .cloned()
            .chain(more.map(|word| Some(word.to_owned())))
            .collect();
        self.started(&words, at);
    }

    pub(super) fn remove(&mut self, rest: &[Option<String>], at: usize) {
        let flags = rest.iter().flatten().filter(|word| word.starts_with('-'));
        let recursive = flags.clone().any(|flag| match flag.strip_prefix("--") {
            // Long names may be cut.
            Some(long) => !long.is_empty() && "recursive".starts_with(long),
            None => flag.contains(['r', 'R']),
        });
        if !recursive {
            let all = rest.iter().flatten().find(|word| word.contains('*') && is_root(word));
            if let Some(all) = all {
                self.sink.shape(Shape::RemoveRoot, all, at);
            }
            return;
        }
        let targets = rest.iter().flatten().filter(|word| !word.starts_with('-'));
        let here = |word: &str| self.in_root && matches!(word, "*" | "." | "./" | "./*" | ".*" | "~+");
        let root = targets.clone().find(|word| is_root(word) || here(word)).cloned();
        match root {
            Some(root) => self.sink.shape(Shape::RemoveRoot, &root, at),
            None => self.sink.shape(Shape::RemoveTree, "", at),
        }
    }

    /// `chmod` that lets everybody write, and worse where that is the system's own.
    pub(super) fn modes(&mut self, rest: &[Option<String>], at: usize) {
        let opens = |word: &String| {
            let digits = word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_digit());
            let clause = |clause: &str| {
                clause.split_once(['+', '=']).is_some_and(|(who, what)| {
                    who.bytes().all(|byte| b"ugoa".contains(&byte))
                        && (who.contains(['a', 'o']) || (who.is_empty() && what == "rwx"))
                        && what.contains('w')
                })
            };
            if digits { word.ends_with(['2', '3', '6', '7']) } else { word.split(',').any(clause) }
        };
        self.owners(rest, at);
        let mut words = rest.iter().flatten().filter(|word| !word.starts_with('-'));
        if !words.next().is_some_and(opens) {
            return;
        }
        self.sink.shape(Shape::OpenMode, "", at);
        for path in words.filter(|path| is_root(path) || (is_system_path(path) && path.starts_with('/'))) {
            self.sink.shape(Shape::SystemWrite, path, at);
        }
    }

    /// A connection that is given a shell.
    pub(super) fn connection(&mut self, name: &str, rest: &[Option<String>], at: usize) {
        let runs = |word: &String| {
            if name == "socat" {
                return ["exec:", "system:", "shell:"].iter().any(|kind| word.to_ascii_lowercase().contains(kind));
            }
            let short = word.strip_prefix('-').filter(|flags| !flags.starts_with('-'));
            short.is_some_and(|flags| flags.contains(['e', 'c']))
                || matches!(word.as_str(), "--exec" | "--sh-exec" | "--lua-exec")
        };
        if rest.iter().flatten().any(runs) {
            self.sink.shape(Shape::PipeToShell, name, at);
        }
    }

    /// What `system("…")` in a program of awk runs.
    pub(super) fn pattern_program(&mut self, rest: &[Option<String>], at: usize) {
        for program in rest.iter().flatten().filter(|word| word.contains("system")) {
            let calls = program.split("system").skip(1).take(8);
            let texts: Vec<&str> = calls
                .filter_map(|call| call.trim_start().strip_prefix('(')?.trim_start().strip_prefix('"'))
                .filter_map(|text| text.split('"').next())
                .collect();
            for text in texts {
                self.code(text, at);
            }
        }
    }

    pub(super) fn copy(&mut self, rest: &[Option<String>], at: usize) {
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
        let target = rest.iter().flatten().find_map(|word| word.strip_prefix("of=")).unwrap_or_default();
        if is_system_path(target) && !target.starts_with("/dev/") {
            self.sink.shape(Shape::SystemWrite, target, at);
        }
    }

    pub(super) fn find(&mut self, rest: &[Option<String>], at: usize) {
        let is =
            |word: &Option<String>, names: &[&str]| word.as_ref().is_some_and(|word| names.contains(&word.as_str()));
        let start = rest.iter().take_while(|word| is(word, &["-L", "-H", "-P"])).count();
        let roots = rest.iter().skip(start).flatten().take_while(|word| !word.starts_with(['-', '(', '!']));
        let root = roots.clone().find(|root| is_root(root)).cloned();
        let told = |root: &Option<String>| match root {
            Some(root) => (Shape::RemoveRoot, root.clone()),
            None => (Shape::RemoveTree, String::new()),
        };
        if rest.iter().any(|word| is(word, &["-delete"])) {
            let (shape, seen) = told(&root);
            self.sink.shape(shape, &seen, at);
        }
        let mut from = 0;
        for _ in 0..8 {
            let exec = |word: &Option<String>| is(word, &["-exec", "-execdir", "-ok", "-okdir"]);
            let Some(place) = rest.iter().skip(from).position(exec) else { return };
            from += place + 1;
            let length = rest.iter().skip(from).take_while(|word| !is(word, &[";", "+"])).count();
            let command: Vec<Option<String>> = rest
                .iter()
                .skip(from)
                .take(length)
                .map(|word| if is(word, &["{}"]) { root.clone().or_else(|| word.clone()) } else { word.clone() })
                .collect();
            // With `find` above it, `rm` needs no flag to take all there is.
            if let (Some(root), Some(Some(first))) = (&root, command.first())
                && matches!(first.rsplit('/').next(), Some("rm" | "unlink" | "shred"))
            {
                self.sink.shape(Shape::RemoveRoot, root, at);
            }
            self.started(&command, at);
            from += length;
        }
    }

    /// `sh -c text`, `sh <(…)`.
    pub(super) fn shell(&mut self, name: &str, rest: &[Option<String>], at: usize) {
        let flag = |word: &Option<String>| {
            word.as_ref().is_some_and(|word| word.starts_with('-') && !word.starts_with("--") && word.contains('c'))
        };
        if let Some(place) = rest.iter().position(flag) {
            let given = rest.get(place + 3..).unwrap_or_default();
            let before = if given.is_empty() { Vec::new() } else { self.give(given) };
            self.run_text(rest.get(place + 1).and_then(Option::as_deref), at);
            self.variables.extend(before);
        } else if matches!(rest.first(), Some(None)) {
            let shape = if self.fetched { Shape::PipeToShell } else { Shape::CodeFromText };
            self.sink.shape(shape, name, at);
        }
    }
}
