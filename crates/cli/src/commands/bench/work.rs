//! What everybody is asked to run, and what must come of it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::process::{Invocation, Minimal};

/// One piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    /// `print("hello")`.
    Hello,
    /// `HumanEval`/0 with its asserts and `from typing import List`.
    Humaneval,
    /// `echo hello`, in bash.
    Bash,
    /// A static C program that says hello.
    C,
}

impl Work {
    pub(super) const ALL: [Self; 4] = [Self::Hello, Self::Humaneval, Self::Bash, Self::C];

    /// The name on the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Humaneval => "humaneval",
            Self::Bash => "bash",
            Self::C => "c",
        }
    }

    /// The recipe that runs it; C is run as a program that is there already.
    pub(super) const fn language(self) -> Option<&'static str> {
        match self {
            Self::Hello | Self::Humaneval => Some("python"),
            Self::Bash => Some("bash"),
            Self::C => None,
        }
    }

    /// The file in the bench's folder.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Hello => "hello.py",
            Self::Humaneval => "humaneval.py",
            Self::Bash => "hello.sh",
            Self::C => "hello",
        }
    }

    /// Its text.
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Hello => include_str!("programs/hello.py"),
            Self::Humaneval => include_str!("programs/humaneval.py"),
            Self::Bash => include_str!("programs/hello.sh"),
            Self::C => include_str!("programs/hello.c"),
        }
    }

    /// What a right run prints, and nothing else.
    pub(super) const fn expected(self) -> &'static str {
        match self {
            Self::Hello | Self::Bash | Self::C => "hello\n",
            Self::Humaneval => "passed\n",
        }
    }
}

/// The bench's own folder, gone when it is dropped.
///
/// Only its owner can reach into it; the programs in it can be read by whoever is shown them.
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder and puts the programs there.
    pub(super) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("saggar-bench-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self { path };
        for name in ["programs", "home", "library"] {
            fs::create_dir(folder.path.join(name))?;
        }
        fs::set_permissions(folder.programs(), fs::Permissions::from_mode(0o755))?;
        for work in [Work::Hello, Work::Humaneval, Work::Bash] {
            let file = folder.file(work);
            fs::write(&file, work.code())?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        }
        Ok(folder)
    }

    /// Where the programs are.
    pub(super) fn programs(&self) -> PathBuf {
        self.path.join("programs")
    }

    /// The state folder of the commands and of the daemon.
    pub(super) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// The state folder of the engine in this process.
    pub(super) fn library(&self) -> PathBuf {
        self.path.join("library")
    }

    /// A piece of work's file.
    pub(super) fn file(&self, work: Work) -> PathBuf {
        self.programs().join(work.file())
    }

    /// Compiles the C program, once; says why if it cannot be.
    pub(super) fn compile(&self, compiler: &Path) -> Result<(), String> {
        let source = self.path.join("hello.c");
        fs::write(&source, Work::C.code()).map_err(|error| error.to_string())?;
        let words = ["-O1", "-static", "-o"].map(str::to_owned);
        let files = [self.file(Work::C), source].map(|path| path.display().to_string());
        let argv = [compiler.display().to_string()].into_iter().chain(words).chain(files);
        let compiled = Invocation::new(argv.collect(), Minimal::Yes).trial();
        compiled.map(drop).map_err(|wrong| wrong.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
    }
}
