//! The program under test and what it leaves on the host.
#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "each test file uses a part of this; tests start the program and fail loudly"
)]

pub(crate) mod http;
pub(crate) mod session;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// `saggar` with a state folder of its own and nothing on standard input.
pub(crate) fn saggar(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_saggar"));
    command.args(args).env("SAGGAR_HOME", scratch("state")).stdin(Stdio::null());
    command
}

/// Runs to the end.
pub(crate) fn run(args: &[&str]) -> Output {
    saggar(args).output().unwrap()
}

/// The one JSON value on stdout.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {} {}", text(&output.stdout), text(&output.stderr)))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A folder for one test, empty.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = scratch(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Waits until `done` says so; the deadline is for a broken build, not for a slow machine.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not happen");
        std::thread::yield_now();
    }
}

/// Processes whose command line holds `mark`: a run's own, seen from the host. Saggar's own line holds the code too.
pub(crate) fn processes_with(mark: &str) -> BTreeSet<u32> {
    let numbered = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(numbered)
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                let line = text(&line);
                line.contains(mark) && !line.starts_with(env!("CARGO_BIN_EXE_saggar"))
            })
        })
        .collect()
}

/// A keeper that `parent` started, by whichever of its threads.
pub(crate) fn keeper_of(parent: u32) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten();
    let children: String = threads.flat_map(|thread| fs::read_to_string(thread.path().join("children"))).collect();
    let is_keeper =
        |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"saggar-keeper"));
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(is_keeper)
}

/// Python that starts a tree of sleeping processes, each with `: mark` in its command line, and says `ready`.
pub(crate) fn sleeping_tree_code(mark: &str) -> String {
    format!(
        "import subprocess, time\n\
         print('ready', flush=True)\n\
         subprocess.Popen(['setsid', 'bash', '-c', 'trap \"\" TERM HUP INT; sleep 600; : {mark}'])\n\
         time.sleep(600) # {mark}"
    )
}

pub(crate) fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Processes of a sleeping tree, without the command line of saggar itself, which holds the code.
pub(crate) fn processes_inside(mark: &str) -> Vec<u32> {
    processes_with(&format!(": {mark}")).into_iter().collect()
}

/// Every group that a keeper made, in any hierarchy.
pub(crate) fn groups_of(keeper: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(&format!("saggar-{keeper}-")) {
                    found.push(entry.path());
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

/// A run that was taken back: it says so, and what it had written is kept.
pub(crate) fn assert_taken_back(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let result = json(&output);
    assert_eq!(result["outcome"], serde_json::json!({"kind": "cancelled"}));
    assert_eq!(result["stdout"], "ready\n");
}

/// Runs `command` with a program that turns each line around: each answer must come before the next question is sent.
pub(crate) fn converse(mut command: Command) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut ask, mut hear) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for word in ["abc\n", "def\n"] {
        ask.write_all(word.as_bytes()).unwrap();
        let mut answer = [0; 4];
        hear.read_exact(&mut answer).unwrap();
        assert_eq!(text(&answer), format!("{}\n", word.trim().chars().rev().collect::<String>()));
    }
    drop(ask);
    assert!(child.wait().unwrap().success());
}

/// Signals that take a run back, less those that we were started to ignore, as by nohup: saggar ignores these too.
pub(crate) fn heeded_signals() -> Vec<Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let heeded = |signal: &Signal| ignored & (1 << (signal.as_raw() - 1)) == 0;
    [Signal::INT, Signal::TERM, Signal::HUP].into_iter().filter(heeded).collect()
}
