//! E2B's own clients, unchanged, against our server. `SAGGAR_TEST_E2B` names a Python that has them, `SAGGAR_TEST_E2B_JS` a folder
//! with those of Node; scripts/test installs them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start programs and fail loudly")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{folder, text};

/// A Python with E2B's clients and what their templates have, or none.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("SAGGAR_TEST_E2B").map(PathBuf::from);
    assert!(named.is_some() || std::env::var_os("CI").is_none(), "SAGGAR_TEST_E2B is not set: run scripts/test");
    if named.is_none() {
        eprintln!("skipped: SAGGAR_TEST_E2B names no Python with E2B's clients");
    }
    named
}

struct Server {
    child: Child,
    address: String,
    home: PathBuf,
}

impl Server {
    fn start(name: &str, python: &Path, more: &str) -> Self {
        let home = folder(&format!("e2b-{name}"));
        let settings = home.join("settings.toml");
        let python = python.display().to_string();
        // Debian's own Node is too old for TypeScript.
        let node = std::env::var_os("SAGGAR_TEST_NODE").map(|node| node.display().to_string());
        let node = node.map(|node| format!("node = {node:?}\ntypescript = {node:?}\n")).unwrap_or_default();
        let text = format!("[interpreters]\npython = {python:?}\n{node}[e2b]\nbuild = false\n{more}");
        fs::write(&settings, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&settings).env("SAGGAR_HOME", &home);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address, home }
    }

    fn key(&self) -> String {
        fs::read_to_string(self.home.join("api-key")).unwrap().trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs one of the scripts beside this file, with nothing set but what the documents name.
fn run(name: &str, settings: &str) {
    let Some(python) = python() else { return };
    with(&python, &format!("{name}.py"), settings);
}

/// Runs a script by an interpreter.
fn with(program: &Path, script: &str, settings: &str) {
    let Some(python) = python() else { return };
    let name = script.split('.').next().unwrap();
    let server = Server::start(name, &python, settings);
    let url = format!("http://{}", server.address);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2b").join(script);
    let mut command = Command::new(program);
    // For whoever else has a key of the server.
    let mut made = Command::new(env!("CARGO_BIN_EXE_saggar"));
    let made = made.args(["key", "create"]).env("SAGGAR_HOME", &server.home).output().unwrap();
    command.env("OTHER_KEY", text(&made.stdout).trim());
    command.arg(script).env("E2B_API_KEY", server.key()).env("E2B_API_URL", &url).env("E2B_SANDBOX_URL", &url);
    let output = command.env_remove("E2B_DEBUG").env_remove("E2B_DOMAIN").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stdout), "done\n", "{}", text(&output.stderr));
}

#[test]
fn sandboxes_are_made_found_extended_paused_copied_and_ended() {
    run("sandboxes", "");
}

#[test]
fn commands_and_terminals_run_as_the_client_says() {
    run("commands", "");
}

#[test]
fn files_are_written_read_listed_watched_and_signed() {
    run("files", "");
}

#[test]
fn code_runs_in_interpreters_that_stay() {
    run("interpreter", "");
}

#[test]
fn a_sandbox_is_closed_to_whoever_lacks_its_token() {
    run("closed", "");
}

#[test]
fn ports_of_a_sandbox_are_reached_through_the_server() {
    run("ports", "");
}

#[test]
fn repositories_are_made_copied_and_sent_by_the_git_helpers() {
    run("git", "");
}

#[test]
fn clients_that_do_not_wait_make_the_same_calls() {
    run("asynchronous", "");
}

#[test]
fn javascript_clients_make_every_call() {
    let names = ["SAGGAR_TEST_E2B_JS", "SAGGAR_TEST_NODE"].map(std::env::var_os);
    assert!(names.iter().all(Option::is_some) || std::env::var_os("CI").is_none(), "run scripts/test");
    let [Some(_), Some(node)] = names else { return eprintln!("skipped: no clients of Node are named") };
    with(Path::new(&node), "client.mjs", "");
}

#[test]
fn smolagents_executor_runs_what_an_agent_writes() {
    run("smolagents_executor", "");
}

#[test]
fn langchains_backend_finds_its_files_and_commands() {
    run("langchain_backend", "");
}

#[test]
fn what_was_given_opens_nothing_more() {
    run("attempts", "");
}

#[test]
fn neither_neighbours_nor_the_server_nor_the_host_are_reached() {
    run("walls", "");
}

#[test]
fn the_bench_measures_with_the_real_client() {
    let Some(python) = python() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
    command.args(["bench", "e2b", "--quick", "--json", "--client"]).arg(&python);
    let output = command.env("SAGGAR_HOME", folder("e2b-bench")).stdin(Stdio::null()).output().unwrap();
    let report = common::json(&output);
    // How fast it is, is no test's concern; that all sandboxes answered is.
    assert_eq!(output.status.code(), Some(i32::from(report["met"] != true)), "{report}");
    assert_eq!((&report["alive"], &report["warm"]["n"], &report["cold"]["n"]), (&10.into(), &3.into(), &1.into()));
    let names: Vec<&str> = report["budgets"].as_array().unwrap().iter().map(|b| b["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["warm", "cold", "anew", "alive"]);
}
