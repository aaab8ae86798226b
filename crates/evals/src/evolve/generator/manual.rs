//! A person, or whoever else can read and write files: questions are put in a folder, answers are waited for.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::BoxFuture;

use super::{Answer, Ask, Form, Generator, Silence};
use crate::evolve::error::EvolveError;

/// How often somebody looks for an answer.
const LOOK: Duration = Duration::from_millis(200);

/// `0001.prompt.md` is written, `0001.answer.*` is waited for; a file `stop` ends it.
pub struct Manual(PathBuf);

impl Manual {
    /// Makes the folder if it is not there.
    pub fn open(folder: &Path) -> Result<Self, EvolveError> {
        fs::create_dir_all(folder).map_err(|source| EvolveError::Write { path: folder.to_path_buf(), source })?;
        Ok(Self(folder.to_path_buf()))
    }

    fn answer(&self, stem: &str) -> Option<Form> {
        let is_answer = |name: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".answer"));
        let entries = fs::read_dir(&self.0).ok()?.flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        let name = names.into_iter().find(|name| is_answer(name))?;
        let text = fs::read_to_string(self.0.join(&name)).ok().filter(|text| !text.is_empty())?;
        let ending = Path::new(&name).extension().and_then(|ending| ending.to_str());
        let is_text = matches!(ending, Some("md" | "txt" | "answer"));
        Some(if is_text { Form::Text(text) } else { Form::Code(text) })
    }
}

impl Generator for Manual {
    fn propose<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let turn = if ask.repair.is_some() { "b" } else { "" };
            let stem = format!("{:04}{turn}", ask.iteration);
            let path = self.0.join(format!("{stem}.prompt.md"));
            let question: Vec<&str> = ask.messages.iter().map(|message| message.text.as_str()).collect();
            if let Err(source) = fs::write(&path, question.join("\n\n")) {
                return Answer::free("manual", Err(Silence::Fatal(EvolveError::Write { path, source })));
            }
            loop {
                if let Some(form) = self.answer(&stem) {
                    return Answer::free("manual", Ok(form));
                }
                if self.0.join("stop").exists() {
                    return Answer::free("manual", Err(Silence::Exhausted));
                }
                tokio::time::sleep(LOOK).await;
            }
        })
    }
}
