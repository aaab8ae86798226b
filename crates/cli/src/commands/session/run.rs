//! Code in the interpreter of a session: `run`.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use engine::CellSpec;
use serde_json::Value;
use types::{ExecRequest, ExecResult, LimitsSpec, parse_duration};

use super::{address, body};
use crate::commands::run::exit_code;
use crate::failure::{Failure, print_json, unheard};
use crate::options::wrong;
use crate::program::Program;
use crate::remote::{Server, broken};
use crate::terminal::Live;

/// Run code in the interpreter of a session: variables are there for the next
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  saggar session run ses_4f1c… -c 'x = 1'\n  saggar session run ses_4f1c… -c 'x + 1'\n  saggar session run ses_4f1c… -l node -c '[1, 2].map(n => n * 2)'\n\nExit code: 0; 1 after an exception; 124 time limit, 126 refused, 130 cancelled, 125 saggar failed, 2 wrong usage."
)]
pub(super) struct Run {
    /// The session
    id: String,
    #[command(flatten)]
    program: Program,
    /// Which interpreter, if there is more than one of the language
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Wall time, after which the code is interrupted [default: the session's, 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Print the whole result as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Run {
    pub(super) fn execute(self, server: &Server) -> Result<u8, Failure> {
        let mut request = ExecRequest::default();
        self.program.put_into(&mut request)?;
        let code = String::from_utf8(request.code.map(|code| code.0).unwrap_or_default());
        let code = code.map_err(|_| wrong("the code must be UTF-8 text".to_owned()))?;
        let limits =
            LimitsSpec { wall_ms: self.timeout.map(|time| time.as_secs_f64() * 1000.0), ..LimitsSpec::default() };
        let cell = CellSpec { code, language: request.language, context: self.context, limits, ..CellSpec::default() };
        let answer: Value = server.json("POST", &address(&self.id, "/run"), body(&cell)?)?;
        let run: ExecResult = serde_json::from_value(answer.clone()).map_err(|error| broken(error.into()))?;
        if self.json {
            print_json(&answer)?;
        } else {
            show(&run, &answer).map_err(unheard)?;
        }
        Ok(exit_code(&run.outcome))
    }
}

/// What the code printed, the value of its last expression, and what went wrong.
fn show(run: &ExecResult, answer: &Value) -> io::Result<()> {
    use engine::{Output as _, Stream};
    let mut live = Live::new(false);
    let _ = live.write(Stream::Out, run.stdout.as_bytes());
    let main = answer["main_result"].as_u64().and_then(|index| usize::try_from(index).ok());
    if let Some(text) = main.and_then(|index| answer["results"][index]["text/plain"].as_str()) {
        let _ = live.write(Stream::Out, format!("{text}\n").as_bytes());
    }
    let _ = live.write(Stream::Err, run.stderr.as_bytes());
    if let Some(exception) = &run.exception {
        let _ = live.write(Stream::Err, exception.traceback.as_bytes());
    }
    live.finish();
    io::stdout().flush()
}
