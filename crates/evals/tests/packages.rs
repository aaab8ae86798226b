//! Values and tests of packages that come from elsewhere: numpy, pandas, pytest. `SAGGAR_TEST_PYTHON` is a Python with
//! all of them; `scripts/test` makes one.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{judged, verdicts};
use engine::{Caller, Engine, PoolSettings, Settings};
use evals::judge::{Judge, Trust};
use serde_json::json;
use types::ExecRequest;

/// A judge whose Python has the packages; nothing, said aloud, where there is no such Python.
fn judge() -> Option<Judge> {
    let Some(python) = std::env::var_os("SAGGAR_TEST_PYTHON").map(PathBuf::from) else {
        eprintln!("skipped: SAGGAR_TEST_PYTHON names no Python with numpy, pandas and pytest");
        return None;
    };
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    let pool = PoolSettings { running: 1000, ..PoolSettings::default() };
    let interpreters = [("python".to_owned(), python)].into();
    let settings = Settings { state, pool, interpreters, ..Settings::default() };
    let engine = Arc::new(Engine::open(settings).unwrap().with_pool());
    Some(Judge::new(engine, Caller::default(), ExecRequest::default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_arrays_and_tables_are_values() {
    let Some(judge) = judge() else { return };
    let code = "import numpy as np, pandas as pd\ndef f(how):\n    return {'int': np.int64(3), 'float': np.float32(0.5), 'bool': np.True_, 'array': np.array([[1, 2], [3, 4]]),\n        'complex': np.complex128(1 + 2j), 'str': np.str_('x'), 'nan': np.array([1.0, np.nan]), 'in a list': [np.int8(1), {'a': np.float64(2)}],\n        'frame': pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}), 'series': pd.Series([1, 2]), 'time': pd.Timestamp('2024-01-02'),\n        'objects': np.array([object()], dtype=object)}[how]\ndef total(values): return float(np.sum(values))";
    let case = |how: &str, verdict: &str, expected: serde_json::Value| json!({"name": verdict, "args": [how], "expected": expected, "timeout_ms": 20000});
    let cases = [
        case("int", "pass", json!(3)),
        case("int", "wrong_answer", json!(4)),
        case("float", "pass", json!(0.5)),
        case("bool", "pass", json!(true)),
        case("array", "pass", json!([[1, 2], [3, 4]])),
        case("array", "wrong_answer", json!([[1, 2], [3, 5]])),
        case("complex", "pass", json!({"$py": "1+2j"})),
        case("str", "pass", json!("x")),
        case("nan", "pass", json!({"$py": "[1.0, float('nan')]"})),
        case("in a list", "pass", json!([1, {"a": 2.0}])),
        case("frame", "pass", json!([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])),
        case("frame", "pass", json!({"a": [1, 2], "b": ["x", "y"]})),
        case("frame", "wrong_answer", json!({"a": [1, 2], "b": ["x", "z"]})),
        case("series", "pass", json!([1, 2])),
        case("time", "pass", json!("2024-01-02T00:00:00")),
        case("objects", "unsupported_value", json!([1])),
    ];
    let result =
        judged(&judge, &json!({"code": code, "entry": "f", "cases": cases, "limits": {"memory_mb": 1024}})).await;
    for (name, verdict) in verdicts(&result) {
        assert_eq!(name, verdict, "{result:?}");
    }
    let test = "import numpy as np\nassert total(np.array([1.0, 2.5])) == 3.5\nassert (f('array') == np.array([[1, 2], [3, 4]])).all()";
    let task = json!({"code": code, "cases": [{"test": test, "timeout_ms": 20000}], "limits": {"memory_mb": 1024}});
    let result = judged(&judge, &task).await;
    assert!(result.all_passed, "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_for_pytest_is_run_by_pytest() {
    let Some(judge) = judge() else { return };
    let code = "def div(a, b):\n    if b == 0: raise ZeroDivisionError('no')\n    return a / b\ndef save(path):\n    return str(path)\nclass Ever:\n    def __eq__(self, other): return True\ndef ever(): return Ever()";
    let file = |body: &str| format!("import pytest\nfrom solution import div, ever, save\n\n{body}\n");
    let tests = [
        (
            "pass",
            file(
                "@pytest.mark.parametrize('a, b, c', [(4, 2, 2), (9, 3, 3)])\ndef test_div(a, b, c):\n    assert div(a, b) == c",
            ),
        ),
        (
            "wrong_answer",
            file(
                "@pytest.mark.parametrize('a, b, c', [(4, 2, 2), (9, 3, 4)])\ndef test_div(a, b, c):\n    assert div(a, b) == c",
            ),
        ),
        (
            "pass",
            file(
                "@pytest.fixture\ndef four(): return 4\n\nclass TestDiv:\n    def test_it(self, four):\n        with pytest.raises(ZeroDivisionError, match='no'):\n            div(four, 0)\n        assert div(four, 3) == pytest.approx(1.3333333)",
            ),
        ),
        ("wrong_answer", file("def test_ever():\n    assert ever() == 5")),
        ("wrong_answer", file("def test_skip():\n    pytest.skip('not today')")),
        ("wrong_answer", file("@pytest.mark.skip\ndef test_skip(): pass")),
        ("wrong_answer", file("@pytest.mark.xfail\ndef test_fails():\n    assert div(1, 1) == 2")),
        ("wrong_answer", file("def helper(): pass\nclass TestNothing: pass\ndef test(): assert div(1, 1) == 3")),
        ("exception", file("def test_it():\n    div(1, 0)")),
        ("exception", file("import no_such_module\ndef test_it(): pass")),
    ];
    let cases: Vec<_> =
        tests.iter().map(|(verdict, test)| json!({"name": verdict, "test": test, "timeout_ms": 30000})).collect();
    let result = judged(&judge, &json!({"code": code, "cases": cases, "limits": {"memory_mb": 1024}})).await;
    for (case, (verdict, test)) in result.cases.iter().zip(&tests) {
        assert_eq!((case.verdict.name(), case.trust), (*verdict, Trust::Separate), "{test}\n{}", case.detail);
    }
}
