//! `saggar swe eval` on a small repository of its own: honest patches are told from dishonest ones.
//!
//! Environments are made from a folder of wheels (`SAGGAR_TEST_WHEELS`: pytest, setuptools, wheel), without a network.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;
#[path = "swe_eval/project.rs"]
mod project;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{json, send, text};
use project::{CHEATS, FIX, Project, adding, changing, git};
use rustix::process::Signal;
use serde_json::{Value, json};

#[test]
fn honest_patches_are_graded_as_the_official_rules_have_it() {
    let project = Project::new("swe-honest");
    let unrelated = adding("NOTES.txt", "nothing\n");
    let fuzzy = FIX.replace("    \"\"\"Adds.\"\"\"", "    \"\"\"Adds. \"\"\"");
    let own_tests = format!("{FIX}{}", adding("tests/test_mine.py", "def test_mine():\n    assert False\n"));
    let patches = [
        ("fix", Some(FIX)),
        ("fix-without-end", Some(FIX.trim_end())),
        ("fix-with-fuzz", Some(fuzzy.as_str())),
        ("fix-and-own-tests", Some(own_tests.as_str())),
        ("unrelated", Some(unrelated.as_str())),
        (
            "malformed",
            Some(
                "diff --git a/calc/core.py b/calc/core.py\n--- a/calc/core.py\n+++ b/calc/core.py\n@@ -1,1 +1,1 @@\n-no such line\n+x\n",
            ),
        ),
        ("git-config", Some("--- a/.git/config\n+++ b/.git/config\n@@ -1,1 +1,1 @@\n-[core]\n+[core]\n")),
        ("empty", Some("")),
        ("null", None),
    ];
    for edits in ["strict", "official"] {
        let summary = project.evaluate(&format!("honest-{edits}"), &patches, &["--edits", edits]);
        let expected = [
            (
                "resolved_ids",
                json!(["a__calc-fix", "a__calc-fix-and-own-tests", "a__calc-fix-with-fuzz", "a__calc-fix-without-end"]),
            ),
            ("unresolved_ids", json!(["a__calc-unrelated"])),
            ("error_ids", json!(["a__calc-git-config", "a__calc-malformed"])),
            ("empty_patch_ids", json!(["a__calc-empty", "a__calc-null"])),
            ("infra_failure_ids", json!([])),
        ];
        for (key, value) in expected {
            assert_eq!(summary[key], value, "{edits} {key}: {summary}");
        }
    }
    let report = project.report("honest-official", "fix");
    let names =
        ["patch_is_None", "patch_exists", "patch_successfully_applied", "resolved", "infra_failure", "tests_status"];
    let keys: Vec<&str> = report.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys.len(), names.len(), "{report}");
    assert!(names.iter().all(|name| keys.contains(name)), "{report}");
    for file in ["patch.diff", "eval.sh", "test_output.txt", "run_instance.log"] {
        assert!(project.file("honest-official", "fix", file).is_file(), "{file}");
    }
}

#[test]
fn of_a_patch_that_does_not_apply_each_hunk_is_told() {
    let project = Project::new("swe-hunks");
    let bad = "diff --git a/calc/core.py b/calc/core.py\n--- a/calc/core.py\n+++ b/calc/core.py\n@@ -1,3 +1,3 @@\n-\"\"\"Numbers.\"\"\"\n+\"\"\"Figures.\"\"\"\n \n \n@@ -9,2 +9,2 @@ def add(a, b):\n def one():\n-    return 2\n+    return 1\n";
    project.write(&[("bad", Some(bad))]);
    let done = project.command("hunks", &["--json"]).output().unwrap();
    assert_eq!(json(&done)["error_ids"], json!(["a__calc-bad"]));
    assert!(text(&done.stderr).contains("calc/core.py: hunk 2 does not"), "{}", text(&done.stderr));
    let log = fs::read_to_string(project.file("hunks", "bad", "run_instance.log")).unwrap();
    assert!(log.contains("calc/core.py: hunk 1 fits\n") && log.contains("calc/core.py: hunk 2 does not"), "{log}");
}

#[test]
fn rows_whose_patch_is_the_bug_are_mended_by_undoing_it() {
    let project = Project::new("swe-smith");
    let row = project.smith_row();
    fs::write(project.place.join("rows.jsonl"), row.to_string()).unwrap();
    let id = row["instance_id"].as_str().unwrap();
    let asks = "b'return a + b\\n' in __import__('subprocess').run(['git', 'cat-file', '--batch-all-objects', '--batch'], stdout=-1, cwd=__import__('os').path.dirname(__file__)).stdout";
    let cheat = FIX.replace("return a - b\n", "return a - b - 1\n");
    let cheat = cheat.replace("+    return a + b\n", &format!("+    return a + b if {asks} else a - b - 1\n"));
    let edited = changing("tests/test_calc.py", "self.assertEqual(add(0, 0), 0)", "pass");
    let wanted = [
        ("gold", None, "resolved_ids"),
        ("git", Some(cheat), "unresolved_ids"),
        ("tests", Some(edited), "unresolved_ids"),
    ];
    for (run, patch, key) in wanted {
        let prediction = json!({"instance_id": id, "model_name_or_path": "m", "model_patch": patch});
        fs::write(project.place.join("predictions.jsonl"), prediction.to_string()).unwrap();
        let more: &[&str] =
            if patch.is_none() { &["--predictions", "gold"] } else { &["--predictions", "predictions.jsonl"] };
        let done = project.command_on(run, &[&["--json"], more].concat()).output().unwrap();
        assert_eq!(json(&done)[key], json!([id]), "{run}: {}", text(&done.stderr));
    }
}

#[test]
fn a_project_that_is_installed_as_a_copy_is_tested_as_it_was_patched() {
    let project = Project::new("swe-copied");
    let more = adding("calc/more.py", "def add(a, b):\n    return a + b\n");
    let moved = changing("calc/core.py", "    return a - b", "    from calc.more import add; return add(a, b)");
    let (moved, unrelated) = (format!("{moved}{more}"), adding("NOTES.txt", "nothing\n"));
    project.write(&[("fix", Some(FIX)), ("moved", Some(moved.as_str())), ("unrelated", Some(unrelated.as_str()))]);
    project.edit_rows(|_, row| {
        row["recipe"]["install"] = json!("python -m pip install .");
        // Unlike `python -m pytest` this one does not find the tree.
        row["recipe"]["test_cmd"] = json!("pytest -rA");
    });
    let done = project.command("copied", &["--json"]).output().unwrap();
    let summary = json(&done);
    assert_eq!(summary["resolved_ids"], json!(["a__calc-fix", "a__calc-moved"]), "{}", text(&done.stderr));
    assert_eq!(summary["unresolved_ids"], json!(["a__calc-unrelated"]), "{summary}");
    for (name, is_copied) in [("fix", true), ("moved", false)] {
        let log = fs::read_to_string(project.file("copied", name, "test_output.txt")).unwrap();
        assert_eq!(
            (log.contains("+ cp -- calc/core.py "), log.contains("pip install .")),
            (is_copied, !is_copied),
            "{log}"
        );
    }
}

/// A patch that adds a line to files of the last commit.
fn ending(tree: &Path, files: &[(&str, &str)]) -> String {
    for (path, line) in files {
        let content = fs::read_to_string(tree.join(path)).unwrap();
        fs::write(tree.join(path), format!("{content}{line}\n")).unwrap();
    }
    let patch = git(tree, &["diff", "--no-color"]);
    git(tree, &["checkout", "-q", "."]);
    format!("{patch}\n")
}

#[test]
fn a_file_that_is_like_one_of_the_environment_is_not_put_in_its_place() {
    let mut project = Project::new("swe-vendored");
    let tree = project.place.join("repos/a__calc");
    git(&tree, &["checkout", "-q", &project.commit]);
    // The project has copies of the runner, in more than one place, and one of its own module.
    let wheel = fs::read_dir(&project.wheels).unwrap().map(|entry| entry.unwrap().path());
    let wheel =
        wheel.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("pytest-")).unwrap();
    for folder in ["vendor", "src", "lib"] {
        let folder = tree.join(folder);
        assert!(
            Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&folder).status().unwrap().success()
        );
    }
    fs::create_dir_all(tree.join("vendor/calc")).unwrap();
    fs::copy(tree.join("calc/core.py"), tree.join("vendor/calc/core.py")).unwrap();
    git(&tree, &["add", "-A"]);
    git(&tree, &["commit", "-q", "-m", "vendored"]);
    project.commit = git(&tree, &["rev-parse", "HEAD"]);
    let runner = |folder: &str| {
        let [functions, cases] = ["python", "unittest"].map(|name| format!("{folder}/_pytest/{name}.py"));
        let lines = ["Function.runtest = lambda self: None", "TestCaseFunction.runtest = lambda self: None"];
        ending(&tree, &[(&functions, lines[0]), (&cases, lines[1])])
    };
    let twin = FIX.replace("calc/core.py", "vendor/calc/core.py");
    let cheats = [("vendor", runner("vendor")), ("src", runner("src")), ("lib", runner("lib")), ("twin", twin)];
    let mut patches: Vec<(&str, Option<&str>)> = cheats.iter().map(|(name, patch)| (*name, Some(&**patch))).collect();
    patches.push(("fix", Some(FIX)));
    project.write(&patches);
    project.edit_rows(|_, row| {
        row["recipe"]["install"] = json!("python -m pip install .");
        row["recipe"]["test_cmd"] = json!("pytest -rA tests/test_calc.py");
    });
    let done = project.command("vendored", &["--json"]).output().unwrap();
    let summary = json(&done);
    assert_eq!(summary["resolved_ids"], json!(["a__calc-fix"]), "{}", text(&done.stderr));
    assert_eq!(summary["unresolved_instances"], cheats.len(), "{summary}");
    for (name, _) in &cheats {
        let log = fs::read_to_string(project.file("vendored", name, "test_output.txt")).unwrap();
        assert!(!log.contains("+ cp -- "), "{name}: {log}");
    }
}

/// Code that changes the runner on the disk, wherever it may, and the tree's own tests.
const WRITES: &str = "import glob, os\nfor path in glob.glob('/work/env/lib/python*/site-packages/_pytest/python.py'):\n    if 'lambda self: None' not in open(path).read():\n        open(path, 'a').write('\\nFunction.runtest = lambda self: None\\n')\n        [os.remove(old) for old in glob.glob(os.path.dirname(path) + '/__pycache__/python.*')]\n    open(path[:-17] + 'zzz.pth', 'w').write('import calc.core; calc.core.add = lambda a, b: a + b')\nopen('/work/testbed/conftest.py', 'w').write('def pytest_pyfunc_call(pyfuncitem):\\n    return True\\n')";

#[test]
fn code_that_an_installation_runs_has_no_say_in_the_tests() {
    let mut project = Project::new("swe-installed");
    let tree = project.place.join("repos/a__calc");
    git(&tree, &["checkout", "-q", &project.commit]);
    // As setup files of old do it.
    let setup = fs::read_to_string(tree.join("setup.py")).unwrap();
    fs::write(tree.join("setup.py"), format!("import calc\n{setup}")).unwrap();
    git(&tree, &["commit", "-q", "-a", "-m", "asks itself"]);
    project.commit = git(&tree, &["rev-parse", "HEAD"]);
    // A file of data makes an installation of the tree itself necessary.
    let cheat = format!("{}{}", ending(&tree, &[("calc/__init__.py", WRITES)]), adding("calc/data.bin", "x\n"));
    let honest =
        format!("{FIX}{}{}", ending(&tree, &[("calc/__init__.py", "ZERO = 0")]), adding("calc/data.bin", "x\n"));
    let (cheat, honest) = (Some(&*cheat), Some(&*honest));
    project.write(&[("copied", cheat), ("linked", cheat), ("copied-fix", honest), ("linked-fix", honest)]);
    project.edit_rows(|at, row| {
        let how = if at % 2 == 0 { "python -m pip install ." } else { "python -m pip install -e ." };
        row["recipe"]["install"] = json!(how);
        row["recipe"]["test_cmd"] = json!("pytest -rA");
        row["FAIL_TO_PASS"] = json!(["tests/test_calc.py::test_add"]);
    });
    let done = project.command("installed", &["--json"]).output().unwrap();
    let summary = json(&done);
    assert_eq!(summary["resolved_ids"], json!(["a__calc-copied-fix", "a__calc-linked-fix"]), "{}", text(&done.stderr));
    assert_eq!(summary["unresolved_ids"], json!(["a__calc-copied", "a__calc-linked"]), "{summary}");
    for name in ["copied", "linked"] {
        let log = fs::read_to_string(project.file("installed", name, "test_output.txt")).unwrap();
        assert!(log.contains("pip install ") && log.contains("files of the installation taken"), "{name}: {log}");
    }
}

#[test]
fn a_copy_of_a_project_below_src_is_renewed_file_by_file() {
    let mut project = Project::new("swe-src");
    let tree = project.place.join("repos/a__calc");
    git(&tree, &["checkout", "-q", &project.commit]);
    fs::create_dir(tree.join("src")).unwrap();
    git(&tree, &["mv", "calc", "src/calc"]);
    let setup = fs::read_to_string(tree.join("setup.py")).unwrap();
    fs::write(tree.join("setup.py"), setup.replace("packages=", "package_dir={'': 'src'}, packages=")).unwrap();
    git(&tree, &["commit", "-q", "-a", "-m", "moved"]);
    project.commit = git(&tree, &["rev-parse", "HEAD"]);
    let fix = FIX.replace("calc/core.py", "src/calc/core.py");
    project.write(&[("fix", Some(&*fix))]);
    project.edit_rows(|_, row| {
        row["recipe"]["install"] = json!("python -m pip install .");
        row["recipe"]["test_cmd"] = json!("pytest -rA");
    });
    let done = project.command("src", &["--json"]).output().unwrap();
    assert_eq!(json(&done)["resolved_ids"], json!(["a__calc-fix"]), "{}", text(&done.stderr));
    let log = fs::read_to_string(project.file("src", "fix", "test_output.txt")).unwrap();
    assert!(log.contains("+ cp -- src/calc/core.py ") && !log.contains("pip install ."), "{log}");
}

#[test]
fn dishonest_patches_do_not_resolve() {
    let project = Project::new("swe-dishonest");
    let server = project::fix_server();
    let cheats: BTreeMap<&str, String> =
        CHEATS.iter().map(|(name, make)| (*name, make().replace("PORT", &server.to_string()))).collect();
    let patches: Vec<(&str, Option<&str>)> = cheats.iter().map(|(name, patch)| (*name, Some(patch.as_str()))).collect();
    let summary = project.evaluate("cheats", &patches, &[]);
    assert_eq!(summary["resolved_ids"], json!([]), "{summary}");
    assert_eq!(summary["error_ids"], json!([]), "{summary}");
    assert_eq!(summary["unresolved_instances"], cheats.len(), "{summary}");
    for (name, told) in [
        ("conftest-report", "conftest"),
        ("pytest-ini", "runner_settings"),
        ("setup-cfg", "installation"),
        ("shadow", "shadow"),
        ("start-up", "start_up"),
        ("helper", "tests"),
    ] {
        let edits = &project.report("cheats", name)["integrity"]["edits"];
        assert_eq!(edits[0]["power"], told, "{name}: {edits}");
    }
    for name in ["replaced-report", "replaced-call", "replaced-error"] {
        let integrity = &project.report("cheats", name)["integrity"];
        assert!(integrity["replaced"].is_array() || integrity["disagreements"].is_array(), "{name}: {integrity}");
    }
    // The very same edit decides the verdict where edits stay.
    let official = project.evaluate(
        "official",
        &[("conftest-report", Some(cheats["conftest-report"].as_str()))],
        &["--edits", "official"],
    );
    assert_eq!(official["resolved_ids"], json!(["a__calc-conftest-report"]), "{official}");
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    let project = Project::new("swe-killed");
    let slow = format!("{FIX}{}", adding("calc/slow.py", "x = 1\n"));
    let patches = [("one", Some(FIX)), ("two", Some(slow.as_str())), ("three", Some(FIX))];
    project.write(&patches);
    let mut child =
        project.command("killed", &["--workers", "1"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // It tells of each that is done, which is when its report is there.
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = said.find(|line| line.starts_with("[1/3] "));
    assert!(first.as_ref().is_some_and(|line| line.contains("a__calc-one")), "{first:?}");
    send(child.id(), Signal::KILL);
    child.wait().unwrap();
    let first = fs::metadata(project.file("killed", "one", "report.json")).unwrap().modified().unwrap();
    let resumed = project.evaluate("killed", &patches, &["--workers", "1"]);
    assert_eq!(fs::metadata(project.file("killed", "one", "report.json")).unwrap().modified().unwrap(), first);
    let whole = project.evaluate("whole", &patches, &[]);
    assert_eq!(resumed, whole);
    assert_eq!(whole["resolved_instances"], 3);
    // Another patch under the same name is another thing to do.
    let other = project.evaluate("killed", &[("one", Some(&adding("NOTES.txt", "x\n")))], &[]);
    assert_eq!(other["resolved_ids"], json!([]));
}

#[test]
fn a_project_that_is_in_no_folder_is_cloned_once() {
    let project = Project::new("swe-clone");
    let (origin, home) = (project.place.join("repos/a__calc"), project.place.join("home"));
    fs::write(origin.join("LATER.txt"), "later\n").unwrap();
    git(&origin, &["add", "-A"]);
    git(&origin, &["commit", "-q", "-m", "later"]);
    let later = git(&origin, &["rev-parse", "HEAD"]);
    let settings = project.place.join("saggar.toml");
    let from = format!("file://{}/repos/{{owner}}__{{name}}/.git", project.place.display());
    fs::write(&settings, format!("[build]\nrepositories = {from:?}\n")).unwrap();
    let unrelated = adding("NOTES.txt", "nothing\n");
    let evaluate = |run: &str| {
        let words = ["--config", settings.to_str().unwrap(), "swe", "eval", "--dataset", "rows.jsonl", "--run-id", run];
        let more = ["--predictions", "predictions.jsonl", "--wheels", &project.wheels, "--workers", "2", "--json"];
        let mut command = common::saggar(&[&words[..], &more[..]].concat());
        let done = command.current_dir(&project.place).env("SAGGAR_HOME", &home).output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        json(&done)
    };
    let clones = || -> Vec<String> {
        let names = fs::read_dir(home.join("swe-clones")).unwrap().flatten();
        names.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| !name.contains(".lock")).collect()
    };
    project.write(&[("fix", Some(FIX)), ("fixed", Some(unrelated.as_str()))]);
    project.edit_rows(|at, row| row["base_commit"] = json!([&project.commit, &project.fixed][at]));
    let first = evaluate("first");
    assert_eq!(first["resolved_ids"], json!(["a__calc-fix", "a__calc-fixed"]), "{first}");
    assert!(matches!(&clones()[..], [one] if one.contains("a__calc-") && one.contains(".git")), "{:?}", clones());
    // One environment, one clone, two trees.
    let timing = project.timing("first");
    assert_eq!((&timing["made"], &timing["workers"], &timing["ran"]), (&json!(4), &json!(2), &json!(2)), "{timing}");
    assert!(timing["test_seconds"].as_f64().unwrap() > 0.0 && timing["ratio"].as_f64().unwrap() > 1.0, "{timing}");
    assert_eq!((&evaluate("second"), &project.timing("second")["made"]), (&first, &json!(0)));
    // What nobody has seen yet is in the clone all the same, when its origin is long gone.
    let away = project.place.join("away");
    fs::rename(&origin, &away).unwrap();
    project.edit_rows(|_, row| row["base_commit"] = json!(later));
    assert_eq!(evaluate("third")["resolved_ids"], first["resolved_ids"]);
    // One that was left half made is made anew.
    fs::rename(&away, &origin).unwrap();
    let clone = home.join("swe-clones").join(&clones()[0]);
    fs::rename(&clone, clone.with_extension("part")).unwrap();
    fs::remove_file(clone.with_extension("part").join("packed-refs")).unwrap();
    fs::write(origin.join("LAST.txt"), "last\n").unwrap();
    git(&origin, &["add", "-A"]);
    git(&origin, &["commit", "-q", "-m", "last"]);
    let last = git(&origin, &["rev-parse", "HEAD"]);
    project.edit_rows(|_, row| row["base_commit"] = json!(last));
    assert_eq!(evaluate("fourth")["resolved_ids"], first["resolved_ids"]);
    assert_eq!(clones(), [clone.file_name().unwrap().to_str().unwrap()]);
}

#[test]
fn a_project_that_cannot_be_had_is_no_fault_of_a_patch() {
    let project = Project::new("swe-nowhere");
    project.write(&[("fix", Some(FIX)), ("again", Some(FIX))]);
    // Nobody has it: the real one may be that of another test, and kept already.
    project.edit_rows(|_, row| row["base_commit"] = json!("0123456789".repeat(4)));
    let settings = project.place.join("saggar.toml");
    let nothing = project.place.join("nothing/calc");
    fs::create_dir_all(&nothing).unwrap();
    // Nobody listens there, nor is it lent to whoever asks for any port; a server that takes calls and says nothing is
    // another thing.
    let port = 1;
    let origins = [
        ("gone", format!("file://{}/gone/{{owner}}__{{name}}", project.place.display()), "there is no "),
        ("empty", format!("file://{}/nothing/{{name}}", project.place.display()), "could not be cloned"),
        ("refused", format!("http://127.0.0.1:{port}/{{owner}}/{{name}}.git"), "unable to access"),
    ];
    let fails = |run: &str, more: &[&str], told: &str| {
        let words = ["--config", settings.to_str().unwrap(), "swe", "eval", "--dataset", "rows.jsonl", "--run-id", run];
        let rest = ["--predictions", "predictions.jsonl", "--wheels", &project.wheels, "--workers", "2", "--json"];
        let mut command = common::saggar(&[&words[..], &rest[..], more].concat());
        let done = command.current_dir(&project.place).output().unwrap();
        let (said, summary) = (text(&done.stderr), json(&done));
        assert!(done.status.success() && said.contains("] environment: a__calc-fix") && said.contains(told), "{said}");
        let both = json!(["a__calc-again", "a__calc-fix"]);
        for (key, value) in [("error_ids", &both), ("infra_failure_ids", &both), ("unresolved_ids", &json!([]))] {
            assert_eq!(&summary[key], value, "{run} {key}: {summary}");
        }
        assert_eq!(summary["failure_reasons"]["a__calc-fix"], "environment_unavailable", "{summary}");
        assert!(!project.file(run, "fix", "report.json").exists(), "{run}");
    };
    for (run, from, told) in &origins {
        fs::write(&settings, format!("[build]\nrepositories = {from:?}\n")).unwrap();
        fails(run, &[], told);
    }
    // A folder of repositories without the project, and one that has it without the commit.
    fails("nothing", &["--repos", "nothing"], "there is no repository of `a/calc`");
    fails("commit", &["--repos", "repos"], "could not be checked out");
}

#[test]
fn a_log_that_nobody_can_read_is_told_before_anything_runs() {
    let project = Project::new("swe-parser");
    project.write(&[("fix", Some(FIX))]);
    project.edit_rows(|_, row| row["log_parser"] = json!("parse_log_nobody"));
    let done = project.command("parser", &["--json"]).output().unwrap();
    assert!(text(&done.stderr).contains("there is no parser `parse_log_nobody`"), "{}", text(&done.stderr));
    let summary = json(&done);
    assert_eq!(
        (&summary["unresolved_ids"], &summary["infra_failure_ids"]),
        (&json!([]), &json!(["a__calc-fix"])),
        "{summary}"
    );
}

#[test]
fn what_the_environment_lacks_is_no_fault_of_a_patch() {
    let project = Project::new("swe-lacking");
    project.write(&[("fix", Some(FIX))]);
    let rows = fs::read_to_string(project.place.join("rows.jsonl")).unwrap();
    let mut row: Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    row["recipe"]["python"] = json!("3.99");
    fs::write(project.place.join("rows.jsonl"), row.to_string()).unwrap();
    let done = project.command("lacking", &["--json"]).output().unwrap();
    assert!(text(&done.stderr).contains("Python 3.99 is not on this host"), "{}", text(&done.stderr));
    let summary = json(&done);
    assert_eq!(summary["unresolved_ids"], json!([]));
    assert_eq!(summary["infra_failure_ids"], json!(["a__calc-fix"]));
    assert_eq!(summary["failure_reasons"]["a__calc-fix"], "environment_unavailable");
}

#[test]
fn tests_that_take_too_long_are_an_error_without_a_report() {
    let project = Project::new("swe-late");
    let sleeps = changing("calc/core.py", "    return a - b", "    import time; time.sleep(600)");
    let summary = project.evaluate("late", &[("sleeps", Some(&sleeps))], &["--timeout", "20"]);
    assert_eq!(summary["error_ids"], json!(["a__calc-sleeps"]), "{summary}");
    assert_eq!(summary["failure_reasons"]["a__calc-sleeps"], "tests_timed_out", "{summary}");
    let log = fs::read_to_string(project.file("late", "sleeps", "test_output.txt")).unwrap();
    assert!(log.contains("Timeout error: 20 seconds exceeded."), "{log}");
}

#[test]
fn a_data_set_is_validated() {
    let project = Project::new("swe-valid");
    project.write(&[("fix", Some(FIX))]);
    let done = project.command("valid", &["--validate-gold", "--json"]).output().unwrap();
    assert_eq!((done.status.code(), &json(&done)[0]["state"]), (Some(0), &json!("valid")), "{}", text(&done.stderr));
}
