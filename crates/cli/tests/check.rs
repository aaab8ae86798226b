//! `saggar check`, and what `--policy` does to a run.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;

use common::{folder, json, run, text};
use serde_json::json;

#[test]
fn a_finding_is_shown_with_its_line_and_a_caret() {
    let folder = folder("check-text");
    let file = folder.join("x.py");
    fs::write(&file, "import os\nx = os.system('id')\n").unwrap();
    let output = run(&["check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "{0}:2:5: critical python.process.start (10 points, blocks)\n  `os.system` starts another program\n  2 | x = os.system('id')\n    |     ^\n\
         refused under policy guard by python.process.start: 10 points\n",
        file.display()
    );
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn json_is_one_object_with_the_promised_fields() {
    let output = run(&["check", "-c", "import socket", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let finding = json!({"rule": "python.import.network", "severity": "medium", "points": 2, "line": 1, "column": 8,
        "message": "`socket` speaks over the network", "blocks": false});
    let expected = json!({"ok": true, "language": "python", "policy": "guard", "findings": [finding], "syntax_error": null, "points": 2,
        "refused_by": null});
    assert_eq!(json(&output), expected);
    let output = run(&["check", "-c", "import socket", "--json", "--policy", "strict"]);
    assert_eq!((output.status.code(), json(&output)["ok"].as_bool()), (Some(1), Some(false)));
    assert_eq!(json(&output)["refused_by"], "python.import.network");
}

#[test]
fn a_syntax_error_has_a_place_and_is_a_no() {
    for (language, code, line) in
        [("python", "x = 1\ndef f(:\n", 2), ("node", "let x = ;", 1), ("bash", "echo\nif true; then", 2)]
    {
        for policy in ["guard", "report"] {
            let output = run(&["check", "-l", language, "-c", code, "--json", "--policy", policy]);
            let value = json(&output);
            assert_eq!(output.status.code(), Some(1), "{value}");
            assert_eq!(value["syntax_error"]["line"], line, "{value}");
            assert!(value["syntax_error"]["message"].as_str().unwrap().len() > 5, "{value}");
        }
    }
}

#[test]
fn sarif_names_rules_and_places() {
    let output = run(&["check", "-l", "bash", "-c", "curl x | sh", "--sarif"]);
    assert_eq!(output.status.code(), Some(1));
    let log = json(&output);
    assert_eq!(log["version"], "2.1.0");
    let results = log["runs"][0]["results"].as_array().unwrap();
    let pipe = results.iter().find(|result| result["ruleId"] == "bash.pipe.shell").unwrap();
    assert_eq!(pipe["level"], "error");
    assert_eq!(pipe["locations"][0]["physicalLocation"]["region"], json!({"startLine": 1, "startColumn": 10}));
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["id"] == "bash.pipe.shell"));
}

#[test]
fn lists_and_a_policy_file_hold() {
    let folder = folder("check-lists");
    let file = folder.join("policy.toml");
    fs::write(&file, "deny_imports = ['math']\n").unwrap();
    for (args, exit) in [
        (&["-c", "import json", "--allow-import", "json"][..], 0),
        (&["-c", "import math", "--allow-import", "json"], 1),
        (&["-c", "import math", "--deny-import", "math"], 1),
        (&["-c", "import math", "--policy-file", file.to_str().unwrap()], 1),
        (&["-c", "import math", "--policy-file", "no-such-file"], 2),
        (&["-c", "1", "--policy", "severe"], 2),
        (&["-c", "1", "--review"], 125),
        (&[], 2),
    ] {
        let output = run(&[&["check"], args].concat());
        assert_eq!(output.status.code(), Some(exit), "{args:?} {}", text(&output.stdout));
    }
}

#[test]
fn a_refused_run_is_a_result_and_exit_126() {
    let code = "import os\nos.system('echo hello')";
    let output = run(&["run", "-c", code, "--policy", "guard", "--json"]);
    assert_eq!(output.status.code(), Some(126));
    let result = json(&output);
    assert_eq!(result["outcome"], json!({"kind": "refused", "rule": "python.process.start"}));
    assert_eq!(result["stdout"], "");
    let output = run(&["run", "-c", code, "--policy", "guard"]);
    assert!(text(&output.stderr).contains("python.process.start"), "{}", text(&output.stderr));
    let output = run(&["exec", "--policy", "guard", "--", "rm", "-rf", "/"]);
    assert_eq!(output.status.code(), Some(126));
    let output = run(&["run", "-c", code, "--json"]);
    let result = json(&output);
    assert_eq!(
        (result["stdout"].as_str(), result["findings"][0]["rule"].as_str()),
        (Some("hello\n"), Some("python.process.start"))
    );
}
