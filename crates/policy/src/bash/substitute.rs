//! What the words of a program become, and what the commands in them print.

use super::command;
use super::expand::{self, MOST_WORDS};
use super::tree::{List, Part, Pipeline, Text, What, Word};
use super::walk::{MOST_TEXT, Walker};
use crate::rule::Shape;

impl Walker<'_, '_> {
    /// The words that a word becomes: known ones as text. What it runs is walked on the way.
    pub(super) fn expand(&mut self, word: &Word) -> Vec<Option<String>> {
        let mut text = Some(String::new());
        let mut splits = false;
        for part in &word.parts {
            let known = match part {
                Part::Text(more) => Some(more.clone()),
                Part::Variable(name) => {
                    splits |= !word.quoted || name == "@";
                    self.fetches += usize::from(!self.brought.is_empty() && self.brought.contains(&format!("${name}")));
                    self.value(name)
                }
                Part::Changed { name, how } => {
                    splits |= !word.quoted || how == "[@]";
                    match how.strip_prefix('!') {
                        // `${!x}` is the variable that `x` names.
                        Some(other) if name.is_empty() => self.value(other).and_then(|name| self.value(&name)),
                        _ if how.starts_with('[') && self.variables.contains_key(&format!("{name}{how}")) => {
                            self.value(&format!("{name}{how}"))
                        }
                        _ => {
                            let value = expand::changed(self.value(name).as_deref(), how);
                            if how.starts_with(":=") || how.starts_with('=') {
                                self.set(name, value.clone());
                            }
                            value
                        }
                    }
                }
                Part::Output(list) => self.printed(list),
                Part::Into(_) if self.replay.is_some() => None,
                Part::Into(list) => {
                    if self.last_of(list).is_some_and(|known| command::is_shell(&known.name)) {
                        self.sink.shape(Shape::PipeToShell, ">( )", word.at);
                    }
                    None
                }
                Part::Unknown => None,
            };
            text = match (text, known) {
                // Code in a here-document may be long, and is nothing but text.
                (Some(text), Some(more)) if text.is_empty() && (word.parts.len() == 1 || more.len() <= MOST_TEXT) => {
                    Some(more)
                }
                (Some(text), Some(more)) if text.len() + more.len() <= MOST_TEXT => Some(text + &more),
                _ => None,
            };
        }
        let Some(text) = text else { return vec![None] };
        self.sink.text(&text, word.at);
        if splits {
            let owned = |word: &str| Some(word.to_owned());
            let Some(Some(more)) = self.variables.get("IFS") else {
                return text.split_ascii_whitespace().take(MOST_WORDS).map(owned).collect();
            };
            let between = |c: char| c.is_ascii_whitespace() || more.contains(c);
            return text.split(between).filter(|word| !word.is_empty()).take(MOST_WORDS).map(owned).collect();
        }
        if !word.quoted && text.contains('{') && text.len() <= MOST_TEXT {
            return expand::braces(&text).into_iter().map(Some).collect();
        }
        vec![Some(text)]
    }

    /// What a list prints, found out once.
    fn printed(&mut self, list: &List) -> Option<String> {
        if let Some(outputs) = &mut self.replay {
            return outputs.next().flatten();
        }
        let before = std::mem::take(&mut self.outputs);
        let text = self.output(list);
        self.outputs = before;
        self.outputs.push(text.clone());
        text
    }

    /// What a variable holds, if that is known.
    fn value(&self, name: &str) -> Option<String> {
        let usual = || match name {
            "HOME" => Some("$HOME".to_owned()),
            "SHELL" | "BASH" => Some("/bin/bash".to_owned()),
            "PWD" if self.in_root => Some("/".to_owned()),
            _ => None,
        };
        let name = self.references.get(name).map_or(name, String::as_str);
        self.variables.get(name).cloned().flatten().or_else(usual)
    }

    /// Walks a list that is run for what it prints; gives that, if it is known. Each word is expanded once: twice would be
    /// a million times at twenty levels.
    fn output(&mut self, list: &List) -> Option<String> {
        let [pipeline] = &list[..] else {
            self.list(list);
            return None;
        };
        let piped = self.piped.take();
        let printed = self.said(pipeline);
        self.piped = piped;
        printed
    }

    /// Walks a pipeline; gives what its last command prints, if that is known.
    fn said(&mut self, pipeline: &Pipeline) -> Option<String> {
        let plain = pipeline.commands.iter().all(|command| {
            matches!(&command.what, What::Simple { assignments, .. } if assignments.is_empty())
                && command.redirects.iter().all(|redirect| redirect.text == Text::Word)
        });
        if !plain || pipeline.commands.len() > 4 {
            self.pipeline(pipeline);
            return None;
        }
        let mut text = None;
        let mut names = 0;
        for command in &pipeline.commands {
            let What::Simple { words, .. } = &command.what else { return None };
            let given = self.here_strings(command).into_iter().next().flatten();
            self.piped = given.or(text.take());
            let input = self.piped.clone();
            let known = self.simple(words, command.at)?;
            names += 1;
            text = known.says.or_else(|| {
                let rest: Vec<Option<String>> =
                    words.iter().skip(1).map(|word| word.bare().map(str::to_owned)).collect();
                input.and_then(|input| expand::filtered(&known.name, &rest, &input))
            });
            if names > 1 && known.reads_program && command::is_shell(&known.name) {
                self.sink.shape(Shape::PipeToShell, &known.name, command.at);
            }
        }
        text
    }
}
