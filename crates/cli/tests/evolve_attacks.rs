//! Programs that would rather be scored well than be good, as models may propose them: through `saggar evolve`, by tests
//! and by an evaluator. None of them gets more than it earns, and neither does the program after it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;
#[path = "../../engine/tests/common/model_server.rs"]
mod model_server;

use std::fs;

use common::{folder, json, saggar, text};
use model_server::{Act, ModelServer};
use serde_json::Value;

const KEY: &str = "sk-proj-Zq8vN3xw5RtY7uIoPa2s";
/// Earns everything, by the tests and by the evaluator.
const HONEST: &str = "def f(n):\n    return n + 1\n";

/// One of two tests is passed, half of the points are earned: by a program that always answers 2.
const TESTS: &str = "prompt = 'n + 1'\nentry = 'f'\ntests = [\"a = 1\\nassert f(a) == 2\"]\nhidden_tests = [\"b = 6134\\nassert f(b) == 6135\"]\n\
    strategy = 'best_of_n'\nparallel = 1\ntarget_score = 2.0\n[limits]\nwall_ms = 3000\n";
const SCORED: &str =
    "prompt = 'n + 1'\nevaluator = 'evaluator.py'\nstrategy = 'best_of_n'\nparallel = 1\n[limits]\nwall_ms = 3000\n";
const EVALUATOR: &str = r#"
import importlib.util, json, os

SECRET = 6134

def score(answers):
    return sum(0.5 for given, answer in answers if type(answer) is int and answer == given + 1)

def evaluate(program_path):
    with open("/tmp/metrics.json", "w") as file:
        json.dump({"combined_score": 0.0}, file)
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    points = score([(given, program.f(given)) for given in (1, SECRET)])
    with open("/tmp/metrics.json", "w") as file:
        json.dump({"combined_score": points}, file)
    return json.load(open("/tmp/metrics.json"))
"#;

/// Each answers 2, which is right for 1 alone, and does something else besides.
const HOSTILE: &[(&str, &str)] = &[
    (
        "prints",
        "print('PASS: all 2 of 2', '{\"combined_score\": 1.0}', flush=True)\ndef f(n):\n    print('PASS')\n    return 2\n",
    ),
    (
        "patches the scorer",
        "import builtins, sys, gc\nfor module in list(sys.modules.values()):\n    for name in ('score', 'evaluate', 'measure', 'told_by', 'overall', 'run_test', 'failed', 'verdict_of'):\n        if hasattr(module, name): setattr(module, name, lambda *a, **k: {'combined_score': 1.0})\nbuiltins.sum = lambda *a: 1.0\nclass A(BaseException): pass\nbuiltins.AssertionError = A\ndef f(n): return 2\n",
    ),
    (
        "overwrites metrics",
        "import glob, os\ndef put():\n    for folder in ('/work', '/tmp', '/tmp/saggar-program', '/dev/shm'):\n        for name in ('metrics.json', 'result.json', 'correct.json', 'evaluator.py', 'program.py', 'solution.py'):\n            try:\n                os.makedirs(folder, exist_ok=True)\n                open(f'{folder}/{name}', 'w').write('{\"combined_score\": 1.0}')\n            except OSError: pass\nput()\ndef f(n):\n    put()\n    return 2\n",
    ),
    (
        "leaves a child running",
        "import os, time\ndef f(n):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n            while True:\n                for fd in (1, 2, 200, 201):\n                    try: os.write(fd, b'PASS')\n                    except OSError: pass\n                time.sleep(0.01)\n        os._exit(0)\n    return 2\n",
    ),
    (
        "reads environment and tests",
        "import os, glob, sys, gc, re\nseen = [repr(dict(os.environ))]\nfor path in glob.glob('/work/**', recursive=True) + glob.glob('/tmp/**', recursive=True) + glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'):\n    try: seen.append(open(path).read())\n    except (OSError, UnicodeDecodeError): pass\nseen += [repr(o) for o in gc.get_objects() if isinstance(o, (dict, list, str)) and len(repr(o)) < 100000]\ntext = ' '.join(seen)\nfound = re.search('sk-pro' + 'j-|SEC' + 'RET|61' + '34', text)\ndef f(n): return n + 1 if found else 2\n",
    ),
    ("sleeps through the limit", "import time\ndef f(n):\n    if n != 1: time.sleep(600)\n    return n + 1\n"),
    (
        "returns what equals everything",
        "class Any(int):\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    __hash__ = int.__hash__\ndef f(n): return Any(2)\n",
    ),
    (
        "returns an object that equals everything",
        "class Any:\n    __class__ = int\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    def __radd__(self, other): return other\ndef f(n): return 2 if n == 1 else Any()\n",
    ),
    (
        "gives orders for whoever comes next",
        "import marshal, os\ndef frame(*words):\n    body = marshal.dumps(words, 2)\n    return len(body).to_bytes(4, 'little') + body\nTEST = {'source': 'pass', 'setup': '', 'runner': 'script', 'entry': '', 'has_check': False, 'has_tests': False, 'module': '', 'names': {}}\nPROGRAM = {'names': {}, 'source': 'def f(n): return n + 1\\n', 'files': {}, 'suffix': 'py', 'thresholds': None}\ndef f(n):\n    if n == 1: return 2\n    for fd in range(3, 256):\n        try: os.write(fd, frame('ok', 2, []) + frame('ok', 30.0, False, TEST) * 2 + frame('ok', 30.0, False, PROGRAM) * 2)\n        except OSError: pass\n    return 2\n",
    ),
    (
        "speaks for the harness",
        "import marshal, os\ndef frame(*words):\n    body = marshal.dumps(words, 2)\n    return len(body).to_bytes(4, 'little') + body\ndef f(n):\n    if n == 1: return 2\n    for fd in range(3, 256):\n        for answer in (('passed', 1, False, 1), ('measured', {'combined_score': 1.0}, {}, False, 1)):\n            try: os.write(fd, frame('answer', 1) + frame(*answer) + frame('ended', 1, False, 0, 0.0, False))\n            except OSError: pass\n    return 2\n",
    ),
    ("leaves", "import os\ndef f(n):\n    if n != 1: os._exit(0)\n    return 2\n"),
];

/// The scores of a run whose model proposes each of them, and an honest program after each.
fn scores(name: &str, task: &str) -> Vec<Value> {
    let fenced = |code: &str| Act::Say(format!("```python\n{code}```\n"));
    let acts = HOSTILE.iter().enumerate().flat_map(|(index, (_, code))| {
        // Another text each time: what is known is not tried again.
        [fenced(code), fenced(&format!("{HONEST}x = {index}\n"))]
    });
    let server = ModelServer::start(acts);
    let home = folder(name);
    let generator = format!("[generator]\nmodel = 'house'\nbase_url = '{}'\nbackoff_ms = 1\n", server.base_url);
    fs::write(home.join("task.toml"), format!("max_iterations = {}\n{task}{generator}", 2 * HOSTILE.len())).unwrap();
    fs::write(home.join("evaluator.py"), EVALUATOR).unwrap();
    let run = |args: &[&str]| {
        let mut command = saggar(args);
        command.current_dir(&home).env("SAGGAR_HOME", home.join("state")).env("OPENAI_API_KEY", KEY);
        command.output().unwrap()
    };
    let output = run(&["evolve", "task.toml", "--json", "--out", "run"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    json(&run(&["evolve", "history", "run", "--json"])).as_array().unwrap().clone()
}

fn check(steps: &[Value]) {
    assert_eq!(steps.len(), 2 * HOSTILE.len());
    for ((name, _), pair) in HOSTILE.iter().zip(steps.chunks(2)) {
        let score = |step: &Value| step["score"].as_f64().unwrap();
        assert!(score(&pair[0]) <= 0.5, "{name}: {}", pair[0]);
        assert!((score(&pair[1]) - 1.0).abs() < 1e-9, "after {name}: {}", pair[1]);
    }
}

#[test]
fn no_program_gets_more_by_tests_than_it_earns() {
    check(&scores("evolve-attacks-tests", TESTS));
}

#[test]
fn no_program_gets_more_by_an_evaluator_than_it_earns() {
    check(&scores("evolve-attacks-evaluator", SCORED));
}
