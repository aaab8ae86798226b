//! Program cases: the code is run as a program, its output compared here. Compiled once for each task.

use engine::{Built, Delivery};
use types::{ExecResult, Outcome};

use super::checker::Checkers;
use super::error::JudgeError;
use super::ground::Ground;
use super::result::{Finished, Verdict};
use super::task::{Case, Compare, Io};
use super::text;
use super::value::{short, shorter};

/// Room for output beyond what is expected: blanks, and what is wrong.
const MORE_OUTPUT: usize = 64 << 10;
/// Room where only a checker knows how long an output may be.
const CHECKED_OUTPUT: usize = 16 << 20;

/// Runs program cases one after the other, each in a sandbox of its own.
pub(crate) struct Programs<'g> {
    ground: &'g Ground,
    built: Option<Built>,
    /// Why no case can be run.
    broken: Option<Finished>,
}

impl<'g> Programs<'g> {
    pub(crate) fn new(ground: &'g Ground) -> Self {
        Self { ground, built: None, broken: None }
    }

    /// Judges one case.
    pub(crate) async fn run(
        &mut self,
        case: &Case,
        io: &Io,
        checkers: &mut Checkers<'_>,
    ) -> Result<Finished, JudgeError> {
        if let Some(broken) = &self.broken {
            return Ok(broken.clone());
        }
        let mut request = self.ground.request(self.ground.alone(case));
        request.stdin.clone_from(&io.stdin);
        request.args.clone_from(&case.argv);
        let room = if matches!(case.compare, Some(Compare::Checker { .. })) { CHECKED_OUTPUT } else { MORE_OUTPUT };
        let room = room + 2 * io.stdout.as_ref().map_or(0, String::len);
        let kept = self.ground.limits.output.max(room as u64).min(self.ground.engine.most_output());
        request.limits.output_kb = Some(kept as f64 / 1024.0);
        let delivery = Delivery { built: Some(&mut self.built), ..Delivery::default() };
        let result = self.ground.engine.execute(&self.ground.caller, request, delivery).await?;
        self.ground.note(&result);
        let finished = conclude(self.ground, case, io, &result, checkers).await?;
        if matches!(finished.verdict, Verdict::CompileError | Verdict::Refused) {
            self.broken = Some(finished.clone());
        }
        Ok(Finished { wall_ms: result.usage.wall_ms, ..finished })
    }
}

async fn conclude(
    ground: &Ground,
    case: &Case,
    io: &Io,
    result: &ExecResult,
    checkers: &mut Checkers<'_>,
) -> Result<Finished, JudgeError> {
    let late = ground.too_late(case, result).filter(|_| ground.by_cpu() && result.outcome.is_ok());
    if let Some(finished) = late.or_else(|| bad_end(ground, io, result)) {
        return Ok(finished.with_output(short(&result.stdout)));
    }
    let output = short(&result.stdout);
    let Some(expected) = &io.stdout else { return Ok(Finished::pass(output)) };
    if result.stdout_truncated {
        let detail = format!("it wrote {} bytes, far more than expected", result.stdout_bytes);
        return Ok(Finished::new(Verdict::WrongAnswer, detail).with_output(output));
    }
    let how = case.compare.as_ref().unwrap_or(&Compare::Rstrip);
    let finished = match how {
        Compare::Checker { language, code } => {
            checkers.ask((language, code), [&io.stdin, &result.stdout, expected]).await?
        }
        how => match text::outputs(expected, &result.stdout, how) {
            Ok(()) => Finished::pass(String::new()),
            Err(detail) => Finished::new(Verdict::WrongAnswer, detail),
        },
    };
    Ok(finished.with_output(output))
}

/// An end that no output makes good.
fn bad_end(ground: &Ground, io: &Io, result: &ExecResult) -> Option<Finished> {
    if let Some(compile) = result.compile.as_ref().filter(|compile| !compile.ok) {
        let words = if compile.stderr.trim().is_empty() { &compile.stdout } else { &compile.stderr };
        return Some(Finished::new(Verdict::CompileError, shorter(&words.trim(), 1000)));
    }
    match &result.outcome {
        Outcome::Exited { code } if *code == io.exit_code => None,
        Outcome::Exited { code } => {
            if let Some(exception) = &result.exception {
                let shown = format!("{}: {}", exception.kind, shorter(&exception.message, 500));
                let line = exception.line.map(|line| format!(" (line {line})")).unwrap_or_default();
                let finished = Finished::new(Verdict::Exception, format!("it raised {shown}{line}"));
                return Some(Finished { exception: Some((exception.kind.clone(), exception.line)), ..finished });
            }
            let words = result.stderr.trim();
            let words = if words.is_empty() { String::new() } else { format!(": {}", shorter(&words, 500)) };
            Some(Finished::new(Verdict::Crashed, format!("it ended with exit code {code}{words}")))
        }
        _ => Some(ground.ended_by(result)),
    }
}
