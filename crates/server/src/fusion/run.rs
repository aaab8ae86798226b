//! `/run_code`: a request in `SandboxFusion`'s words, a run of ours, and the answer in its words again.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::{Built, Caller, Delivery, Engine};
use tokio::sync::watch;
use types::{
    Compile, ExecRequest, ExecResult, FileContent, InputFile, LimitKind, LimitsSpec, Outcome, Policy, RelPath, Source,
    Usage,
};

use super::language::{self, Way};
use super::wire::{RunCode, RunCodeAnswer, Status, Step, StepStatus};
use super::{Trouble, sandbox_error};

/// Kept of each output: `SandboxFusion` keeps 1 MiB, and loses what is above without a word.
const OUTPUT_KB: f64 = 16384.0;
/// Files that it passes over.
const IGNORED: &str = "IGNORE_THIS_FILE";
/// Where tests of Python are placed.
const TESTS: &str = "test_code.py";
const RUN_TESTS: &str = "import sys, pytest\nsys.exit(pytest.main(['-p', 'no:cacheprovider', 'test_code.py']))\n";

/// Carries out a request.
pub(super) async fn run_code(
    engine: &Engine,
    caller: &Caller,
    request: RunCode,
    cancel: watch::Receiver<bool>,
) -> Result<RunCodeAnswer, Trouble> {
    run_code_again(engine, caller, &request, cancel, &mut None).await
}

/// The same for one of many with the same code: it is compiled once.
pub(super) async fn run_code_again(
    engine: &Engine,
    caller: &Caller,
    request: &RunCode,
    cancel: watch::Receiver<bool>,
    built: &mut Option<Built>,
) -> Result<RunCodeAnswer, Trouble> {
    let run = match translate(request, engine.most_output())? {
        Ok(run) => run,
        Err(why) => return Ok(no_answer(why)),
    };
    let compile = Duration::try_from_secs_f64(request.compile_timeout).ok().filter(|time| !time.is_zero());
    let delivery = Delivery { cancel: Some(cancel), compile_wall: compile, built: Some(built), ..Delivery::default() };
    match engine.execute(caller, run, delivery).await {
        Ok(result) => Ok(answer(request, result)),
        Err(error) => Ok(no_answer(sandbox_error(&error)?)),
    }
}

/// Ours, or why it cannot be carried out here.
fn translate(request: &RunCode, most_output: u64) -> Result<Result<ExecRequest, String>, Trouble> {
    let name: String = request.language.chars().take(50).collect();
    let Some(way) = language::way(&request.language) else {
        let known = language::known();
        return Err(Trouble::Unreadable(format!("there is no language `{name}`; these run here: {known}")));
    };
    let mut files = match inputs(&request.files) {
        Ok(files) => files,
        Err(why) => return Ok(Err(why)),
    };
    let (language, code) = match way {
        Way::Recipe("php") => ("php", with_php_tag(&request.code)),
        Way::Recipe(recipe) => (recipe, request.code.clone()),
        Way::Pytest => {
            let Ok(path) = RelPath::new(TESTS) else { return Ok(Err("no tests".to_owned())) };
            files.retain(|file| file.path != path);
            files.push(InputFile { path, content: FileContent::Text(request.code.clone()) });
            ("python", RUN_TESTS.to_owned())
        }
        Way::Missing => {
            let known = language::known();
            return Ok(Err(format!("the language `{name}` does not run here; these do: {known}")));
        }
    };
    // A file of the caller's own keeps its name; the code has none that anybody counts on, but in Java.
    let taken = |name: &str| files.iter().any(|file| file.path.as_str() == name);
    let file_name = match language {
        "python" if taken("main.py") => RelPath::new("saggar_code.py").ok(),
        "bash" if taken("main.sh") => RelPath::new("saggar_code.sh").ok(),
        "node" if taken("main.js") => RelPath::new("saggar_code.js").ok(),
        _ => None,
    };
    let collect = request.fetch_files.iter().filter_map(|path| RelPath::new(path.as_str()).ok()).map(String::from);
    Ok(Ok(ExecRequest {
        language: Some(language.to_owned()),
        code: Some(Source(code.into_bytes())),
        file_name,
        stdin: request.stdin.clone().unwrap_or_default(),
        files,
        limits: LimitsSpec {
            wall_ms: Some(request.run_timeout * 1000.0),
            memory_mb: Some(request.memory_limit_mb).filter(|limit| *limit > 0.0),
            output_kb: Some(OUTPUT_KB.min(most_output as f64 / 1024.0)),
            ..LimitsSpec::default()
        },
        // SandboxFusion has none; the settings may still ask for one.
        policy: Policy::Off,
        collect: collect.collect(),
        ..ExecRequest::default()
    }))
}

/// Files to place, or which of them cannot be.
pub(super) fn inputs(files: &BTreeMap<String, Option<String>>) -> Result<Vec<InputFile>, String> {
    let given = files.iter().filter(|(path, _)| !path.contains(IGNORED));
    let given = given.filter_map(|(path, content)| content.as_ref().map(|content| (path, content)));
    given
        .map(|(path, content)| {
            let path = RelPath::new(path.as_str()).map_err(|error| format!("the file {error}"))?;
            Ok(InputFile { path, content: FileContent::Base64(content.clone()) })
        })
        .collect()
}

fn with_php_tag(code: &str) -> String {
    let code = code.trim_start();
    if code.starts_with("<?php") { code.to_owned() } else { format!("<?php\n{code}") }
}

/// Trouble of ours, which its clients take for no answer.
pub(super) fn no_answer(message: String) -> RunCodeAnswer {
    RunCodeAnswer {
        status: Status::SandboxError,
        message,
        compile_result: None,
        run_result: None,
        executor_pod_name: None,
        files: BTreeMap::new(),
        id: None,
    }
}

fn answer(request: &RunCode, result: ExecResult) -> RunCodeAnswer {
    let files = fetched(request, &result);
    let message = remarks(&result);
    let compile_result = result.compile.as_ref().map(of_compiler);
    let failed = result.compile.as_ref().is_some_and(|compile| !compile.ok);
    // A program that did not compile did not run.
    let run_result = (!failed).then(|| step(&result.outcome, result.usage, result.stdout, result.stderr));
    let status = status([compile_result.as_ref(), run_result.as_ref()]);
    let id = Some(result.id);
    RunCodeAnswer { status, message, compile_result, run_result, executor_pod_name: None, files, id }
}

fn of_compiler(compile: &Compile) -> Step {
    step(&compile.outcome, compile.usage, compile.stdout.clone(), compile.stderr.clone())
}

/// One step in `SandboxFusion`'s words.
pub(super) fn step(outcome: &Outcome, usage: Usage, stdout: String, mut stderr: String) -> Step {
    let (status, return_code, limit) = match outcome {
        Outcome::Exited { code } => (StepStatus::Finished, Some(*code), None),
        // As Python tells of a child that a signal ended.
        Outcome::Signaled { signal } => (StepStatus::Finished, Some(-signal), None),
        Outcome::LimitExceeded { limit: limit @ (LimitKind::Wall | LimitKind::Cpu) } => {
            (StepStatus::TimeLimitExceeded, None, Some(*limit))
        }
        Outcome::LimitExceeded { limit } => (StepStatus::Finished, Some(-9), Some(*limit)),
        Outcome::Refused { rule } => {
            stderr = format!("{stderr}refused by {rule}: nothing was run\n");
            (StepStatus::Finished, Some(126), None)
        }
        Outcome::Cancelled => (StepStatus::Error, None, None),
    };
    Step {
        status,
        execution_time: Some(usage.wall_ms / 1000.0),
        cpu_time: Some(usage.cpu_ms / 1000.0),
        return_code,
        stdout: Some(stdout),
        stderr: Some(stderr),
        limit,
    }
}

/// As `SandboxFusion` puts steps together.
fn status(steps: [Option<&Step>; 2]) -> Status {
    let steps = || steps.into_iter().flatten();
    if steps().any(|step| step.status == StepStatus::Error) {
        Status::SandboxError
    } else if steps().all(|step| step.status == StepStatus::Finished && step.return_code == Some(0)) {
        Status::Success
    } else {
        Status::Failed
    }
}

/// What a person should know: empty, as a rule.
fn remarks(result: &ExecResult) -> String {
    let mut remarks = Vec::new();
    let ends = [Some(&result.outcome), result.compile.as_ref().map(|compile| &compile.outcome)];
    if ends.into_iter().flatten().any(|outcome| *outcome == Outcome::LimitExceeded { limit: LimitKind::Memory }) {
        remarks.push("the memory limit was exceeded".to_owned());
    }
    for (cut, name, bytes) in [
        (result.stdout_truncated, "stdout", result.stdout_bytes),
        (result.stderr_truncated, "stderr", result.stderr_bytes),
    ] {
        if cut {
            remarks.push(format!("{name} was cut: it has {bytes} bytes in all"));
        }
    }
    if result.outcome == Outcome::Cancelled {
        remarks.push("the server is stopping".to_owned());
    }
    remarks.extend(result.feedback.iter().filter(|feedback| feedback.kind == "files").map(|it| it.message.clone()));
    remarks.join("; ")
}

/// Files that were asked for, by the names that they were asked by. One that the caller placed and the program left alone
/// is his own again.
fn fetched(request: &RunCode, result: &ExecResult) -> BTreeMap<String, String> {
    let plain = |path: &String| RelPath::new(path.as_str()).ok();
    let content = |name: &String| {
        let path = plain(name)?;
        let made = result.files.iter().find(|file| file.path == path.as_str());
        let own = || {
            request.files.iter().find(|(own, _)| plain(own).as_ref() == Some(&path)).and_then(|(_, own)| own.clone())
        };
        made.map_or_else(own, |made| made.base64.clone())
    };
    request.fetch_files.iter().filter_map(|name| Some((name.clone(), content(name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(outcome: &Outcome) -> (StepStatus, Option<i32>, Status) {
        let step = step(outcome, Usage::default(), String::new(), String::new());
        (step.status, step.return_code, status([None, Some(&step)]))
    }

    #[test]
    fn only_exit_code_0_is_a_success() {
        let exceeded = |limit| Outcome::LimitExceeded { limit };
        for (outcome, wanted) in [
            (Outcome::Exited { code: 0 }, (StepStatus::Finished, Some(0), Status::Success)),
            (Outcome::Exited { code: 3 }, (StepStatus::Finished, Some(3), Status::Failed)),
            (Outcome::Signaled { signal: 11 }, (StepStatus::Finished, Some(-11), Status::Failed)),
            (exceeded(LimitKind::Wall), (StepStatus::TimeLimitExceeded, None, Status::Failed)),
            (exceeded(LimitKind::Memory), (StepStatus::Finished, Some(-9), Status::Failed)),
            (Outcome::Refused { rule: "x".to_owned() }, (StepStatus::Finished, Some(126), Status::Failed)),
            (Outcome::Cancelled, (StepStatus::Error, None, Status::SandboxError)),
        ] {
            assert_eq!(of(&outcome), wanted, "{outcome:?}");
        }
    }

    #[test]
    fn a_request_of_verls_is_read_whole() {
        let request: RunCode = serde_json::from_str(
            r#"{"compile_timeout": 10, "run_timeout": 10, "code": "print(1)", "stdin": null, "memory_limit_MB": 1024,
                "language": "python", "files": {}, "fetch_files": []}"#,
        )
        .unwrap();
        let run = translate(&request, 1 << 30).unwrap().unwrap();
        assert_eq!((run.limits.wall_ms, run.limits.memory_mb), (Some(10_000.0), Some(1024.0)));
        let other = RunCode { language: "cobol".to_owned(), ..request.clone() };
        assert!(matches!(translate(&other, 1 << 30), Err(Trouble::Unreadable(_))));
        let missing = RunCode { language: "lean".to_owned(), ..request.clone() };
        assert!(translate(&missing, 1 << 30).unwrap().unwrap_err().contains("lean"));
        let files = BTreeMap::from([("../x".to_owned(), Some(String::new()))]);
        assert!(translate(&RunCode { files, ..request }, 1 << 30).unwrap().is_err());
    }
}
