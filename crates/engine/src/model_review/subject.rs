//! What is put before a model: the program as it would run, and the files that it would find.

use sha2::{Digest, Sha256};
use types::{ExecRequest, FileContent};

use crate::error::RunError;
use crate::files::{Inputs, read_own};
use crate::language;

/// The most that a model is asked to read. Larger programs are refused, not cut: what is cut off runs as well.
const MAX_BYTES: usize = 256 << 10;

/// What a model reads.
pub(super) struct Subject {
    pub(super) language: String,
    pub(super) code: String,
    /// Text that lies beside it, by path: an import may lead there.
    pub(super) files: Vec<(String, String)>,
    /// Paths of files whose content is not text, not here yet, or too much.
    pub(super) unseen: Vec<String>,
}

/// Why a program cannot be shown to a model.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Unreadable {
    #[error("the program is not UTF-8 text, so a model would judge something else than what runs")]
    NotText,
    #[error("the program is larger than {} KiB, more than a model is asked to read", MAX_BYTES >> 10)]
    TooLarge,
}

/// Reads the caller's own files, as far as a model could be shown them.
pub(crate) fn read_own_files(request: &mut ExecRequest, inputs: &mut dyn Inputs) -> Result<(), RunError> {
    read_own(request, inputs, MAX_BYTES, |_| true)
}

impl Subject {
    /// Of a request; the outer error is of the request itself.
    pub(super) fn of(request: &ExecRequest) -> Result<Result<Self, Unreadable>, RunError> {
        let (language, code) = match (&request.code, &request.argv) {
            (Some(code), None) => {
                let name = request.language.as_deref().unwrap_or("python");
                let recipe = language::recipe(name).ok_or_else(|| RunError::UnknownLanguage(name.to_owned()))?;
                (recipe.name, String::from_utf8(code.0.clone()).map_err(|_| Unreadable::NotText))
            }
            (None, Some(argv)) => ("command", Ok(serde_json::to_string(argv).unwrap_or_default())),
            (None, None) | (Some(_), Some(_)) => return Err(RunError::Request("give `code` or `argv`")),
        };
        let subject = code.and_then(|code| {
            if code.len() > MAX_BYTES {
                return Err(Unreadable::TooLarge);
            }
            let mut subject = Self { language: language.to_owned(), code, files: Vec::new(), unseen: Vec::new() };
            subject.add_files(request);
            Ok(subject)
        });
        Ok(subject)
    }

    fn add_files(&mut self, request: &ExecRequest) {
        let mut room = MAX_BYTES - self.code.len();
        for file in &request.files {
            match &file.content {
                FileContent::Text(text) if text.len() <= room => {
                    room -= text.len();
                    self.files.push((file.path.to_string(), text.clone()));
                }
                FileContent::Text(_) | FileContent::Base64(_) | FileContent::Host(_) => {
                    self.unseen.push(file.path.to_string());
                }
            }
        }
    }

    pub(super) fn lines(&self) -> u32 {
        u32::try_from(self.code.lines().count()).unwrap_or(u32::MAX)
    }

    pub(super) fn contains(&self, text: &str) -> bool {
        self.parts().any(|part| part.contains(text))
    }

    /// A name for everything that is shown, and for whatever else decides about the answer.
    pub(super) fn fingerprint<'a>(&'a self, circumstances: impl Iterator<Item = &'a str>) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in circumstances.chain(self.parts()) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().into()
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().flat_map(|(path, content)| ["file", path.as_str(), content.as_str()]);
        let unseen = self.unseen.iter().flat_map(|path| ["unseen", path.as_str()]);
        [self.language.as_str(), self.code.as_str()].into_iter().chain(files).chain(unseen)
    }
}
