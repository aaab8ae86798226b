//! What the policy refuses never reaches a backend, and what it lets through says what was seen.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;
#[path = "common/counting.rs"]
mod counting;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::settings;
use counting::Counting;
use engine::{Backend, Caller, Delivery, Engine, Filter, OwnFiles, PolicySettings, Reader, Settings, check};
use types::{
    ExecRequest, ExecResult, FileContent, ImportLists, InputFile, Outcome, Policy, PolicyFile, RelPath, Source,
    ToolFiles,
};

fn python(code: &str, policy: Policy) -> ExecRequest {
    ExecRequest { code: Some(Source(code.into())), policy, ..ExecRequest::default() }
}

fn with(policy: PolicySettings) -> Settings {
    Settings { policy, ..settings() }
}

async fn execute(settings: Settings, request: ExecRequest) -> ExecResult {
    let engine = Engine::open(settings).unwrap();
    engine.execute(&Caller::default(), request, Delivery::default()).await.unwrap()
}

fn refused(settings: &Settings, request: &ExecRequest) -> Option<String> {
    check(request, settings).unwrap().report.refused_by
}

const SYSTEM: &str = "from os import system as s\ns('id')";

#[tokio::test(flavor = "current_thread")]
async fn guard_refuses_with_the_rule_and_a_word_for_who_wrote_it() {
    let result = execute(settings(), python(SYSTEM, Policy::Guard)).await;
    assert_eq!(result.outcome, Outcome::Refused { rule: "python.process.start".to_owned() });
    assert!(!result.ok && result.stdout.is_empty() && result.isolation.layers.is_empty());
    assert!(result.findings.iter().any(|finding| finding.blocks && finding.line == 1));
    assert_eq!((result.feedback[0].kind.as_str(), result.feedback[0].line), ("python.process.start", Some(1)));
}

/// What the command line takes from the disk with `--file` was written by somebody, too.
#[tokio::test(flavor = "current_thread")]
async fn code_among_the_callers_own_files_is_checked() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut large = SYSTEM.to_owned();
    large.extend(std::iter::repeat_n("\n# nothing", 1 << 20));
    for (content, policy, rule) in
        [(SYSTEM, Policy::Guard, "python.process.start"), (large.as_str(), Policy::Strict, "policy.unread")]
    {
        let path = folder.join(format!("own-{}.py", content.len()));
        fs::write(&path, content).unwrap();
        let file = InputFile { path: RelPath::new("helper.py").unwrap(), content: FileContent::Host(path) };
        let request = ExecRequest { files: vec![file], ..python("import helper", policy) };
        let (engine, mut own) = (Engine::open(settings()).unwrap(), OwnFiles);
        let delivery = Delivery { inputs: Some(&mut own), ..Delivery::default() };
        let result = engine.execute(&Caller::default(), request, delivery).await.unwrap();
        assert_eq!(result.outcome, Outcome::Refused { rule: rule.to_owned() });
        assert_eq!(result.findings[0].file.as_deref(), Some("helper.py"));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_refused_run_reaches_no_backend_and_leaves_an_entry() {
    let backend = Arc::new(Counting::default());
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("state-policy-refused");
    let _ = fs::remove_dir_all(&state);
    let counted: Arc<dyn Backend> = backend.clone();
    let engine = Engine::with_backend(Settings { state: state.clone(), ..settings() }, counted).unwrap();
    let caller = Caller::default();
    let run = |policy| engine.execute(&caller, python(SYSTEM, policy), Delivery::default());
    let refused = run(Policy::Strict).await.unwrap();
    assert_eq!((refused.outcome.is_ok(), backend.asked()), (false, 0));
    // The same without the check gets as far as the backend, which has no sandbox to give.
    assert!(run(Policy::Off).await.is_err());
    assert_eq!(backend.asked(), 1);
    let entries = Reader::open(&state).unwrap().newest(&Filter::default(), 10).unwrap();
    let kinds: Vec<_> = entries.iter().rev().map(|entry| (entry.kind.as_str(), entry.outcome.as_str())).collect();
    assert_eq!(kinds, [("refused", "refused"), ("error", "sandbox_failed")]);
    assert!(entries[1].details.contains("python.process.start"), "{}", entries[1].details);
}

#[tokio::test(flavor = "current_thread")]
async fn report_runs_and_shows_and_off_does_not_look() {
    let result = execute(settings(), python("import subprocess\nprint(1)", Policy::Report)).await;
    assert_eq!((result.outcome, result.stdout.as_str()), (Outcome::Exited { code: 0 }, "1\n"));
    assert_eq!(
        result.findings.iter().map(|finding| finding.rule.as_str()).collect::<Vec<_>>(),
        ["python.import.subprocess"]
    );
    let result = execute(settings(), python("import subprocess\nprint(1)", Policy::Off)).await;
    assert_eq!((result.stdout.as_str(), result.findings.len()), ("1\n", 0));
}

#[tokio::test(flavor = "current_thread")]
async fn large_code_is_read_as_well() {
    let code = format!("{}\n{SYSTEM}", "x = 1\n".repeat(10_000));
    let result = execute(settings(), python(&code, Policy::Guard)).await;
    assert_eq!(result.outcome, Outcome::Refused { rule: "python.process.start".to_owned() });
}

#[tokio::test(flavor = "current_thread")]
async fn no_request_gets_a_milder_policy_than_the_settings() {
    let strict = || with(PolicySettings { least: Policy::Strict, ..PolicySettings::default() });
    let result = execute(strict(), python("import socket", Policy::Off)).await;
    assert_eq!(result.outcome, Outcome::Refused { rule: "python.import.network".to_owned() });
    let own = PolicyFile { ignore: vec!["python.import.network".to_owned()], ..PolicyFile::default() };
    let request = ExecRequest { policy_file: Some(own), ..python("import socket", Policy::Strict) };
    assert!(check(&request, &strict()).is_err());
}

#[test]
fn lists_of_the_owner_and_the_request_both_hold() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let owner = with(PolicySettings {
        file: PolicyFile { allow_imports: names(&["math", "json"]), ..PolicyFile::default() },
        ..PolicySettings::default()
    });
    let request = |code: &str| ExecRequest { allow_imports: names(&["math", "os"]), ..python(code, Policy::Strict) };
    assert_eq!(refused(&owner, &request("import math, re")), None);
    for code in ["import json", "import os", "from json import loads", "import random\nrandom._os"] {
        assert_eq!(refused(&owner, &request(code)).as_deref(), Some("python.import.not_allowed"), "{code}");
    }
    let denying = ExecRequest { deny_imports: names(&["math"]), ..python("import math", Policy::Guard) };
    assert_eq!(refused(&owner, &denying).as_deref(), Some("python.import.denied"));
}

#[test]
fn tools_have_lists_of_their_own() {
    let file = |path: &str, text: &str| InputFile {
        path: RelPath::new(path).unwrap(),
        content: FileContent::Text(text.to_owned()),
    };
    let policy = |tools: &[&str]| PolicyFile {
        allow_imports: vec!["math".to_owned()],
        tools: ToolFiles {
            files: tools.iter().map(|name| (*name).to_owned()).collect(),
            allow_imports: vec!["socket".to_owned()],
            ..ToolFiles::default()
        },
        files: [("own.py".to_owned(), ImportLists { deny_imports: vec!["math".to_owned()], ..ImportLists::default() })]
            .into(),
        ..PolicyFile::default()
    };
    let request = |tools: &[&str], code: &str, files: Vec<InputFile>| ExecRequest {
        policy_file: Some(policy(tools)),
        files,
        ..python(code, Policy::Guard)
    };
    let settings = settings();
    let tool = || vec![file("tools.py", "import socket")];
    assert_eq!(refused(&settings, &request(&["tools.py"], "import tools, math", tool())), None);
    let code_like_a_tool = request(&["tools.py"], "import tools, socket", tool());
    assert_eq!(refused(&settings, &code_like_a_tool).as_deref(), Some("python.import.not_allowed"));
    assert_eq!(refused(&settings, &request(&[], "import tools", tool())).as_deref(), Some("python.import.not_allowed"));
    let one_file = request(&[], "import own", vec![file("own.py", "import math")]);
    let report = check(&one_file, &settings).unwrap().report;
    assert_eq!(report.refused_by.as_deref(), Some("python.import.denied"));
    assert_eq!(report.findings[0].file.as_deref(), Some("own.py"));
}

#[test]
fn own_rules_are_read_from_toml() {
    let policy: PolicyFile = toml::from_str(
        "ignore = ['python.import.network']\n[[rules]]\nid = 'mine.print'\nseverity = 'critical'\nmatch = 'call'\nnames = ['builtins.print']\n\
         [[rules]]\nid = 'mine.word'\nseverity = 'medium'\nmatch = 'text'\nnames = ['SECRET']\nmessage = 'the word {}'",
    )
    .unwrap();
    let request = |code: &str, level| ExecRequest { policy_file: Some(policy.clone()), ..python(code, level) };
    let settings = settings();
    assert_eq!(refused(&settings, &request("p = print\np(1)", Policy::Guard)).as_deref(), Some("mine.print"));
    assert_eq!(refused(&settings, &request("x = 'a ' + 'secret'", Policy::Strict)).as_deref(), Some("mine.word"));
    assert_eq!(refused(&settings, &request("import socket", Policy::Strict)), None);
    assert!(toml::from_str::<PolicyFile>("alow_imports = []").is_err());
}

#[tokio::test(flavor = "current_thread")]
async fn commands_are_read_and_held_to_the_list() {
    let command = |argv: &[&str], policy| ExecRequest {
        argv: Some(argv.iter().map(|word| (*word).to_owned()).collect()),
        policy,
        ..ExecRequest::default()
    };
    let plain = settings();
    for (argv, rule) in [
        (&["rm", "-rf", "/"][..], "bash.remove.root"),
        (&["bash", "-c", "curl x | sh"], "bash.pipe.shell"),
        (&["python3", "-c", SYSTEM], "python.process.start"),
        (&["env", "A=1", "rm", "-rf", "/usr"], "bash.remove.root"),
    ] {
        assert_eq!(refused(&plain, &command(argv, Policy::Guard)).as_deref(), Some(rule), "{argv:?}");
    }
    let listed = || with(PolicySettings { commands: Some(vec!["ls".to_owned()]), ..PolicySettings::default() });
    let result = execute(listed(), command(&["ls", "/"], Policy::Report)).await;
    assert_eq!(result.outcome, Outcome::Exited { code: 0 });
    let result = execute(listed(), command(&["cat", "/etc/hostname"], Policy::Off)).await;
    assert_eq!(result.outcome, Outcome::Refused { rule: "exec.command.not_allowed".to_owned() });
}

#[test]
fn a_language_without_a_reader_is_not_passed_in_silence() {
    let request = |policy| ExecRequest { language: Some("c".to_owned()), ..python("int main() {}", policy) };
    assert_eq!(refused(&settings(), &request(Policy::Strict)).as_deref(), Some("policy.unread"));
    let report = check(&request(Policy::Guard), &settings()).unwrap().report;
    assert_eq!((report.findings.len(), report.refused_by), (1, None));
}

#[test]
fn syntax_is_that_of_the_interpreter_that_would_run_it() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("old-python");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("python3.8");
    fs::write(&program, "").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let old = Settings { interpreters: [("python".to_owned(), program)].into(), ..settings() };
    let error = |settings: &Settings, code| check(&python(code, Policy::Guard), settings).unwrap().report.syntax_error;
    let choice = "match x:\n    case 1:\n        pass\n";
    let found = error(&old, choice).unwrap();
    assert_eq!((found.line, found.column), (1, 1));
    assert!(found.message.contains("3.8"), "{}", found.message);
    assert_eq!(error(&old, "print(1)"), None);
    assert!(error(&old, "try:\n    pass\nexcept* ValueError:\n    pass\n").is_some());
}

/// Printed with `--nocapture`; means something with optimisation only.
#[test]
fn a_check_costs_a_warm_run_little() {
    let (request, settings) = (python("print('hello')", Policy::Report), settings());
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            let start = Instant::now();
            check(&request, &settings).unwrap();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("the check of a small program: {:?} in the middle of 500", times[250]);
    assert!(cfg!(debug_assertions) || times[250] < Duration::from_millis(2), "{:?}", times[250]);
}
