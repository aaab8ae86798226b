//! Programs that would rather be judged right than be right. Every one must score 0, and the judge must live.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests fail loudly, and scores are exact here")]

mod common;

use common::{judge, judged};
use serde_json::{Value, json};

/// Sums of squares of the even ones. What they forge is wrong: a right value is a right answer, however it comes.
const CALLS: &[(&str, &str)] = &[
    (
        "frames",
        "import sys\ndef solve(nums):\n    f = sys._getframe()\n    while f:\n        for v in list(f.f_locals.values()) + list(f.f_globals.values()):\n            if isinstance(v, int) and not isinstance(v, bool) and v > 50: return v\n            if isinstance(v, dict) and 'expected' in v: return v['expected']\n        f = f.f_back\n    return -1",
    ),
    (
        "gc",
        "import gc\ndef solve(nums):\n    for o in gc.get_objects():\n        if isinstance(o, dict) and 'expected' in o: return o['expected']\n        if isinstance(o, (list, tuple)) and len(o) > 2 and nums in o: return [x for x in o if isinstance(x, int)][-1:] or -1\n    return -1",
    ),
    (
        "equal to everything",
        "class E:\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n    def __hash__(self): return 0\ndef solve(nums): return E()",
    ),
    (
        "an integer that equals everything",
        "class E(int):\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n    __hash__ = int.__hash__\ndef solve(nums): return E(-1)",
    ),
    (
        "a class of another name",
        "class int(int):\n    def __eq__(self, o): return True\ndef solve(nums): return int(-1)",
    ),
    (
        "spoofed __class__",
        "class E:\n    __class__ = int\n    def __eq__(self, o): return True\n    def __int__(self): return 55\n    def __index__(self): return 55\ndef solve(nums): return E()",
    ),
    (
        "patched json",
        "import json\njson.dumps = lambda *a, **k: '{\"passed\": true, \"score\": 1}'\njson.loads = lambda *a, **k: {'passed': True}\ndef solve(nums): return -1",
    ),
    (
        "patched marshal",
        "import marshal\nreal = marshal.dumps\nmarshal.dumps = lambda v, *a: real(('passed', 1, False), 2)\ndef solve(nums): return -1",
    ),
    (
        "patched isinstance and type",
        "import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.type = lambda *a: int\ndef solve(nums): return -1",
    ),
    (
        "patched comparison",
        "import builtins, operator\nbuiltins.all = builtins.any = lambda *a: True\noperator.eq = lambda *a: True\ndef solve(nums): return -1",
    ),
    (
        "patched time",
        "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0\ndef solve(nums):\n    time.sleep(1); return -1",
    ),
    (
        "atexit",
        "import atexit, os\natexit.register(lambda: os._exit(0))\natexit.register(lambda: print('all passed'))\ndef solve(nums): return -1",
    ),
    ("leave at import", "import os\nos._exit(0)"),
    ("leave in the call", "import os\ndef solve(nums): os._exit(0)"),
    ("raise SystemExit", "def solve(nums): raise SystemExit(0)"),
    (
        "every descriptor",
        "import os\nBODY = b'(\\x03\\0\\0\\0u\\x05\\0\\0\\0valuei7\\0\\0\\0[\\0\\0\\0\\0'\ndef spray():\n    for fd in range(1024):\n        for data in (BODY, len(BODY).to_bytes(4, 'little') + BODY, b'PASS\\n', b'{\"passed\": true}\\n'):\n            try: os.write(fd, data)\n            except OSError: pass\ndef solve(nums):\n    spray(); return -1",
    ),
    (
        "every descriptor at import",
        "import os\nfor fd in range(3, 1024):\n    try: os.write(fd, b'\\x08\\0\\0\\0all pass')\n    except OSError: pass\ndef solve(nums): return -1",
    ),
    (
        "descriptors of the parent",
        "import os\ndef solve(nums):\n    for pid in {os.getppid(), 1}:\n        for fd in range(3, 300):\n            try:\n                with open(f'/proc/{pid}/fd/{fd}', 'wb', buffering=0) as f: f.write(b'\\xff' * 64)\n            except OSError: pass\n    return -1",
    ),
    (
        "forged end of a case",
        "import os, marshal\ndef solve(nums):\n    import sys\n    def frame(*w):\n        b = marshal.dumps(w, 2); return len(b).to_bytes(4, 'little') + b\n    data = b''.join(frame('answer', n) + frame('value', 55, ['int']) + frame('ended', n, False, 0, 0.0, False) for n in range(1, 9))\n    for name in os.listdir(f'/proc/{os.getppid()}/fd') if os.access(f'/proc/{os.getppid()}/fd', os.R_OK) else []:\n        try: os.write(os.open(f'/proc/{os.getppid()}/fd/{name}', os.O_WRONLY), data)\n        except OSError: pass\n    os._exit(0)",
    ),
    (
        "threads that live on",
        "import threading, time, os\ndef later():\n    time.sleep(0.05)\n    print('passed')\n    os._exit(0)\ndef solve(nums):\n    threading.Thread(target=later).start()\n    return -1",
    ),
    (
        "a daemon that answers for others",
        "import os, time\ndef solve(nums):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n            while True: time.sleep(0.01)\n        os._exit(0)\n    return -1",
    ),
    ("two answers", "import os\ndef solve(nums):\n    if os.fork() == 0: return 55\n    return -1"),
    (
        "files of /proc",
        "import os, re\ndef solve(nums):\n    found = ''\n    for pid in os.listdir('/proc'):\n        for name in ('environ', 'cmdline', 'maps'):\n            try: found += open(f'/proc/{pid}/{name}', errors='replace').read()\n            except OSError: pass\n    m = re.search('expected.{0,9}?(\\\\d+)', found)\n    return int(m.group(1)) if m else -1",
    ),
    (
        "memory of the parent",
        "import os, re\ndef solve(nums):\n    try:\n        maps = open(f'/proc/{os.getppid()}/maps').read().splitlines()\n        mem = open(f'/proc/{os.getppid()}/mem', 'rb', buffering=0)\n        for line in maps:\n            m = re.match('([0-9a-f]+)-([0-9a-f]+) rw', line)\n            if not m: continue\n            mem.seek(int(m.group(1), 16))\n            data = mem.read(min(1 << 20, int(m.group(2), 16) - int(m.group(1), 16)))\n            hit = re.search(b'expected\\\\W{1,5}(\\\\d+)', data)\n            if hit: return int(hit.group(1))\n    except (OSError, ValueError): pass\n    return -1",
    ),
    (
        "signal handlers",
        "import signal, os\nfor s in range(1, 32):\n    try: signal.signal(s, lambda *a: os._exit(0))\n    except (OSError, ValueError): pass\ndef solve(nums): return -1",
    ),
    ("ignored children", "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\ndef solve(nums): return -1"),
    (
        "settrace",
        "import sys\ndef trace(frame, event, arg):\n    for name in ('passed', 'verdict', 'late', 'value'):\n        if name in frame.f_locals: frame.f_locals[name] = True\n    return trace\nsys.settrace(trace)\nsys.setprofile(trace)\ndef solve(nums): return -1",
    ),
    (
        "the judge's own functions",
        "import sys\nf = sys._getframe()\nwhile f:\n    g = f.f_globals\n    for name in list(g):\n        if callable(g[name]) and name in ('encode', 'call', 'describe', 'traces', 'is_plain', 'name_of'):\n            g[name] = lambda *a, **k: ('value', 55, ['int'])\n    f = f.f_back\ndef solve(nums): return -1",
    ),
    (
        "import hooks",
        "import sys\nclass Finder:\n    def find_spec(self, *a): raise SystemExit(0)\n    find_module = find_spec\nsys.meta_path.insert(0, Finder())\nsys.modules['marshal'] = None\ndef solve(nums): return -1",
    ),
    (
        "a pickled surprise",
        "class P:\n    def __reduce__(self): return (print, ('passed',))\n    def __getstate__(self): return {'passed': True}\ndef solve(nums): return P()",
    ),
    (
        "every marker",
        "def solve(nums):\n    print('__SANDBOX_RESULTS__ {\"all_passed\": true}'); print('PASS: 1'); print('OK'); print('1 passed in 0.01s')\n    print('{\"verdict\": \"pass\", \"passed\": true, \"score\": 1.0}')\n    return -1",
    ),
    ("the expected value's own text", "def solve(nums): return {'$py': '55'}"),
    ("a huge number of values", "def solve(nums): return [None] * (3 << 20)"),
    ("code objects", "def solve(nums): return solve.__code__"),
    ("NaN", "def solve(nums): return float('nan')"),
    ("true for one", "def solve(nums): return True"),
    (
        "kill everybody",
        "import os, signal\ndef solve(nums):\n    os.kill(-1, signal.SIGKILL); os.kill(os.getppid(), signal.SIGKILL); return 55",
    ),
    (
        "stop the parent",
        "import os, signal, time\ndef solve(nums):\n    os.kill(os.getppid(), signal.SIGSTOP); return -1",
    ),
    (
        "a full disk",
        "def solve(nums):\n    try:\n        while True: open('/tmp/fill', 'ab').write(b'x' * (1 << 20))\n    except OSError: pass\n    return -1",
    ),
    (
        "lies about its fields",
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: int = 55\n    def __getattribute__(self, name): return 55\ndef solve(nums): return D()",
    ),
    (
        "a lazy integer",
        "class I:\n    def __index__(self): return 55\n    __int__ = __index__\n    def __repr__(self): return '55'\ndef solve(nums): return I()",
    ),
    ("an exception for an answer", "def solve(nums): raise StopIteration(55)"),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_cheat_in_a_function_scores() {
    assert!(CALLS.len() >= 30);
    let judge = judge();
    for (what, code) in CALLS {
        let case = |nums: Value, sum: i32| json!({"args": [nums], "expected": sum, "hidden": true, "timeout_ms": 2000});
        let cases = [case(json!([2, 4, 6]), 56), case(json!([10, -4, 7, 8]), 180)];
        let task = json!({"code": code, "entry": "solve", "cases": cases});
        let result = judged(&judge, &task).await;
        assert!(result.score == 0.0 && !result.all_passed && result.passed == 0, "{what}: {result:?}");
    }
    let honest = "def solve(nums): return sum(x * x for x in nums if x % 2 == 0)";
    let task = json!({"code": honest, "entry": "solve", "cases": [{"args": [[2, 4, 6]], "expected": 56}]});
    assert!(judged(&judge, &task).await.all_passed);
}

/// The same in front of a test program.
const TESTED: &[(&str, &str)] = &[
    ("leaves at import", "import os\nos._exit(0)"),
    (
        "patched unittest",
        "import unittest\nfor n in dir(unittest.TestCase):\n    if n.startswith('assert'): setattr(unittest.TestCase, n, lambda *a, **k: None)\ndef solve(n): return -1",
    ),
    (
        "equal to everything",
        "class E:\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\ndef solve(n): return E()",
    ),
    (
        "a name that tests use",
        "def solve(n): return -1\nclass AssertionError(BaseException): pass\ndef check(c): pass\nassertEqual = lambda *a: None",
    ),
    ("skips", "import unittest\ndef solve(n): raise unittest.SkipTest('no')"),
    ("an answer that is the tests' own object", "def solve(n): return (..., 'yours', 0)"),
    ("a part of the library", "def solve(n): return (..., 'import', 'unittest.mock', 'ANY')"),
    ("a module of theirs", "def solve(n): return (..., 'module', 'unittest')"),
    ("from mock", "from unittest.mock import ANY\ndef solve(n): return ANY"),
    (
        "a verdict on the wire",
        "import marshal, os\ndef frame(*w):\n    b = marshal.dumps(w, 2); return len(b).to_bytes(4, 'little') + b\ndef solve(n):\n    data = frame('answer', 1) + frame('passed', 1, False) + frame('ended', 1, False, 0, 0.0, False)\n    for fd in range(3, 300):\n        try: os.write(fd, data)\n        except OSError: pass\n    return -1",
    ),
    (
        "answers in advance",
        "import marshal, os\ndef frame(*w):\n    b = marshal.dumps(w, 2); return len(b).to_bytes(4, 'little') + b\nfor fd in range(3, 300):\n    try: os.write(fd, frame('ok', True, []))\n    except OSError: pass\ndef solve(n): return -1",
    ),
    (
        "an order for the next test",
        "import marshal, os\ndef frame(*w):\n    b = marshal.dumps(w, 2); return len(b).to_bytes(4, 'little') + b\nORDER = {'source': 'pass', 'setup': '', 'runner': 'script', 'entry': '', 'has_check': False, 'has_tests': False, 'module': '', 'names': {}}\ndef solve(n):\n    data = frame('ok', -1, []) + frame('ok', 30.0, False, ORDER) * 3\n    for fd in range(3, 300):\n        try: os.write(fd, data)\n        except OSError: pass\n    return -1\ndef use(f): return solve(1)",
    ),
    (
        "the tests' frames through a callback",
        "def solve(n): return -1\ndef use(f):\n    return f.__globals__['EXPECTED']",
    ),
    ("a generator's frame", "def solve(n): return -1\ndef use(f):\n    return f.gi_frame.f_globals"),
    (
        "a builtin of its own",
        "def solve(n): return -1\nclass NotImplemented: pass\nEXPECTED = -1\nsum = max = lambda *a: 56",
    ),
    ("no function at all", "solve = None\ndel solve"),
    ("kills itself", "import os\ndef solve(n): os.kill(os.getpid(), 9)"),
    ("writes the module of the tests", "import sys\nsys.modules['test'] = None\ndef solve(n): return -1"),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_cheat_in_front_of_a_test_program_scores() {
    let judge = judge();
    for (what, code) in TESTED {
        let tests = [
            "EXPECTED = 56\nassert solve(7) == EXPECTED",
            "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(solve(7), 56)",
            "EXPECTED = 56\ndef g(): return EXPECTED\nassert use(g) == 56",
        ];
        let cases: Vec<Value> = tests.iter().map(|test| json!({"test": test, "timeout_ms": 4000})).collect();
        let result = judged(&judge, &json!({"code": code, "cases": cases})).await;
        assert!(result.score == 0.0 && !result.all_passed, "{what}: {result:?}");
    }
}

/// Objects that answer for values, each before tests of the form that it is made for.
const OBJECTS: &[(&str, &str, &str)] = &[
    (
        "no difference",
        "class E:\n    def __sub__(s, o): return 0\n    __rsub__ = __sub__\ndef solve(n): return E()",
        "assert abs(solve(7) - 56) < 1e-6",
    ),
    (
        "no difference the other way",
        "class E:\n    def __sub__(s, o): return 0\n    __rsub__ = __sub__\ndef solve(n): return E()",
        "assert abs(56 - solve(7)) < 1e-6",
    ),
    (
        "a difference that is an object",
        "class Z:\n    def __abs__(s): return 0\nclass E:\n    def __sub__(s, o): return Z()\ndef solve(n): return E()",
        "assert abs(solve(7) - 56) < 1e-6",
    ),
    (
        "almost equal",
        "class E:\n    def __sub__(s, o): return 0\n    __rsub__ = __sub__\ndef solve(n): return E()",
        "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.assertAlmostEqual(solve(7), 0.5)",
    ),
    (
        "a class by the function's name",
        "class solve:\n    def __init__(s, n): pass\n    def __sub__(s, o): return 0",
        "assert abs(solve(7) - 56) < 1e-6",
    ),
    (
        "a class by both kinds of name",
        "class Solve:\n    def __init__(s, n): pass\n    def __sub__(s, o): return 0\nsolve = Solve",
        "# Solve\nassert abs(solve(7) - 56) < 1e-6",
    ),
    (
        "a solution's own frame",
        "class Solution:\n    def solve(s, n): return s\n    def __sub__(s, o): return 0",
        "assert abs(Solution().solve(7) - 56) < 1e-6",
    ),
    (
        "an empty rest",
        "class E:\n    def __sub__(s, o): return set()\ndef solve(n): return E()",
        "assert solve(7) - {1, 2} == set()",
    ),
    (
        "no remainder",
        "class E:\n    def __mod__(s, o): return 0\ndef solve(n): return E()",
        "assert solve(7) % 56 == 0",
    ),
    (
        "everything is in it",
        "class E:\n    def __contains__(s, o): return True\ndef solve(n): return E()",
        "assert 'abc' in solve(7)",
    ),
    (
        "every method says yes",
        "class E:\n    def __getattr__(s, n): return lambda *a: True\ndef solve(n): return E()",
        "assert solve(7).startswith('abc')",
    ),
    (
        "a context that swallows",
        "class Timer:\n    value = -1\n    def __enter__(s): return s\n    def __exit__(s, *a): return True",
        "with Timer() as timer:\n    assert timer.value == 56",
    ),
    (
        "a context that swallows what a framework says",
        "class Timer:\n    value = -1\n    def __enter__(s): return s\n    def __exit__(s, *a): return True",
        "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        with Timer() as timer: self.assertEqual(timer.value, 56)",
    ),
    (
        "a caller that swallows",
        "def each(f):\n    try: f(-1)\n    except BaseException: pass",
        "def f(x): assert x == 56\neach(f)",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_object_answers_for_a_value() {
    let judge = judge();
    for (what, code, test) in OBJECTS {
        let result = judged(&judge, &json!({"code": code, "cases": [{"test": test, "timeout_ms": 4000}]})).await;
        assert!(result.score == 0.0 && !result.all_passed, "{what}: {result:?}");
    }
    for (entry, code) in [("solve", OBJECTS[0].1), ("solve", OBJECTS[4].1), ("Solution().solve", OBJECTS[6].1)] {
        let test = "def check(candidate):\n    assert abs(candidate(7) - 56.0) < 1e-6";
        let result = judged(&judge, &json!({"code": code, "entry": entry, "cases": [{"test": test}]})).await;
        assert!(result.score == 0.0, "{entry}: {result:?}");
    }
}

/// Answers one question, and then says what an order for the harness of the tests would look like.
const ORDERS: &str = r#"
import marshal, os, time
EVIL = """
import os, marshal
def exactly(n):
    b = b''
    while len(b) < n:
        p = os.read(200, n - len(b))
        if not p: os._exit(0)
        b += p
    return b
def frame(*w):
    b = marshal.dumps(w, 2); return len(b).to_bytes(4, 'little') + b
while True:
    order = marshal.loads(exactly(int.from_bytes(exactly(4), 'little')))
    for n in order:
        if type(n) is int:
            os.write(201, frame('answer', n) + frame('passed', 1, False) + frame('ended', n, False, 0, 0.0, False))
"""
def frame(*w):
    b = marshal.dumps(w, 2); return len(b).to_bytes(4, 'little') + b
def solve(n):
    test = {"source": EVIL, "setup": "", "runner": "script", "entry": "", "has_check": False, "has_tests": False, "module": "", "names": {}}
    for more in (frame('ok', 30.0, False, test), frame('ok', -1, []) + frame('ok', 30.0, False, test)):
        os.write(201, more)
        time.sleep(0.2)
    return -1
"#;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_tested_code_says_is_an_order() {
    let judge = judge();
    let late = ORDERS.replace("def solve(n):\n", "def solve(n):\n    time.sleep(0.9)\n");
    for code in [
        ORDERS.to_owned(),
        ORDERS.replace("    for more", "    os.write(201, frame('ok', -1, []))\n    for more"),
        late,
    ] {
        let test = |n: i32| json!({"test": format!("assert solve({n}) == 56"), "timeout_ms": 1000});
        let result = judged(&judge, &json!({"code": code, "cases": [test(7), test(8), test(9)]})).await;
        assert!(result.score == 0.0 && result.passed == 0, "{result:?}");
        // Whoever comes next finds tests that are their own.
        let next = json!({"code": "def solve(n): return n * 8", "cases": [test(7), {"test": "assert solve(7) == 57"}]});
        let result = judged(&judge, &next).await;
        let verdicts: Vec<_> = result.cases.iter().map(|case| case.verdict.name()).collect();
        assert_eq!(verdicts, ["pass", "wrong_answer"], "{result:?}");
    }
}

/// What a program does to its own side of the conversation is its verdict, never an error that would leave it out.
#[tokio::test(flavor = "multi_thread")]
async fn no_program_chooses_to_be_left_out() {
    let judge = judge();
    for act in [
        "os.set_blocking(200, False); os.set_blocking(201, False)",
        "os.fork() and os._exit(0)",
        "os.fork(); os.fork()",
        "os.closerange(0, 1024)",
        "os.dup2(1, 201); os.dup2(0, 200)",
        "for i in range(5000): os.write(201, b'\\x05\\0\\0\\0(\\0\\0\\0\\0')",
        "os.write(201, b'\\x08\\0\\0\\0[\\xff\\xff\\xff\\x7f\\0\\0\\0')",
        "os.kill(os.getppid(), 9)",
        "os.execv('/bin/true', ['true'])",
    ] {
        let code = format!("import os\ndef solve(n):\n    {act}\n    return -1");
        let test = |test: &str| json!({"test": test, "timeout_ms": 3000});
        let cases = [test("assert solve(7) == 56"), test("for i in range(2):\n    assert solve(i) == 56")];
        let result = judged(&judge, &json!({"code": code, "cases": cases})).await;
        assert!(result.score == 0.0 && result.total == 2, "{act}: {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checker_that_is_attacked_through_its_input_accepts_nothing() {
    let checker = "import sys\nscore = eval(open('output').read())\nprint(1 if score == 7 else 0)";
    let case =
        json!({"stdin": "x", "stdout": "7", "compare": {"kind": "checker", "code": checker}, "timeout_ms": 5000});
    let judge = judge();
    for attack in [
        "print('__import__(\"os\")._exit(0)')",
        "print('(print(0.5), exit(0))')",
        "print('open(\"answer\", \"w\").write(\"1\") and 1/0')",
        "print('1/0')",
        "print('x' * 1000)",
        "print('float(\"nan\")')",
        "print('print(1) or 8')",
    ] {
        let result = judged(&judge, &json!({"code": attack, "cases": [case]})).await;
        assert!(!result.all_passed && result.score <= 0.5, "{attack}: {result:?}");
    }
    assert!(judged(&judge, &json!({"code": "print(7)", "cases": [case]})).await.all_passed);
}
