//! A server that keeps sessions, and the command line that asks it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::{folder, json, text};

/// A server with a state folder of its own.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) home: PathBuf,
}

impl Server {
    pub(crate) fn start(name: &str) -> Self {
        Self::start_in(&folder(&format!("session-{name}")))
    }

    pub(crate) fn start_in(home: &Path) -> Self {
        Self::start_as(home, saggar(home, &["serve", "--listen", "127.0.0.1:0"]))
    }

    /// A server that is told more than where to listen.
    pub(crate) fn start_as(home: &Path, mut serve: Command) -> Self {
        let mut child = serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        Self { child, home: home.to_path_buf() }
    }

    /// The program with this server's state folder.
    pub(crate) fn saggar(&self, args: &[&str]) -> Command {
        saggar(&self.home, args)
    }

    pub(crate) fn session(&self, args: &[&str]) -> Command {
        saggar(&self.home, &[&["session"], args].concat())
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.session(args).output().unwrap()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {} {}", text(&output.stdout), text(&output.stderr));
        json(&output)
    }

    /// The answer, whatever the exit code.
    pub(crate) fn json_of(&self, args: &[&str]) -> Value {
        json(&self.run(args))
    }

    pub(crate) fn create(&self) -> String {
        self.json(&["create", "--json"])["id"].as_str().unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn saggar(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
    command.args(args).env("SAGGAR_HOME", home).env_remove("SAGGAR_CONFIG").stdin(Stdio::null());
    command
}
