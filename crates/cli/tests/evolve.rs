//! `saggar evolve`, as a user meets it, against a scripted model on a real socket, commands and mutators.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;
#[path = "../../engine/tests/common/model_server.rs"]
mod model_server;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{folder, json, saggar, text};
use model_server::{Act, ModelServer};
use serde_json::{Value, json};

const KEY: &str = "sk-proj-Zq8vN3xw5RtY7uIoPa2s";
const WRONG: &str = "Sorted:\n```python\ndef quicksort(arr):\n    return arr\n```\n";
const RIGHT: &str = "```python\ndef quicksort(arr):\n    if len(arr) < 2:\n        return arr\n    p = arr[0]\n    rest = arr[1:]\n    return quicksort([x for x in rest if x < p]) + [p] + quicksort([x for x in rest if x >= p])\n```\n";

/// The predecessor's example, and a hidden test beside it.
const TASK: &str = r#"
prompt = "Write quicksort(arr)"
language = "python"
entry = "quicksort"
tests = ["assert quicksort([3, 1, 2]) == [1, 2, 3]", "assert quicksort([]) == []", 'assert quicksort(["b", "a"]) == ["a", "b"]']
hidden_tests = ["assert quicksort([424242, 7, 7]) == [7, 7, 424242]"]
strategy = "repair"
max_iterations = 5
target_score = 1.0
seed = 1
"#;

/// A user with a task in a folder of their own.
struct User {
    home: PathBuf,
}

impl User {
    fn new(name: &str, task: &str) -> Self {
        let home = folder(name);
        fs::write(home.join("task.toml"), task).unwrap();
        Self { home }
    }

    fn with_model(name: &str, server: &ModelServer, task: &str) -> Self {
        let generator = format!(
            "[generator]\nkind = 'model'\nmodel = 'gpt-4o-mini'\nbase_url = '{}'\nbackoff_ms = 1\n",
            server.base_url
        );
        Self::new(name, &format!("{task}\n{generator}"))
    }

    fn put(&self, name: &str, content: &str) {
        fs::write(self.home.join(name), content).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = saggar(args);
        command.current_dir(&self.home).env("SAGGAR_HOME", self.home.join("state")).stdout(Stdio::piped());
        command.env("XDG_CONFIG_HOME", &self.home).env("OPENAI_API_KEY", KEY);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn history(&self, run: &str) -> Vec<Value> {
        json(&self.run(&["evolve", "history", run, "--json"])).as_array().unwrap().clone()
    }
}

#[test]
fn the_predecessors_quicksort_is_repaired_by_what_was_wrong_with_it() {
    let server = ModelServer::start([Act::Say(WRONG.to_owned()), Act::Say(RIGHT.to_owned())]);
    let user = User::with_model("evolve-quicksort", &server, TASK);
    let output = user.run(&["evolve", "task.toml", "--json", "--out", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let result = json(&output);
    assert!(result["id"].as_str().unwrap().starts_with("evolve_"), "{result}");
    assert_eq!((&result["best"]["iteration"], &result["best"]["score"]), (&json!(2), &json!(1.0)), "{result}");
    assert!(result["best"]["code"].as_str().unwrap().contains("p = arr[0]"));
    assert_eq!((&result["iterations"], &result["evaluations"]), (&json!(2), &json!(2)));
    assert_eq!(result["stop_reason"], json!("target_score"));
    let usage = &result["usage"];
    assert_eq!(
        (&usage["calls"], &usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(2), &json!(200), &json!(40))
    );
    assert!((usage["cost_usd"].as_f64().unwrap() - 0.000_048).abs() < 1e-9, "{usage}");
    assert!(usage["wall_ms"].as_f64().unwrap() > 0.0);
    // What was asked: no feedback at first, then what was wrong; nothing that is hidden.
    let asked = server.received();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].headers["authorization"], format!("Bearer {KEY}"));
    let (first, second) = (&asked[0].messages()[1].1, &asked[1].messages()[1].1);
    assert!(first.contains("Write quicksort(arr)") && !first.contains("What was wrong"), "{first}");
    assert!(second.contains("return arr") && second.contains("What was wrong with it"), "{second}");
    assert!(
        second.contains("quicksort([3, 1, 2]) == [1, 2, 3]") && second.contains("the assertion failed"),
        "{second}"
    );
    assert!(!first.contains("424242") && !second.contains("424242"), "{second}");
    // The ledger has the same two calls.
    let books = json(&user.run(&["usage", "--json"]));
    assert_eq!(
        (&books["lines"][0]["component"], &books["lines"][0]["calls"]),
        (&json!("evolve"), &json!(2)),
        "{books}"
    );
    assert_eq!(books["total"]["cost_usd"], usage["cost_usd"]);
    // And the history has both programs.
    let steps = user.history("run");
    let facts: Vec<_> =
        steps.iter().map(|step| (&step["iteration"], &step["accepted"], &step["passed"], &step["total"])).collect();
    let want = [(&json!(1), &json!(true), &json!(1), &json!(4)), (&json!(2), &json!(true), &json!(4), &json!(4))];
    assert_eq!(facts, want);
    assert_eq!(steps[1]["parent"], json!(1));
    let best = user.run(&["evolve", "best", "run"]);
    assert_eq!(text(&best.stdout), result["best"]["code"].as_str().unwrap());
    assert_eq!(fs::read_to_string(user.home.join("run/best_program.py")).unwrap(), text(&best.stdout));
    // By its id, and as the last one, too.
    for name in [result["id"].as_str().unwrap(), ""] {
        let args = ["evolve", "show", name, "--json"].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
        let shown = json(&user.run(&args));
        assert_eq!((&shown["id"], &shown["stop_reason"]), (&result["id"], &json!("target_score")));
    }
    // The same command has nothing left to do, and asks nobody.
    let again = json(&user.run(&["evolve", "task.toml", "--json", "--out", "run"]));
    assert_eq!((&again["id"], &again["iterations"], server.calls()), (&result["id"], &json!(2), 2));
    for entry in fs::read_dir(user.home.join("run")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!text(&bytes).contains(&KEY[..10]));
    }
}

#[test]
fn a_target_that_is_not_reached_is_exit_code_1() {
    let server = ModelServer::start([Act::Say(WRONG.to_owned()), Act::Say(WRONG.replace("Sorted", "Now sorted"))]);
    let user = User::with_model("evolve-not-reached", &server, TASK);
    let output = user.run(&["evolve", "task.toml", "--json"]);
    let result = json(&output);
    assert_eq!((output.status.code(), &result["stop_reason"]), (Some(1), &json!("max_iterations")), "{result}");
    // The same program five times is tried once.
    assert_eq!(
        (&result["iterations"], &result["evaluations"], &result["best"]["score"]),
        (&json!(5), &json!(1), &json!(0.25))
    );
    let zero = json(&user.run(&["evolve", "task.toml", "--json", "--max-iterations", "0"]));
    assert_eq!(
        (&zero["best"], &zero["iterations"], &zero["stop_reason"]),
        (&Value::Null, &json!(0), &json!("max_iterations"))
    );
}

#[test]
fn events_tell_what_happens_as_it_happens() {
    let server = ModelServer::start([
        Act::Say(WRONG.to_owned()),
        Act::Say("I cannot.\n```python\n```".to_owned()),
        Act::Say(RIGHT.to_owned()),
    ]);
    let user = User::with_model("evolve-events", &server, TASK);
    let output = user.run(&["evolve", "task.toml", "--events"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let events: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["started", "proposed", "evaluated", "proposed", "evaluated", "ended"]);
    // An answer without a program gets one more question, with the reason.
    assert_eq!((&events[3]["calls"], &events[5]["usage"]["calls"]), (&json!(2), &json!(3)), "{}", events[3]);
    let last = &server.received()[2].messages();
    assert!(last[3].1.contains("the answer holds no program"), "{last:?}");
}

#[test]
fn a_command_proposes_by_json() {
    let user = User::new(
        "evolve-command",
        &format!("{TASK}\n[generator]\nkind = \"command\"\ncommand = [\"./propose.py\"]\n"),
    );
    user.put(
        "propose.py",
        "#!/usr/bin/env python3\nimport json, sys\nask = json.load(sys.stdin)\nprint('thinking', file=sys.stderr)\n\
         if ask['parent'] is None:\n    code = 'def quicksort(arr): return arr'\n\
         else:\n    assert 'the assertion failed' in ask['feedback'] and ask['code'] == ask['parent']['code'], ask\n    code = 'def quicksort(arr): return sorted(arr)'\n\
         print(json.dumps({'code': code, 'usage': {'prompt_tokens': 5, 'completion_tokens': 2, 'cost_usd': 0.25}}))\n",
    );
    fs::set_permissions(user.home.join("propose.py"), fs::Permissions::from_mode(0o755)).unwrap();
    // From another folder: the command is the task's neighbour.
    let task = user.home.join("task.toml").display().to_string();
    let output = saggar(&["evolve", &task, "--json"])
        .current_dir("/")
        .env("SAGGAR_HOME", user.home.join("state"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!((&result["iterations"], &result["best"]["score"]), (&json!(2), &json!(1.0)));
    assert_eq!((&result["usage"]["calls"], &result["usage"]["cost_usd"]), (&json!(2), &json!(0.5)));
}

#[test]
fn a_task_that_makes_no_sense_says_what_is_wrong() {
    let cases = [
        ("prompt = 'x'\n[generator]\nmodel = 'm'\n", "nothing would tell a good program from a bad one"),
        ("prompt = 'x'\ntests = ['assert 1']\n", "`model` of [generator] is missing"),
        ("prompt = 'x'\ntests = ['assert 1']\nmax_iteration = 3\n", "max_iteration"),
        ("prompt = 'x'\ntests = ['assert 1']\n[generator]\nkind = 'mutate'\n", "mutators need a program"),
        ("prompt = 'x'\nprogram = 'nothing.py'\ntests = ['assert 1']\n[generator]\nmodel = 'm'\n", "nothing.py"),
    ];
    for (index, (task, words)) in cases.iter().enumerate() {
        let user = User::new(&format!("evolve-wrong-{index}"), task);
        let output = user.run(&["evolve", "task.toml"]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(words) && told.contains("hint:"), "{told}");
    }
    let user = User::new("evolve-nothing", "");
    assert_eq!(user.run(&["evolve", "show"]).status.code(), Some(2));
    assert_eq!(user.run(&["evolve"]).status.code(), Some(2));
}

#[test]
fn mutators_find_numbers_without_any_model() {
    let task = "prompt = 'f(3) must be 42'\nentry = 'f'\nprogram = \"def f(x):\\n    return x * 10 + 9\\n\"\nstrategy = 'islands'\n\
                cases = [{args = [3], expected = 42}, {args = [0], expected = 12}]\nmax_iterations = 400\nseed = 3\n[generator]\nkind = 'mutate'\n";
    let user = User::new("evolve-mutate", task);
    let output = user.run(&["evolve", "task.toml", "--json"]);
    let result = json(&output);
    assert_eq!((output.status.code(), &result["usage"]["calls"]), (Some(0), &json!(0)), "{result}");
    assert_eq!(result["best"]["score"], json!(1.0));
}

/// Everything that makes a history, in order.
fn dump(folder: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(folder.join("evolve.db")).unwrap();
    let mut lines = Vec::new();
    for table in ["proposals", "evaluations"] {
        let mut select = connection.prepare(&format!("SELECT * FROM {table} ORDER BY iteration")).unwrap();
        let columns = select.column_count();
        let rows = select.query_map([], |row| {
            Ok((0..columns).map(|i| format!("{:?}", row.get_ref(i).unwrap())).collect::<Vec<_>>().join("|"))
        });
        lines.extend(rows.unwrap().map(Result::unwrap));
    }
    lines
}

#[test]
fn a_run_that_is_killed_again_and_again_has_the_same_history() {
    let task = "prompt = 'near 0.7'\nprogram = \"def f():\\n    return [0.1, 0.2, 0.3]\\n\"\nevaluator = 'evaluator.py'\nstrategy = 'islands'\n\
                max_iterations = ITERATIONS\nseed = 9\n[generator]\nkind = 'mutate'\n";
    let kills = if std::env::var_os("SAGGAR_TEST_LONG").is_some() { 20 } else { 5 };
    let user = User::new("evolve-killed", &task.replace("ITERATIONS", &(40 + 8 * kills).to_string()));
    user.put(
        "evaluator.py",
        "import importlib.util\ndef evaluate(path):\n    spec = importlib.util.spec_from_file_location('program', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    return {'combined_score': -sum((x - 0.7) ** 2 for x in program.f())}\n",
    );
    let whole = user.run(&["evolve", "task.toml", "--json", "--out", "whole"]);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    let score = json(&whole)["best"]["score"].as_f64().unwrap();
    assert!((-0.7..0.0).contains(&score), "{score}");
    assert!(dump(&user.home.join("whole")).len() > 100);
    // At moments that nobody chose, in the middle of whatever it does then.
    let mut chance = std::collections::hash_map::RandomState::new();
    for kill in 0..kills {
        let mut child = user.command(&["evolve", "task.toml", "--events", "--out", "killed"]).spawn().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let draw = std::hash::BuildHasher::hash_one(&chance, kill);
        chance = std::collections::hash_map::RandomState::new();
        let seen = lines.take(1 + usize::try_from(draw % 7).unwrap()).count();
        let pause = std::time::Duration::from_micros(draw / 7 % 60_000);
        assert!(seen > 0);
        std::thread::sleep(pause);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let done = dump(&user.home.join("killed")).len();
    let resumed = user.run(&["evolve", "task.toml", "--json", "--out", "killed"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", text(&resumed.stderr));
    assert!(done < dump(&user.home.join("whole")).len(), "it was done before it was killed {kills} times");
    assert_eq!(json(&resumed)["best"], json(&whole)["best"]);
    // The best score never falls.
    let steps = user.history("killed");
    let mut best = f64::NEG_INFINITY;
    for step in &steps {
        let score = step["score"].as_f64().filter(|_| step["unscored"] == json!(false)).unwrap_or(f64::NEG_INFINITY);
        assert_eq!(step["accepted"], json!(score > best), "{step}");
        best = best.max(score);
    }
    assert_eq!(dump(&user.home.join("killed")), dump(&user.home.join("whole")));
}
