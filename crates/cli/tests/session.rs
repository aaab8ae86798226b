//! `saggar session`: from the command line through a server to a sandbox that stays.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use common::session::{Server, saggar};
use common::{converse, eventually, folder, heeded_signals, json, keeper_of, processes_with, send, text};
use serde_json::{Value, json};

#[test]
fn without_a_server_the_answer_is_125_and_says_what_to_do() {
    let home = folder("session-none");
    for args in [&["session", "create", "--json"][..], &["session", "list"], &["session", "exec", "x", "--", "true"]] {
        let output = saggar(&home, args).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("saggar serve"), "{said}");
    }
}

#[test]
fn a_session_is_created_used_listed_and_killed() {
    let server = Server::start("life");
    let created = server.json(&["create", "--json", "--ttl", "10m", "--env", "COLOUR=blue"]);
    let id = created["id"].as_str().unwrap();
    assert!(id.starts_with("ses_") && created["state"] == "running", "{created}");
    let made = server.run(&["exec", id, "--json", "--", "bash", "-c", "pwd; echo $COLOUR; echo text > made; exit 3"]);
    assert_eq!(made.status.code(), Some(3));
    let made = json(&made);
    assert_eq!(made["outcome"], json!({"kind": "exited", "code": 3}), "{made}");
    assert_eq!(made["ok"], false);
    assert_eq!(made["stdout"], "/work\nblue\n");
    let live = server.run(&["exec", id, "--", "bash", "-c", "cat made; echo err >&2; exit 7"]);
    assert_eq!(
        (live.status.code(), text(&live.stdout), text(&live.stderr)),
        (Some(7), "text\n".into(), "err\n".into())
    );
    let late = server.run(&["exec", id, "--timeout", "300ms", "--", "sleep", "600"]);
    assert_eq!(late.status.code(), Some(124));
    let missing = server.run(&["exec", id, "--json", "--", "no-such-program"]);
    assert_eq!((missing.status.code(), json(&missing)["error"]["code"].clone()), (Some(125), json!("program_missing")));

    let listed = server.json(&["list", "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["id"], *id);
    let usage = server.json(&["show", id, "--json"]);
    assert!(usage["usage"]["disk_bytes"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(server.json(&["kill", id, "--json"])["killed"], true);
    assert_eq!(server.json(&["list", "--json"]), json!([]));
    let gone = server.run(&["exec", id, "--", "true"]);
    assert_eq!(gone.status.code(), Some(125));
    assert!(text(&gone.stderr).contains("session list"), "{}", text(&gone.stderr));
}

#[test]
fn variables_of_one_cell_are_there_for_the_next() {
    let server = Server::start("cells");
    let id = &server.create();
    let first = server.json(&["run", id, "--json", "-c", "x = 20\nprint('set')"]);
    assert_eq!((&first["ok"], &first["stdout"]), (&json!(true), &json!("set\n")), "{first}");
    let second = server.run(&["run", id, "-c", "x += 1; x * 2"]);
    assert_eq!((second.status.code(), text(&second.stdout)), (Some(0), "42\n".to_owned()));
    let raised = server.run(&["run", id, "-c", "1 / 0"]);
    assert_eq!(raised.status.code(), Some(1));
    assert!(text(&raised.stderr).contains("ZeroDivisionError"), "{}", text(&raised.stderr));
    assert_eq!(text(&server.run(&["run", id, "-c", "x"]).stdout), "21\n");
}

#[test]
fn files_go_both_ways_byte_by_byte() {
    let server = Server::start("files");
    let id = &server.create();
    let scratch = folder("session-files-host");
    let bytes: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let source = scratch.join("a b&c.bin");
    fs::write(&source, &bytes).unwrap();
    let put = server.json(&["put", id, source.to_str().unwrap(), "/work/deep/x y#z.bin", "--json"]);
    assert_eq!((put["bytes"].as_u64(), put["path"].as_str()), (Some(12_000_000), Some("/work/deep/x y#z.bin")));
    let target = scratch.join("back.bin");
    server.json(&["get", id, "deep/x y#z.bin", target.to_str().unwrap(), "--json"]);
    assert!(fs::read(&target).unwrap() == bytes);
    let mut piped = server.session(&["put", id, "-", "piped/"]).stdin(Stdio::piped()).spawn().unwrap();
    // It may be gone before it has read anything.
    let _ = piped.stdin.take().unwrap().write_all(b"x");
    assert_eq!(piped.wait().unwrap().code(), Some(2), "a folder needs a name");
    let mut piped = server.session(&["put", id, "-", "piped"]).stdin(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    assert!(piped.wait().unwrap().success());
    assert_eq!(text(&server.run(&["get", id, "/work/piped", "-"]).stdout), "from a pipe");
    let listed = server.json(&["ls", id, "/work", "--depth", "2", "--json"]);
    let paths: Vec<&str> = listed.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/work/deep", "/work/deep/x y#z.bin", "/work/piped"]);
    assert!(text(&server.run(&["ls", id, "/work"]).stdout).contains("piped"));
    assert_eq!(server.run(&["get", id, "/work/none", "-"]).status.code(), Some(125));
    assert_eq!(server.run(&["put", id, "/no/such/file", "x"]).status.code(), Some(2));
    assert!(server.run(&["rm", id, "/work/deep"]).status.success());
    assert_eq!(server.json(&["ls", id, "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn input_is_a_conversation_and_a_signal_takes_the_command_back() {
    let server = Server::start("talk");
    let id = &server.create();
    converse(server.session(&["exec", id, "--", "bash", "-c", "while read line; do echo $line | rev; done"]));
    let mark = "3601.25";
    let script = format!("echo ready; setsid sleep {mark} & sleep {mark}");
    let mut child = server.session(&["exec", id, "--json", "--timeout", "5m", "--", "bash", "-c", &script]);
    let child = child.stdout(Stdio::piped()).spawn().unwrap();
    eventually("the command's start", || processes_with(mark).len() > 1);
    send(child.id(), heeded_signals()[0]);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), json(&output)["stdout"].clone()), (Some(130), json!("ready\n")));
    eventually("the end of all that it started", || processes_with(mark).is_empty());
}

#[test]
fn a_process_in_the_background_is_listed_and_killed() {
    let server = Server::start("background");
    let id = &server.create();
    let started = server.json(&["exec", id, "--background", "--tag", "web", "--json", "--", "sleep", "3602.5"]);
    let listed = server.json(&["ps", id, "--json"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((&listed[0]["pid"], &listed[0]["tag"]), (&started["pid"], &json!("web")));
    assert!(server.run(&["kill", id, "--process", "web"]).status.success());
    eventually("its end", || processes_with("3602.5").is_empty());
    let _ = server.run(&["kill", id]);
}

#[test]
fn a_server_that_is_killed_leaves_no_process_no_group_and_no_disk() {
    let home = folder("session-killed");
    let mut server = Server::start_in(&home);
    let id = &server.create();
    server.json(&["exec", id, "--background", "--json", "--", "sleep", "3603.75"]);
    let keeper = keeper_of(server.child.id()).unwrap();
    eventually("the process", || !processes_with("3603.75").is_empty());
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    eventually("its end", || processes_with("3603.75").is_empty());
    eventually("the end of the keeper", || !Path::new(&format!("/proc/{keeper}")).exists());
    let again = Server::start_in(&home);
    assert_eq!(again.json(&["list", "--json"]), json!([]));
    let next = again.create();
    let left: Vec<_> = fs::read_dir(home.join("sessions")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| *name == *next || *name == *"skeleton"), "{left:?}");
    assert_eq!(common::groups_of(keeper), Vec::<PathBuf>::new());
}

#[test]
fn a_shell_has_a_terminal_of_the_right_size() {
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    let server = Server::start("shell");
    let id = &server.create();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    let mut shell = server.session(&["shell", id, "--", "bash", "--norc", "-i"]);
    let mut child = shell.stdin(slave.try_clone().unwrap()).stdout(slave).stderr(Stdio::null()).spawn().unwrap();
    drop(shell);
    let (mut write, mut read) = (fs::File::from(master.try_clone().unwrap()), fs::File::from(master));
    write.write_all(b"stty size; test -t 0 && echo terminal$((40+2)); exit 5\n").unwrap();
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    // To its end, which is an error here: the last who had the other side open is gone.
    while let Ok(n @ 1..) = read.read(&mut buffer) {
        said.extend_from_slice(&buffer[..n]);
    }
    let said = text(&said);
    assert!(said.contains("24 80") && said.contains("terminal42"), "{said}");
    drop((read, write));
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_session_goes_back_to_a_snapshot_and_is_copied() {
    let server = Server::start("snapshots");
    let id = &server.create();
    let sh = |id: &str, script: &str| {
        let output = server.run(&["exec", id, "--", "bash", "-c", script]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    sh(id, "echo one > f");
    let snapshot = server.json(&["snapshot", id, "--name", "first", "--json"]);
    assert!(snapshot["id"].as_str().unwrap().starts_with("snap_"), "{snapshot}");
    sh(id, "echo two > f; echo more > g");
    let copies = server.json(&["fork", id, "--count", "2", "--json"]);
    assert_eq!(copies.as_array().unwrap().len(), 2);
    assert!(server.run(&["rollback", id, snapshot["id"].as_str().unwrap()]).status.success());
    assert_eq!(sh(id, "cat f; ls"), "one\nf\n");
    assert_eq!(sh(copies[1]["id"].as_str().unwrap(), "cat f; ls"), "two\nf\ng\n");
    let again = server.json(&["create", "--from", "first", "--json"]);
    assert_eq!(sh(again["id"].as_str().unwrap(), "cat f"), "one\n");
    assert_eq!(server.json(&["snapshots", "--json"]).as_array().unwrap().len(), 2);
    assert!(server.run(&["forget", "first"]).status.success());
    assert_eq!(server.run(&["rollback", id, "first"]).status.code(), Some(125));
}

#[test]
fn trees_are_packed_unpacked_and_watched() {
    let server = Server::start("trees");
    let id = &server.create();
    let mut watching = server.session(&["watch", id, "/work", "--recursive", "--json"]);
    let mut watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 9];
    watching.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"watching\n");
    server.json(&["mkdir", id, "src/deep", "--json"]);
    let made = server.run(&["exec", id, "--", "bash", "-c", "echo x > src/deep/a; head -c 300000 /dev/zero > src/b"]);
    assert!(made.status.success());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(watching.stdout.as_mut().unwrap()), &mut line).unwrap();
    let first: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(first, json!({"type": "create", "path": "/work/src"}));
    watching.kill().unwrap();
    watching.wait().unwrap();
    let moved = server.json(&["mv", id, "src/b", "src/deep/b", "--json"]);
    assert_eq!((&moved["path"], &moved["bytes"]), (&json!("/work/src/deep/b"), &json!(300_000)));
    assert_eq!(server.json(&["stat", id, "src/deep/b", "--json"]), moved);
    let tar = server.home.join("src.tar");
    assert!(server.run(&["pack", id, "src", tar.to_str().unwrap()]).status.success());
    let other = &server.create();
    let unpacked = server.json(&["unpack", other, tar.to_str().unwrap(), "/work/again", "--json"]);
    assert_eq!(unpacked, json!({"entries": 3, "bytes": 300_002, "skipped": 0}));
    let seen = server.run(&["exec", other, "--", "bash", "-c", "cat again/deep/a; stat -c %s again/deep/b"]);
    assert_eq!(text(&seen.stdout), "x\n300000\n");
    let missing = server.run(&["pack", id, "/work/none", "-"]);
    assert_eq!(missing.status.code(), Some(125), "{}", text(&missing.stderr));
}

#[test]
fn more_than_the_disk_may_hold_is_not_taken() {
    let server = Server::start("room");
    let id = server.json(&["create", "--disk", "2M", "--json"])["id"].as_str().unwrap().to_owned();
    let large = server.home.join("large");
    fs::write(&large, vec![0; 5 << 20]).unwrap();
    let refused = server.run(&["put", &id, large.to_str().unwrap(), "/work/large", "--json"]);
    assert_eq!(
        (refused.status.code(), json(&refused)["error"]["code"].clone()),
        (Some(125), json!("resources_exhausted"))
    );
}

#[test]
fn interpreters_are_listed_interrupted_and_restarted() {
    let server = Server::start("contexts");
    let id = &server.create();
    assert_eq!(server.json(&["contexts", id, "--json"]), json!([]));
    assert_eq!(server.run(&["interrupt", id]).status.code(), Some(125), "there is none yet");
    server.json(&["run", id, "--json", "-c", "x = 1"]);
    let listed = server.json(&["contexts", id, "--json"]);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!("python")), "{listed}");
    let endless = "import time\nopen('begun', 'w').close()\nwhile True: time.sleep(0.01)";
    let mut running = server.session(&["run", id, "--json", "--timeout", "2m", "-c", endless]);
    let running = running.stdout(Stdio::piped()).spawn().unwrap();
    eventually("the code runs", || server.run(&["stat", id, "begun"]).status.success());
    server.json(&["interrupt", id, "--json"]);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(json(&ended)["outcome"], json!({"kind": "cancelled"}));
    assert_eq!(text(&server.run(&["run", id, "-c", "x"]).stdout), "1\n", "its variables stay");
    server.json(&["restart", id, "--json"]);
    let anew = server.json_of(&["run", id, "--json", "-c", "x"]);
    assert_eq!(anew["exception"]["type"], "NameError", "{anew}");
}

/// What is in a folder of the state folder, by how names begin.
fn names(home: &Path, folder: &str, begin: &str) -> Vec<String> {
    let entries = fs::read_dir(home.join(folder)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name.starts_with(begin)).collect()
}

#[test]
fn a_server_killed_at_any_moment_of_a_snapshot_leaves_whole_ones_and_nothing_else() {
    let home = folder("session-killed-snapshots");
    let rounds = if std::env::var_os("SAGGAR_TEST_LONG").is_some() { 60 } else { 6 };
    let mark = &format!("99{}", std::process::id());
    let mut told: Vec<(String, String)> = Vec::new();
    for round in 0..rounds {
        let mut server = Server::start_in(&home);
        let id = &server.create();
        let content = format!("round {round}");
        let script = format!("sleep {mark} >/dev/null 2>&1 & for i in $(seq 50); do echo {content} > f$i; done");
        assert!(server.run(&["exec", id, "--", "bash", "-c", &script]).status.success());
        let asked: Vec<Child> = (0..3)
            .map(|_| server.session(&["snapshot", id, "--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn())
            .map(Result::unwrap)
            .collect();
        // Each round a little later, over about the time that three of them take.
        let moment = std::time::Instant::now() + std::time::Duration::from_micros(round * 90_000 / rounds);
        while std::time::Instant::now() < moment {
            std::thread::yield_now();
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        for child in asked {
            let output = child.wait_with_output().unwrap();
            if output.status.success() {
                told.push((json(&output)["id"].as_str().unwrap().to_owned(), content.clone()));
            }
        }
        eventually("the end of all processes", || processes_with(mark).is_empty());
    }
    let server = Server::start_in(&home);
    let id = server.create();
    let kept = server.json(&["snapshots", "--json"]);
    let kept: Vec<&Value> = kept.as_array().unwrap().iter().collect();
    for (id, _) in &told {
        assert!(kept.iter().any(|snapshot| snapshot["id"] == id.as_str()), "{id} was told and is lost");
    }
    // One that had no lock yet is left alone for some seconds.
    eventually("the end of half-made layers", || {
        assert!(saggar(&home, &["image", "list"]).output().unwrap().status.success());
        names(&home, "layers", "new-").is_empty()
    });
    let mut wanted: Vec<&str> =
        kept.iter().flat_map(|s| s["layers"].as_array().unwrap()).filter_map(Value::as_str).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut layers = names(&home, "layers", "snap-");
    layers.sort();
    assert_eq!(layers, wanted, "every layer is of a snapshot, and all of them are there");
    eventually("the end of disks of dead sessions", || {
        let other = server.create();
        assert!(server.run(&["kill", &other]).status.success());
        names(&home, "sessions", "ses_") == [id.as_str()] && names(&home, "sessions", "new-").is_empty()
    });
    for (snapshot, content) in &told {
        let copy = server.json(&["create", "--from", snapshot, "--json"])["id"].as_str().unwrap().to_owned();
        let output = server.run(&["exec", &copy, "--", "bash", "-c", "cat f* | sort | uniq -c | xargs"]);
        assert_eq!(text(&output.stdout), format!("50 {content}\n"));
        assert!(server.run(&["kill", &copy]).status.success());
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*home.to_string_lossy()), "{mounts}");
}

#[test]
fn what_changed_and_archives_of_snapshots_from_the_command_line() {
    let server = Server::start("archives");
    let id = &server.create();
    let sh = |id: &str, script: &str| {
        let output = server.run(&["exec", id, "--", "bash", "-c", script]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    sh(id, "echo one > f; echo x > gone; sleep 1000 > /dev/null 2>&1 &");
    server.json(&["snapshot", id, "--name", "first", "--json"]);
    sh(id, "echo two > f; rm gone; echo n > n");
    let changes = server.run(&["diff", "first", id]);
    assert_eq!(text(&changes.stdout), "changed /work/f\nremoved /work/gone\nadded   /work/n\n");
    let changes = server.json(&["diff", "first", id, "--json"]);
    assert_eq!(changes["entries"][1], json!({"path": "/work/gone", "change": "removed", "kind": "file", "bytes": 2}));
    server.json(&["snapshot", id, "--name", "second", "--json"]);
    assert_eq!(sh(id, "cat /proc/[0-9]*/comm | grep -c sleep"), "1\n", "processes go on");
    let archive = server.home.join("second.tar");
    let archive = archive.to_str().unwrap();
    let written = server.json(&["export", "second", archive, "--json"]);
    assert_eq!(written["bytes"], fs::metadata(archive).unwrap().len());
    server.json(&["import", archive, "--name", "back", "--json"]);
    let copy = server.json(&["create", "--from", "back", "--json"])["id"].as_str().unwrap().to_owned();
    assert_eq!(sh(&copy, "ls; cat f"), "f\nn\ntwo\n");
    assert_eq!(server.run(&["export", "nothing", archive]).status.code(), Some(125));
    fs::write(archive, "no tar").unwrap();
    assert_eq!(server.run(&["import", archive]).status.code(), Some(2));
    sh(id, "exec 5>open; sleep 1001 >/dev/null 2>&1 &");
    let refused = server.run(&["snapshot", id]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("sleep /work/open") && text(&refused.stderr).contains("--kill"));
    assert!(server.run(&["snapshot", id, "--kill"]).status.success());
    assert_eq!(sh(id, "cat /proc/[0-9]*/comm | grep -c sleep"), "1\n", "only who wrote was ended");
}
