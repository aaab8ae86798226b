//! What reaches the caller: files, streams, the terminal.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Stdio;

use common::{converse, folder, json, run, saggar, text};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

#[test]
fn files_come_back_under_their_own_names() {
    let out = folder("out").join("made/by/saggar");
    let code = "import os\nos.makedirs('a/b')\nopen('a/b/x.txt', 'w').write('data')\nopen('tool', 'w').write('#!/bin/sh')\n\
                os.chmod('tool', 0o6755)\nos.symlink('/etc/passwd', 'link')";
    let output = run(&["run", "--json", "-c", code, "--out", out.to_str().unwrap()]);
    assert_eq!(json(&output)["ok"], true);
    assert_eq!(fs::read_to_string(out.join("a/b/x.txt")).unwrap(), "data");
    assert_eq!(fs::metadata(out.join("tool")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 2);
}

#[test]
fn links_in_the_callers_folder_are_replaced_not_followed() {
    let base = folder("out-links");
    let (out, other) = (base.join("out"), base.join("other"));
    fs::create_dir_all(&out).unwrap();
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("precious"), "precious").unwrap();
    symlink(other.join("precious"), out.join("file")).unwrap();
    symlink(&other, out.join("folder")).unwrap();
    let output = run(&["run", "-c", "open('file', 'w').write('new')", "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read_to_string(other.join("precious")).unwrap(), "precious");
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "new");
    let code = "import os\nos.mkdir('folder')\nopen('folder/precious', 'w').write('new')";
    let result = json(&run(&["run", "--json", "-c", code, "--out", out.to_str().unwrap()]));
    assert_eq!(result["ok"], true, "{result}");
    assert!(result["feedback"][0]["message"].as_str().unwrap().contains("in the way"), "{result}");
    assert_eq!(fs::read_to_string(other.join("precious")).unwrap(), "precious");
}

#[test]
fn files_that_the_owner_cannot_read_do_not_stop_the_rest() {
    let out = folder("out-modes");
    let code = "import os\nopen('secret', 'w').write('x')\nos.chmod('secret', 0)\nos.mkdir('closed')\n\
                os.chmod('closed', 0)\nopen('open', 'w').write('y')";
    let result = json(&run(&["run", "--json", "-c", code, "--out", out.to_str().unwrap()]));
    assert_eq!(result["ok"], true);
    assert_eq!(fs::read_to_string(out.join("open")).unwrap(), "y");
}

#[test]
fn code_comes_from_standard_input_and_output_streams_as_it_comes() {
    let mut child = saggar(&["run", "-l", "bash", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"echo from bash; cat; echo err >&2; exit 5").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("from bash\n", Some(5)));

    converse(saggar(&["run", "-c", "import sys\nfor line in sys.stdin: print(line.strip()[::-1])"]));
}

#[test]
fn a_pipe_gets_the_bytes_and_a_terminal_sees_no_control_sequence() {
    let code = r"import sys; sys.stdout.write('\x1b]52;c;QUJD\x07red\n')";
    assert_eq!(run(&["run", "-c", code]).stdout, b"\x1b]52;c;QUJD\x07red\n");
    assert_eq!(on_a_terminal(&["run", "-c", code]), "\\u{1b}]52;c;QUJD\\u{7}red\r\n");
    assert_eq!(on_a_terminal(&["run", "--raw", "-c", code]), "\x1b]52;c;QUJD\x07red\r\n");
}

#[test]
fn words_of_the_compiler_reach_a_terminal_as_words() {
    // The compiler repeats what the code says; our own remark repeats the compiler.
    let code = "#error \x1b]0;TITLE\x07\nint main(void) { return 0; }";
    let shown = on_a_terminal(&["run", "-l", "c", "-c", code]);
    assert!(shown.contains("TITLE") && !shown.contains('\x1b'), "{shown:?}");
}

/// What a terminal as stdout and stderr gets.
fn on_a_terminal(args: &[&str]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let slave = fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let both = slave.try_clone().unwrap();
    saggar(args).stdout(slave).stderr(both).status().unwrap();
    let mut buffer = vec![0; 4096];
    let n = rustix::io::read(&master, &mut buffer).unwrap();
    text(&buffer[..n])
}

#[test]
fn people_are_told_why_a_run_was_ended() {
    let output = run(&["run", "-c", "import time; time.sleep(9)", "--timeout", "300ms"]);
    assert_eq!(output.status.code(), Some(124));
    assert!(text(&output.stderr).contains("did not end within 0.3 s"), "{}", text(&output.stderr));
    let output = run(&["run", "-l", "c", "-c", "int main( { }"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error: expected"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_command_runs_in_a_sandbox_of_its_own() {
    let output = run(&["exec", "--env", "WHO=me", "--", "bash", "-c", "echo $WHO in $PWD as $(id -u)"]);
    assert_eq!(text(&output.stdout), "me in /work as 1000\n");
    let result = json(&run(&["exec", "--json", "--", "python3", "-c", "import sys; sys.exit(4)"]));
    assert_eq!((&result["outcome"]["code"], &result["language"]), (&serde_json::json!(4), &serde_json::Value::Null));
}

#[test]
fn typescript_runs_where_the_interpreter_strips_types() {
    // `scripts/test` fetches such a Node; without it there is nothing to show.
    let Some(node) = std::env::var_os("SAGGAR_TEST_NODE") else {
        assert!(std::env::var_os("CI").is_none(), "SAGGAR_TEST_NODE is not set: run scripts/test");
        eprintln!("skipped: SAGGAR_TEST_NODE names no Node that strips types");
        return;
    };
    let config = folder("typescript").join("saggar.toml");
    fs::write(&config, format!("[interpreters]\ntypescript = {node:?}")).unwrap();
    let code = "const x: number = 41;\nconsole.log(x + 1);\nfunction f(s: string): never { throw new TypeError(s); }\nf('no');";
    let args = ["run", "--json", "-l", "typescript", "-c", code, "--config", config.to_str().unwrap()];
    let result = json(&run(&args));
    assert_eq!((&result["stdout"], &result["language"]), (&"42\n".into(), &"typescript".into()), "{result}");
    assert_eq!((&result["exception"]["type"], &result["exception"]["line"]), (&"TypeError".into(), &3.into()));
}

#[test]
fn output_that_cannot_be_written_is_an_error_not_a_crash() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(saggar(&["run", "--json", "-c", "pass"]).stdout(full()).status().unwrap().code(), Some(125));
    let status = saggar(&["run", "-l", "bash", "-c", "kill -9 $$"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(137));
}

#[test]
fn doctor_says_what_is_on() {
    let output = run(&["doctor", "--json"]);
    let report = json(&output);
    assert_eq!((output.status.code(), &report["ok"]), (Some(0), &serde_json::json!(true)));
    let on = |name: &str| report["layers"].as_array().unwrap().iter().any(|l| l["layer"] == name && l["on"] == true);
    for wall in [
        "user_ns",
        "mount_ns",
        "pid_ns",
        "net_ns",
        "ipc_ns",
        "uts_ns",
        "cgroup_ns",
        "no_new_privs",
        "seccomp",
        "caps_dropped",
    ] {
        assert!(on(wall), "{wall}: {report}");
    }
    let python = report["languages"].as_array().unwrap().iter().find(|l| l["language"] == "python").unwrap();
    assert!(python["version"].as_str().unwrap().starts_with("Python 3"), "{python}");
    let people = saggar(&["doctor"]).env("DOCKER_HOST", "unix:///nowhere/docker.sock").output().unwrap();
    let people = text(&people.stdout);
    assert!(people.contains("a default run is carried out"), "{people}");
    assert!(people.contains("off  no daemon at unix:///nowhere/docker.sock"), "{people}");
}
