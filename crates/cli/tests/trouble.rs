//! Trouble gives clear errors: what is wrong, what to do next, exit 125 or 2, and one JSON value if asked.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{folder, json, run, saggar, text};

/// Runs with `--json` and checks code, exit and that message and hint say something.
fn fails(args: &[&str], code: &str, exit: i32) {
    let mut args = args.to_vec();
    args.insert(1, "--json");
    check(&mut saggar(&args), code, exit);
}

fn check(command: &mut Command, code: &str, exit: i32) {
    let output = command.output().unwrap();
    let value = json(&output);
    let error = &value["error"];
    assert_eq!(error["code"], code, "{value}");
    assert_eq!(output.status.code(), Some(exit), "{value}");
    assert!(error["message"].as_str().unwrap().len() > 10, "{value}");
    assert!(error["hint"].as_str().unwrap().len() > 10, "{value}");
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

#[test]
fn wrong_arguments() {
    fails(&["run"], "usage", 2);
    fails(&["run", "-c", "1", "--no-such-option"], "usage", 2);
    fails(&["run", "-c", "1", "--memory", "lots"], "usage", 2);
    fails(&["run", "-c", "1", "--timeout", "soon"], "usage", 2);
    fails(&["run", "-c", "1", "--env", "no-equals-sign"], "usage", 2);
    fails(&["run", "-c", "1", "--require", "moat"], "usage", 2);
    fails(&["run", "-c", "1", "--file", "Cargo.toml:../out"], "usage", 2);
    fails(&["run", "-c", "1", "--env", "=x"], "invalid_request", 2);
    assert_eq!(run(&["nonsense"]).status.code(), Some(2));
}

#[test]
fn limits_of_zero_or_absurd() {
    for limit in [
        ["--timeout", "0"],
        ["--cpu-time", "0ms"],
        ["--memory", "0"],
        ["--cpus", "0"],
        ["--cpus", "-1"],
        ["--cpus", "NaN"],
        ["--pids", "0"],
        ["--disk", "0"],
        ["--inodes", "0"],
        ["--output-limit", "0"],
        ["--timeout", "999999h"],
        ["--memory", "900000T"],
        ["--pids", "99999999"],
        ["--inodes", "99999999999"],
    ] {
        let option = format!("{}={}", limit[0], limit[1]);
        fails(&["run", "-c", "1", &option], "invalid_limit", 2);
    }
}

#[test]
fn what_is_wrong_is_told_with_what_was_asked_and_where_help_is() {
    let error = |args: &[&str]| json(&run(args))["error"].clone();
    let small = error(&["run", "--json", "-c", "1", "--memory", "1K"]);
    let message = small["message"].as_str().unwrap();
    assert!(message.contains("0.0009765625") && message.contains("at least 1"), "{small}");
    for (args, command) in [
        (&["run", "--json", "-c", "1", "--env", "X"][..], "`saggar run --help`"),
        (&["session", "create", "--json", "--env", "X"], "`saggar session create --help`"),
        (&["audit", "list", "--json", "--server", "ftp://x"], "`saggar audit list --help`"),
    ] {
        assert!(error(args)["hint"].as_str().unwrap().contains(command), "{args:?}: {}", error(args));
    }
}

#[test]
fn nothing_that_a_server_keeps_is_without_a_name() {
    let server = common::http::Server::start("trouble-kept");
    assert!(server.saggar(&["key", "create"]).output().unwrap().status.success());
    assert_eq!(server.ask("POST /v1/runs", r#"{"code": "1"}"#).status, 200);
    let kept = json(&server.saggar(&["df", "--json"]).output().unwrap());
    let unknown: Vec<_> = kept["entries"].as_array().unwrap().iter().filter(|one| one["kind"] == "other").collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn language_and_interpreter() {
    fails(&["run", "-c", "1", "-l", "cobol"], "unknown_language", 2);
    check(saggar(&["run", "--json", "-c", "1"]).env("PATH", "/nowhere"), "interpreter_missing", 125);
    fails(&["exec", "--", "no-such-program"], "program_missing", 125);
    fails(&["exec", "--", "/usr"], "program_missing", 125);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = folder("unreadable");
    fails(&["run", "/nowhere/x.py"], "input_unreadable", 2);
    fails(&["run", folder.to_str().unwrap()], "input_unreadable", 2);
    fails(&["run", "-c", "1", "--file", "/nowhere/x"], "input_unreadable", 2);
    fails(&["run", "-c", "1", "--stdin", "/nowhere/x"], "input_unreadable", 2);
    fails(&["run", "-c", "1", "--file", &format!("{}:x", folder.display())], "input_unreadable", 2);
}

#[test]
fn state_and_settings() {
    check(saggar(&["run", "--json", "-c", "1"]).env("SAGGAR_HOME", "/proc/nowhere"), "state_unwritable", 125);
    check(saggar(&["doctor", "--json"]).env("SAGGAR_HOME", "/proc/nowhere"), "state_unwritable", 125);
    check(
        saggar(&["run", "--json", "-c", "1"]).env_remove("SAGGAR_HOME").env_remove("HOME").env_remove("XDG_DATA_HOME"),
        "invalid_settings",
        2,
    );
    let folder = folder("settings");
    let config = folder.join("saggar.toml");
    fs::write(&config, "nettwork = 1").unwrap();
    fails(&["run", "-c", "1", "--config", config.to_str().unwrap()], "invalid_settings", 2);
    fails(&["run", "-c", "1", "--config", "/nowhere.toml"], "invalid_settings", 2);
    fs::write(&config, "[interpreters]\npython = '/bin/no-such-python'").unwrap();
    fails(&["run", "-c", "1", "--config", config.to_str().unwrap()], "interpreter_missing", 125);
    fs::write(&config, "[ceiling]\nmemory_mb = 64\n[limits]\nmemory_mb = 32").unwrap();
    fails(&["run", "-c", "1", "--config", config.to_str().unwrap(), "--memory", "65M"], "invalid_limit", 2);
}

#[test]
fn settings_of_the_working_directory_are_not_read() {
    let folder = folder("working-directory");
    fs::write(folder.join("saggar.toml"), "nettwork = 1").unwrap();
    fs::create_dir(folder.join("saggar")).unwrap();
    fs::write(folder.join("saggar/saggar.toml"), "nettwork = 1").unwrap();
    let output = saggar(&["run", "-c", "print(1)"]).current_dir(&folder).output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("1\n", Some(0)));
}

#[test]
fn a_server_without_its_key_is_an_error_and_nothing_runs_here() {
    for (option, key, code, exit) in [
        ("--backend=e2b", "E2B_API_KEY", "isolation_unavailable", 125),
        ("--server=http://127.0.0.1:1", "SAGGAR_API_KEY", "usage", 2),
    ] {
        check(saggar(&["run", "--json", "-c", "print(1)", option]).env_remove(key), code, exit);
    }
}

#[test]
fn no_user_namespaces() {
    // A user namespace whose own limit of further ones is zero; this is what a hardened host looks like from inside.
    let command = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec {} run --json -c 'print(1)'",
        env!("CARGO_BIN_EXE_saggar")
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "bash", "-c", &command]).env("SAGGAR_HOME", folder("no-userns"));
    check(&mut unshare, "isolation_unavailable", 125);
    let output = unshare.output().unwrap();
    let value = json(&output);
    assert!(value["error"]["message"].as_str().unwrap().contains("user_ns"), "{value}");
}

#[test]
fn inputs_beyond_the_disk_limit() {
    let folder = folder("too-large");
    let file = folder.join("large");
    fs::write(&file, vec![0; 3 << 20]).unwrap();
    fails(&["run", "-c", "1", "--disk", "2M", "--file", file.to_str().unwrap()], "invalid_request", 2);
}

#[test]
fn a_full_or_unwritable_out_folder() {
    let code = "open('big', 'wb').write(bytes(3 << 20))";
    fails(&["run", "-c", code, "--out", "/proc/nowhere"], "output_unwritable", 125);
    // A full disk: a tmpfs of one megabyte, in a mount namespace that ends with the command.
    let folder = folder("full-disk");
    let command = format!(
        "mount -t tmpfs -o size=1m none {0} && {1} run --json -c \"{code}\" --out {0}; code=$?; ls -A {0}; exit $code",
        folder.display(),
        env!("CARGO_BIN_EXE_saggar")
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "bash", "-c", &command]).env("SAGGAR_HOME", common::folder("full-disk-state"));
    let output = unshare.output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    assert!(lines.contains("output_unwritable") && lines.contains("No space left"), "{lines}");
    assert_eq!(lines.lines().count(), 1, "a part of the file was left: {lines}");
}

#[test]
fn required_layers() {
    assert!(run(&["run", "-c", "pass", "--require", "seccomp", "--require", "disk_quota"]).status.success());
    // A cgroup that is none: its meters are missing, and named.
    let mut command = saggar(&["run", "--json", "-c", "pass", "--require", "cgroup.memory"]);
    check(command.env("SAGGAR_CGROUP", "/nowhere"), "isolation_unavailable", 125);
    let output = saggar(&["run", "--json", "-c", "print(1)"]).env("SAGGAR_CGROUP", "/nowhere").output().unwrap();
    let result = json(&output);
    assert_eq!(result["isolation"]["missing"], serde_json::json!(["cgroup.memory", "cgroup.pids", "cgroup.cpu"]));
    assert_eq!(result["ok"], true);
}

#[test]
fn too_many_arguments_are_the_callers_mistake() {
    // One argument may have at most 128 KiB; together they are more than a message to the keeper holds.
    let long = "x".repeat(100_000);
    fails(&["run", "-c", "1", "--", &long, &long, &long], "invalid_request", 2);
}

#[test]
fn errors_for_people_name_the_next_step() {
    let output = run(&["run", "-c", "1", "-l", "cobol"]);
    let words = text(&output.stderr);
    assert!(words.starts_with("error: unknown language `cobol`\n\nhint: known languages: python"), "{words}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_program_that_may_not_be_executed_is_passed_over() {
    let folder = folder("path");
    fs::write(folder.join("python3"), "#!/bin/sh\necho wrong").unwrap();
    fs::set_permissions(folder.join("python3"), fs::Permissions::from_mode(0o644)).unwrap();
    let path = format!("{}:relative:/usr/bin:/bin", folder.display());
    let output = saggar(&["run", "-c", "print('right')"]).env("PATH", path).output().unwrap();
    assert_eq!(text(&output.stdout), "right\n");
}

#[test]
fn a_docker_daemon_that_is_not_there_is_an_error_and_nothing_runs() {
    let made = folder("docker-trouble").join("made");
    let code = format!("open({:?}, 'w')", made.to_str().unwrap());
    let args = ["run", "--json", "--backend", "docker", "--image", "x", "-c", &code];
    for host in ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1"] {
        check(saggar(&args).env("DOCKER_HOST", host), "isolation_unavailable", 125);
    }
    check(saggar(&args).env("DOCKER_HOST", "carrier-pigeon:coop"), "invalid_settings", 2);
    check(saggar(&args[..4]).args(["-c", &code]).env("DOCKER_HOST", "tcp://127.0.0.1:1"), "invalid_request", 2);
    assert!(!made.exists());
}
