//! `saggar judge --server`: tasks that another server judges.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use engine::RunError;
use serde_json::Value;
use types::ExecRequest;

use super::{Format, Judge, put, read};
use crate::failure::{Failure, print_json};
use crate::options::wrong;
use crate::remote::{Content, Server, broken};

/// One task.
pub(super) fn judge(command: &Judge, url: &str, request: &ExecRequest) -> Result<u8, Failure> {
    command.refuse_beside(request)?;
    if command.options.out.is_some() {
        return Err(wrong("`--out` goes with `--batch`".to_owned()));
    }
    let text = read(command.task.as_deref().unwrap_or(Path::new("-")))?;
    let judged: Value = Server::at(url)?.json("POST", "/v1/judge", Content::Json(text.into_bytes()))?;
    if command.options.json || command.format == Format::Json {
        print_json(&judged)?;
    } else {
        put(&shown(&judged, command.format))?;
    }
    Ok(u8::from(judged["all_passed"] != true))
}

/// A line for each case, or for a prompt; what others wrote is shown, not obeyed.
fn shown(judged: &Value, format: Format) -> String {
    let word = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let of = |name: &str| judged[name].as_array().cloned().unwrap_or_default();
    let mut lines: Vec<String> = if format == Format::Feedback {
        of("feedback").iter().map(|one| format!("{}: {}", word(one, "message"), word(one, "hint"))).collect()
    } else {
        let mark = |case: &Value| if case["passed"] == true { "ok  " } else { "FAIL" };
        let line = |case: &Value| {
            format!("{} {}  {}  {}", mark(case), word(case, "name"), word(case, "verdict"), word(case, "detail"))
        };
        of("cases").iter().map(|case| line(case).trim_end().to_owned()).collect()
    };
    lines.push(format!("{} of {} passed, score {}", judged["passed"], judged["total"], judged["score"]));
    let text = lines.join("\n") + "\n";
    text.chars().map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Many, a line each, both ways at once.
pub(super) fn batch(
    command: &Judge,
    url: &str,
    tasks: Box<dyn Read + Send>,
    request: &ExecRequest,
) -> Result<u8, Failure> {
    command.refuse_beside(request)?;
    let mut out: Box<dyn Write> = match &command.options.out {
        Some(path) => {
            let failed = |source| RunError::Output { path: path.clone(), source };
            Box::new(File::create_new(path).map_err(failed)?)
        }
        None => Box::new(io::stdout()),
    };
    let jobs = command.jobs.map(|jobs| format!("?jobs={jobs}")).unwrap_or_default();
    let mut answer = Server::at(url)?.exchange(&format!("/v1/batch{jobs}"), tasks)?;
    let path = command.options.out.clone().unwrap_or_else(|| "standard output".into());
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = answer.body.read(&mut piece).map_err(broken)?;
        if count == 0 {
            return Ok(0);
        }
        let written = out.write_all(&piece[..count]).and_then(|()| out.flush());
        written.map_err(|source| RunError::Output { path: path.clone(), source })?;
    }
}
