//! The Docker backend from the command line, on a real daemon. `scripts/test` starts one; by hand:
//!
//!     scripts/docker-engine run cargo test -p saggar --test docker -- --ignored
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests start the program and fail loudly"
)]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use common::session::{self, Server};
use common::{eventually, folder, json, saggar, text};
use serde_json::Value;

fn host() -> String {
    std::env::var("SAGGAR_TEST_DOCKER").expect("SAGGAR_TEST_DOCKER names a daemon: see scripts/docker-engine")
}

fn docker(args: &[&str]) -> Command {
    let mut command = saggar(&[args[0], "--backend", "docker", "--image", &image()]);
    command.args(&args[1..]).env("DOCKER_HOST", host());
    command
}

fn image() -> String {
    std::env::var("SAGGAR_TEST_IMAGE").unwrap_or_else(|_| "saggar-test:latest".to_owned())
}

/// What the daemon says.
fn ask(path: &str) -> Value {
    let address = host();
    let mut daemon = UnixStream::connect(address.strip_prefix("unix://").unwrap()).unwrap();
    write!(daemon, "GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
    let mut answer = String::new();
    daemon.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Containers of ours, in whatever state.
fn containers() -> Vec<Value> {
    let found = ask("/containers/json?all=1&filters=%7B%22label%22%3A%5B%22dev.saggar%22%5D%7D");
    found.as_array().unwrap().clone()
}

/// The sessions of those of a server; nothing for those that are for none.
fn of_server(server: &Server) -> Vec<String> {
    let own = format!("{} ", server.child.id());
    let ours = |c: &&Value| c["Labels"]["dev.saggar.process"].as_str().is_some_and(|process| process.starts_with(&own));
    let session = |c: &Value| c["Labels"]["dev.saggar.session"].as_str().unwrap_or_default().to_owned();
    containers().iter().filter(ours).map(session).collect()
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn the_same_words_and_codes_as_without_docker() {
    let output = docker(&["run", "-c", "import sys; print(sys.stdin.read() + '!'); sys.exit(7)"]).output().unwrap();
    assert_eq!((text(&output.stdout).as_str(), output.status.code()), ("!\n", Some(7)), "{}", text(&output.stderr));
    let output = docker(&["exec", "--timeout", "1s", "--", "sleep", "60"]).output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}", text(&output.stderr));
    let out = folder("docker-out");
    let args = ["run", "--json", "-c", "open('made', 'w').write('x')", "--out", out.to_str().unwrap()];
    let result = json(&docker(&args).output().unwrap());
    assert_eq!((&result["ok"], &result["backend"]), (&Value::Bool(true), &Value::from("docker")), "{result}");
    assert_eq!(std::fs::read_to_string(out.join("made")).unwrap(), "x");
    assert!(result["image"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn doctor_tells_of_the_daemon_and_its_containers() {
    let settings = folder("docker-doctor").join("saggar.toml");
    let examine = |image: &str| {
        std::fs::write(&settings, format!("[docker]\nhost = {:?}\nimage = {image:?}\n", host())).unwrap();
        let mut doctor = saggar(&["--config", settings.to_str().unwrap(), "doctor", "--json"]);
        json(&doctor.output().unwrap())["docker"].clone()
    };
    let found = examine(&image());
    assert_eq!((&found["ok"], &found["host"]), (&Value::Bool(true), &Value::from(host())), "{found}");
    assert!(found["version"].is_string() && found["runtime"].is_string(), "{found}");
    assert!(!found["missing"].as_array().unwrap().contains(&Value::from("seccomp")), "{found}");
    let found = examine("no/such:image");
    assert_eq!(found["ok"], Value::Bool(false));
    assert!(found["why"].as_str().unwrap().contains("no/such:image"), "{found}");
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn a_task_is_judged() {
    let task = folder("docker-judge").join("task.json");
    let text = r#"{"language": "python", "code": "def add(a, b): return a + b", "entry": "add",
        "cases": [{"args": [1, 2], "expected": 3}, {"args": [1, 2], "expected": 4}, {"test": "assert add(2, 2) == 4"}]}"#;
    std::fs::write(&task, text).unwrap();
    let result = json(&docker(&["judge", "--json", task.to_str().unwrap()]).output().unwrap());
    let verdicts: Vec<_> =
        result["cases"].as_array().unwrap().iter().map(|case| case["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["pass", "wrong_answer", "pass"], "{result}");
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn a_killed_client_leaves_no_process_and_the_next_start_no_container() {
    let mut client = docker(&["run", "-c", "print('here', flush=True)\nimport time; time.sleep(600)"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(client.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "here\n");
    let own = format!("{} ", client.id());
    let of_client = move || -> Vec<String> {
        let ours =
            |c: &Value| c["Labels"]["dev.saggar.process"].as_str().is_some_and(|process| process.starts_with(&own));
        containers().iter().filter(|c| ours(c)).map(|c| c["State"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of_client(), ["running"]);
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("the container's end", || of_client() != ["running"]);
    assert!(docker(&["run", "-c", "1"]).status().unwrap().success());
    eventually("the removal of what is left", || of_client().is_empty());
}

/// A folder with settings by which everything goes to the daemon.
fn settled(name: &str) -> std::path::PathBuf {
    let home = folder(name);
    let text = format!("backend = 'docker'\n[docker]\nhost = {:?}\nimage = {:?}\n", host(), image());
    std::fs::write(home.join("saggar.toml"), text).unwrap();
    home
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn the_settings_say_where_runs_go_the_environment_goes_over_them_and_an_option_over_that() {
    let home = settled("docker-default");
    let settings = home.join("saggar.toml");
    let run = |by_environment: &str, options: &[&str]| {
        let mut command = saggar(&["--config", settings.to_str().unwrap(), "run", "--json"]);
        command.args(options).args(["-c", "print(1)"]).env("SAGGAR_HOME", &home).env("SAGGAR_BACKEND", by_environment);
        json(&command.output().unwrap())
    };
    let backend = |by_environment: &str, options: &[&str]| run(by_environment, options)["backend"].clone();
    assert_eq!(backend("", &[]), "docker");
    assert_eq!(backend("native", &[]), "native");
    assert_eq!(backend("native", &["--backend", "docker"]), "docker");
    assert_eq!(run("podman", &[])["error"]["code"], "invalid_settings");
    // What is asked of every command is asked of it as an image's program, not as the host's.
    let (text, list) = (std::fs::read_to_string(&settings).unwrap(), home.join("commands.toml"));
    std::fs::write(&settings, text.replace("[docker]", &format!("[policy]\nfile = {list:?}\n[docker]"))).unwrap();
    std::fs::write(&list, "commands = ['echo']").unwrap();
    let exec = |program: &str| {
        let args = ["--config", settings.to_str().unwrap(), "exec", "--json", "--", program, "x"];
        json(&saggar(&args).env("SAGGAR_HOME", &home).output().unwrap())
    };
    assert_eq!(exec("echo")["stdout"], "x\n");
    assert_eq!(exec("/bin/echo")["outcome"]["kind"], "refused", "what a path is in an image is not known");
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn a_session_in_a_container_ends_with_its_killed_server_and_its_snapshot_stays() {
    let home = settled("docker-session");
    let start = || {
        let settings = home.join("saggar.toml");
        let args = ["--config", settings.to_str().unwrap(), "serve", "--listen", "127.0.0.1:0"];
        Server::start_as(&home, session::saggar(&home, &args))
    };
    let mut server = start();
    // By the settings of the server, whatever those of the command are.
    let created = server.json(&["create", "--json"]);
    let id = created["id"].as_str().unwrap().to_owned();
    assert_eq!(created["backend"], "docker", "{created}");
    let cell = server.json(&["run", &id, "--json", "-c", "x = 20; open('kept', 'w').write('kept')"]);
    assert_eq!(cell["ok"], true, "{cell}");
    assert_eq!(text(&server.run(&["run", &id, "-c", "x + 1"]).stdout), "21\n");
    let file = home.join("local");
    std::fs::write(&file, [0, 159, 146, 150]).unwrap();
    server.json(&["put", &id, file.to_str().unwrap(), "/work/bytes", "--json"]);
    let listed = server.json(&["ls", &id, "/work", "--json"]);
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bytes", "kept"]);
    let snapshot = server.json(&["snapshot", &id, "--name", "before", "--json"]);
    assert_eq!(snapshot["backend"], "docker", "{snapshot}");
    let sleeper = server.run(&["exec", &id, "--", "bash", "-c", "sleep 600 >/dev/null 2>&1 & echo left"]);
    assert_eq!(text(&sleeper.stdout), "left\n");
    let of_session = |id: &str| -> Vec<String> {
        let ours = |c: &Value| c["Labels"]["dev.saggar.session"].as_str().is_some_and(|of| of.starts_with(id));
        containers().iter().filter(|c| ours(c)).map(|c| c["State"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(of_session(&id), ["running"]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    eventually("the container's end", || of_session(&id) != ["running"]);
    let server = start();
    let again = server.json(&["create", "--from", "before", "--json"])["id"].as_str().unwrap().to_owned();
    eventually("the removal of what is left", || of_session(&id).is_empty());
    assert_eq!(text(&server.run(&["exec", &again, "--", "cat", "kept"]).stdout), "kept");
    let back = home.join("back");
    server.json(&["get", &again, "/work/bytes", back.to_str().unwrap(), "--json"]);
    assert_eq!(std::fs::read(&back).unwrap(), [0, 159, 146, 150]);
    let root = server.json_of(&["exec", &again, "--user", "root", "--json", "--", "id"]);
    assert_eq!(root["error"]["code"], "unsupported", "{root}");
    assert!(server.run(&["exec", &again, "--", "rm", "kept"]).status.success());
    let compared = server.json(&["diff", "before", &again, "--json"]);
    assert_eq!(
        (&compared["entries"][0]["path"], &compared["entries"][0]["change"]),
        (&"/work/kept".into(), &"removed".into())
    );
    let layer = home.join("layer.tar");
    server.json(&["export", "before", layer.to_str().unwrap(), "--json"]);
    let brought = server.json(&["import", layer.to_str().unwrap(), "--name", "brought", "--json"]);
    assert_eq!(brought["backend"], "docker", "{brought}");
    assert_eq!(server.json(&["diff", "before", "brought", "--json"])["entries"], Value::Array(Vec::new()));
    eventually("the removal of what was looked at", || of_server(&server) == [again.clone()]);
    assert_eq!(server.json(&["kill", &again, "--json"])["killed"], true);
    assert_eq!(of_session(&again), [""; 0]);
    for snapshot in ["before", "brought"] {
        server.json(&["forget", snapshot, "--json"]);
    }
    let volumes = ask("/volumes?filters=%7B%22label%22%3A%5B%22dev.saggar%22%5D%7D")["Volumes"].clone();
    assert_eq!(volumes.as_array().unwrap().len(), 1, "one with our own program, and none of anybody's: {volumes}");
    assert_eq!(ask("/networks?filters=%7B%22label%22%3A%5B%22dev.saggar%22%5D%7D"), Value::Array(Vec::new()));
}
