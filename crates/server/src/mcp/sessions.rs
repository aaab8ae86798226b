//! Tools for sessions: files and variables stay from call to call.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::{CellSpec, CommandSpec, FileError, GuestUser, Session, SessionError, SessionSpec, SnapshotSpec, Spoken};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use types::GuestPath;

use super::answer::{self, Answer, Failed};
use super::progress::LastLine;
use super::read::{Arguments, read, refuse, take_text, wrong};
use super::tools::Call;

/// What a read returns if nobody says, and at most.
const USUAL_READ: u64 = 256 << 10;
const MOST_READ: u64 = 8 << 20;

/// Carries out one of the tools whose names begin with `session_`.
pub(super) async fn call(call: &Call<'_>, name: &str, mut arguments: Arguments) -> Result<Answer, Failed> {
    match name {
        "session_create" => return create(call, arguments).await,
        "session_list" => return list(call, arguments),
        _ => {}
    }
    let id = take_text(&mut arguments, "session")?;
    let session = call.engine.session(&call.who.caller, &id)?;
    match name {
        "session_run" => {
            let cell: CellSpec = read(arguments)?;
            answer::of_cell(call.engine.run_in_session(&call.who.caller, &session, cell).await?)
        }
        "session_exec" => exec(call, &session, arguments).await,
        "session_write_file" => write_file(call, &session, arguments).await,
        "session_read_file" => read_file(&session, arguments).await,
        "session_ls" => ls(&session, arguments).await,
        "session_snapshot" => {
            let spec: SnapshotSpec = read(arguments)?;
            let snapshot = call.engine.snapshot_session(&call.who.caller, &id, spec).await?;
            Answer::new(format!("snapshot {}", snapshot.id), &snapshot)
        }
        "session_rollback" => {
            let snapshot = take_text(&mut arguments, "snapshot")?;
            let Nothing {} = read(arguments)?;
            let info = call.engine.rollback_session(&call.who.caller, &id, &snapshot).await?;
            Answer::new(format!("the files are those of {snapshot}; all processes have ended"), &info)
        }
        "session_fork" => fork(call, &id, arguments).await,
        "session_kill" => {
            let Nothing {} = read(arguments)?;
            call.engine.kill_session(&call.who.caller, &id).await?;
            Answer::new("the session has ended", &json!({ "id": id, "killed": true }))
        }
        other => Err(wrong(format!("there is no tool `{other}`"))),
    }
}

/// No further arguments.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn create(call: &Call<'_>, arguments: Arguments) -> Result<Answer, Failed> {
    let spec: SessionSpec = read(arguments)?;
    let info = call.engine.create_session(&call.who.caller, spec).await?.info();
    Answer::new(format!("session {}, until {}", info.id, info.expires), &info)
}

fn list(call: &Call<'_>, arguments: Arguments) -> Result<Answer, Failed> {
    let Nothing {} = read(arguments)?;
    let sessions = call.engine.list_sessions(&call.who.caller);
    let lines: Vec<&str> = sessions.iter().map(|info| info.id.as_str()).collect();
    let text = if lines.is_empty() { "there is no session".to_owned() } else { lines.join("\n") };
    Answer::new(text, &json!({ "sessions": sessions }))
}

async fn exec(call: &Call<'_>, session: &Arc<Session>, arguments: Arguments) -> Result<Answer, Failed> {
    for name in ["terminal", "stdin_open", "tag"] {
        refuse(&arguments, name, "it is for commands in the background, which no tool starts")?;
    }
    let command: CommandSpec = read(arguments)?;
    if command.argv.is_empty() {
        return Err(wrong("`argv` is missing: the program and its arguments".to_owned()));
    }
    let mut lines = LastLine::new(&call.said);
    let spoken = Spoken { live: Some(&mut lines), ..Spoken::default() };
    let result = call.engine.exec_in_session(&call.who.caller, session, command, spoken).await?;
    answer::of_run(&result)
}

/// How many copies.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fork {
    #[serde(default = "one")]
    count: u32,
    #[serde(default)]
    kill: bool,
}

fn one() -> u32 {
    1
}

async fn fork(call: &Call<'_>, id: &str, arguments: Arguments) -> Result<Answer, Failed> {
    let Fork { count, kill } = read(arguments)?;
    let sessions = call.engine.fork_session(&call.who.caller, id, count, kill).await?;
    let lines: Vec<&str> = sessions.iter().map(|info| info.id.as_str()).collect();
    Answer::new(lines.join("\n"), &json!({ "sessions": sessions }))
}

/// A file to write.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewFile {
    path: String,
    text: Option<String>,
    base64: Option<String>,
    #[serde(default)]
    executable: bool,
}

async fn write_file(call: &Call<'_>, session: &Arc<Session>, arguments: Arguments) -> Result<Answer, Failed> {
    let NewFile { path, text, base64, executable } = read(arguments)?;
    let content = match (text, base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(base64)) => {
            STANDARD.decode(base64).map_err(|error| wrong(format!("`base64` cannot be decoded: {error}")))?
        }
        _ => return Err(wrong("give either `text` or `base64`".to_owned())),
    };
    let path = at(&path)?;
    let caller = &call.who.caller;
    let (files, _pass) = session.files_to_write(caller).await?;
    if content.len() as u64 > session.room().0 {
        return Err(SessionError::File(FileError::Full(path)).into());
    }
    let mode = if executable { 0o755 } else { 0o644 };
    let written = files.write(&path, GuestUser::User, mode, &mut &content[..]).await.map_err(SessionError::File)?;
    session.record_act(caller, "put", &path).await?;
    let entry = files.stat(&path).await.map_err(SessionError::File)?;
    Answer::new(format!("{written} bytes in {path}"), &entry)
}

/// A part of a file to read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    path: String,
    #[serde(default)]
    offset: u64,
    #[serde(default = "usual_read")]
    most_bytes: u64,
}

fn usual_read() -> u64 {
    USUAL_READ
}

async fn read_file(session: &Session, arguments: Arguments) -> Result<Answer, Failed> {
    let Part { path, offset, most_bytes } = read(arguments)?;
    let path = at(&path)?;
    let mut stream = session.files()?.read(&path).await.map_err(SessionError::File)?;
    let failed = |error: io::Error| Failed::from(SessionError::File(FileError::from_io(&path, error)));
    let skipped = tokio::io::copy(&mut (&mut stream.content).take(offset), &mut tokio::io::sink()).await;
    let skipped = skipped.map_err(failed)?;
    // An image is whole or none; of anything else a part may do.
    let most = if is_image_name(path.as_str()) { MOST_READ } else { most_bytes.min(MOST_READ) };
    let mut content = Vec::new();
    (&mut stream.content).take(most).read_to_end(&mut content).await.map_err(failed)?;
    let is_whole = skipped + content.len() as u64 >= stream.bytes;
    let mut told = json!({ "path": path, "bytes": stream.bytes, "offset": skipped, "truncated": !is_whole });
    if let Some(mime) = image_type(&content).filter(|_| is_whole && offset == 0) {
        told["mime_type"] = mime.into();
        told["image"] = json!({ "content": 1 });
        let mut answer = Answer::new(format!("{path}: an image of {} bytes", stream.bytes), &told)?;
        answer.add_image(STANDARD.encode(content), mime);
        return Ok(answer);
    }
    let text = match String::from_utf8(whole_characters(content, is_whole)) {
        Ok(text) => {
            told["text"] = text.clone().into();
            text
        }
        Err(error) => {
            told["base64"] = STANDARD.encode(error.as_bytes()).into();
            format!("{path}: {} bytes that are no text, as base64 in the structured result", error.as_bytes().len())
        }
    };
    Answer::new(text, &told)
}

/// Without the start of a character at the end, where the rest of it was left out.
fn whole_characters(mut bytes: Vec<u8>, is_whole: bool) -> Vec<u8> {
    if let Err(error) = std::str::from_utf8(&bytes)
        && !is_whole
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    bytes
}

fn is_image_name(path: &str) -> bool {
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("png" | "jpg" | "jpeg" | "gif" | "webp"))
}

/// What kind of image it is, by its first bytes.
fn image_type(content: &[u8]) -> Option<&'static str> {
    match content {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// A folder to list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Folder {
    #[serde(default)]
    path: String,
    #[serde(default = "one")]
    depth: u32,
}

async fn ls(session: &Session, arguments: Arguments) -> Result<Answer, Failed> {
    let Folder { path, depth } = read(arguments)?;
    let entries = session.files()?.list(&at(&path)?, depth).await.map_err(SessionError::File)?;
    let lines: Vec<String> = entries.iter().map(|entry| format!("{} {}", entry.bytes, entry.path)).collect();
    let text = if lines.is_empty() { "nothing is there".to_owned() } else { lines.join("\n") };
    Answer::new(text, &json!({ "entries": entries }))
}

/// A path as somebody in `/work` would write it.
fn at(path: &str) -> Result<GuestPath, Failed> {
    Ok(Session::path(path, GuestUser::User, "/work")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_text_is_text() {
        let cut = "caf\u{e9}".as_bytes()[..4].to_vec();
        assert_eq!(whole_characters(cut.clone(), false), b"caf");
        assert_eq!(whole_characters(cut, true).len(), 4);
        assert_eq!(whole_characters(b"\xff\xfe".to_vec(), false), b"\xff\xfe");
    }

    #[test]
    fn images_are_known_by_their_content() {
        assert_eq!(image_type(b"\x89PNG\r\n\x1a\n"), Some("image/png"));
        assert_eq!(image_type(b"GIF89a"), Some("image/gif"));
        assert_eq!(image_type(b"print(1)"), None);
    }
}
