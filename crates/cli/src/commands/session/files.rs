//! Files of a session, one by one: `put`, `get`, `ls`, `rm`, `stat`, `mv`, `mkdir`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::RunError;
use serde_json::{Value, json};
use types::{FileContent, InputFile};

use super::{address, text};
use crate::failure::{Failure, print_json, unheard, visible};
use crate::options::wrong;
use crate::remote::{Answer, Content, Server, broken, encode};

/// Write a file into a session
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar session put ses_4f1c… data.csv /work/data.csv\n  tar c src | saggar session put ses_4f1c… - /tmp/src.tar\n\nFolders above it are made. A DEST without a leading / is below /work; one that ends in / is a folder."
)]
pub(super) struct Put {
    /// The session
    id: String,
    /// A file of yours, or - for standard input
    src: PathBuf,
    /// Where it goes
    dest: String,
    /// Print the file's entry as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Bring a file back from a session
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar session get ses_4f1c… /work/result.png result.png\n  saggar session get ses_4f1c… log.txt - | less"
)]
pub(super) struct Get {
    /// The session
    id: String,
    /// A file in the session
    src: String,
    /// A file or folder of yours, or - for standard output
    dest: PathBuf,
    /// Print what was brought as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// List a folder of a session
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session ls ses_4f1c… /work --depth 3")]
pub(super) struct Ls {
    /// The session
    id: String,
    /// A folder in the session
    #[arg(default_value = "/work")]
    path: String,
    /// How many folders deep
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: u32,
    /// Print a list of entries as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Remove a file or a folder of a session, with all below it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session rm ses_4f1c… /work/build")]
pub(super) struct Rm {
    /// The session
    id: String,
    /// What to remove
    path: String,
    /// Print what was removed as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The address of something that has a path.
pub(super) fn at(id: &str, what: &str, path: &str) -> String {
    address(id, &format!("/{what}?path={}", encode(path)))
}

impl Put {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let dest = match self.dest.strip_suffix('/') {
            Some(folder) => {
                let name = self.src.file_name().and_then(|name| name.to_str());
                let name = name.filter(|_| !is_standard(&self.src));
                let name = name.ok_or_else(|| wrong("a DEST that is a folder needs a SRC with a name".to_owned()))?;
                format!("{folder}/{name}")
            }
            None => self.dest,
        };
        let entry = upload(server, &self.id, &self.src, &dest)?;
        if self.json {
            print_json(&entry)?;
        }
        Ok(0)
    }
}

/// Writes an input file of `session create`.
pub(super) fn place(server: &Server, id: &str, file: &InputFile) -> Result<(), Failure> {
    match &file.content {
        FileContent::Host(path) => upload(server, id, path, &format!("/work/{}", file.path)).map(drop),
        FileContent::Text(_) | FileContent::Base64(_) => Err(wrong("only files can be placed".to_owned())),
    }
}

fn upload(server: &Server, id: &str, src: &Path, dest: &str) -> Result<Value, Failure> {
    let runs = || fs::metadata(src).is_ok_and(|meta| meta.permissions().mode() & 0o100 != 0);
    let mode = match () {
        () if is_standard(src) => "",
        () if runs() => "&mode=755",
        () => "&mode=644",
    };
    send(server, "PUT", &format!("{}{mode}", at(id, "files", dest)), src)
}

/// Sends a file, or standard input.
pub(super) fn send(server: &Server, method: &str, path: &str, src: &Path) -> Result<Value, Failure> {
    if is_standard(src) {
        return server.json(method, path, Content::Stream(&mut io::stdin().lock()));
    }
    let unreadable = |error| Failure::input(src, error);
    let mut file = File::open(src).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if meta.is_dir() {
        return Err(unreadable(io::ErrorKind::IsADirectory.into()));
    }
    // What is no regular file says nothing of its length.
    let content = if meta.is_file() { Content::File(meta.len(), &mut file) } else { Content::Stream(&mut file) };
    server.json(method, path, content)
}

pub(super) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

impl Get {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let answer = server.ask("GET", &at(&self.id, "files", &self.src), Content::Nothing)?;
        let name = self.src.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let dest = if self.dest.is_dir() { self.dest.join(name) } else { self.dest };
        let bytes = save(answer, &dest)?;
        if self.json && !is_standard(&dest) {
            print_json(&json!({ "path": self.src, "dest": dest.display().to_string(), "bytes": bytes }))?;
        }
        Ok(0)
    }
}

/// Writes an answer to a file, or to standard output; how many bytes it has.
pub(super) fn save(answer: Answer, dest: &Path) -> Result<u64, Failure> {
    let Answer { bytes, mut body } = answer;
    let bytes = bytes.ok_or_else(|| broken(io::ErrorKind::InvalidData.into()))?;
    if is_standard(dest) {
        copy_all(&mut body, bytes, &mut io::stdout().lock(), Path::new("standard output"))?;
        return Ok(bytes);
    }
    let failed = |source| Failure::from(RunError::Output { path: dest.to_path_buf(), source });
    // Under another name until it is whole.
    let folder = dest.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let partial = folder.join(format!(".saggar-{}", engine::new_id("get")));
    let mut file = File::create_new(&partial).map_err(failed)?;
    let done = copy_all(&mut body, bytes, &mut file, dest).and_then(|()| fs::rename(&partial, dest).map_err(failed));
    if done.is_err() {
        let _ = fs::remove_file(&partial);
    }
    done.map(|()| bytes)
}

/// All of it, or an error.
fn copy_all(from: &mut dyn Read, bytes: u64, into: &mut dyn Write, path: &Path) -> Result<(), Failure> {
    let failed = |source| Failure::from(RunError::Output { path: path.to_path_buf(), source });
    let (mut buffer, mut left) = (vec![0; 256 << 10], bytes);
    while left > 0 {
        match from.read(&mut buffer) {
            Ok(0) => return Err(broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => {
                into.write_all(&buffer[..n]).map_err(failed)?;
                left = left.saturating_sub(n as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
    into.flush().map_err(failed)
}

impl Ls {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let path = format!("{}&depth={}", at(&self.id, "entries", &self.path), self.depth);
        let entries: Value = server.json("GET", &path, Content::Nothing)?;
        if self.json {
            print_json(&entries)?;
            return Ok(0);
        }
        let mut out = BufWriter::new(io::stdout().lock());
        for entry in entries.as_array().into_iter().flatten() {
            let name = if self.depth > 1 { text(entry, "path") } else { text(entry, "name") };
            writeln!(out, "{}", line(entry, name)).map_err(unheard)?;
        }
        out.flush().map_err(unheard)?;
        Ok(0)
    }
}

/// Show one file or folder of a session
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session stat ses_4f1c… /work/data.csv --json")]
pub(super) struct Stat {
    #[command(flatten)]
    one: One,
}

/// Make a folder in a session, with those above it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session mkdir ses_4f1c… /work/out/plots")]
pub(super) struct Mkdir {
    #[command(flatten)]
    one: One,
}

/// Move or rename a file or folder of a session
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  saggar session mv ses_4f1c… /work/draft.txt /work/old/draft.txt")]
pub(super) struct Mv {
    #[command(flatten)]
    one: One,
    /// Its new path; folders above it are made
    to: String,
}

/// One entry of a session.
#[derive(Debug, Args)]
struct One {
    /// The session
    id: String,
    /// Its path; without a leading / below /work
    path: String,
    /// Print the entry as one line of JSON
    #[arg(long)]
    json: bool,
}

impl One {
    /// Asks about it, and shows the entry that is there afterwards.
    fn ask(&self, server: &Server, method: &str, what: &str, rest: &str) -> Result<u8, Failure> {
        let path = format!("{}{rest}", at(&self.id, what, &self.path));
        let entry: Value = server.json(method, &path, Content::Nothing)?;
        if self.json {
            print_json(&entry)?;
        } else if method == "GET" {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", line(&entry, text(&entry, "path"))).map_err(unheard)?;
        }
        Ok(0)
    }
}

impl Stat {
    pub(super) fn json(&self) -> bool {
        self.one.json
    }

    pub(super) fn execute(&self, server: &Server) -> Result<u8, Failure> {
        self.one.ask(server, "GET", "entry", "")
    }
}

impl Mkdir {
    pub(super) fn json(&self) -> bool {
        self.one.json
    }

    pub(super) fn execute(&self, server: &Server) -> Result<u8, Failure> {
        self.one.ask(server, "POST", "folders", "")
    }
}

impl Mv {
    pub(super) fn json(&self) -> bool {
        self.one.json
    }

    pub(super) fn execute(&self, server: &Server) -> Result<u8, Failure> {
        self.one.ask(server, "POST", "move", &format!("&to={}", encode(&self.to)))
    }
}

/// One entry for a person, under this name.
fn line(entry: &Value, name: &str) -> String {
    let (kind, mode) = (text(entry, "type"), entry["mode"].as_u64().unwrap_or(0));
    let shown: String = name.chars().map(|c| if c == '\n' { '?' } else { visible(c) }).collect();
    format!("{kind:6}  {mode:04o}  {:>12}  {shown}", entry["bytes"].to_string())
}

impl Rm {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let removed: Value = server.json("DELETE", &at(&self.id, "files", &self.path), Content::Nothing)?;
        if self.json {
            print_json(&removed)?;
        }
        Ok(0)
    }
}
