//! Tools that need no session.

use engine::Delivery;
use evals::judge::{Judge, Judged, Task, for_prompt};
use serde_json::{Value, json};
use types::ExecRequest;

use super::answer::{self, Answer, Failed};
use super::progress::LastLine;
use super::read::{Arguments, read, refuse, wrong};
use super::tools::Call;

pub(super) async fn run(call: &Call<'_>, arguments: Arguments) -> Result<Answer, Failed> {
    refuse(&arguments, "argv", "a command is for the tool `exec`")?;
    let request: ExecRequest = read(arguments)?;
    if request.code.is_none() {
        return Err(wrong("`code` is missing".to_owned()));
    }
    execute(call, request).await
}

pub(super) async fn exec(call: &Call<'_>, arguments: Arguments) -> Result<Answer, Failed> {
    refuse(&arguments, "code", "code is for the tool `run`")?;
    let request: ExecRequest = read(arguments)?;
    if request.argv.as_ref().is_none_or(Vec::is_empty) {
        return Err(wrong("`argv` is missing: the program and its arguments".to_owned()));
    }
    execute(call, request).await
}

async fn execute(call: &Call<'_>, request: ExecRequest) -> Result<Answer, Failed> {
    let mut lines = LastLine::new(&call.said);
    let delivery = Delivery { live: Some(&mut lines), ..Delivery::default() };
    let result = call.engine.execute(&call.who.caller, request, delivery).await?;
    answer::of_run(&result)
}

pub(super) async fn check(call: &Call<'_>, mut arguments: Arguments) -> Result<Answer, Failed> {
    // As on the command line: whoever only asks wants to know what would block.
    arguments.entry("policy").or_insert_with(|| json!("guard"));
    let request: ExecRequest = read(arguments)?;
    if request.code.is_none() && request.argv.is_none() {
        return Err(wrong("`code` is missing".to_owned()));
    }
    let checked = call.engine.check(&call.who.caller, &request).await?;
    answer::of_check(&checked.result())
}

pub(super) async fn judge(call: &Call<'_>, arguments: Arguments) -> Result<Answer, Failed> {
    let task = Task::from_json(&Value::Object(arguments).to_string())?;
    let judge = Judge::new(call.engine.clone(), call.who.caller.clone(), ExecRequest::default());
    let judged = judge.judge(&task).await?;
    Answer::new(summary(&judged), &judged)
}

fn summary(judged: &Judged) -> String {
    let Judged { passed, total, score, .. } = judged;
    format!("{passed} of {total} cases passed, score {score:.4}\n{}", for_prompt(judged))
}
