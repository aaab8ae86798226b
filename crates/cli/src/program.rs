//! The program that a command is about.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use types::{ExecRequest, RelPath, Source};

use crate::failure::Failure;
use crate::options::wrong;

/// A file, standard input, or the text itself.
#[derive(Debug, Args)]
pub(crate) struct Program {
    /// The program, or - to read it from standard input
    #[arg(value_name = "FILE", required_unless_present = "code", conflicts_with = "code")]
    file: Option<PathBuf>,
    /// The program's text
    #[arg(short, value_name = "CODE")]
    code: Option<String>,
    /// Language [default: by the file's ending, else python]
    #[arg(short, long)]
    language: Option<String>,
}

impl Program {
    /// Whether it is read from standard input, which it then takes.
    pub(crate) fn is_stdin(&self) -> bool {
        self.file.as_deref() == Some(Path::new("-"))
    }

    /// The file's path, if it has one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_deref().filter(|_| !self.is_stdin())
    }

    /// Reads it into a request.
    pub(crate) fn put_into(&self, request: &mut ExecRequest) -> Result<(), Failure> {
        let code = match (&self.file, &self.code) {
            (_, Some(code)) => code.clone().into_bytes(),
            (Some(path), None) => read(path)?,
            (None, None) => return Err(wrong("give a FILE or -c CODE".to_owned())),
        };
        let name = self.path().and_then(Path::file_name).and_then(OsStr::to_str);
        request.language = self.language.clone().or_else(|| name.and_then(engine::for_file_name).map(str::to_owned));
        request.file_name = name.and_then(|name| RelPath::new(name).ok());
        request.code = Some(Source(code));
        Ok(())
    }
}

/// The bytes of a file, or of standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut code = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut code)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut code))
    };
    read.map(|_| code).map_err(|e| Failure::input(path, e))
}
