//! Function cases: what comes back, and how every bad end is told.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests fail loudly, and scores are exact here")]

mod common;

use common::{judge, judged, verdicts};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn every_class_of_end_has_its_verdict_and_touches_no_other_case() {
    let code = r#"
import os, sys, time, signal, warnings
calls = 0
def f(what, *rest, **named):
    global calls
    calls += 1
    if calls != 1: return "state is left"
    if what == "value": return rest[0] if rest else named
    if what == "exit": sys.exit(0)
    if what == "hard": os._exit(0)
    if what == "kill": os.kill(os.getpid(), signal.SIGKILL)
    if what == "parent": os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)
    if what == "segv": os.kill(os.getpid(), signal.SIGSEGV)
    if what == "loop":
        while True: pass
    if what == "sleep": time.sleep(60)
    if what == "memory":
        a = bytearray(1 << 30)
        for i in range(0, len(a), 4096): a[i] = 1
    if what == "raise": raise KeyError("gone")
    if what == "object": return object()
    if what == "generator": return (i for i in range(3))
    if what == "deep":
        x = []
        for _ in range(100000): x = [x]
        return x
    if what == "circle":
        x = []; x.append(x); return x
    if what == "huge": return "A" * (64 << 20)
    if what == "print": print("x" * 100000); warnings.warn("careful"); return 1
    if what == "none": return None
    if what == "file":
        seen = os.path.exists("trace")
        open("trace", "w").close()
        return seen
"#;
    let case = |name: &str, what: &str, rest: serde_json::Value| {
        let mut case = json!({"name": name, "args": [what], "timeout_ms": 4000});
        case.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        case
    };
    let cases = json!([
        case("pass", "value", json!({"args": ["value", 5], "expected": 5})),
        case("pass", "value", json!({"args": ["value"], "kwargs": {"a": 1}, "expected": {"a": 1}})),
        case("wrong_answer", "value", json!({"args": ["value", 5], "expected": 6})),
        case("pass", "none", json!({"expected": null})),
        case("wrong_answer", "value", json!({"args": ["value", 0], "expected": null})),
        case("pass", "value", json!({"args": ["value", 0]})),
        case("wrong_type", "value", json!({"args": ["value", "x"], "expected_type": "int"})),
        case("pass", "raise", json!({"expected_exception": "KeyError"})),
        case("pass", "raise", json!({"expected_exception": "LookupError", "expected_message": "go.e"})),
        case("wrong_exception", "raise", json!({"expected_exception": "KeyError", "expected_message": "other"})),
        case("wrong_exception", "raise", json!({"expected_exception": "ValueError"})),
        case("no_exception", "none", json!({"expected_exception": "ValueError"})),
        case("exception", "raise", json!({"expected": 1})),
        case("exited_early", "exit", json!({"expected": 1})),
        case("exited_early", "hard", json!({"expected": null})),
        case("crashed", "kill", json!({"expected": null})),
        case("crashed", "parent", json!({"expected": null})),
        case("crashed", "segv", json!({"expected": null})),
        case("timeout", "loop", json!({"timeout_ms": 300, "expected": null})),
        case("timeout", "sleep", json!({"timeout_ms": 300, "expected": null})),
        case("memory", "memory", json!({"expected": null, "timeout_ms": 30000})),
        case("unsupported_value", "object", json!({"expected": null})),
        case("unsupported_value", "generator", json!({"expected": [0, 1, 2]})),
        case("unsupported_value", "deep", json!({"expected": null})),
        case("unsupported_value", "circle", json!({"expected": null})),
        case("unsupported_value", "huge", json!({"expected": null, "timeout_ms": 30000})),
        case("pass", "print", json!({"expected": 1})),
        case("pass", "file", json!({"expected": false})),
        case("pass", "file", json!({"expected": false})),
        case("pass", "value", json!({"args": ["value", 7], "expected": 7})),
    ]);
    let task = json!({"code": code, "entry": "f", "cases": cases, "limits": {"memory_mb": 256}});
    let result = judged(&judge(), &task).await;
    for case in &result.cases {
        assert_eq!(case.verdict.name(), case.name, "{case:?}");
    }
    assert_eq!(result.cases.len(), 30);
    assert!(!result.all_passed && result.score > 0.0 && result.score < 1.0);
    assert!(!result.isolation.layers.is_empty() && result.usage.cpu_ms > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_kind_come_back_as_they_are() {
    let code = r#"
import collections, dataclasses, datetime, decimal, enum, fractions
@dataclasses.dataclass
class Point:
    x: int
    y: float
Pair = collections.namedtuple("Pair", "left right")
class Text(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
class Color(enum.IntEnum):
    RED = 3
class Tree:
    def __init__(self): self.n = 1
    def grow(self, by): self.n += by; return self.n
    @staticmethod
    def kind(): return "oak"
async def later(x): return x
values = {
    "tuple": (1, (2,), []), "set": {1, 2}, "frozen": frozenset({3}), "bytes": b"\x00\xff", "array": bytearray(b"ab"),
    "complex": 1+2j, "nan": float("nan"), "inf": float("-inf"), "big": 3 ** 200, "decimal": decimal.Decimal("1.10"),
    "fraction": fractions.Fraction(1, 3), "date": datetime.date(2024, 2, 29), "delta": datetime.timedelta(days=1),
    "moment": datetime.datetime(2024, 1, 2, 3, 4, 5), "point": Point(1, 2.5), "pair": Pair(1, "a"),
    "counter": collections.Counter("aab"), "deque": collections.deque([1, 2]), "text": Text("wrong"),
    "color": Color.RED, "keys": {1: (2, 3), (4, 5): None}, "range": range(3), "unicode": "grüße \U0001f600",
}
def f(name): return values[name]
"#;
    let py = |text: &str| json!({ "$py": text });
    let big = "265613988875874769338781322035779626829233452653394495974574961739092490901302182994384699044001";
    let expected = [
        ("tuple", py("(1, (2,), [])")),
        ("set", py("{2, 1}")),
        ("frozen", py("frozenset({3})")),
        ("bytes", py(r"b'\x00\xff'")),
        ("array", py("b'ab'")),
        ("complex", py("1+2j")),
        ("nan", py("float('nan')")),
        ("inf", py("-inf")),
        ("big", py(big)),
        ("decimal", py("Decimal('1.1')")),
        ("fraction", py("Fraction(2, 6)")),
        ("date", py("datetime.date(2024, 2, 29)")),
        ("delta", py("timedelta(1)")),
        ("moment", json!("2024-01-02T03:04:05")),
        ("point", json!({"x": 1, "y": 2.5})),
        ("pair", py("(1, 'a')")),
        ("counter", json!({"a": 2, "b": 1})),
        ("deque", json!([1, 2])),
        ("color", json!(3)),
        ("keys", py("{1: (2, 3), (4, 5): None}")),
        ("range", py("range(0, 3)")),
        ("unicode", json!("grüße 😀")),
    ];
    let mut cases: Vec<_> =
        expected.iter().map(|(name, value)| json!({"name": name, "args": [name], "expected": value})).collect();
    cases.push(json!({"name": "type", "args": ["point"], "expected_type": "Point"}));
    let judge = judge();
    let result = judged(&judge, &json!({"code": code, "entry": "f", "cases": cases})).await;
    for case in &result.cases {
        assert!(case.passed, "{case:?}");
    }
    // A text that claims to equal everything is the text that it is.
    let wrong = json!({"code": code, "entry": "f", "cases": [{"args": ["text"], "expected": "right"}]});
    assert_eq!(verdicts(&judged(&judge, &wrong).await), [("1", "wrong_answer")]);
    for (entry, args, value) in [
        ("Tree().grow", json!([2]), json!(3)),
        ("Tree.kind", json!([]), json!("oak")),
        ("later", json!([5]), json!(5)),
        ("f", json!([{"$py": "'big'"}]), py(big)),
    ] {
        let task = json!({"code": code, "entry": entry, "cases": [{"args": args, "expected": value}]});
        let result = judged(&judge, &task).await;
        assert!(result.all_passed, "{entry} {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_load_fails_every_case_and_says_where() {
    let judge = judge();
    for (code, verdict, line) in [
        ("x = 1\ndef f(:\n", "exception", Some(2)),
        ("x = 1\n1/0\n", "exception", Some(2)),
        ("import os; os._exit(0)", "exited_early", None),
        ("raise SystemExit(0)", "exited_early", None),
        ("import os; os.kill(os.getpid(), 9)", "crashed", None),
        ("def g(): pass", "exception", None),
        ("while True: pass", "timeout", None),
        ("from __future__ import annotations\nimport nowhere", "exception", Some(2)),
    ] {
        let cases = json!([{"args": [], "expected": null}, {"args": [], "expected": 1}]);
        let task =
            json!({"code": code, "setup": "import math", "entry": "f", "cases": cases, "limits": {"wall_ms": 2000}});
        let result = judged(&judge, &task).await;
        assert_eq!(verdicts(&result), [("1", verdict), ("2", verdict)], "{code}");
        assert_eq!((result.score, result.feedback[0].line), (0.0, line), "{code} {result:?}");
    }
    let empty = judged(&judge, &json!({"code": "", "entry": "f", "cases": []})).await;
    assert_eq!((empty.score, empty.all_passed), (0.0, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_are_weighted_grouped_and_hidden_cases_give_nothing_away() {
    let code = "def f(x):\n    if x == 13: raise KeyError('unlucky')\n    return x if x < 3 else 0";
    let case = |x: i32, more: serde_json::Value| {
        let mut case = json!({"args": [x], "expected": x});
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        case
    };
    let judge = judge();
    let task = json!({"code": code, "entry": "f", "cases": [case(1, json!({"weight": 3})), case(5, json!({}))]});
    assert_eq!(judged(&judge, &task).await.score, 0.75);
    let groups = json!({"all": {"points": 60}, "some": {"points": 40, "score": "sum"}});
    let member = |x: i32, group: &str| case(x, json!({"group": group}));
    let cases = [member(1, "all"), member(7, "all"), member(2, "some"), member(9, "some")];
    let result = judged(&judge, &json!({"code": code, "entry": "f", "groups": groups, "cases": cases})).await;
    assert_eq!(result.score, 0.2);
    let cases = [case(1, json!({})), case(5, json!({})), case(2, json!({}))];
    let result = judged(&judge, &json!({"code": code, "entry": "f", "stop": "first_failure", "cases": cases})).await;
    assert_eq!(verdicts(&result), [("1", "pass"), ("2", "wrong_answer"), ("3", "not_run")]);
    assert!(result.feedback[0].message.contains("f(5): expected 5, got 0"), "{:?}", result.feedback);
    let hidden = json!({"hidden": true, "expected": 77_123});
    let cases = [case(5, hidden.clone()), case(13, hidden)];
    let result = judged(&judge, &json!({"code": code, "entry": "f", "cases": cases})).await;
    let text = serde_json::to_string(&result).unwrap();
    for secret in ["77123", "unlucky", "KeyError", "f(5)", "key"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert_eq!(verdicts(&result), [("1", "wrong_answer"), ("2", "exception")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_decides_where_the_task_says_so() {
    let code =
        "import time\ndef f(how):\n    if how == 'sleep': time.sleep(1.5)\n    while how == 'work': pass\n    return 1";
    let cases = json!([
        {"name": "pass", "args": ["sleep"], "expected": 1, "timeout_ms": 700},
        {"name": "timeout", "args": ["work"], "expected": 1, "timeout_ms": 700},
    ]);
    let settings = json!({"clock": "cpu", "hash_seed": 0, "timezone": "UTC", "locale": "C.UTF-8", "threads": 1});
    let task = json!({"code": code, "entry": "f", "determinism": settings, "cases": cases});
    let result = judged(&judge(), &task).await;
    assert_eq!(verdicts(&result), [("pass", "pass"), ("timeout", "timeout")], "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_case_alone_ends_as_it_would_among_others() {
    let judge = judge();
    for (body, verdict) in [
        ("return 1", "pass"),
        ("print('noise'); return 1", "pass"),
        ("return 2", "wrong_answer"),
        ("raise KeyError('x')", "exception"),
        ("import sys; sys.exit(0)", "exited_early"),
        ("import os; os._exit(0)", "exited_early"),
        ("import os; os.kill(os.getpid(), 9)", "crashed"),
        ("import os; os.kill(os.getpid(), 11)", "crashed"),
        ("return object()", "unsupported_value"),
        ("return 'A' * (64 << 20)", "unsupported_value"),
        ("a = bytearray(1 << 30)\n    for i in range(0, len(a), 4096): a[i] = 1", "memory"),
        ("while True: pass", "timeout"),
        ("import time; time.sleep(60)", "timeout"),
        ("import os; os.write(201, b'x' * 100); return 1", "tampered"),
    ] {
        let case = json!({"args": [], "expected": 1, "timeout_ms": if verdict == "timeout" { 400 } else { 20_000 }});
        let task = json!({"code": format!("def f():\n    {body}"), "entry": "f", "cases": [case]});
        let result = judged(&judge, &task).await;
        assert_eq!(verdicts(&result), [("1", verdict)], "{body} {result:?}");
        let test = json!({"test": "assert f() == 1", "timeout_ms": if verdict == "timeout" { 400 } else { 20_000 }});
        let task = json!({"code": format!("def f():\n    {body}"), "cases": [test]});
        let result = judged(&judge, &task).await;
        // In front of a test, an object is only one that equals nothing.
        let expected = if body == "return object()" { "wrong_answer" } else { verdict };
        assert_eq!(verdicts(&result), [("1", expected)], "{body} {result:?}");
    }
}

/// Its turn is over when it has answered: what it does then would be at the cost of others.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_stays_after_its_answer_is_ended() {
    let code = "import os\ndef stay(code):\n    while True: pass\nos._exit = stay\ndef f(): return 1";
    let result = judged(&judge(), &json!({"code": code, "entry": "f", "cases": [{"args": [], "expected": 1}]})).await;
    assert!(result.all_passed, "{result:?}");
    assert!(result.usage.cpu_ms < 600.0, "{result:?}");
}

/// What a loaded program has made of `random`, and of forks, is its own affair.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_s_own_way_with_random_is_left_alone() {
    let lazy = "import sys\nclass Lazy:\n    def __getattr__(self, name): raise ImportError(name)\n\
        sys.modules['random'] = Lazy()\ndef f(): return 1";
    let seeds = "import random, os\nos.register_at_fork(after_in_child=lambda: random.seed(5))\n\
        def f(): return random.random() == 0.6229016948897019";
    let another = "import random\nfirst = random.Random(1).random()\nrandom._inst = random.Random(1)\n\
        def f(): return random._inst.random() == first";
    let judge = judge();
    for (code, expected) in [(lazy, json!(1)), (seeds, json!(true)), (another, json!(true))] {
        let case = json!({"args": [], "expected": expected});
        // The last one is no fork.
        let cases = json!([case, case, {"args": []}]);
        let result = judged(&judge, &json!({"code": code, "entry": "f", "cases": cases})).await;
        assert!(result.all_passed, "{code}: {result:?}");
    }
}

/// Each case is a fork that is spared some of what forks do; its own forks are spared nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_in_a_case_knows_that_it_has_one_thread() {
    let code = r"
import os, threading
def f():
    held = threading.Event()
    thread = threading.Thread(target=held.wait)
    thread.start()
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.write(writes, str(threading.active_count()).encode())
        os._exit(0)
    counted = [threading.active_count(), int(os.read(reads, 9))]
    held.set()
    thread.join()
    return counted
";
    let case = json!({"args": [], "expected": [2, 1]});
    let result = judged(&judge(), &json!({"code": code, "entry": "f", "cases": [case, case]})).await;
    assert!(result.all_passed, "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_is_code_like_other_code() {
    let case = json!({"args": [3], "expected": 6});
    let task = |setup: &str, case: &serde_json::Value| json!({"setup": setup, "code": "def f(x): return x * FACTOR", "entry": "f", "policy": "guard", "cases": [case]});
    let judge = judge();
    assert!(judged(&judge, &task("FACTOR = 2", &case)).await.all_passed);
    // The policy reads it, and its mistakes are told.
    let refused = judged(&judge, &task("import shutil; shutil.rmtree('/'); FACTOR = 2", &case)).await;
    assert_eq!(verdicts(&refused), [("1", "refused")], "{refused:?}");
    let broken = judged(&judge, &task("FACTOR = ", &case)).await;
    assert_eq!(verdicts(&broken), [("1", "refused")], "{broken:?}");
    assert_eq!(broken.findings[0].file.as_deref(), Some("saggar_setup.py"));
    // A program is run alone, and says so.
    let program = task("FACTOR = 2", &json!({"stdin": "", "stdout": "6"}));
    let error = evals::judge::Task::from_any(&program.to_string()).unwrap_err();
    assert!(error.to_string().contains("`setup`"), "{error}");
}
