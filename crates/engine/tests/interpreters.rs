//! Interpreters that stay, with the machine's own Python and Node, with and without `IPython`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail loudly")]

#[path = "common/driver.rs"]
mod driver;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use driver::begin;
use engine::{Cell, CellFrame, CellOutput, Interpreter, InterpreterError, Output, Stream};
use serde_json::json;
use types::{BackendKind, Bundle, CellResult, Exception, Isolation, LimitKind, Limits, Outcome};

const PLAIN: &str = "/usr/bin/python3";

fn cell(code: &str) -> Cell {
    Cell {
        code: code.to_owned(),
        env: BTreeMap::new(),
        cwd: None,
        wall: Duration::from_mins(1),
        grace: Duration::from_secs(5),
        output: 100 << 10,
    }
}

async fn run_cell(interpreter: &Interpreter, cell: Cell) -> CellResult {
    let end = interpreter.run(cell, None).await.unwrap();
    end.result(CellFrame {
        id: "run_1".to_owned(),
        context: "default".to_owned(),
        language: "python".to_owned(),
        backend: BackendKind::Native,
        isolation: Isolation::default(),
        findings: Vec::new(),
        limits: &Limits::default(),
    })
}

async fn run(interpreter: &Interpreter, code: &str) -> CellResult {
    run_cell(interpreter, cell(code)).await
}

/// Text of the last expression.
fn value(result: &CellResult) -> Option<&str> {
    result.results.get(result.main_result?)?.get("text/plain")?.as_str()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interpreters").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

async fn plain(name: &str) -> Interpreter {
    begin("python", PLAIN, &folder(name)).await
}

/// A Python with `IPython`, matplotlib and pandas, which `scripts/test` makes.
fn ipython() -> String {
    std::env::var("SAGGAR_TEST_IPYTHON").unwrap_or_else(|_| {
        let home = std::env::var("HOME").unwrap();
        format!("{home}/.cache/saggar-test-tools/ipython/bin/python3")
    })
}

/// A Node that strips types.
fn new_node() -> String {
    std::env::var("SAGGAR_TEST_NODE").unwrap_or_else(|_| {
        let home = std::env::var("HOME").unwrap();
        format!("{home}/.cache/saggar-test-tools/node/package/bin/node")
    })
}

#[tokio::test]
async fn variables_stay_and_the_last_expression_is_shown() {
    for program in [PLAIN, &ipython()] {
        let python = begin("python", program, &folder("stay")).await;
        let first = run(&python, "x = 20\nprint('hello')").await;
        assert_eq!((first.run.stdout.as_str(), first.run.ok, value(&first)), ("hello\n", true, None));
        let second = run(&python, "x += 1\nx * 2").await;
        assert_eq!((value(&second), second.execution_count), (Some("42"), 2));
        assert_eq!(value(&run(&python, "x;").await), None);
        let awaited =
            run(&python, "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return x\nawait f()").await;
        assert_eq!(value(&awaited), Some("21"));
    }
}

#[tokio::test]
async fn an_exception_has_the_users_own_lines_and_the_interpreter_lives_on() {
    for (program, name) in [(PLAIN, "<cell 1>"), (&ipython(), "Cell In[1]")] {
        let python = begin("python", program, &folder("exception")).await;
        let result = run(&python, "def f():\n    return 1 / 0\n\nf()").await;
        let exception = result.run.exception.unwrap();
        assert_eq!(result.run.outcome, Outcome::Exited { code: 1 });
        assert_eq!((exception.kind.as_str(), exception.message.as_str()), ("ZeroDivisionError", "division by zero"));
        assert_eq!(exception.line, Some(2));
        assert!(exception.traceback.contains(name), "{}", exception.traceback);
        assert!(!exception.traceback.contains("saggar"), "{}", exception.traceback);
        let syntax = run(&python, "a = 1\nb ==").await.run.exception.unwrap();
        assert_eq!((syntax.kind.as_str(), syntax.line), ("SyntaxError", Some(2)));
        assert_eq!(value(&run(&python, "f.__name__").await), Some("'f'"));
    }
}

#[tokio::test]
async fn what_a_cell_shows_comes_in_every_form_and_in_order() {
    let python = plain("forms").await;
    let code = "class Thing:\n    def __repr__(self): return 'thing'\n    def _repr_html_(self): return '<b>thing</b>'\n    \
                def _repr_png_(self): return b'\\x89PNG'\n    def _repr_json_(self): return {'a': [1]}\n    \
                def _repr_latex_(self): raise ValueError\ndisplay(Thing())\nThing()";
    let result = run(&python, code).await;
    let bundle: Bundle = serde_json::from_value(json!({
        "text/plain": "thing", "text/html": "<b>thing</b>", "image/png": "iVBORw==", "application/json": {"a": [1]},
    }))
    .unwrap();
    assert_eq!((result.results, result.main_result), (vec![bundle.clone(), bundle], Some(1)));
}

#[tokio::test]
async fn figures_are_pictures_without_a_word_about_it() {
    let python = begin("python", &ipython(), &folder("figures")).await;
    let is_png = |bundle: &Bundle| bundle["image/png"].as_str().unwrap().starts_with("iVBORw0KGgo");
    let left_open = run(&python, "import matplotlib.pyplot as plt\nplt.plot([1, 2]);").await;
    assert!(left_open.run.ok && left_open.results.len() == 1 && is_png(&left_open.results[0]));
    let shown = run(&python, "plt.plot([3]); plt.show(); print('after')").await;
    assert!(shown.results.len() == 1 && is_png(&shown.results[0]));
    assert_eq!((shown.run.stdout.as_str(), shown.run.stderr.as_str()), ("after\n", ""));
    let figure = run(&python, "figure, axes = plt.subplots(); axes.plot([1]); figure").await;
    assert!(figure.results.len() == 1 && figure.main_result == Some(0) && is_png(&figure.results[0]));
    assert_eq!(run(&python, "1").await.results.len(), 1);
    let table = run(&python, "import pandas\npandas.DataFrame({'a': [1, 2]})").await;
    assert!(table.results[0]["text/html"].as_str().unwrap().contains("<table"));
}

#[tokio::test]
async fn ipython_behaves_as_ipython() {
    let python = begin("python", &ipython(), &folder("magic")).await;
    assert_eq!(python.about().flavour, "ipython");
    let result = run(&python, "name = 'world'\n!echo hello {name}\nlines = !printf 'a\\nb'\nlines").await;
    assert_eq!((result.run.stdout.as_str(), value(&result)), ("hello world\n", Some("['a', 'b']")));
    assert_eq!(value(&run(&python, "%env SAGGAR_TEST=5\nimport os\nos.environ['SAGGAR_TEST']").await), Some("'5'"));
    assert_eq!(run(&python, "%%bash\necho $((1 + 1))").await.run.stdout, "2\n");
    assert!(value(&run(&python, "_").await).is_some());
}

#[tokio::test]
async fn what_is_imported_late_is_there_for_who_asks() {
    let python = begin("python", &ipython(), &folder("late")).await;
    // Programs get away with this in everybody's IPython.
    for (code, expected) in [
        ("import logging\n'logging.config' in __import__('sys').modules", "False"),
        ("import pathlib\npathlib.Path('/a b').as_uri()", "'file:///a%20b'"),
        ("import urllib\nurllib.parse.quote('a b')", "'a%20b'"),
        ("logging.handlers.BufferingHandler(1).capacity, logging.config.dictConfig({'version': 1})", "(1, None)"),
        ("hasattr(logging, 'nothing'), hasattr(urllib, 'nothing')", "(False, False)"),
        ("get_ipython().complete('%confi')[1]", "['%config']"),
        ("'IPCompleter' in [type(part).__name__ for part in get_ipython().configurables]", "True"),
    ] {
        assert_eq!(value(&run(&python, code).await), Some(expected), "{code}");
    }
    assert_eq!(run(&python, "%config IPCompleter.use_jedi = False").await.run.stderr, "");
    // A file of the user's that is called as the package is not in the way.
    let python = begin("python", &ipython(), &folder("late-own")).await;
    let own = "import os\nopen('urllib.py', 'w').write('1 / 0')\nimport pathlib\npathlib.Path('/a').as_uri()";
    assert_eq!(value(&run(&python, own).await), Some("'file:///a'"));
}

#[tokio::test]
async fn commands_of_the_shell_run_in_plain_python_too() {
    let python = plain("shell").await;
    assert_eq!(python.about().flavour, "plain");
    assert_eq!(run(&python, "if True:\n    !echo out; echo err >&2").await.run.stdout, "out\n");
    assert_eq!(run(&python, "%%bash\nX=5\necho $X").await.run.stdout, "5\n");
    // A string is not a command.
    assert_eq!(value(&run(&python, "'''\n!echo no\n'''").await), Some("'\\n!echo no\\n'"));
    let failed = run(&python, "!exit 3").await;
    assert!(failed.run.ok);
    assert_eq!(value(&run(&python, "_exit_code").await), Some("3"));
}

#[tokio::test]
async fn an_interrupt_ends_the_cell_and_not_the_interpreter() {
    for code in [
        "import time\nprint('here', flush=True)\ntime.sleep(100)",
        "print('here')\nwhile True:\n    pass",
        "print('here')\nwhile True:\n    try:\n        1 + 1\n    except:\n        pass",
        "import asyncio\nprint('here')\nawait asyncio.sleep(100)",
        "print('here')\n!sleep 100",
    ] {
        for program in [PLAIN, &ipython()] {
            let python = begin("python", program, &folder("interrupt")).await;
            run(&python, "x = 5").await;
            let seen = Seen::default();
            let running = python.run(cell(code), Some(Box::new(seen.clone())));
            let stopping = async {
                seen.wait_for("here").await;
                python.interrupt();
            };
            let (end, ()) = tokio::join!(running, stopping);
            assert_eq!(end.unwrap().outcome(), Outcome::Cancelled, "{code}");
            assert_eq!(value(&run(&python, "x").await), Some("5"), "{code}");
        }
    }
}

#[tokio::test]
async fn a_cell_that_takes_too_long_is_interrupted_and_one_that_will_not_stop_is_killed() {
    let python = plain("wall").await;
    let wall = Duration::from_millis(500);
    let slow = Cell { wall, ..cell("import time\ntime.sleep(100)") };
    let result = run_cell(&python, slow).await;
    assert_eq!(result.run.outcome, Outcome::LimitExceeded { limit: LimitKind::Wall });
    assert_eq!((result.run.limits_hit.as_slice(), result.context_lost), (&[LimitKind::Wall][..], false));
    let deaf =
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [2])\nprint('on', flush=True)\nwhile True: pass";
    let stubborn = Cell { wall, grace: Duration::from_secs(1), ..cell(deaf) };
    let result = run_cell(&python, stubborn).await;
    assert_eq!(result.run.outcome, Outcome::LimitExceeded { limit: LimitKind::Wall });
    assert_eq!((result.run.stdout.as_str(), result.context_lost), ("on\n", true));
    let error = python.run(cell("1"), None).await.err().unwrap();
    assert!(matches!(&error, InterpreterError::Gone(why) if why.contains("interrupt")), "{error}");
}

#[tokio::test]
async fn an_interpreter_that_dies_is_gone_and_its_last_output_is_not_lost() {
    let python = plain("death").await;
    let result = run(&python, "import os\nos.write(1, b'last')\nos._exit(7)").await;
    assert_eq!((result.run.stdout.as_str(), result.context_lost), ("last", true));
    assert_eq!(result.run.outcome, Outcome::Exited { code: 7 });
    assert!(matches!(python.run(cell("1"), None).await, Err(InterpreterError::Gone(_))));
    assert!(!python.is_alive());
    let python = plain("death").await;
    let result = run(&python, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)").await;
    assert_eq!(result.run.outcome, Outcome::Signaled { signal: 11 });
}

#[tokio::test]
async fn all_output_is_caught_and_streamed_while_the_cell_runs() {
    let python = plain("streams").await;
    let folder = folder("streams-gate");
    let gate = folder.join("gate");
    // Printed by Python, by C and by a child; then the cell waits for the test, which waits for the output.
    let code = format!(
        "import os, subprocess, sys, time\nprint('python', end='')\nos.write(1, b' c')\nsubprocess.run(['echo', ' child'])\n\
         print('error', file=sys.stderr)\nwhile not os.path.exists({gate:?}): time.sleep(0.01)\nprint('end')"
    );
    let seen = Seen::default();
    let running = python.run(cell(&code), Some(Box::new(seen.clone())));
    let opening = async {
        seen.wait_for("python c child\n").await;
        seen.wait_for("error").await;
        std::fs::write(&gate, "").unwrap();
    };
    let (end, ()) = tokio::join!(running, opening);
    assert_eq!(end.unwrap().outcome(), Outcome::Exited { code: 0 });
}

#[tokio::test]
async fn a_flood_is_bounded_and_counted() {
    let python = plain("flood").await;
    let flood = run(&python, "for _ in range(3000): print('x' * 999)").await.run;
    assert!(flood.ok && flood.stdout_truncated && flood.stdout.len() < 110 << 10);
    assert_eq!(flood.stdout_bytes, 3_000_000);
    let large =
        run(&python, "class Large:\n    def _repr_html_(self): return 'x' * (20 << 20)\n'y' * (20 << 20)").await;
    assert!(value(&large).unwrap().len() < 1 << 20);
    let dropped = run(&python, "Large()").await;
    assert_eq!((dropped.results[0].len(), dropped.results_dropped), (1, 1));
    let many = run(&python, "for n in range(500): display(n)").await;
    assert_eq!((many.results.len(), many.results_dropped), (100, 400));
    // An exception's words are whole: some callers carry data in them.
    let long = run(&python, "raise ValueError('z' * 500_000)").await.run.exception.unwrap();
    assert_eq!(long.message.len(), 500_000);
}

#[tokio::test]
async fn what_a_thread_prints_between_cells_is_the_next_cells() {
    let python = plain("threads").await;
    let code = "import threading\ngate = threading.Event()\n\
                def late():\n    gate.wait()\n    print('late')\n    done.set()\n\
                done = threading.Event()\nthread = threading.Thread(target=late)\nthread.start()\n\
                threading.Timer(0.2, gate.set).start()";
    assert_eq!(run(&python, code).await.run.stdout, "");
    assert_eq!(run(&python, "done.wait(10)").await.run.stdout, "late\n");
}

#[tokio::test]
async fn tasks_go_on_between_cells() {
    let python = plain("tasks").await;
    let mark = folder("tasks-mark").join("mark");
    let code = format!(
        "import asyncio\nasync def later():\n    await asyncio.sleep(0.05)\n    open({mark:?}, 'w').close()\n\
         task = asyncio.create_task(later())\nawait asyncio.sleep(0)"
    );
    run(&python, &code).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    while !mark.exists() {
        assert!(Instant::now() < deadline, "the task did not go on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn there_is_no_standard_input_and_that_is_said() {
    for program in [PLAIN, &ipython()] {
        let python = begin("python", program, &folder("input")).await;
        let exception = run(&python, "input('name? ')").await.run.exception.unwrap();
        assert_eq!(exception.kind, "EOFError");
        assert!(exception.message.contains("no standard input"), "{}", exception.message);
        assert_eq!(run(&python, "!cat").await.run.stdout, "");
    }
}

#[tokio::test]
async fn leaving_ends_the_cell_with_its_code() {
    for program in [PLAIN, &ipython()] {
        let python = begin("python", program, &folder("leave")).await;
        let result = run(&python, "y = 1\nimport sys\nsys.exit(3)").await.run;
        assert_eq!(
            (result.outcome, result.exception, result.stderr),
            (Outcome::Exited { code: 3 }, None, String::new())
        );
        assert_eq!(run(&python, "exit()").await.run.outcome, Outcome::Exited { code: 0 });
        // A child that comes out of the cell is not a second interpreter.
        assert!(run(&python, "import os\nif os.fork() == 0:\n    y = 2\nelse:\n    os.wait()").await.run.ok);
        assert_eq!(value(&run(&python, "y").await), Some("1"));
    }
}

#[tokio::test]
async fn environment_is_for_one_cell_and_a_folder_for_all_that_follow() {
    let python = plain("surroundings").await;
    let inner = folder("surroundings-inner");
    let env = BTreeMap::from([("GIVEN".to_owned(), "yes".to_owned())]);
    let code = "import os\nos.environ.get('GIVEN'), os.getcwd()";
    let result = run_cell(&python, Cell { env, cwd: Some(inner.to_str().unwrap().to_owned()), ..cell(code) }).await;
    assert_eq!(value(&result).unwrap(), format!("('yes', '{}')", inner.display()));
    assert_eq!(value(&run(&python, code).await).unwrap(), format!("(None, '{}')", inner.display()));
    let missing = run_cell(&python, Cell { cwd: Some("/nowhere".to_owned()), ..cell("1") }).await;
    assert_eq!(missing.run.exception.unwrap().kind, "FileNotFoundError");
}

#[tokio::test]
async fn a_swapped_folder_is_entered_again_by_its_name() {
    for (language, program) in [("python", PLAIN), ("node", "/usr/bin/node")] {
        let place = folder("swapped").join("place");
        std::fs::create_dir(&place).unwrap();
        let interpreter = begin(language, program, &place).await;
        run(&interpreter, "1").await;
        std::fs::rename(&place, place.with_extension("old")).unwrap();
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("new"), "").unwrap();
        interpreter.settle().await.unwrap();
        let code =
            if language == "python" { "import os; os.listdir('.')[0]" } else { "require('fs').readdirSync('.')[0]" };
        assert_eq!(value(&run(&interpreter, code).await), Some("'new'"));
    }
}

#[tokio::test]
async fn code_that_forges_events_spoils_its_own_cell_alone() {
    let python = plain("forged").await;
    let forge = "import os\nfor fd in range(64, 80):\n    try:\n        os.write(fd, LINE)\n    except OSError: pass\n";
    for line in
        ["b'rubbish\\n'", "b'{\"event\": \"done\", \"id\": 999, \"status\": \"ok\"}\\n'", "b'x' * (9 << 20) + b'\\n'"]
    {
        let python = plain("forged").await;
        let code = forge.replace("LINE", line);
        let result = python.run(Cell { wall: Duration::from_secs(5), ..cell(&code) }, None).await;
        assert!(result.is_ok());
    }
    assert_eq!(value(&run(&python, "1 + 1").await), Some("2"));
}

#[tokio::test]
async fn modules_of_the_user_do_not_get_in_the_way() {
    let place = folder("shadow");
    for name in ["json", "select", "traceback", "base64", "inspect", "subprocess"] {
        std::fs::write(place.join(format!("{name}.py")), "raise RuntimeError('mine')").unwrap();
    }
    std::fs::write(place.join("mine.py"), "answer = 42").unwrap();
    let python = begin("python", PLAIN, &place).await;
    assert_eq!(value(&run(&python, "import mine\nmine.answer").await), Some("42"));
}

/// What is imported before the first cell comes between nobody.
#[tokio::test]
async fn an_ipython_that_talks_and_breaks_leaves_plain_python() {
    let place = folder("talks");
    let package = place.join("packages/IPython");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("__init__.py"), "print('{\"event\": ', end='', flush=True)").unwrap();
    let program = place.join("python3");
    let words = format!("#!/bin/sh\nPYTHONPATH={} exec {PLAIN} \"$@\"\n", place.join("packages").display());
    std::fs::write(&program, words).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let python = begin("python", program.to_str().unwrap(), &place).await;
    assert_eq!(value(&run(&python, "x = 6\nx * 7").await), Some("42"));
    let result = run(&python, "!echo $((x))\n[x]").await;
    assert_eq!(value(&result), Some("[6]"));
    let told = result.run.stderr + &run(&python, "x").await.run.stderr;
    assert!(told.contains("so this is plain Python"), "{told:?}");
}

/// Whether it ran before `IPython` was there or in it, the first cell is one of its own.
#[tokio::test]
async fn the_first_cell_is_ipythons_wherever_it_ran() {
    for (first, shown) in
        [("x = 3\nx + 1", "4"), ("import json\nx = 3\n[json.dumps(x)]", "['3']"), ("x = 3\n'a' * x", "'aaa'")]
    {
        let python = begin("python", &ipython(), &folder("first")).await;
        let result = run(&python, first).await;
        assert_eq!((value(&result), result.execution_count), (Some(shown), 1), "{first}: {result:?}");
        let result = run(&python, "_ is Out[1] is _1, len(In[1]), x").await;
        let expected = format!("(True, {}, 3)", first.len());
        assert_eq!((value(&result), result.execution_count), (Some(expected.as_str()), 2), "{first}");
    }
    let python = begin("python", &ipython(), &folder("first-error")).await;
    let failed = run(&python, "def f(x):\n    return 1 / x\nf(0)").await;
    let exception = failed.run.exception.unwrap();
    assert_eq!((exception.kind.as_str(), exception.line), ("ZeroDivisionError", Some(2)), "{exception:?}");
    for words in ["Cell In[1], line 3", "----> 3 f(0)", "----> 2     return 1 / x"] {
        assert!(exception.traceback.contains(words), "{exception:?}");
    }
    assert!(!exception.traceback.contains("saggar"), "{exception:?}");
    assert_eq!(value(&run(&python, "f(2), get_ipython().execution_count > 1").await), Some("(0.5, True)"));
    // Where IPython makes a difference, it makes it.
    for (first, shown) in [
        ("import sys\nsys.ps1[:2]", Some("'In'")),
        ("import asyncio\nawait asyncio.sleep(0)\n7", Some("7")),
        ("x = 5\nx;\n# nothing", None),
        ("async def f():\n    yield 1\n[x async for x in f()]", Some("[1]")),
    ] {
        let python = begin("python", &ipython(), &folder("first-different")).await;
        let result = run(&python, first).await;
        assert_eq!((value(&result), result.run.ok), (shown, true), "{first}: {result:?}");
    }
    let left = run(&begin("python", &ipython(), &folder("first-exit")).await, "raise SystemExit(3)").await;
    assert_eq!(left.run.outcome, Outcome::Exited { code: 3 });
}

/// What takes longest to be there is not waited for by cells that know nothing of it.
#[tokio::test]
async fn the_first_cell_does_not_wait_for_ipython() {
    // On a busy machine there may be time for it.
    for _ in 0..20 {
        let python = begin("python", &ipython(), &folder("early")).await;
        let there = "import sys\n'traitlets' in sys.modules";
        let first = run(&python, there).await;
        assert_eq!(value(&run(&python, there).await), Some("True"));
        if value(&first) == Some("False") {
            return;
        }
    }
    panic!("it was there before each of twenty first cells");
}

/// Python's own modules are those that `IPython` would have brought.
#[tokio::test]
async fn the_first_cell_finds_modules_as_any_other() {
    let place = folder("first-own");
    let python = begin("python", &ipython(), &place).await;
    let own = "import json\nopen('urllib.py', 'w').write('1 / 0')\nimport pathlib\npathlib.Path('/a').as_uri()";
    assert_eq!(value(&run(&python, own).await), Some("'file:///a'"));
    let place = folder("first-theirs");
    std::fs::write(place.join("sched.py"), "answer = 42").unwrap();
    let python = begin("python", &ipython(), &place).await;
    assert_eq!(value(&run(&python, "import sched\nsched.answer").await), Some("42"));
}

#[tokio::test]
async fn a_program_that_is_no_interpreter_is_said_to_be_none() {
    let error = driver::try_begin("python", "/bin/false", &folder("none")).await.err().unwrap();
    assert!(matches!(error, InterpreterError::NotStarted(_)), "{error}");
}

#[tokio::test]
async fn node_keeps_names_awaits_and_shows() {
    for program in ["/usr/bin/node", &new_node()] {
        let node = begin("node", program, &folder("node")).await;
        let first = run(&node, "const a = 1; let b = { q: [1, 2] }; console.log('hi'); console.error('err'); b").await;
        assert_eq!((first.run.stdout.as_str(), first.run.stderr.as_str()), ("hi\n", "err\n"));
        assert_eq!(value(&first), Some("{ q: [ 1, 2 ] }"));
        let second = run(&node, "const a = 2; await new Promise(done => setTimeout(() => done(a + b.q[1]), 5))").await;
        assert_eq!((value(&second), second.execution_count), (Some("4"), 2));
        let imports = "import fs, { readFileSync } from 'fs'\nimport * as path from 'node:path'\n\
                       [typeof fs.readFile, typeof readFileSync, typeof path.join, typeof (await import('os')).EOL, 'import(x)']";
        let imports = run(&node, imports).await;
        assert_eq!(value(&imports), Some("[ 'function', 'function', 'function', 'string', 'import(x)' ]"));
        let child = run(&node, "require('child_process').execSync('echo sub', { stdio: 'inherit' }); display({ 'text/html': '<b>' }, { raw: true })").await;
        assert_eq!(child.run.stdout, "sub\n");
        assert_eq!(child.results, [Bundle::from([("text/html".to_owned(), json!("<b>"))])]);
        assert_eq!(run(&node, "process.exit(4)").await.run.outcome, Outcome::Exited { code: 4 });
        assert_eq!(value(&run(&node, "a").await), Some("2"));
    }
}

#[tokio::test]
async fn errors_of_node_have_the_users_lines() {
    let node = begin("node", "/usr/bin/node", &folder("node-errors")).await;
    let thrown = run(&node, "function f() {\n  throw new TypeError('bad')\n}\nf()").await.run;
    let exception = thrown.exception.unwrap();
    assert_eq!(thrown.outcome, Outcome::Exited { code: 1 });
    assert_eq!((exception.kind.as_str(), exception.message.as_str(), exception.line), ("TypeError", "bad", Some(2)));
    assert_eq!(exception.traceback, "TypeError: bad\n    at f (cell-1:2:9)\n    at cell-1:4:1");
    let syntax = run(&node, "1\nlet x ==").await.run.exception.unwrap();
    assert_eq!((syntax.kind.as_str(), syntax.line), ("SyntaxError", Some(2)));
    let late =
        run(&node, "setTimeout(() => { throw new Error('late') }, 1); await new Promise(d => setTimeout(d, 30)); 1")
            .await;
    assert!(late.run.stderr.contains("late") && late.run.ok, "{}", late.run.stderr);
}

#[tokio::test]
async fn node_is_interrupted_in_a_loop_and_while_it_waits() {
    for program in ["/usr/bin/node", &new_node()] {
        let node = begin("node", program, &folder("node-interrupt")).await;
        run(&node, "const kept = 5").await;
        for code in ["console.log('here'); while (true) {}", "console.log('here'); await new Promise(() => {})"] {
            let seen = Seen::default();
            let running = node.run(cell(code), Some(Box::new(seen.clone())));
            let stopping = async {
                seen.wait_for("here").await;
                node.interrupt();
            };
            let (end, ()) = tokio::join!(running, stopping);
            assert_eq!(end.unwrap().outcome(), Outcome::Cancelled, "{code}");
        }
        // Enough to make it collect what nobody awaits any more.
        let code = "let junk = []; for (let i = 0; i < 2e6; i++) junk.push({ i }); kept";
        let result = run(&node, code).await;
        assert_eq!(value(&result), Some("5"), "{:?}", result.run);
    }
}

#[tokio::test]
async fn types_are_stripped_where_node_can() {
    let node = begin("typescript", &new_node(), &folder("types")).await;
    let result = run(&node, "interface A { q: number }\nconst x: A = { q: 5 }\nx.q as number").await;
    assert_eq!((value(&result), result.run.stderr.as_str()), (Some("5"), ""));
}

/// What came while a cell ran.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<String>>);

impl Seen {
    async fn wait_for(&self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.0.lock().unwrap().contains(text) {
            assert!(Instant::now() < deadline, "`{text}` did not come; there was {:?}", self.0.lock().unwrap());
            tokio::task::yield_now().await;
        }
    }
}

impl Output for Seen {
    fn write(&mut self, _: Stream, bytes: &[u8]) -> ControlFlow<()> {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        ControlFlow::Continue(())
    }
}

impl CellOutput for Seen {
    fn shown(&mut self, _: &Bundle, _: bool) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn raised(&mut self, _: &Exception) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
