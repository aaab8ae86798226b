//! Nothing outlives its owner: not a cancelled run, not a killed saggar, not a killed keeper.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Stdio};

use common::{
    assert_taken_back, eventually, groups_of, heeded_signals, keeper_of, processes_inside, processes_with, saggar,
    send, sleeping_tree_code,
};
use rustix::process::Signal;

/// A run that has started a tree of sleeping processes, each with `mark` in its command line.
fn sleeping_tree(mark: &str, options: &[&str]) -> Child {
    let code = sleeping_tree_code(mark);
    let mut args = vec!["run", "-c", &code, "--timeout", "10m"];
    args.extend(options);
    let mut child = saggar(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if !options.contains(&"--json") {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }
    eventually("the tree", || !processes_inside(mark).is_empty());
    child
}

#[test]
fn sigkill_of_saggar_takes_every_process_and_group() {
    let mut child = sleeping_tree("mark-kill-saggar", &[]);
    let keeper = keeper_of(child.id()).unwrap();
    send(child.id(), Signal::KILL);
    child.wait().unwrap();
    eventually("the end of the tree", || processes_inside("mark-kill-saggar").is_empty());
    eventually("the end of the keeper", || !std::path::Path::new(&format!("/proc/{keeper}")).exists());
    assert_eq!(groups_of(keeper), Vec::<std::path::PathBuf>::new());
}

#[test]
fn sigkill_of_the_keeper_takes_every_process_and_is_reported() {
    let mut child = sleeping_tree("mark-kill-keeper", &[]);
    let keeper = keeper_of(child.id()).unwrap();
    send(keeper, Signal::KILL);
    eventually("the end of the tree", || processes_inside("mark-kill-keeper").is_empty());
    assert_eq!(child.wait().unwrap().code(), Some(125));
    // The dead keeper's groups are swept by the next one.
    assert!(common::run(&["run", "-c", "pass"]).status.success());
    eventually("the sweep", || {
        common::run(&["run", "-c", "pass"]);
        groups_of(keeper).is_empty()
    });
}

/// Containers may share the host's cgroups, and each has its own process 1.
#[test]
fn groups_of_another_pid_namespace_are_not_swept() {
    let mut child = sleeping_tree("mark-others", &[]);
    let groups = groups_of(keeper_of(child.id()).unwrap());
    let place = groups.first().expect("this machine has cgroups").parent().unwrap();
    let ours = std::fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let [left_here, of_another] = [ours, ours - 1].map(|space| place.join(format!("saggar-1-0-{space}-0")));
    std::fs::create_dir(&left_here).unwrap();
    std::fs::create_dir(&of_another).unwrap();
    assert!(common::run(&["run", "-c", "pass"]).status.success());
    eventually("the sweep", || !left_here.exists());
    let spared = of_another.exists();
    std::fs::remove_dir(&of_another).unwrap();
    assert!(spared);
    send(child.id(), Signal::KILL);
    child.wait().unwrap();
}

#[test]
fn ctrl_c_takes_the_tree_and_keeps_the_evidence() {
    for signal in heeded_signals() {
        let child = sleeping_tree("mark-ctrl-c", &["--json"]);
        send(child.id(), signal);
        assert_taken_back(child);
        eventually("the end of the tree", || processes_inside("mark-ctrl-c").is_empty());
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let code = "while True: print('x' * 1000) # mark-reader";
    let mut child = saggar(&["run", "-c", code, "--output-limit", "1G"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_killed_saggar_leaves_nothing_at_any_moment() {
    // From before the keeper exists to after the program runs: the moment is chosen by how long `saggar` has lived.
    let rounds = if std::env::var_os("SAGGAR_TEST_LONG").is_some() { 400 } else { 60 };
    for round in 0..rounds {
        let mark = format!("mark-moment-{round}-");
        let code = format!("import os\nos.execvp('bash', ['bash', '-c', 'sleep 600; : {mark}'])");
        let mut child = saggar(&["run", "-c", &code]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_micros(400 * round) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        eventually("the end of the run", || processes_inside(&mark).is_empty());
    }
    eventually("the end of every keeper", || processes_with("saggar-keeper").is_empty() || others_run_keepers());
}

/// Other tests run beside this one and have keepers of their own; orphans have process 1 as parent.
fn others_run_keepers() -> bool {
    processes_with("saggar-keeper").iter().all(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok())
            .is_none_or(|parent| parent != 1)
    })
}
