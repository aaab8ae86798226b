//! Bare processes: plain programs, our own command and the peers.

use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::contender::Wrong;

/// A trial that takes longer than this is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a process gets the environment that a run in a sandbox has, or our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Minimal {
    Yes,
    No,
}

/// One run as one command, with what some tools need before and after it.
#[derive(Debug, Clone)]
pub(super) struct Invocation {
    argv: Vec<String>,
    minimal: Minimal,
    home: Option<String>,
    without: &'static [&'static str],
    with: Vec<(&'static str, String)>,
    before: Option<Vec<String>>,
    after: Option<Vec<String>>,
}

impl Invocation {
    pub(super) fn new(argv: Vec<String>, minimal: Minimal) -> Self {
        Self { argv, minimal, home: None, without: &[], with: Vec::new(), before: None, after: None }
    }

    /// The state folder of a saggar. It must have nothing to say on stderr: there it tells that it could not ask its
    /// server and did something else.
    pub(super) fn home(mut self, home: &Path) -> Self {
        self.home = Some(home.display().to_string());
        self
    }

    /// Variables of ours that it does not get.
    pub(super) fn without(mut self, names: &'static [&'static str]) -> Self {
        self.without = names;
        self
    }

    /// A variable that it gets beside ours.
    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.with.push((name, value));
        self
    }

    /// What must be done around each run; it counts.
    pub(super) fn around(mut self, before: Vec<String>, after: Vec<String>) -> Self {
        (self.before, self.after) = (Some(before), Some(after));
        self
    }

    /// Runs it to the end; its answer is what it printed.
    pub(super) fn run(&self, expected: &str) -> Result<Duration, Wrong> {
        let start = Instant::now();
        if let Some(before) = &self.before {
            self.output(before)?;
        }
        let output = self.output(&self.argv);
        if let Some(after) = &self.after {
            self.output(after)?;
        }
        let took = start.elapsed();
        let output = output?;
        let talks = self.home.is_some() && !output.stderr.is_empty();
        let right = output.status.success() && output.stdout == expected.as_bytes() && !talks;
        if right { Ok(took) } else { Err(wrong(&output)) }
    }

    /// Runs it to the end, however long that is; what it prints does not matter.
    pub(super) fn timed(&self) -> Result<Duration, Wrong> {
        let start = Instant::now();
        self.answer().map(|_| start.elapsed())
    }

    /// Runs it to the end, however long that is; all that it prints.
    pub(super) fn answer(&self) -> Result<String, Wrong> {
        let output = self.output(&self.argv)?;
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(wrong(&output)) }
    }

    /// Runs it once, where it may hang or not be what its name says. Gives its output.
    pub(super) fn trial(&self) -> Result<String, Wrong> {
        if let Some(before) = &self.before {
            self.output(before)?;
        }
        let answer = self.patiently();
        if let Some(after) = &self.after {
            self.output(after)?;
        }
        answer
    }

    fn patiently(&self) -> Result<String, Wrong> {
        let start = Instant::now();
        let mut child = self.command(&self.argv).spawn().map_err(|source| self.cannot_start(source))?;
        while child.try_wait().map_err(|source| self.cannot_start(source))?.is_none() {
            if start.elapsed() > PATIENCE {
                drop(child.kill());
                drop(child.wait());
                return Err(Wrong::Hangs { seconds: PATIENCE.as_secs() });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = child.wait_with_output().map_err(|source| self.cannot_start(source))?;
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(wrong(&output)) }
    }

    /// Starts it and lets it run on.
    pub(super) fn start(&self, stderr: std::fs::File) -> io::Result<std::process::Child> {
        self.command(&self.argv).stdout(Stdio::null()).stderr(stderr).spawn()
    }

    fn output(&self, argv: &[String]) -> Result<Output, Wrong> {
        self.command(argv).output().map_err(|source| self.cannot_start(source))
    }

    #[expect(clippy::disallowed_methods, reason = "what is compared with us is, by its nature, no run of ours")]
    fn command(&self, argv: &[String]) -> Command {
        let (program, arguments) = argv.split_first().map_or(("", argv), |(first, rest)| (first.as_str(), rest));
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.minimal == Minimal::Yes {
            command.env_clear().envs(MINIMAL);
        }
        if let Some(home) = &self.home {
            command.env("SAGGAR_HOME", home);
        }
        for name in self.without {
            command.env_remove(name);
        }
        command.envs(self.with.iter().map(|(name, value)| (name, value)));
        command
    }

    fn cannot_start(&self, source: io::Error) -> Wrong {
        let name = self.argv.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
        Wrong::Start { program: name.to_string_lossy().into_owned(), source }
    }
}

/// What a run in a sandbox has; plain programs and peers get the same.
pub(super) const MINIMAL: [(&str, &str); 4] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("TMPDIR", "/tmp")];

fn wrong(output: &Output) -> Wrong {
    Wrong::Output {
        end: output.status.to_string(),
        stdout: last_line(&output.stdout),
        stderr: last_line(&output.stderr),
    }
}

/// The line that most tools put their reason on.
fn last_line(bytes: &[u8]) -> String {
    text(bytes).trim_end().lines().last().unwrap_or_default().chars().take(200).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(code: &str) -> Invocation {
        Invocation::new(["/bin/sh", "-c", code].map(str::to_owned).to_vec(), Minimal::Yes)
    }

    #[test]
    fn only_the_right_output_is_a_sample() {
        assert!(shell("echo hello").run("hello\n").is_ok());
        assert!(matches!(shell("echo hullo").run("hello\n"), Err(Wrong::Output { .. })));
        let failed = shell("echo hello; echo why >&2; exit 3").run("hello\n").unwrap_err().to_string();
        assert!(failed.contains("exit status: 3") && failed.contains("why"), "{failed}");
        let talks = shell("echo hello; echo hm >&2");
        assert!(talks.run("hello\n").is_ok());
        assert!(matches!(talks.home(Path::new("/")).run("hello\n"), Err(Wrong::Output { .. })));
        let missing = Invocation::new(vec!["/no/such/program".to_owned()], Minimal::Yes).run("").unwrap_err();
        assert!(matches!(missing, Wrong::Start { .. }));
    }

    #[test]
    fn bare_programs_get_the_environment_of_a_run() {
        let environment = shell("env | sort | grep -v '^_=\\|^PWD=\\|^SHLVL='").trial().unwrap();
        assert_eq!(environment, "HOME=/tmp\nLANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin\nTMPDIR=/tmp\n");
    }
}
