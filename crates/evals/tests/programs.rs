//! Program cases: every language, every way to compare, compiled once.
#![allow(clippy::unwrap_used, clippy::float_cmp, reason = "tests fail loudly, and scores are exact here")]

mod common;

use common::{judge, judged, verdicts};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_compiled_once_and_run_for_each_case() {
    let code = "#include <stdio.h>\nint main(int n, char **a) { int x, y; if (scanf(\"%d %d\", &x, &y) != 2) return 3; printf(\"%d\\n\", x + y); return 0; }";
    let cases: Vec<_> = (0..8).map(|i| json!({"stdin": format!("{i} 1\n"), "stdout": format!("{}", i + 1)})).collect();
    let judge = judge();
    let result = judged(&judge, &json!({"language": "c", "code": code, "cases": cases})).await;
    assert!(result.all_passed, "{result:?}");
    let cases = json!([{"stdin": "x", "stdout": "1"}, {"stdin": "x", "stdout": "", "exit_code": 3}, {"stdin": "1 2", "stdout": "4"}]);
    let result = judged(&judge, &json!({"language": "c", "code": code, "cases": cases})).await;
    assert_eq!(verdicts(&result), [("1", "crashed"), ("2", "pass"), ("3", "wrong_answer")]);
    let broken = json!({"language": "c", "code": "int main( {", "cases": cases});
    let result = judged(&judge, &broken).await;
    assert!(result.cases.iter().all(|case| case.verdict.name() == "compile_error" && case.detail.contains("error")));
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_programs_have_their_verdicts() {
    let judge = judge();
    for (code, verdict) in [
        ("print(input())", "pass"),
        ("print(int(input()) + 1)", "wrong_answer"),
        ("raise ValueError('x')", "exception"),
        ("import sys; print(7); sys.exit(1)", "crashed"),
        ("import os; os.kill(os.getpid(), 11)", "crashed"),
        ("while True: pass", "timeout"),
        ("a = bytearray(1 << 30)\nfor i in range(0, len(a), 4096): a[i] = 1", "memory"),
        ("import sys; sys.stdout.write('7' * (100 << 20))", "wrong_answer"),
        ("import os; os._exit(0)", "wrong_answer"),
        ("open('answer').read()", "exception"),
    ] {
        // Beside much other work it takes long to fill memory.
        let patience = if verdict == "timeout" { 3000 } else { 30_000 };
        let case = json!({"stdin": "7\n", "stdout": "7\n", "timeout_ms": patience});
        let task = json!({"code": code, "cases": [case], "limits": {"memory_mb": 256}});
        let result = judged(&judge, &task).await;
        assert_eq!(verdicts(&result), [("1", verdict)], "{code} {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checkers_give_partial_credit_and_node_functions_are_called() {
    let checker =
        "a = float(open('output').read()); b = float(open('answer').read())\nprint(max(0, 1 - abs(a - b) / 10))";
    let judge = judge();
    let compare = json!({"kind": "checker", "language": "python", "code": checker});
    for (said, score) in [("10", 1.0), ("15", 0.5), ("99", 0.0), ("nonsense", 0.0)] {
        let case = json!({"stdin": "", "stdout": "10", "compare": compare});
        let result =
            judged(&judge, &json!({"language": "bash", "code": format!("echo {said}"), "cases": [case]})).await;
        assert_eq!((result.score, result.all_passed), (score, score == 1.0), "{said} {result:?}");
    }
    let values = json!({"code": "def f(): return 12", "entry": "f", "cases": [{"args": [], "expected": 10, "compare": compare}]});
    assert_eq!(judged(&judge, &values).await.score, 0.8);
    let code = "console.log('noise');\nclass Box { get() { return new Map([[1, new Set([2])]]); } }\nmodule.exports = { add: async (a, b) => a + b, boom() { throw new RangeError('far'); }, Box, big: () => 2n ** 70n };";
    for (entry, args, expected) in [
        ("add", json!([1, 2]), json!({"expected": 3})),
        ("boom", json!([]), json!({"expected_exception": "RangeError"})),
        ("Box().get", json!([]), json!({"expected": {"$py": "{1: {2}}"}})),
        ("big", json!([]), json!({"expected": {"$py": "1180591620717411303424"}})),
    ] {
        let mut case = json!({"args": args});
        case.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        let result = judged(&judge, &json!({"language": "node", "code": code, "entry": entry, "cases": [case]})).await;
        assert!(result.all_passed, "{entry} {result:?}");
    }
}
