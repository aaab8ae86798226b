//! Test programs: the test in one sandbox, the tested code in another.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests fail loudly, and scores are exact here")]

mod common;

use common::{judge, judged};
use evals::judge::Trust;
use serde_json::{Value, json};

const CODE: &str = r#"
import math
from collections import Counter
class MyError(ValueError): pass
class Node:
    def __init__(self, v, next=None): self.v=v; self.next=next
    def __eq__(self, o): return isinstance(o, Node) and self.v==o.v
    def __repr__(self): return f"Node({self.v})"
class Ever:
    def __eq__(self, o): return True
    def __lt__(self, o): return True
    def __sub__(self, o): return self
    def __abs__(self): return self
    def __contains__(self, o): return True
    def __iter__(self): return iter([1])
def abs(x): return 0
def isinstance_(x): return True
def gen(n):
    for i in range(n): yield i
def apply(f, xs): return [f(x) for x in xs]
def sort_in_place(xs): xs.sort()
def boom(x): raise MyError("bad", x)
def ever(): return Ever()
def node(v): return Node(v)
def leave(): raise SystemExit(0)
def hard(): import os; os._exit(0)
def loop():
    while True: pass
def skip():
    import unittest
    raise unittest.SkipTest("not today")
def compose(f, g): return lambda x: f(g(x))
def counter(s): return Counter(s)
def peek(f):
    return str(getattr(f, "__globals__", None) or f.__closure__)
def far(): return 10.0
CONST = {"a": (1, 2)}
class Vector:
    def __init__(self, x, y): self.x = x; self.y = y
    def __mul__(self, k): return Vector(self.x * k, self.y * k)
    def __contains__(self, v): return v in (self.x, self.y)
    def __enter__(self): return self
    def __exit__(self, kind, *rest): return kind is ZeroDivisionError
def diagonal(n): return Vector(n, n)
"#;

fn task(tests: &[(&str, &str)]) -> Value {
    let case = |(verdict, test): &(&str, &str)| json!({"name": verdict, "test": test, "timeout_ms": 5000});
    json!({"code": CODE, "cases": tests.iter().map(case).collect::<Vec<_>>()})
}

async fn expect(tests: &[(&str, &str)], trust: Trust) {
    let result = judged(&judge(), &task(tests)).await;
    for (case, (_, test)) in result.cases.iter().zip(tests) {
        assert_eq!((case.verdict.name(), case.trust), (case.name.as_str(), trust), "{test}\n{}", case.detail);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_classes_exceptions_generators_and_callbacks_are_served_across_the_wire() {
    let tests = [
        ("pass", "assert list(gen(3)) == [0, 1, 2]"),
        ("pass", "assert apply(lambda x: x * 2, [1, 2]) == [2, 4]"),
        ("pass", "xs = [3, 1, 2]; sort_in_place(xs); assert xs == [1, 2, 3]"),
        ("pass", "try:\n    boom(3)\nexcept MyError as e:\n    assert e.args == ('bad', 3)\nelse:\n    assert False"),
        ("pass", "n = node(3); assert n.v == 3; n.v = 4; assert n.v == 4; assert repr(n) == 'Node(4)'"),
        ("pass", "assert isinstance(node(3), Node)"),
        ("pass", "assert compose(lambda x: x + 1, lambda x: x * 2)(3) == 7"),
        ("pass", "assert counter('aab') == {'a': 2, 'b': 1}"),
        ("pass", "assert CONST == {'a': (1, 2)} and math.pi > 3 and Counter('a')['a'] == 1"),
        (
            "pass",
            "import solution\nfrom main import gen as g\nassert next(g(2)) == 0 and solution.apply(abs, [-1]) == [1]",
        ),
        (
            "pass",
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        with self.assertRaises(MyError): boom(1)\nif __name__ == '__main__':\n    unittest.main()",
        ),
        ("pass", "def test_one():\n    assert apply(abs, [-1]) == [1]\n"),
        ("pass", "with Vector(1, 2) as v:\n    assert v.x == 1\n    1 / 0"),
        (
            "pass",
            "import threading\nout = []\ndef one(n):\n    for i in range(20): out.append(apply(lambda x: x + n, [i]) == [i + n])\nall_of = [threading.Thread(target=one, args=(n,)) for n in range(8)]\n[t.start() for t in all_of]\n[t.join() for t in all_of]\nassert out == [True] * 160",
        ),
    ];
    Box::pin(expect(&tests, Trust::Separate)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tested_code_is_never_asked_whether_it_is_right() {
    let tests = [
        ("wrong_answer", "assert ever() == 5"),
        ("wrong_answer", "assert 5 == ever()"),
        ("wrong_answer", "assert 5 in ever()"),
        ("wrong_answer", "assert ever() in [1, 2]"),
        (
            "wrong_answer",
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(ever(), 5)",
        ),
        ("exception", "assert abs(ever() - 3.0) < 1e-6"),
        // The program's own `abs` is not the test's.
        ("wrong_answer", "assert abs(far() - 3.0) < 1e-6"),
        ("exception", "skip()"),
        ("exception", "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): skip()"),
        (
            "wrong_answer",
            "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('x')\n    def test_a(self): pass",
        ),
        ("wrong_answer", "def test_one():\n    assert apply(len, ['a']) == [3]\n"),
        ("exception", "def f(): pass\nsecret = 42\nassert '42' not in peek(f)"),
        ("exited_early", "leave()"),
        ("exited_early", "try:\n    leave()\nexcept BaseException:\n    pass"),
        ("exited_early", "try:\n    hard()\nexcept BaseException:\n    pass"),
        ("timeout", "import threading\nloop()"),
        ("exception", "nothing_here(1)"),
        ("exception", "this is no program"),
    ];
    Box::pin(expect(&tests, Trust::Separate)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_the_codes_own_process_or_judgement_says_so() {
    let tests = [
        ("pass", "assert node(3) == Node(3)"),
        ("pass", "v = Vector(1, 2) * 3\nassert (v.x, v.y) == (3, 6)\nassert (diagonal(2) * 2).x == 4"),
        ("wrong_answer", "v = Vector(1, 2) * 3\nassert v.x == 4"),
        ("pass", "assert 2 in Vector(1, 2) and 3 not in Vector(1, 2)"),
        ("pass", "class Sub(Node):\n    def twice(self): return self.v * 2\nassert Sub(4).twice() == 8"),
        ("pass", "import inspect\nassert 'sort' in inspect.getsource(sort_in_place)"),
        ("wrong_answer", "import inspect\nassert 'quick' in inspect.getsource(sort_in_place)"),
        ("exited_early", "import inspect\ninspect.getsource(leave)\nleave()"),
    ];
    Box::pin(expect(&tests, Trust::Shared)).await;
    let mut strict = task(&tests[4..6]);
    strict["sharing"] = json!("never");
    let result = judged(&judge(), &strict).await;
    assert!(result.cases.iter().all(|case| case.verdict.name() == "unsupported_value"), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_functions_get_the_entry_and_the_prompts_own_helpers() {
    let row = |completion: &str| {
        json!({"task_id": "own/1", "entry_point": "encode", "completion": completion,
            "prompt": "def shift(s, n):\n    return ''.join(chr((ord(c) - 97 + n) % 26 + 97) for c in s)\n\ndef encode(s):\n    \"\"\"Shifts by five.\"\"\"\n",
            "test": "def check(candidate):\n    assert shift(candidate('abc'), -5) == 'abc'\n    assert candidate('z') == 'e'\n"})
    };
    let judge = judge();
    let right = judged(&judge, &row("    return shift(s, 5)\n")).await;
    assert!(right.all_passed, "{right:?}");
    // A helper that undoes whatever the candidate did is not the prompt's.
    let cheat = "    return s\n\ndef shift(s, n):\n    return 'abc'\n";
    assert_eq!(judged(&judge, &row(cheat)).await.score, 0.0);
    assert_eq!(judged(&judge, &row("    raise ValueError\n")).await.score, 0.0);
    // A function that is gone cannot fail, nor pass.
    for gone in ["    return shift(s, 5)\n\ndel encode\n", "    return s\nencode = None\n"] {
        let result = judged(&judge, &row(gone)).await;
        assert_eq!((result.cases[0].verdict.name(), result.score), ("exception", 0.0), "{result:?}");
    }
    let check = "def check(candidate):\n    assert candidate(1) == 2\n";
    let uncalled = json!({"code": "def f(x): return 0", "cases": [{"test": check}]});
    assert_eq!(judged(&judge, &uncalled).await.score, 0.0);
    let called = json!({"code": "def f(x): return 2", "cases": [{"test": format!("{check}check(f)\n")}]});
    assert!(judged(&judge, &called).await.all_passed);
}

/// The same claims, once compared by the judge itself and once run as the program that they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_test_has_one_verdict_however_it_is_run() {
    let judge = judge();
    let check = "def check(candidate):\n    assert candidate(2) == 4, 'two'\n    assert candidate(3) == 9\n";
    let truth = "def check(candidate):\n    assert candidate(2) is True\n    assert not candidate(0)\n    assert candidate(1)\n";
    for (verdict, test, body) in [
        ("pass", check, "return x * x"),
        ("pass", check, "return float(x * x)"),
        ("pass", check, "class I(int):\n        def __eq__(self, other): return False\n    return I(x * x)"),
        ("wrong_answer", check, "return x + x"),
        ("wrong_answer", check, "return [x * x]"),
        ("wrong_answer", check, "return float('nan')"),
        ("wrong_answer", check, "return {x * x: 1}.keys()"),
        ("wrong_answer", check, "return {x * x}"),
        ("wrong_answer", check, "class E:\n        def __eq__(self, other): return True\n    return E()"),
        ("wrong_answer", check, "yield x * x"),
        ("pass", check, "from fractions import Fraction\n    return Fraction(x * x)"),
        ("exception", check, "raise ValueError('no')"),
        ("exception", check, "assert x == 2\n    return 4"),
        ("exited_early", check, "raise SystemExit(0)"),
        ("exited_early", check, "import os; os._exit(0)"),
        ("crashed", check, "import os; os.kill(os.getpid(), 11)"),
        ("timeout", check, "while True: pass"),
        ("pass", truth, "return x > 0"),
        ("wrong_answer", truth, "return x"),
    ] {
        let code = format!("def square(x):\n    {body}\n");
        for test in [test.to_owned(), format!("import math\n{test}")] {
            let case = json!({"test": test, "timeout_ms": 1500});
            let result = judged(&judge, &json!({"code": code, "entry": "square", "cases": [case, case]})).await;
            for case in &result.cases {
                assert_eq!((case.verdict.name(), case.trust), (verdict, Trust::Separate), "{body}\n{test}\n{result:?}");
            }
        }
    }
    // What one call leaves behind, the next one of the same test finds, and no other test.
    let code = "seen = []\ndef square(x):\n    seen.append(x)\n    return len(seen)\n";
    let test = "def check(candidate):\n    assert candidate(7) == 1\n    assert candidate(7) == 2\n";
    let cases = [json!({"test": test}), json!({"test": test}), json!({"test": format!("import math\n{test}")})];
    assert!(judged(&judge, &json!({"code": code, "entry": "square", "cases": cases})).await.all_passed);
}

/// What tested code hands over may be more than its test can hold: that is its verdict, and no failure of the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_is_filled_up_by_what_it_is_given_is_no_error() {
    let code = "def f(i): return bytes([i]) * (4 << 20)";
    let tests = [("memory", "kept = [f(i) for i in range(200)]"), ("pass", "assert len(f(1)) == 4 << 20")];
    let cases: Vec<Value> = tests.iter().map(|(name, test)| json!({"name": name, "test": test})).collect();
    let result = judged(&judge(), &json!({"code": code, "limits": {"memory_mb": 128}, "cases": cases})).await;
    for case in &result.cases {
        assert_eq!(case.verdict.name(), case.name, "{result:?}");
    }
}
