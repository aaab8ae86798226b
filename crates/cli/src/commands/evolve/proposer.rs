//! A program of the caller's own that proposes programs: JSON on its standard input, JSON on its standard output.
//!
//! It is not run in a sandbox: it is the caller's tool, named in the caller's task, as a model's client with its keys and
//! its network is. What it proposes is run in one.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use engine::BoxFuture;
use engine::usage::Totals;
use evals::evolve::{Answer, Ask, EvolveError, Form, Generator, GeneratorSpec, Silence, files_of, text_of};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// What is read of an answer, and what is kept of its errors.
const MOST_ANSWER: u64 = 16 << 20;
const MOST_ERRORS: usize = 2_000;
/// For one answer, where the task does not say.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Asks a command.
pub(super) struct Proposer {
    argv: Vec<String>,
    folder: PathBuf,
    timeout: Duration,
}

impl Proposer {
    /// Its folder is the task's; so is where a program with a slash in its name is looked for first.
    pub(super) fn new(spec: &GeneratorSpec, folder: &Path) -> Self {
        let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        let mut argv = spec.command.clone();
        if let Some(program) = argv.first_mut() {
            let beside = folder.join(&program);
            if program.contains('/') && beside.exists() {
                *program = beside.to_string_lossy().into_owned();
            } else if program.contains('/')
                && let Ok(here) = std::fs::canonicalize(&program)
            {
                *program = here.to_string_lossy().into_owned();
            }
        }
        Self { argv, folder, timeout: spec.timeout_ms.map_or(TIMEOUT, Duration::from_millis) }
    }

    async fn ask(&self, ask: &Ask) -> Result<(Form, Totals), Silence> {
        let question = question(ask).to_string();
        let child = self.start().map_err(|error| {
            let program = self.argv.first().map(String::as_str).unwrap_or_default();
            Silence::Fatal(EvolveError::Generator(format!("`{program}` cannot be started: {error}")))
        })?;
        // Whoever walks away ends it, and whatever it has started.
        let group = Group(Pid::from_raw(child.id().cast_signed()));
        let (tell, told) = oneshot::channel();
        thread::spawn(move || tell.send(converse(child, question.into_bytes())));
        let said = match tokio::time::timeout(self.timeout, told).await {
            Ok(Ok(said)) => said,
            Ok(Err(_)) => return Err(Silence::Failed("its answer was lost".to_owned())),
            Err(_) => {
                return Err(Silence::Failed(format!(
                    "the command gave no answer within {} ms",
                    self.timeout.as_millis()
                )));
            }
        };
        drop(group);
        let said = said.map_err(|error| Silence::Failed(format!("the command cannot be talked to: {error}")))?;
        read(&said)
    }

    #[expect(clippy::disallowed_methods, reason = "the caller's own tool, which needs the caller's keys and network")]
    fn start(&self) -> io::Result<Child> {
        let (program, arguments) = self.argv.split_first().ok_or(io::ErrorKind::NotFound)?;
        Command::new(program)
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }
}

impl Generator for Proposer {
    fn propose<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (what, usage) = match self.ask(ask).await {
                Ok((form, usage)) => (Ok(form), usage),
                Err(silence) => (Err(silence), Totals { calls: 1, failed: 1, ..Totals::default() }),
            };
            Answer { by: "command".to_owned(), what, usage, recorded: None }
        })
    }
}

/// A process and all that it started. Dropped, they are gone.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Nobody may be left in it.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// What a command has said.
struct Said {
    stdout: Vec<u8>,
    stderr: String,
    status: Option<i32>,
}

/// Says everything, hears everything, and waits for the end.
fn converse(mut child: Child, question: Vec<u8>) -> io::Result<Said> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let writer = thread::spawn(move || {
        // A command that does not want to know does not have to.
        stdin.map(|mut stdin| stdin.write_all(&question))
    });
    let errors = thread::spawn(move || {
        let mut all = Vec::new();
        let _ = stderr.map(|stderr| stderr.take(MOST_ANSWER).read_to_end(&mut all));
        String::from_utf8_lossy(&all[all.len().saturating_sub(MOST_ERRORS)..]).into_owned()
    });
    let mut answer = Vec::new();
    if let Some(stdout) = stdout {
        stdout.take(MOST_ANSWER).read_to_end(&mut answer)?;
    }
    let status = child.wait()?;
    drop(writer.join());
    Ok(Said { stdout: answer, stderr: errors.join().unwrap_or_default(), status: status.code() })
}

/// The question as JSON; docs/EVOLVE.md says what is in it.
fn question(ask: &Ask) -> Value {
    let prompt: Vec<&str> = ask.messages.iter().map(|message| message.text.as_str()).collect();
    json!({
        "iteration": ask.iteration,
        "seed": ask.seed,
        "task": ask.task,
        "language": ask.language,
        "entry": ask.entry,
        "prompt": prompt.join("\n\n"),
        "code": ask.parent.as_ref().map(|parent| &parent.code),
        "files": ask.parent.as_ref().and_then(|parent| files_of(&parent.code)),
        "score": ask.parent.as_ref().map(|parent| parent.score),
        "feedback": ask.parent.as_ref().map(|parent| &parent.feedback),
        "parent": ask.parent,
        "best": ask.best,
        "others": ask.others,
        "repair": ask.repair,
    })
}

/// What an answer means: an object with a program or words in it, or plain text, which is words.
fn read(said: &Said) -> Result<(Form, Totals), Silence> {
    let text = String::from_utf8_lossy(&said.stdout);
    if said.status != Some(0) {
        let how = said.status.map_or("was killed".to_owned(), |code| format!("ended with exit code {code}"));
        let errors = said.stderr.trim();
        let errors = if errors.is_empty() { String::new() } else { format!(": {errors}") };
        return Err(Silence::Failed(format!("the command {how}{errors}")));
    }
    let object = serde_json::from_str::<Value>(text.trim()).ok();
    // Tools like to talk before they answer.
    let last =
        || text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line.trim()).ok().filter(Value::is_object));
    let once = Totals { calls: 1, ..Totals::default() };
    let value = match object.or_else(last) {
        Some(Value::String(text)) => return Ok((Form::Text(text), once)),
        Some(value) if value.is_object() => value,
        _ if text.trim().is_empty() => return Err(Silence::Failed("the command said nothing".to_owned())),
        _ => return Ok((Form::Text(text.into_owned()), once)),
    };
    let usage = value.get("usage").unwrap_or(&Value::Null);
    let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    let totals = Totals {
        calls: count("calls").max(1),
        prompt_tokens: count("prompt_tokens"),
        completion_tokens: count("completion_tokens"),
        known_cost_usd: usage.get("cost_usd").and_then(Value::as_f64).filter(|cost| *cost >= 0.0).unwrap_or(0.0),
        ..Totals::default()
    };
    let text =
        |names: &[&str]| names.iter().find_map(|name| value.get(name).and_then(Value::as_str)).map(str::to_owned);
    if let Some(files) = value.get("files").and_then(|files| serde_json::from_value(files.clone()).ok()) {
        return Ok((Form::Code(text_of(&files)), totals));
    }
    if let Some(code) = text(&["code", "program", "candidate", "solution"]) {
        return Ok((Form::Code(code), totals));
    }
    if let Some(words) = text(&["diff", "patch", "text", "answer", "completion", "content", "response"]) {
        return Ok((Form::Text(words), totals));
    }
    if value.get("done").and_then(Value::as_bool) == Some(true) {
        return Err(Silence::Exhausted);
    }
    let why = text(&["error"]).unwrap_or_else(|| "the command's answer has neither `code` nor `text`".to_owned());
    Err(Silence::Failed(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(stdout: &str) -> Result<Form, String> {
        let said = Said { stdout: stdout.as_bytes().to_vec(), stderr: "why".to_owned(), status: Some(0) };
        read(&said).map(|(form, _)| form).map_err(|silence| format!("{silence:?}"))
    }

    #[test]
    fn an_answer_may_be_an_object_or_plain_words() {
        let code = |text: &str| Ok(Form::Code(text.to_owned()));
        let words = |text: &str| Ok(Form::Text(text.to_owned()));
        assert_eq!(form(r#"{"code": "x = 1"}"#), code("x = 1"));
        assert_eq!(form(r#"{"files": {"a.py": "x = 1"}}"#), code("===== FILE: a.py =====\nx = 1\n"));
        assert_eq!(form("{\"program\":\n \"x = 1\"}\n"), code("x = 1"));
        assert_eq!(form("thinking…\n{\"code\": \"x = 1\"}\n"), code("x = 1"));
        assert_eq!(form(r#"{"text": "```python\nx\n```"}"#), words("```python\nx\n```"));
        assert_eq!(form("```python\nx = 1\n```\n"), words("```python\nx = 1\n```\n"));
        assert!(form("").unwrap_err().contains("said nothing"));
        assert!(form(r#"{"error": "no idea"}"#).unwrap_err().contains("no idea"));
        assert!(form(r#"{"done": true}"#).unwrap_err().contains("Exhausted"));
        assert!(form(r#"{"score": 1}"#).unwrap_err().contains("neither `code`"));
        let failed = Said { stdout: Vec::new(), stderr: "no key".to_owned(), status: Some(3) };
        assert!(format!("{:?}", read(&failed)).contains("exit code 3: no key"));
    }

    #[test]
    fn what_a_command_says_it_has_spent_counts() {
        let text = r#"{"code": "x", "usage": {"prompt_tokens": 7, "completion_tokens": 3, "cost_usd": 0.5}}"#;
        let (_, usage) = read(&Said { stdout: text.into(), stderr: String::new(), status: Some(0) }).unwrap();
        assert_eq!((usage.calls, usage.prompt_tokens, usage.completion_tokens), (1, 7, 3));
        assert!((usage.known_cost_usd - 0.5).abs() < 1e-12);
    }
}
