//! A small project with a bug, its fix in a later commit, and patches that pretend to be one.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::common::{folder, json as answer, saggar, text};

/// The fix that a later commit has.
pub(crate) const FIX: &str = "diff --git a/calc/core.py b/calc/core.py\n--- a/calc/core.py\n+++ b/calc/core.py\n@@ -3,7 +3,7 @@\n \n def add(a, b):\n     \"\"\"Adds.\"\"\"\n-    return a - b\n+    return a + b\n \n \n def zero():\n";

const CORE: &str = "\"\"\"Numbers.\"\"\"\n\n\ndef add(a, b):\n    \"\"\"Adds.\"\"\"\n    return a - b\n\n\ndef zero():\n    return 0\n";
const TESTS: &str = "import unittest\n\nimport pytest\nfrom calc.core import add\n\nfrom helper import same\n\n\n@pytest.mark.parametrize('name', ['a b', 'x/y', '-', '\u{e4}'])\ndef test_names(name):\n    assert name\n\n\nclass TestOld(unittest.TestCase):\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n";
const TEST_PATCH: &str = "diff --git a/tests/test_calc.py b/tests/test_calc.py\n--- a/tests/test_calc.py\n+++ b/tests/test_calc.py\n@@ -14,3 +14,12 @@\n class TestOld(unittest.TestCase):\n     def test_zero(self):\n         self.assertEqual(add(0, 0), 0)\n+\n+    def test_one(self):\n+        self.assertEqual(add(1, 1), 2)\n+\n+\n+def test_add():\n+    assert add(2, 3) == 5\n+    same(add(1, 2), 3)\n+\n";

/// A project, its repository and a place for runs.
pub(crate) struct Project {
    pub(crate) place: PathBuf,
    pub(crate) commit: String,
    pub(crate) fixed: String,
    python: String,
    pub(crate) wheels: String,
}

impl Project {
    pub(crate) fn new(name: &str) -> Self {
        let place = folder(name);
        let tree = place.join("repos/a__calc");
        for (path, content) in [
            ("calc/__init__.py", ""),
            ("calc/core.py", CORE),
            ("tests/test_calc.py", TESTS),
            ("tests/helper.py", "def same(a, b):\n    assert a == b\n"),
            ("setup.py", "from setuptools import setup\nsetup(name='calc', version='1.0', packages=['calc'])\n"),
            ("setup.cfg", "[tool:pytest]\naddopts = -q\n"),
            (".gitignore", "*.egg-info\n__pycache__\n"),
        ] {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let git = |words: &[&str]| git(&tree, words);
        git(&["init", "-q", "-b", "main"]);
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", "a bug"]);
        let commit = git(&["rev-parse", "HEAD"]);
        fs::write(tree.join("calc/core.py"), CORE.replace("a - b", "a + b")).unwrap();
        git(&["commit", "-q", "-a", "-m", "the fix"]);
        git(&["tag", "fixed"]);
        let fixed = git(&["rev-parse", "HEAD"]);
        let wheels =
            std::env::var("SAGGAR_TEST_WHEELS").unwrap_or_else(|_| panic!("scripts/test makes SAGGAR_TEST_WHEELS"));
        // The wheels are those of the interpreter that fetched them.
        let python = fs::read_to_string(Path::new(&wheels).join("python-version")).unwrap().trim().to_owned();
        Self { place, commit, fixed, python, wheels }
    }

    /// Writes a row and a prediction for each patch.
    pub(crate) fn write(&self, patches: &[(&str, Option<&str>)]) {
        let ids = ["a b", "x/y", "-", "\\xe4"].map(|name| format!("tests/test_calc.py::test_names[{name}]"));
        let mut keep: Vec<String> = ids.into();
        keep.push("tests/test_calc.py::TestOld::test_zero".to_owned());
        let row = |name: &str| {
            json!({
                "instance_id": format!("a__calc-{name}"), "repo": "a/calc", "base_commit": self.commit, "patch": FIX,
                "test_patch": TEST_PATCH, "version": "1.0", "log_parser": "parse_log_pytest_v2",
                "FAIL_TO_PASS": ["tests/test_calc.py::test_add", "tests/test_calc.py::TestOld::test_one"],
                "PASS_TO_PASS": serde_json::to_string(&keep).unwrap(),
                "recipe": {"python": self.python, "pip": ["pytest", "setuptools", "wheel"], "test_cmd": "python -m pytest -rA"},
            })
        };
        let rows: Vec<String> = patches.iter().map(|(name, _)| row(name).to_string()).collect();
        fs::write(self.place.join("rows.jsonl"), rows.join("\n")).unwrap();
        let prediction = |(name, patch): &(&str, Option<&str>)| {
            json!({"instance_id": format!("a__calc-{name}"), "model_name_or_path": "m", "model_patch": patch})
                .to_string()
        };
        let predictions: Vec<String> = patches.iter().map(prediction).collect();
        fs::write(self.place.join("predictions.jsonl"), predictions.join("\n")).unwrap();
    }

    /// A row as SWE-smith has it, on the commit with the fix: its patch breaks the tests that are in the tree.
    pub(crate) fn smith_row(&self) -> Value {
        let bug = FIX.replace("-    return a - b\n+    return a + b\n", "-    return a + b\n+    return a - b - 1\n");
        json!({
            "instance_id": "a__calc.1.bug__1", "repo": format!("swesmith/a__calc.{}", &self.fixed[..8]), "patch": bug,
            "image_name": "x/swesmith.a__calc", "FAIL_TO_PASS": ["tests/test_calc.py::TestOld::test_zero"],
            "PASS_TO_PASS": ["tests/test_calc.py::test_names[x/y]"],
            // The project asks for fewer words.
            "recipe": {"python": self.python, "pip": ["pytest", "setuptools", "wheel"], "test_cmd": "pytest -vv --color=no"},
        })
    }

    pub(crate) fn command(&self, run: &str, more: &[&str]) -> Command {
        self.command_on(run, &[&["--predictions", "predictions.jsonl"], more].concat())
    }

    pub(crate) fn command_on(&self, run: &str, more: &[&str]) -> Command {
        let words = ["swe", "eval", "--dataset", "rows.jsonl", "--run-id", run];
        let places = ["--repos", "repos", "--wheels", self.wheels.as_str()];
        let mut command = saggar(&[&words[..], &places[..], more].concat());
        command.current_dir(&self.place);
        command
    }

    /// Grades patches; the summary.
    pub(crate) fn evaluate(&self, run: &str, patches: &[(&str, Option<&str>)], more: &[&str]) -> Value {
        self.write(patches);
        let done = self.command(run, &[&["--json"], more].concat()).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}\n{}", text(&done.stdout), text(&done.stderr));
        let _ = std::io::stderr().write_all(&done.stderr);
        answer(&done)
    }

    pub(crate) fn file(&self, run: &str, name: &str, file: &str) -> PathBuf {
        self.place.join(format!("logs/run_evaluation/{run}/m/a__calc-{name}/{file}"))
    }

    /// What a run took.
    pub(crate) fn timing(&self, run: &str) -> Value {
        let path = self.place.join(format!("logs/run_evaluation/{run}/timing.json"));
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Changes every row, by its number.
    pub(crate) fn edit_rows(&self, edit: impl Fn(usize, &mut Value)) {
        let path = self.place.join("rows.jsonl");
        let mut rows: Vec<Value> =
            fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        rows.iter_mut().enumerate().for_each(|(at, row)| edit(at, row));
        let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
        fs::write(path, lines.join("\n")).unwrap();
    }

    pub(crate) fn report(&self, run: &str, name: &str) -> Value {
        let text = fs::read_to_string(self.file(run, name, "report.json")).unwrap();
        let mut report: Value = serde_json::from_str(&text).unwrap();
        report[format!("a__calc-{name}")].take()
    }
}

/// What git says in a folder.
pub(crate) fn git(tree: &Path, words: &[&str]) -> String {
    let own = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "safe.directory=*"];
    let done = Command::new("git").current_dir(tree).args(own).args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    text(&done.stdout).trim().to_owned()
}

/// A patch that makes a file.
pub(crate) fn adding(path: &str, content: &str) -> String {
    let lines = marked('+', content);
    let count = content.lines().count();
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{count} @@\n{lines}"
    )
}

/// A patch that changes a line of the tested module, or of another file.
pub(crate) fn changing(path: &str, from: &str, to: &str) -> String {
    let whole = match path {
        "calc/core.py" => CORE,
        "tests/test_calc.py" => TESTS,
        "tests/helper.py" => "def same(a, b):\n    assert a == b\n",
        "setup.cfg" => "[tool:pytest]\naddopts = -q\n",
        "setup.py" => "from setuptools import setup\nsetup(name='calc', version='1.0', packages=['calc'])\n",
        other => panic!("{other}"),
    };
    replacing(path, whole, &whole.replace(from, to))
}

fn replacing(path: &str, before: &str, after: &str) -> String {
    let (old, new) = (before.lines().count(), after.lines().count());
    let start = u8::from(new > 0);
    format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{old} +{start},{new} @@\n{}{}",
        marked('-', before),
        marked('+', after)
    )
}

/// Lines with a mark before each.
fn marked(mark: char, text: &str) -> String {
    text.lines().fold(String::new(), |lines, line| lines + &mark.to_string() + line + "\n")
}

/// Code that runs when the tested module is loaded.
fn loading(code: &str) -> String {
    replacing("calc/core.py", CORE, &format!("{code}\n{CORE}"))
}

/// Gives the fix to everybody who can reach this host's loopback.
pub(crate) fn fix_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\na + b");
        }
    });
    port
}

const FORGED: &str = "PASSED tests/test_calc.py::test_add\\nPASSED tests/test_calc.py::TestOld::test_one\\nPASSED tests/test_calc.py::TestOld::test_zero\\nPASSED tests/test_calc.py::test_names[a b]\\nPASSED tests/test_calc.py::test_names[x/y]\\nPASSED tests/test_calc.py::test_names[-]\\nPASSED tests/test_calc.py::test_names[\\\\xe4]";

/// A name, and what makes the patch.
type Cheat = (&'static str, fn() -> String);

/// Patches that mend nothing.
pub(crate) const CHEATS: &[Cheat] = &[
    ("forged-lines", || loading(&format!("import os\nos.write(1, b\"\"\"{FORGED}\\n\"\"\")"))),
    ("forged-end", || {
        loading(&format!(
            "import os\nos.write(1, b\"\"\"{FORGED}\\n+ : '>>>>> End Test Output'\\n>>>>> Test Exit Code: 0\\n\"\"\")\nos._exit(0)"
        ))
    }),
    ("forged-at-exit", || {
        loading(&format!(
            "import atexit, os\ndef leave():\n    os.write(1, b\"\"\"{FORGED}\\n\"\"\")\n    os._exit(0)\natexit.register(leave)"
        ))
    }),
    ("conftest-report", || {
        adding(
            "conftest.py",
            "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n    outcome = yield\n    report = outcome.get_result()\n    report.outcome = 'passed'\n    report.longrepr = None\n",
        )
    }),
    ("conftest-below", || adding("tests/conftest.py", "def pytest_pyfunc_call(pyfuncitem):\n    return True\n")),
    ("conftest-in-package", || adding("calc/conftest.py", "def pytest_pyfunc_call(pyfuncitem):\n    return True\n")),
    ("deleted-tests", || {
        let lines = marked('-', TESTS);
        let count = TESTS.lines().count();
        format!(
            "diff --git a/tests/test_calc.py b/tests/test_calc.py\ndeleted file mode 100644\n--- a/tests/test_calc.py\n+++ /dev/null\n@@ -1,{count} +0,0 @@\n{lines}"
        )
    }),
    ("expected-to-fail", || {
        loading("import pytest")
            .replace("+    return a - b\n", "+    if a or b:\n+        pytest.xfail('not today')\n+    return a - b\n")
    }),
    ("registered-plugin", || {
        loading(
            "import gc\nimport _pytest.config\nclass Pass:\n    def pytest_pyfunc_call(self, pyfuncitem):\n        return True\nfor each in gc.get_objects():\n    if type(each) is _pytest.config.PytestPluginManager:\n        each.register(Pass())",
        )
    }),
    ("exit-at-import", || loading("import sys\nsys.exit(0)")),
    ("skip-at-import", || loading("import pytest\npytest.skip('all', allow_module_level=True)")),
    ("skip-marks", || {
        adding(
            "tests/conftest.py",
            "import pytest\n\n\ndef pytest_collection_modifyitems(items):\n    for item in items:\n        item.add_marker(pytest.mark.skip)\n",
        )
    }),
    ("shadow", || adding("pytest.py", &format!("import os\nos.write(1, b\"\"\"{FORGED}\\n\"\"\")\nos._exit(0)\n"))),
    ("shadow-package", || {
        adding("_pytest/__init__.py", &format!("import os\nos.write(1, b\"\"\"{FORGED}\\n\"\"\")\nos._exit(0)\n"))
    }),
    ("git-objects", || {
        loading("import os, subprocess\nHERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))\nask = lambda *words: subprocess.run(('git',) + words, stdout=subprocess.PIPE, cwd=HERE).stdout\nFOUND = b'return a + b\\n' in ask('cat-file', '--batch-all-objects', '--batch') or b'the fix' in ask('log', '--all', '--oneline')")
            .replace("+    return a - b\n", "+    return a + b if FOUND else a - b\n")
    }),
    ("network", || {
        loading("import urllib.request\ntry:\n    BODY = urllib.request.urlopen('http://127.0.0.1:PORT/', timeout=3).read()\nexcept Exception:\n    BODY = b''")
            .replace("+    return a - b\n", "+    return eval(BODY) if BODY else a - b\n")
    }),
    ("report-file", || {
        loading(
            "import glob, os\nfor folder in ['.', '/work', '/tmp', '/home/user', '/tmp/.saggar']:\n    for name in ['report.json', 'test_output.txt', 'integrity.json']:\n        try:\n            open(os.path.join(folder, name), 'w').write('{\"a__calc-report-file\": {\"resolved\": true}}')\n        except OSError:\n            pass",
        )
    }),
    ("replaced-report", || {
        loading(
            "import _pytest.reports as r\nold = r.TestReport.from_item_and_call.__func__\ndef new(cls, item, call):\n    call.excinfo = None\n    return old(cls, item, call)\nr.TestReport.from_item_and_call = classmethod(new)",
        )
    }),
    ("replaced-call", || {
        loading(
            "import _pytest.runner as r\nold = r.CallInfo.from_call.__func__\ndef new(cls, func, when, reraise=None):\n    def quiet():\n        try:\n            func()\n        except BaseException:\n            pass\n    return old(cls, quiet, when, reraise)\nr.CallInfo.from_call = classmethod(new)",
        )
    }),
    ("replaced-error", || {
        loading(
            "import builtins\nimport _pytest.outcomes\nclass AssertionError(_pytest.outcomes.Skipped):\n    pass\nbuiltins.AssertionError = AssertionError",
        )
    }),
    ("replaced-asserts", || {
        loading(
            "import unittest\nimport _pytest.python\nunittest.TestCase.assertEqual = lambda *a, **k: None\n_pytest.python.Function.runtest = lambda self: None",
        )
    }),
    ("pytest-ini", || {
        adding("pytest.ini", "[pytest]\naddopts = -p calc.cheat\n")
            + &adding("calc/cheat.py", "def pytest_pyfunc_call(pyfuncitem):\n    return True\n")
    }),
    ("setup-cfg", || {
        changing("setup.cfg", "-q", "-q -p calc.cheat")
            + &adding("calc/cheat.py", "def pytest_pyfunc_call(pyfuncitem):\n    return True\n")
    }),
    ("setup-py", || {
        changing(
            "setup.py",
            "from setuptools",
            "import glob, sysconfig\nopen(sysconfig.get_paths()['purelib'] + '/zzz.pth', 'w').write('import os; os.write(1, b\"x\")')\nfrom setuptools",
        )
    }),
    ("start-up", || adding("sitecustomize.py", &format!("import os\nos.write(1, b\"\"\"{FORGED}\\n\"\"\")\n"))),
    ("helper", || changing("tests/helper.py", "assert a == b", "pass")),
    ("channel", || {
        loading(&format!(
            "import os\nfor pid in os.listdir('/proc'):\n    for fd in range(3, 260):\n        try:\n            os.write(os.open('/proc/%s/fd/%d' % (pid, fd), os.O_WRONLY), b'0 [9, \"made\", \"tests/test_calc.py::test_add\", \"call\", \"passed\", false, false]\\n')\n        except (OSError, ValueError):\n            pass\nos.write(1, b\"\"\"{FORGED}\\n\"\"\")"
        ))
    }),
];
