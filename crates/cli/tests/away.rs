//! `--server`: the same commands, carried out by a server that was named.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use common::http::Server;
use common::{
    assert_taken_back, eventually, folder, heeded_signals, json, processes_inside, send, sleeping_tree_code, text,
};
use serde_json::Value;

/// A client that knows the address and a key, and has no state of its own.
fn client(server: &Server, args: &[&str]) -> Command {
    let mut command = common::saggar(args);
    command.env("SAGGAR_HOME", server.home.join("nothing-here")).env("SAGGAR_API_KEY", server.key());
    command
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

#[test]
fn a_run_elsewhere_is_the_same_run() {
    let server = Server::start("away-run");
    let url = url(&server);
    let work = folder("away-run-inputs");
    fs::write(work.join("in.txt"), "from a file\n").unwrap();
    let code = "import sys\nprint(open('in.txt').read() + sys.stdin.read() + sys.argv[1])\nopen('made', 'w').write('new')\n\
                sys.stderr.write('oh')\nsys.exit(7)";
    let args = ["run", "--server", &url, "-c", code, "--file", "in.txt", "--out", "back", "--", "word"];
    let mut child = client(&server, &args)
        .current_dir(&work)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"from here\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("from a file\nfrom here\nword\n".into(), "oh".into()));
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(fs::read_to_string(work.join("back/made")).unwrap(), "new");
    let output =
        client(&server, &["exec", "--server", &url, "--json", "--", "bash", "-c", "echo $0; exit 3"]).output().unwrap();
    assert_eq!((json(&output)["stdout"].as_str(), output.status.code()), (Some("bash\n"), Some(3)));
    let wrong = client(&server, &["run", "--server", &url, "-l", "nonsense", "-c", "1"]).output().unwrap();
    assert!(text(&wrong.stderr).contains("nonsense") && wrong.status.code() == Some(2), "{}", text(&wrong.stderr));
}

#[test]
fn what_is_missing_is_said() {
    let server = Server::start("away-wrong");
    let url = url(&server);
    for (key, address, why) in [
        ("", url.as_str(), "SAGGAR_API_KEY"),
        ("e2b_wrong", url.as_str(), "key"),
        ("k", "http://127.0.0.1:1", "no server answers"),
        ("k", "http://192.0.2.1:7244", "in the clear"),
        ("k", "ftp://x", "http://"),
    ] {
        let output =
            client(&server, &["run", "--server", address, "-c", "1"]).env("SAGGAR_API_KEY", key).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.starts_with("error: ") && said.contains(why) && said.contains("hint: "), "{address}: {said}");
        assert!(!said.contains("e2b_wrong"));
    }
}

#[test]
fn ctrl_c_takes_a_run_elsewhere_back() {
    let server = Server::start("away-cancel");
    let code = sleeping_tree_code("mark-away");
    let args = ["run", "--server", &url(&server), "-c", &code, "--timeout", "10m", "--json"];
    let child = client(&server, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the tree", || !processes_inside("mark-away").is_empty());
    send(child.id(), heeded_signals()[0]);
    assert_taken_back(child);
    eventually("its end", || processes_inside("mark-away").is_empty());
}

#[test]
fn tasks_are_judged_elsewhere() {
    let server = Server::start("away-judge");
    let (url, work) = (url(&server), folder("away-judge-tasks"));
    let task = |id: u32, expected: u32| {
        format!(
            r#"{{"task_id": {id}, "code": "def f(): return 1", "entry": "f", "cases": [{{"args": [], "expected": {expected}}}]}}"#
        )
    };
    fs::write(work.join("good.json"), task(1, 1)).unwrap();
    fs::write(work.join("bad.json"), task(2, 2)).unwrap();
    let all: Vec<String> = (0..20).map(|id| task(id, id % 2)).collect();
    fs::write(work.join("all.jsonl"), all.join("\n")).unwrap();
    let judge = |args: &[&str]| {
        client(&server, &[&["judge", "--server", &url], args].concat()).current_dir(&work).output().unwrap()
    };
    let good = judge(&["good.json", "--json"]);
    assert_eq!((json(&good)["score"].as_f64(), good.status.code()), (Some(1.0), Some(0)));
    let bad = judge(&["bad.json"]);
    assert!(text(&bad.stdout).contains("wrong_answer") && bad.status.code() == Some(1), "{}", text(&bad.stdout));
    let batch = judge(&["--batch", "all.jsonl", "--jobs", "4"]);
    let lines: Vec<Value> = text(&batch.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let passed: Vec<bool> = lines.iter().map(|line| line["all_passed"] == true).collect();
    assert_eq!(passed, (0..20).map(|id| id % 2 == 1).collect::<Vec<_>>());
    assert_eq!(judge(&["good.json", "--memory", "64M"]).status.code(), Some(2));
}

#[test]
fn sessions_are_used_elsewhere() {
    let server = Server::start("away-session");
    let url = url(&server);
    let session = |args: &[&str]| client(&server, &[&["session", "--server", &url], args].concat()).output().unwrap();
    let id = json(&client(&server, &["session", "create", "--server", &url, "--json"]).output().unwrap())["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let exec = session(&["exec", &id, "--", "bash", "-c", "echo hi > made; echo said; exit 4"]);
    assert_eq!((text(&exec.stdout).as_str(), exec.status.code()), ("said\n", Some(4)));
    assert_eq!(json(&session(&["run", &id, "-c", "open('made').read()", "--json"]))["ok"], true);
    assert_eq!(json(&session(&["list", "--json"])).as_array().map(Vec::len), Some(1));
    assert!(session(&["kill", &id]).status.success());
    assert_eq!(json(&session(&["list", "--json"])), serde_json::json!([]));
}

#[test]
fn a_terminal_elsewhere_is_a_terminal() {
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    use std::io::Read;
    let server = Server::start("away-shell");
    let url = url(&server);
    let made = json(&client(&server, &["session", "--server", &url, "create", "--json"]).output().unwrap());
    let id = made["id"].as_str().unwrap();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    let mut shell = client(&server, &["session", "--server", &url, "shell", id, "--", "bash", "--norc", "-i"]);
    let mut child = shell.stdin(slave.try_clone().unwrap()).stdout(slave).stderr(Stdio::null()).spawn().unwrap();
    drop(shell);
    let (mut write, mut read) = (fs::File::from(master.try_clone().unwrap()), fs::File::from(master));
    // A program that only Ctrl-C ends, and then more than a message holds. It speaks itself: by then the terminal is its
    // own, and no Ctrl-C falls between the shell and it.
    write.write_all(b"stty size; test -t 0 && bash -c 'echo terminal$((40+2)); exec sleep 600'\n").unwrap();
    let (mut said, mut buffer, mut interrupted) = (Vec::new(), [0; 4096], false);
    // To its end, which is an error here: the last who had the other side open is gone.
    while let Ok(n @ 1..) = read.read(&mut buffer) {
        said.extend_from_slice(&buffer[..n]);
        if !interrupted && text(&said).contains("terminal42") {
            interrupted = true;
            write.write_all(b"\x03").unwrap();
            write.write_all(b"head -c 300000 /dev/zero | tr '\\0' x | fold -w 70; echo; exit 5\n").unwrap();
        }
    }
    let said = text(&said);
    assert!(said.contains("24 80") && said.contains("terminal42"), "{said}");
    assert!(said.matches('x').count() >= 300_000, "{}", said.len());
    drop((read, write));
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn an_evolution_elsewhere_is_the_same_evolution() {
    let server = Server::start("away-evolve");
    let url = url(&server);
    let work = folder("away-evolve-task");
    fs::write(work.join("start.py"), "def f():\n    return 1\n").unwrap();
    let task = "prompt = 'more than 1'\nprogram = 'start.py'\ntests = [\"assert f() > 1\"]\nstrategy = 'islands'\nparallel = 2\n\
                max_iterations = 100\nseed = 3\n[generator]\nkind = 'mutate'\n";
    fs::write(work.join("task.toml"), task).unwrap();
    let path = work.join("task.toml");
    let path = path.to_str().unwrap();
    let away = client(&server, &["evolve", path, "--server", &url, "--json"]).output().unwrap();
    let here = server.saggar(&["evolve", path, "--json"]).output().unwrap();
    assert_eq!((away.status.code(), here.status.code()), (Some(0), Some(0)), "{}", text(&away.stderr));
    for field in ["best", "iterations", "evaluations", "stop_reason", "target_reached"] {
        assert_eq!(json(&away)[field], json(&here)[field], "{field}");
    }
    fs::write(work.join("task.toml"), task.replace("f() > 1", "f() == 'never'").replace("100", "100000")).unwrap();
    let mut endless = client(&server, &["evolve", path, "--server", &url, "--events"]);
    let mut child = endless.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert!(lines.any(|line| line.unwrap().contains("evaluated")));
    send(child.id(), heeded_signals()[0]);
    for _ in lines {}
    assert_eq!(child.wait().unwrap().code(), Some(130));
    eventually("the end there", || server.metric("saggar_jobs{state=\"running\"}") == 0);
}

#[test]
fn what_a_server_knows_is_asked_as_if_it_were_here() {
    let server = Server::start("away-known");
    let url = url(&server);
    let away = |args: &[&str]| client(&server, &[args, &["--server", &url]].concat()).output().unwrap();
    let here = |args: &[&str]| server.saggar(args).output().unwrap();
    let same = |args: &[&str]| {
        let (away, here) = (away(args), here(args));
        assert_eq!(text(&away.stdout), text(&here.stdout), "{args:?}: {}", text(&away.stderr));
        assert_eq!(away.status.code(), here.status.code(), "{args:?}");
        (text(&away.stdout), away.status.code())
    };
    let ran = json(&away(&["run", "--json", "-c", "print(1)"]));
    let run = ran["id"].as_str().unwrap();
    let failing = client(&server, &["exec", "--server", &url, "--", "false"]).status().unwrap();
    assert_eq!(failing.code(), Some(1));
    let bad = "import os\nos.system('id')\nimport ctypes\n";
    for form in [&[][..], &["--json"], &["--sarif"]] {
        assert_eq!(same(&[&["check", "-c", bad, "--policy", "strict"], form].concat()).1, Some(1));
        assert_eq!(same(&[&["check", "-c", "x = 1"], form].concat()).1, Some(0));
        assert_eq!(same(&[&["check", "-c", "x = ("], form].concat()).1, Some(1));
    }
    assert_eq!(same(&["usage"]).0, "no model was asked\n");
    same(&["usage", "--since", "90m", "--json"]);
    assert!(same(&["audit", "list", "--json"]).0.contains(run));
    assert!(same(&["audit", "list", "--since", "1h", "--outcome", "exited", "--limit", "1"]).0.contains("exited"));
    assert!(same(&["audit", "show", run, "--json"]).0.contains(run));
    same(&["audit", "show", "1"]);
    assert_eq!(same(&["audit", "show", "nope/../x"]).1, Some(1));
    assert!(same(&["audit", "verify"]).0.contains("each as it was written"));
    same(&["audit", "verify", "--json"]);
    assert!(same(&["audit", "export", "--kind", "run"]).0.lines().count() >= 2);
    assert_eq!(away(&["audit", "list", "--limit", "1001"]).status.code(), Some(2));
    let out = server.home.join("trail.jsonl");
    assert!(away(&["audit", "export", "--out", out.to_str().unwrap()]).status.success());
    assert_eq!(fs::read_to_string(out).unwrap(), text(&here(&["audit", "export"]).stdout));
    let layers = |output: std::process::Output| json(&output)["layers"].clone();
    assert_eq!(layers(away(&["doctor", "--json"])), layers(here(&["doctor", "--json"])));
    assert!(!server.home.join("nothing-here").exists(), "nothing was asked of this machine");
}
