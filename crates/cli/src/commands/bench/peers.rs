//! Other sandboxes that are installed here, each with a profile as close to ours as it has.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use engine::Found;

use super::contender::{Contender, Entry, Way, Wrong};
use super::process::{Invocation, MINIMAL, Minimal};
use super::work::{Folder, Work};

/// Where peers see the programs.
const PLACE: &str = "/w";
/// Images that are tried for a python3.
const MOST_IMAGES: usize = 5;

/// One that works here.
pub(super) struct Peer {
    pub(super) contender: Contender,
    pub(super) version: String,
    invocations: Vec<(Work, Invocation)>,
}

impl Peer {
    /// Looks for `contender`, and has it run everything once. `None` if it is not installed.
    pub(super) fn find(contender: Contender, python: &Found, folder: &Folder) -> Option<Result<Self, String>> {
        let (name, ask) = match contender {
            Contender::Bubblewrap => ("bwrap", "--version"),
            Contender::Nsjail => ("nsjail", "--version"),
            Contender::Firejail => ("firejail", "--version"),
            Contender::Isolate => ("isolate", "--version"),
            Contender::Docker => ("docker", "--version"),
            Contender::Plain
            | Contender::Nosite
            | Contender::Cold
            | Contender::Library
            | Contender::Command
            | Contender::Socket => {
                return None;
            }
        };
        let program = on_path(name)?.display().to_string();
        let said = Invocation::new(vec![program.clone(), ask.to_owned()], Minimal::Yes).trial();
        let version = said.ok().and_then(|text| text.lines().next().map(str::to_owned));
        let host = Host { python, programs: folder.programs().display().to_string() };
        let invocations = match contender {
            Contender::Docker => docker(&program, &host),
            _ => {
                Ok(each(&[Work::Hello, Work::Humaneval, Work::Bash], |work| host.invocation(contender, &program, work)))
            }
        };
        Some(invocations.and_then(|invocations| {
            for (work, invocation) in &invocations {
                try_out(invocation, *work)
                    .map_err(|wrong| format!("its trial of `{}` failed: {wrong}", work.name()))?;
            }
            Ok(Self { contender, version: version.unwrap_or_else(|| "version unknown".to_owned()), invocations })
        }))
    }

    pub(super) fn entries(self) -> impl Iterator<Item = Entry> {
        let contender = self.contender;
        self.invocations.into_iter().map(move |(work, way)| Entry { contender, work, way: Way::Process(way) })
    }
}

fn try_out(invocation: &Invocation, work: Work) -> Result<(), Wrong> {
    let stdout = invocation.trial()?;
    if stdout == work.expected() {
        return Ok(());
    }
    Err(Wrong::Output { end: "exit 0".to_owned(), stdout, stderr: String::new() })
}

/// The first program on PATH with this name.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let usable =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    env::split_paths(&path).map(|folder| folder.join(name)).find(usable)
}

/// What peers are shown of the host.
struct Host<'a> {
    python: &'a Found,
    programs: String,
}

impl Host<'_> {
    fn invocation(&self, contender: Contender, program: &str, work: Work) -> Invocation {
        let mut argv = vec![program.to_owned()];
        argv.extend(match contender {
            Contender::Bubblewrap => self.bubblewrap(),
            Contender::Nsjail => self.nsjail(),
            Contender::Firejail => return self.firejail(argv, work),
            _ => return self.isolate(program, work),
        });
        argv.push("--".to_owned());
        argv.extend(self.command(work, PLACE));
        Invocation::new(argv, Minimal::Yes)
    }

    /// The bare program's words, with its file in `place`.
    fn command(&self, work: Work, place: &str) -> [String; 2] {
        let interpreter = if work == Work::Bash { "/bin/bash" } else { &self.python.program };
        [interpreter.to_owned(), format!("{place}/{}", work.file())]
    }

    fn bubblewrap(&self) -> Vec<String> {
        let mut words = words("--unshare-all --die-with-parent --new-session --clearenv --ro-bind /usr /usr");
        for (name, value) in MINIMAL {
            words.extend(["--setenv", name, value].map(str::to_owned));
        }
        for companion in companions() {
            match companion {
                Companion::Link { at, to } => words.extend(["--symlink".to_owned(), to, at.to_owned()]),
                Companion::Folder(path) => words.extend(["--ro-bind", path, path].map(str::to_owned)),
            }
        }
        words.extend("--proc /proc --dev /dev --tmpfs /tmp".split(' ').map(str::to_owned));
        for root in &self.python.roots {
            words.extend(["--ro-bind", root, root].map(str::to_owned));
        }
        words.extend(["--ro-bind", &self.programs, PLACE, "--chdir", PLACE].map(str::to_owned));
        words
    }

    /// It would give way to everybody else on the machine by itself; the others do not.
    fn nsjail(&self) -> Vec<String> {
        let mut words = words("-Mo -q -t 10 --nice_level 0 --rlimit_as 1024 -T /tmp -R /usr");
        for companion in companions() {
            match companion {
                Companion::Link { at, to } => words.extend(["-s".to_owned(), format!("{to}:{at}")]),
                Companion::Folder(path) => words.extend(["-R".to_owned(), path.to_owned()]),
            }
        }
        for (name, value) in MINIMAL {
            words.extend(["-E".to_owned(), format!("{name}={value}")]);
        }
        for root in &self.python.roots {
            words.extend(["-R".to_owned(), root.clone()]);
        }
        words.extend(["-R".to_owned(), format!("{}:{PLACE}", self.programs), "--cwd".to_owned(), PLACE.to_owned()]);
        words
    }

    /// Keeps the host's files in view, so the program is where it is.
    fn firejail(&self, mut argv: Vec<String>, work: Work) -> Invocation {
        argv.extend(words("--quiet --noprofile --net=none --private-dev --caps.drop=all --seccomp --nonewprivs --"));
        argv.extend(self.command(work, &self.programs));
        Invocation::new(argv, Minimal::Yes)
    }

    fn isolate(&self, program: &str, work: Work) -> Invocation {
        let place = std::process::id() % 1000;
        let step = |what: &str| words(&format!("{program} --box-id={place} {what}"));
        let mut argv = step("--silent --time=10 --wall-time=20 --mem=1000000 --processes=4");
        argv.push(format!("--dir={PLACE}={}", self.programs));
        argv.extend(self.python.roots.iter().map(|root| format!("--dir={root}")));
        argv.extend(MINIMAL.map(|(name, value)| format!("--env={name}={value}")));
        argv.extend(words("--run --"));
        argv.extend(self.command(work, PLACE));
        Invocation::new(argv, Minimal::Yes).around(step("--init"), step("--cleanup"))
    }
}

fn each(works: &[Work], invocation: impl Fn(Work) -> Invocation) -> Vec<(Work, Invocation)> {
    works.iter().map(|work| (*work, invocation(*work))).collect()
}

/// A container from the first image whose python3 works.
fn docker(program: &str, host: &Host<'_>) -> Result<Vec<(Work, Invocation)>, String> {
    let ask = |rest: &str| Invocation::new(words(&format!("{program} {rest}")), Minimal::No).trial();
    ask("info").map_err(|_| "no engine answers".to_owned())?;
    let images = ask("images --format {{.ID}}").map_err(|wrong| wrong.to_string())?;
    let made = |image: &str, work: Work| {
        let mut argv = vec![program.to_owned()];
        argv.extend(words("run --rm --network none --memory 512m --pids-limit 64 --cpus 1 --cap-drop ALL"));
        argv.extend(words("--security-opt no-new-privileges --read-only --tmpfs /tmp --workdir /w --volume"));
        argv.extend([format!("{}:{PLACE}:ro", host.programs), image.to_owned(), "python3".to_owned()]);
        argv.push(work.file().to_owned());
        Invocation::new(argv, Minimal::No)
    };
    let works = |image: &&str| try_out(&made(image, Work::Hello), Work::Hello).is_ok();
    let image = images.lines().take(MOST_IMAGES).find(works).ok_or("no image here has a python3 that works")?;
    // Python alone: an image need not have bash.
    Ok(each(&[Work::Hello, Work::Humaneval], |work| made(image, work)))
}

/// What stands beside `/usr` in a root.
enum Companion {
    Link { at: &'static str, to: String },
    Folder(&'static str),
}

fn companions() -> impl Iterator<Item = Companion> {
    ["/bin", "/sbin", "/lib", "/lib64"].into_iter().filter_map(|path| {
        if let Ok(target) = fs::read_link(path) {
            return Some(Companion::Link { at: path, to: target.to_str()?.to_owned() });
        }
        Path::new(path).is_dir().then_some(Companion::Folder(path))
    })
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
