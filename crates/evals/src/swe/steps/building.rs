//! What is being built: shown while it lasts, and told in short where it fails.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use engine::{Output, Stream};

use super::site::Said;

/// More of a line is of no use to people.
const MOST: usize = 200;
/// Lines that pip adds to every failure, whatever its cause.
const NOISE: &[&str] = &["subprocess-exited-with-error", "This error originates from", "Failed building", "hint: "];

/// Something that is being built.
#[derive(Debug, Clone)]
pub struct Building {
    /// What is done.
    pub what: &'static str,
    /// For which packages or commit.
    pub of: String,
    /// Since when.
    pub since: Instant,
    /// The last line that was said.
    pub line: String,
    number: usize,
}

/// All that is being built.
#[derive(Clone, Default)]
pub(super) struct Builds(Arc<Mutex<(usize, Vec<Building>)>>);

impl Builds {
    pub(super) fn list(&self) -> Vec<Building> {
        self.all().1.clone()
    }

    /// It is listed as long as what comes back lives, with what that reads.
    pub(super) fn begin(&self, what: &'static str, of: &str) -> Reader {
        let mut all = self.all();
        all.0 += 1;
        let (number, since) = (all.0, Instant::now());
        all.1.push(Building { what, of: of.to_owned(), since, line: String::new(), number });
        drop(all);
        Reader { builds: self.clone(), number, begun: Vec::new() }
    }

    fn all(&self) -> MutexGuard<'_, (usize, Vec<Building>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what one of them says.
pub(super) struct Reader {
    builds: Builds,
    number: usize,
    begun: Vec<u8>,
}

impl Output for Reader {
    fn write(&mut self, _: Stream, bytes: &[u8]) -> ControlFlow<()> {
        for byte in bytes {
            if !matches!(byte, b'\n' | b'\r') {
                if self.begun.len() < MOST {
                    self.begun.push(*byte);
                }
                continue;
            }
            let line: String = String::from_utf8_lossy(&self.begun).chars().filter(|c| !c.is_control()).collect();
            self.begun.clear();
            if !line.trim().is_empty() {
                let mut all = self.builds.all();
                all.1.iter_mut().filter(|one| one.number == self.number).for_each(|one| one.line.clone_from(&line));
            }
        }
        ControlFlow::Continue(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.builds.all().1.retain(|one| one.number != self.number);
    }
}

/// Why a build failed: the last lines that name an error, or else the last of all.
pub(super) fn cause(said: &Said) -> String {
    if said.is_late() {
        return format!("it had not ended after {:.0} minutes", said.wall_ms / 60_000.0);
    }
    let names_error = |line: &&str| {
        let small = line.to_lowercase();
        let is_one = ["error", "not found", "no such file", "cannot find"].iter().any(|word| small.contains(word));
        is_one && !NOISE.iter().any(|noise| line.contains(noise))
    };
    let mut lines: Vec<&str> = Vec::new();
    for line in said.out.lines().chain(said.err.lines()).filter(names_error).map(str::trim) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return said.last(5);
    }
    let short = |line: &&str| line.chars().take(MOST).collect::<String>();
    lines[lines.len().saturating_sub(4)..].iter().map(short).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Outcome;

    fn said(out: &str) -> Said {
        Said { out: out.to_owned(), err: String::new(), outcome: Outcome::Exited { code: 1 }, wall_ms: 1.0 }
    }

    #[test]
    fn a_failure_names_its_cause_and_not_what_pip_says_of_every_one() {
        let out = "gcc -c x.c\n  x.c:3:10: fatal error: ft2build.h: No such file or directory\n  compilation terminated.\n  error: command '/usr/bin/gcc' failed with exit code 1\n  [end of output]\n\n  note: This error originates from a subprocess, and is likely not a problem with pip.\n  ERROR: Failed building editable for x\nFailed to build x\n";
        assert_eq!(
            cause(&said(out)),
            "x.c:3:10: fatal error: ft2build.h: No such file or directory\nerror: command '/usr/bin/gcc' failed with exit code 1"
        );
        assert_eq!(cause(&said("one\n\ntwo\n")), "one\ntwo");
    }

    #[test]
    fn what_is_being_built_is_listed_with_its_last_line_until_it_ends() {
        let builds = Builds::default();
        let mut reader = builds.begin("installing", "abc");
        let other = builds.begin("packages", "def");
        let _ = reader.write(Stream::Out, b"first\nsec");
        let _ = reader.write(Stream::Out, b"ond\r\nthi");
        let list = builds.list();
        assert_eq!((list.len(), list[0].line.as_str(), list[1].line.as_str()), (2, "second", ""));
        drop(reader);
        assert_eq!(builds.list()[0].what, "packages");
        drop(other);
        assert!(builds.list().is_empty());
    }
}
