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

/// As much of a browser as the report needs: a window with names of its own, and elements that count their children.
const BROWSER: &str = r#"
const html = require("fs").readFileSync(process.argv[2], "utf8"), vm = require("vm"), all = {};
const element = () => ({ n: 0, dataset: {}, rows: [], style: {}, classList: { toggle() {} }, setAttribute() {}, addEventListener() {},
  append(...parts) { this.n += parts.length; this.rows.push(...parts); }, get tBodies() { return [this]; } });
const [data, script] = [/id="data">([^]*?)<\/script>/, /<script>([^]*?)<\/script>/].map(part => html.match(part)[1]);
const document = { getElementById: id => all[id] ??= element(), createElement: element, createElementNS: element };
document.getElementById("data").textContent = data;
const window = vm.createContext({ document });
vm.runInContext('for (const name of ["top", "window", "location", "document"]) Object.defineProperty(globalThis, name, { value: globalThis[name], configurable: false });', window);
vm.runInContext(script, window);
console.log(JSON.stringify(Object.fromEntries(Object.entries(all).map(([id, e]) => [id, e.n]))));
"#;

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
    // Its script runs where a browser would run it, and draws every part.
    fs::write(user.0.join("report.html"), &report).unwrap();
    fs::write(user.0.join("browser.js"), BROWSER).unwrap();
    let drawn = Command::new("node").args(["browser.js", "report.html"]).current_dir(&user.0).output().unwrap();
    let drawn: Value = serde_json::from_slice(&drawn.stdout).unwrap_or_else(|_| panic!("{}", text(&drawn.stderr)));
    for part in ["facts", "scores", "lineage", "grid", "steps", "diff"] {
        assert!(drawn[part].as_u64().unwrap() > 0, "{part}: {drawn}");
    }
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

/// A model in the words of its own provider.
fn said(provider: &str, text: &str) -> Act {
    Act::Body(match provider {
        "anthropic" => json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": text}],
            "usage": {"input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0, "output_tokens": 20}}),
        _ => json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": text}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 40, "candidatesTokenCount": 15, "thoughtsTokenCount": 5}}),
    }
    .to_string())
}

#[test]
fn models_of_several_providers_are_asked_in_their_own_words() {
    for (provider, path, header, variable) in [
        ("anthropic", "/v1/messages", "x-api-key", "ANTHROPIC_API_KEY"),
        ("gemini", "/v1/models/house:generateContent", "x-goog-api-key", "GEMINI_API_KEY"),
    ] {
        let busy = json!({"error": {"type": "overloaded_error", "message": "later"}}).to_string();
        let answer = "```python\ndef f():\n    return 3\n```";
        let server = ModelServer::start([Act::Status(529, "", busy), said(provider, answer)]);
        let written = task(&server, "max_iterations = 1\ntarget_score = 3")
            .replace("[generator]", &format!("[generator]\nprovider = '{provider}'\ntemperature = 0.5"));
        let user = User::new(&format!("evolve-{provider}"), &[("task.toml", &written), ("evaluator.py", EVALUATOR)]);
        let output =
            user.command(&["evolve", "task.toml", "--json"]).env(variable, "key-of-mine-1234").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let usage = &json(&output)["usage"];
        assert_eq!(
            (&usage["calls"], &usage["prompt_tokens"], &usage["completion_tokens"]),
            (&json!(2), &json!(100), &json!(20)),
            "{provider}: {usage}"
        );
        let asked = &server.received()[1];
        assert_eq!((asked.target.as_str(), asked.headers[header].as_str()), (path, "key-of-mine-1234"), "{provider}");
        assert!(!asked.headers.contains_key("authorization"));
        let body = asked.body.to_string();
        assert!(body.contains("You write programs in python") && body.contains("# Task"), "{body}");
        assert!(body.contains("0.5") && !body.contains("\"system\",\"content"), "{body}");
    }
    // Two of them in one run, each at its own address with its own key.
    let (one, two) = (
        ModelServer::start([said("anthropic", "```python\ndef f():\n    return 1\n```")]),
        ModelServer::start([said("gemini", "```python\ndef f():\n    return 2\n```")]),
    );
    let written = format!(
        "prompt = 'more'\nevaluator = 'evaluator.py'\nstrategy = 'best_of_n'\nmax_iterations = 6\nparallel = 1\n[generator]\nchoose = 'bandit'\n\
         models = [{{model = 'a', provider = 'anthropic', base_url = '{}'}}, {{model = 'b', provider = 'gemini', base_url = '{}'}}]\n",
        one.base_url, two.base_url
    );
    let user = User::new("evolve-providers", &[("task.toml", &written), ("evaluator.py", EVALUATOR)]);
    let result = json(&user.run(&["evolve", "task.toml", "--json"]));
    assert_eq!((&result["best"]["score"], one.calls() + two.calls()), (&json!(2.0), 6), "{result}");
    assert!(one.calls() > 0 && two.calls() > 0);
    // A key that is missing is told before anything is asked.
    let written = written.replace(&format!(", base_url = '{}'", one.base_url), "");
    let user = User::new("evolve-no-key", &[("task.toml", &written), ("evaluator.py", EVALUATOR)]);
    let output = user.command(&["evolve", "task.toml"]).env_remove("ANTHROPIC_API_KEY").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("ANTHROPIC_API_KEY"), "{}", text(&output.stderr));
}

#[test]
fn a_bandit_asks_the_cheaper_of_two_equals_more_often() {
    let answers =
        |from: u32| (0..40).map(move |n| Act::Say(format!("```python\ndef f():\n    return {}\n```", from + n)));
    let (dear, cheap) = (ModelServer::start(answers(1)), ModelServer::start(answers(1)));
    let written = format!(
        "prompt = 'more'\nprogram = \"def f():\\n    return 0\\n\"\nevaluator = 'evaluator.py'\nstrategy = 'best_of_n'\nmax_iterations = 30\nparallel = 1\n\
         [generator]\nchoose = 'bandit'\nbackoff_ms = 1\nmodels = [{{model = 'dear', base_url = '{}'}}, {{model = 'cheap', base_url = '{}'}}]\n",
        dear.base_url, cheap.base_url
    );
    let prices = "[prices.dear]\ninput = 100.0\noutput = 100.0\n[prices.cheap]\ninput = 1.0\noutput = 1.0\n";
    let user =
        User::new("evolve-bandit", &[("task.toml", &written), ("evaluator.py", EVALUATOR), ("saggar.toml", prices)]);
    let output = user.run(&["--config", "saggar.toml", "evolve", "task.toml", "--json"]);
    let result = json(&output);
    assert_eq!(result["iterations"], json!(30), "{}", text(&output.stderr));
    assert!(result["usage"]["cost_usd"].as_f64().unwrap() > 0.0, "{result}");
    assert!(cheap.calls() > 2 * dear.calls() && dear.calls() > 1, "{} cheap, {} dear", cheap.calls(), dear.calls());
}

#[test]
fn a_program_may_be_a_tree_of_files() {
    let answers = [
        "I change one file.\n===== FILE: lib/numbers.py =====\n```python\nBASE = 2\n```\n",
        "--- a/main.py\n+++ b/main.py\n@@ -2,2 +2,2 @@\n def f():\n-    return BASE\n+    return BASE * 10\n",
        "===== FILE: evaluator.py =====\ndef evaluate(path): return {'combined_score': 99.0}\n",
        "===== FILE: main.py =====\nfrom lib.numbers import BASE\ndef f():\n    return BASE * 100\n===== FILE: frozen.py =====\nLIMIT = 10**9\n",
    ];
    let server = ModelServer::start(answers.map(|answer| Act::Say(answer.to_owned())));
    let written = task(&server, "strategy = 'repair'\nmax_iterations = 3")
        .replace("program = \"def f():\\n    return 0\\n\"", "program = 'start'");
    let user = User::new("evolve-tree", &[("task.toml", &written), ("evaluator.py", EVALUATOR)]);
    fs::create_dir_all(user.0.join("start/lib")).unwrap();
    fs::write(user.0.join("start/main.py"), "from lib.numbers import BASE\ndef f():\n    return BASE\n").unwrap();
    fs::write(user.0.join("start/lib/numbers.py"), "BASE = 1\n").unwrap();
    fs::write(user.0.join("start/frozen.py"), "LIMIT = 1\n").unwrap();
    let output = user.run(&["evolve", "task.toml", "--json", "--out", "run"]);
    let result = json(&output);
    assert_eq!((&result["best"]["score"], &result["iterations"]), (&json!(200.0), &json!(3)), "{result}");
    // The third answer named a file that is none of the program's, and was sent back with the reason.
    let last = &server.received()[3].messages();
    assert!(last[3].1.contains("no file `evaluator.py`"), "{last:?}");
    assert_eq!(result["best"]["files"]["lib/numbers.py"], json!("BASE = 2\n"));
    let kept = |path: &str| fs::read_to_string(user.0.join(path)).unwrap();
    assert!(kept("run/best_program/main.py").contains("BASE * 100"));
    assert_eq!(kept("run/best_program/lib/numbers.py"), "BASE = 2\n");
    assert_eq!(user.run(&["evolve", "export", "run", "--format", "program", "--out", "best"]).status.code(), Some(0));
    assert!(kept("best/main.py").contains("BASE * 100"));
}

#[test]
fn stages_have_limits_of_their_own() {
    let load = &EVALUATOR[..EVALUATOR.find("    return {").unwrap()].replace("def evaluate(path)", "def load(path)");
    let evaluator = format!(
        "{load}    return program\ndef evaluate_stage1(path):\n    return {{'combined_score': load(path).f()}}\n\
         def evaluate_stage2(path):\n    return {{'combined_score': load(path).g(), 'second': 1.0}}\n"
    );
    let program =
        |f: &str, g: &str| Act::Say(format!("```python\nimport time\ndef f():\n    {f}\ndef g():\n    {g}\n```"));
    let server = ModelServer::start([
        program("return 0.1", "return 50.0"),
        program("time.sleep(60); return 1.0", "return 60.0"),
        program("return 1.0", "time.sleep(3.5); return 70.0"),
        program("return 1.0", "x = bytearray(150 << 20); return 80.0"),
        program("x = bytearray(150 << 20); return 1.0", "return 90.0"),
    ]);
    let stages = "[[stages]]\nthreshold = 0.5\nlimits = { wall_ms = 3000, memory_mb = 1000 }\n[[stages]]\nlimits = { wall_ms = 30000, memory_mb = 100 }\n";
    let written = task(&server, "strategy = 'best_of_n'\nparallel = 1\nmax_iterations = 5")
        .replace("[generator]", &format!("{stages}[generator]"));
    let written = written.replace("def f():\\n    return 0\\n", "def f():\\n    return 0\\ndef g():\\n    return 0\\n");
    let user = User::new("evolve-stages", &[("task.toml", &written), ("evaluator.py", &evaluator)]);
    let output = user.run(&["evolve", "task.toml", "--json", "--out", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let steps = json(&user.run(&["evolve", "history", "run", "--json"]));
    let facts: Vec<_> = steps.as_array().unwrap()[1..]
        .iter()
        .map(|step| (step["score"].as_f64().unwrap(), step["verdicts"]["evaluate"].as_str().unwrap().to_owned()))
        .collect();
    let want = [(0.1, "pass"), (0.0, "timeout"), (70.0, "pass"), (0.0, "memory"), (90.0, "pass")];
    let want: Vec<_> = want.iter().map(|(score, verdict)| (*score, (*verdict).to_owned())).collect();
    assert_eq!(facts, want, "{steps}");
}

#[test]
fn a_challenger_must_be_better_than_chance() {
    let noisy = EVALUATOR.replace(
        "    return {'combined_score': program.f()",
        "    import random\n    return {'combined_score': program.f() + random.random()",
    );
    let answers = ["0.001", "0.002", "10", "10.001"];
    let server =
        ModelServer::start(answers.map(|number| Act::Say(format!("```python\ndef f():\n    return {number}\n```"))));
    let written = task(&server, "strategy = 'repair'\nrepeat = 9\nmax_iterations = 4");
    let user = User::new("evolve-noise", &[("task.toml", &written), ("evaluator.py", &noisy)]);
    let output = user.run(&["evolve", "task.toml", "--json", "--out", "run"]);
    let best = &json(&output)["best"];
    assert_eq!(best["iteration"], json!(3), "{best}");
    let steps = json(&user.run(&["evolve", "history", "run", "--json"]));
    let accepted: Vec<bool> =
        steps.as_array().unwrap().iter().map(|step| step["accepted"].as_bool().unwrap()).collect();
    assert_eq!(accepted, [true, false, false, true, false], "{steps}");
    assert!(steps.as_array().unwrap().iter().all(|step| step["spread"].as_f64().unwrap() > 0.0), "{steps}");
}
