//! Everybody who can be measured here, and why others cannot.

use std::path::Path;
use std::sync::Arc;

use engine::{Engine, Found, RunError, Settings};
use types::{ExecRequest, FileContent, InputFile, RelPath, Source};

use super::contender::{Contender, Entry, Way};
use super::daemon::Daemon;
use super::http::Address;
use super::peers::{Peer, on_path};
use super::plan::Selection;
use super::process::{Invocation, Minimal};
use super::report::LeftOut;
use super::work::{Folder, Work};

/// Everybody who takes part.
pub(super) struct Field {
    pub(super) entries: Vec<Entry>,
    pub(super) left_out: Vec<LeftOut>,
    /// Peers' own words about themselves.
    pub(super) versions: Vec<(Contender, String)>,
    /// Lives as long as it is asked.
    _daemon: Option<Daemon>,
}

/// What the field is made of.
pub(super) struct Ground<'a> {
    pub(super) folder: &'a Folder,
    pub(super) settings: &'a Settings,
    pub(super) config: Option<&'a Path>,
    pub(super) engine: &'a Arc<Engine>,
    pub(super) python: &'a Found,
    /// Our own program.
    pub(super) saggar: String,
    pub(super) only: &'a Selection,
}

/// The engine whose runs are measured.
pub(super) fn open_engine(settings: Settings) -> Result<Engine, RunError> {
    Engine::open(settings)
}

/// The request for one piece of work.
pub(super) fn request(work: Work, folder: &Folder) -> Result<ExecRequest, RunError> {
    let Some(language) = work.language() else {
        let file = InputFile { path: RelPath::new(work.file())?, content: FileContent::Host(folder.file(work)) };
        let argv = Some(vec![format!("./{}", work.file())]);
        return Ok(ExecRequest { argv, files: vec![file], ..ExecRequest::default() });
    };
    let code = Some(Source(work.code().into()));
    Ok(ExecRequest { language: Some(language.to_owned()), code, ..ExecRequest::default() })
}

impl Ground<'_> {
    /// Finds, starts and tries out everybody.
    pub(super) fn field(&self) -> Result<Field, RunError> {
        let mut left_out = Vec::new();
        let works = self.works(&mut left_out);
        let daemon = self.daemon(&mut left_out);
        let mut entries = Vec::new();
        for work in works {
            entries.extend(self.ours(work, daemon.as_ref().map(|daemon| &daemon.address))?);
        }
        let mut versions = Vec::new();
        for contender in Contender::ALL {
            match self.peer(contender) {
                None => {}
                Some(Err(why)) => left_out.push(LeftOut { what: contender.name().to_owned(), why: tame(&why) }),
                Some(Ok(peer)) => {
                    versions.push((contender, peer.version.clone()));
                    entries.extend(peer.entries().filter(|entry| self.only.work(entry.work)));
                }
            }
        }
        entries.sort_by_key(|entry| Work::ALL.iter().position(|work| *work == entry.work));
        Ok(Field { entries, left_out, versions, _daemon: daemon })
    }

    /// The work that can be done here: C needs a compiler once.
    fn works(&self, left_out: &mut Vec<LeftOut>) -> Vec<Work> {
        let compiled = || match on_path("cc") {
            Some(compiler) => self.folder.compile(&compiler),
            None => Err("there is no `cc` here".to_owned()),
        };
        let mut can = |work: &Work| {
            let ready = match work {
                Work::C => compiled(),
                Work::Bash if self.bash().is_none() => Err("there is no `bash` here".to_owned()),
                Work::Hello | Work::Humaneval | Work::Bash => Ok(()),
            };
            ready.map_err(|why| left_out.push(LeftOut { what: work.name().to_owned(), why: tame(&why) })).is_ok()
        };
        Work::ALL.into_iter().filter(|work| self.only.work(*work)).filter(|work| can(work)).collect()
    }

    fn bash(&self) -> Option<String> {
        engine::program_of("bash", self.settings).map(|found| found.program)
    }

    fn daemon(&self, left_out: &mut Vec<LeftOut>) -> Option<Daemon> {
        let wanted: Vec<Contender> =
            [Contender::Command, Contender::Socket].into_iter().filter(|who| self.only.contender(*who)).collect();
        if wanted.is_empty() {
            return None;
        }
        let started = Daemon::start(&self.saggar, self.config, &self.folder.home());
        let missing = |why: String| {
            left_out.extend(wanted.iter().map(|who| LeftOut { what: who.name().to_owned(), why: tame(&why) }));
        };
        started.map_err(missing).ok()
    }

    fn peer(&self, contender: Contender) -> Option<Result<Peer, String>> {
        if !self.only.contender(contender) {
            return None;
        }
        Peer::find(contender, self.python, self.folder)
    }

    /// The bare program and our own ways of running it.
    fn ours(&self, work: Work, daemon: Option<&Address>) -> Result<Vec<Entry>, RunError> {
        let request = Box::new(request(work, self.folder)?);
        let library = Way::Library(Arc::clone(self.engine), request.clone());
        let ways = [
            (Contender::Plain, Some(Way::Process(self.plain(work)))),
            (Contender::Nosite, self.without_site(work).map(Way::Process)),
            (Contender::Cold, Some(Way::Process(self.cold(work)))),
            (Contender::Library, Some(library)),
            // A file of the host cannot be sent, so the C program stays here.
            (Contender::Command, daemon.filter(|_| work != Work::C).map(|_| Way::Process(self.asking(work)))),
            (Contender::Socket, daemon.filter(|_| work != Work::C).map(|at| Way::Socket(at.clone(), request))),
        ];
        let wanted = ways.into_iter().filter(|(contender, _)| self.only.contender(*contender));
        Ok(wanted.filter_map(|(contender, way)| Some(Entry { contender, work, way: way? })).collect())
    }

    fn plain(&self, work: Work) -> Invocation {
        let file = self.folder.file(work).display().to_string();
        let argv = match work {
            Work::Hello | Work::Humaneval => vec![self.python.program.clone(), file],
            Work::Bash => vec![self.bash().unwrap_or_default(), file],
            Work::C => vec![file],
        };
        Invocation::new(argv, Minimal::Yes)
    }

    fn without_site(&self, work: Work) -> Option<Invocation> {
        let words = [self.python.program.as_str(), "-I", "-S"].map(str::to_owned);
        let argv = words.into_iter().chain([self.folder.file(work).display().to_string()]).collect();
        (work.language() == Some("python")).then(|| Invocation::new(argv, Minimal::Yes))
    }

    /// Our own program as a whole command, by itself.
    fn cold(&self, work: Work) -> Invocation {
        let file = self.folder.file(work).display().to_string();
        let what = if work == Work::C { "exec" } else { "run" };
        let mut argv = [self.saggar.as_str(), what, "--cold"].map(str::to_owned).to_vec();
        if let Some(config) = self.config {
            argv.extend(["--config".to_owned(), config.display().to_string()]);
        }
        if work == Work::C {
            argv.extend(["--file".to_owned(), file, "--".to_owned(), format!("./{}", work.file())]);
        } else {
            argv.push(file);
        }
        Invocation::new(argv, Minimal::No).home(&self.folder.home())
    }

    /// Our own program as a whole command, which asks the daemon. Settings are the daemon's: who brings his own does
    /// not ask.
    fn asking(&self, work: Work) -> Invocation {
        let file = self.folder.file(work).display().to_string();
        let argv = vec![self.saggar.clone(), "run".to_owned(), file];
        let invocation = Invocation::new(argv, Minimal::No).home(&self.folder.home());
        invocation.without(&["SAGGAR_CONFIG", "SAGGAR_CGROUP"])
    }
}

/// Reasons go into a document: no paths of homes in them.
fn tame(why: &str) -> String {
    match std::env::var("HOME") {
        Ok(home) if home.len() > 1 => why.replace(&home, "~"),
        Ok(_) | Err(_) => why.to_owned(),
    }
}
