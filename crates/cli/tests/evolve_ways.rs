//! The other ways of `saggar evolve`: strategies, replay, a person's queue, limits, exports, folders of `OpenEvolve`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;
#[path = "../../engine/tests/common/model_server.rs"]
mod model_server;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use common::{eventually, folder, json, saggar, text};
use model_server::{Act, ModelServer};
use serde_json::{Value, json};

const EVALUATOR: &str = "import importlib.util\ndef evaluate(path):\n    spec = importlib.util.spec_from_file_location('program', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    return {'combined_score': program.f(), 'other': -program.f()}\n";

struct User(PathBuf);

impl User {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let home = folder(name);
        for (name, content) in files {
            fs::write(home.join(name), content).unwrap();
        }
        Self(home)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = saggar(args);
        command.current_dir(&self.0).env("SAGGAR_HOME", self.0.join("state")).env("XDG_CONFIG_HOME", &self.0);
        command.env_remove("OPENAI_API_KEY");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

/// Answers with the numbers from 1 on, each as a program.
fn counting(to: u32) -> ModelServer {
    ModelServer::start((1..=to).map(|number| Act::Say(format!("```python\ndef f():\n    return {number}\n```"))))
}

fn task(server: &ModelServer, more: &str) -> String {
    format!(
        "prompt = 'more'\nprogram = \"def f():\\n    return 0\\n\"\nevaluator = 'evaluator.py'\n{more}\n[generator]\nmodel = 'house'\nbase_url = '{}'\nbackoff_ms = 1\n",
        server.base_url
    )
}

#[test]
fn every_strategy_finds_the_best_of_what_it_is_given() {
    for strategy in ["repair", "best_of_n", "islands", "pareto"] {
        let server = counting(8);
        let more = format!("strategy = '{strategy}'\nmax_iterations = 8\ntarget_score = 8");
        let user = User::new(
            &format!("evolve-{strategy}"),
            &[("task.toml", &task(&server, &more)), ("evaluator.py", EVALUATOR)],
        );
        let output = user.run(&["evolve", "task.toml", "--json"]);
        let result = json(&output);
        assert_eq!((output.status.code(), &result["best"]["score"]), (Some(0), &json!(8.0)), "{strategy}: {result}");
        assert_eq!(
            (&result["iterations"], &result["evaluations"], server.calls()),
            (&json!(8), &json!(9), 8),
            "{strategy}"
        );
        // The cost of a model without a price is not known, and not nothing.
        assert_eq!(result["usage"]["cost_usd"], Value::Null);
    }
}

#[test]
fn no_limit_is_passed_by_more_than_what_is_under_way() {
    for (limit, name, most) in [
        ("max_evaluations = 5", "max_evaluations", 4),
        ("max_tokens = 300", "max_tokens", 4),
        ("max_wall_ms = 0", "max_wall_ms", 0),
    ] {
        let server = counting(50);
        let more = format!("strategy = 'best_of_n'\nparallel = 2\nmax_iterations = 40\n{limit}");
        let user =
            User::new(&format!("evolve-{name}"), &[("task.toml", &task(&server, &more)), ("evaluator.py", EVALUATOR)]);
        let result = json(&user.run(&["evolve", "task.toml", "--json"]));
        assert_eq!(result["stop_reason"], json!(name), "{result}");
        assert_eq!(server.calls(), most, "{name}: {result}");
    }
    // A limit of money without a price is an error, not a limit of nothing.
    let server = counting(50);
    let user =
        User::new("evolve-cost", &[("task.toml", &task(&server, "max_cost_usd = 1.0")), ("evaluator.py", EVALUATOR)]);
    let output = user.run(&["evolve", "task.toml"]);
    assert_eq!((output.status.code(), server.calls()), (Some(2), 1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("[prices]"), "{}", text(&output.stderr));
}

#[test]
fn a_recorded_run_is_played_again() {
    let server = counting(6);
    let written = task(&server, "strategy = 'islands'\nmax_iterations = 6\nseed = 4");
    let user = User::new("evolve-replay", &[("task.toml", &written), ("evaluator.py", EVALUATOR)]);
    let first = json(&user.run(&["evolve", "task.toml", "--json", "--out", "first"]));
    let replay =
        written[..written.find("[generator]").unwrap()].to_owned() + "[generator]\nkind = 'replay'\nfrom = 'first'\n";
    fs::write(user.0.join("replay.toml"), &replay).unwrap();
    let second = json(&user.run(&["evolve", "replay.toml", "--json", "--out", "second"]));
    assert_eq!((&first["best"], server.calls()), (&second["best"], 6));
    let steps = |run: &str| text(&user.run(&["evolve", "export", run, "--format", "jsonl"]).stdout);
    assert_eq!(steps("first"), steps("second"));
    assert_eq!(steps("first").lines().count(), 7);
    // Another task asks other questions, and is told so.
    fs::write(user.0.join("other.toml"), replay.replace("'more'", "'less'")).unwrap();
    let output = user.run(&["evolve", "other.toml"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("asks another question"), "{}", text(&output.stderr));
    // A folder is one run's.
    let output = user.run(&["evolve", "other.toml", "--out", "first"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("another task"), "{}", text(&output.stderr));
}

#[test]
fn a_person_answers_by_files() {
    let written = "prompt = 'more'\nevaluator = 'evaluator.py'\ntarget_score = 2\n[generator]\nkind = 'manual'\nqueue = 'queue'\n";
    let user = User::new("evolve-manual", &[("task.toml", written), ("evaluator.py", EVALUATOR)]);
    let child = user.command(&["evolve", "task.toml", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let queue = user.0.join("queue");
    for (number, name) in [(1, "0001.answer.md"), (2, "0002.answer.py")] {
        let prompt = queue.join(format!("000{number}.prompt.md"));
        eventually("a question", || prompt.exists());
        let answer = format!("def f():\n    return {number}\n");
        // In one step: half an answer is none.
        fs::write(queue.join("draft"), answer).unwrap();
        fs::rename(queue.join("draft"), queue.join(name)).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &json(&output)["best"]["score"]), (Some(0), &json!(2.0)));
}

#[test]
fn a_run_is_exported_for_others() {
    let server = ModelServer::start([Act::Say("```python\ndef f():\n    return 3 # </script><b>\n```".to_owned())]);
    let written = task(&server, "max_iterations = 1");
    let user = User::new("evolve-export", &[("task.toml", &written), ("evaluator.py", EVALUATOR)]);
    assert_eq!(user.run(&["evolve", "task.toml", "--out", "run"]).status.code(), Some(0));
    let report = text(&user.run(&["evolve", "export", "run", "--format", "html"]).stdout);
    assert!(report.starts_with("<!doctype html>") && !report.contains("</script><b>"), "{report}");
    assert_eq!(report.matches("</script>").count(), 2);
    assert!(!report.contains("src=") && !report.contains("href="), "it needs other files");
    let output = user.run(&["evolve", "export", "run", "--format", "openevolve", "--out", "checkpoint_1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let read = |name: &str| fs::read_to_string(user.0.join("checkpoint_1").join(name)).unwrap();
    let metadata: Value = serde_json::from_str(&read("metadata.json")).unwrap();
    let best = metadata["best_program_id"].as_str().unwrap();
    let program: Value = serde_json::from_str(&read(&format!("programs/{best}.json"))).unwrap();
    assert_eq!((&program["metrics"]["combined_score"], &program["iteration_found"]), (&json!(3.0), &json!(1)));
    assert_eq!(read("best_program.py"), program["code"].as_str().unwrap());
    let history = text(&user.run(&["evolve", "history", "run"]).stdout);
    assert_eq!(history.lines().count(), 3, "{history}");
    assert!(text(&user.run(&["evolve", "show", "run"]).stdout).contains("stopped by max_iterations"));
}

#[test]
fn a_folder_of_open_evolve_is_a_task_as_it_is() {
    let start = "import math\n# EVOLVE-BLOCK-START\ndef search():\n    return 1.0\n# EVOLVE-BLOCK-END\n\n\ndef run():\n    return search()\n";
    let evaluator = "import importlib.util, json, os\nfrom openevolve.evaluation_result import EvaluationResult\n\
        def load(path):\n    spec = importlib.util.spec_from_file_location('program', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    return program\n\
        def evaluate_stage1(path):\n    return {'combined_score': load(path).run()}\n\
        def evaluate_stage2(path):\n    factor = json.load(open(os.path.join(os.path.dirname(__file__), 'data.json')))\n    return EvaluationResult(metrics={'combined_score': load(path).run() * factor}, artifacts={'note': 'second'})\n\
        def evaluate(path):\n    return evaluate_stage2(path)\n";
    let config = "max_iterations: 3 # few\nllm:\n  primary_model: \"a-model\"\n  api_base: \"https://nowhere.invalid/v1\"\n  temperature: 0.7\nprompt:\n  system_message: |\n    You improve search.\n    Be bold.\ndatabase:\n  num_islands: 2\nevaluator:\n  timeout: 20\n  cascade_thresholds: [2.0]\n  parallel_evaluations: 1\ndiff_based_evolution: true\n";
    let diff = "<<<<<<< SEARCH\n    return 1.0\n=======\n    return 5.0\n>>>>>>> REPLACE\n";
    let cheat = "```python\ndef search():\n    return 0.5\n\n\ndef run():\n    return 1000.0\n```";
    let server = ModelServer::start([Act::Say(diff.to_owned()), Act::Say(cheat.to_owned())]);
    let files =
        [("initial_program.py", start), ("evaluator.py", evaluator), ("config.yaml", config), ("data.json", "10")];
    let user = User::new("evolve-folder", &files);
    let output = user.run(&["evolve", ".", "--api-base", &server.base_url, "--json", "--out", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!((&result["best"]["score"], &result["iterations"]), (&json!(50.0), &json!(3)), "{result}");
    assert_eq!(result["best"]["code"], json!(start.replace("1.0", "5.0")));
    // What stands outside the marks is the starting program's, whatever an answer says.
    let steps = json(&user.run(&["evolve", "history", "run", "--json"]));
    assert_eq!(steps[2]["score"], json!(0.5), "{steps}");
    assert!(server.received()[0].messages()[1].1.contains("Be bold."));
    assert_eq!(server.received()[0].body["model"], json!("a-model"));
}
