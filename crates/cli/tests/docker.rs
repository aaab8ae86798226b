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

use common::{eventually, folder, json, saggar, text};
use serde_json::Value;

fn host() -> String {
    std::env::var("SAGGAR_TEST_DOCKER").expect("SAGGAR_TEST_DOCKER names a daemon: see scripts/docker-engine")
}

fn docker(args: &[&str]) -> Command {
    let image = std::env::var("SAGGAR_TEST_IMAGE").unwrap_or_else(|_| "saggar-test:latest".to_owned());
    let mut command = saggar(&[args[0], "--backend", "docker", "--image", &image]);
    command.args(&args[1..]).env("DOCKER_HOST", host());
    command
}

/// Containers of ours, in whatever state.
fn containers() -> Vec<Value> {
    let address = host();
    let mut daemon = UnixStream::connect(address.strip_prefix("unix://").unwrap()).unwrap();
    let path = "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22dev.saggar%22%5D%7D";
    write!(daemon, "GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
    let mut answer = String::new();
    daemon.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
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
    let ask = |image: &str| {
        std::fs::write(&settings, format!("[docker]\nhost = {:?}\nimage = {image:?}\n", host())).unwrap();
        let mut doctor = saggar(&["--config", settings.to_str().unwrap(), "doctor", "--json"]);
        json(&doctor.output().unwrap())["docker"].clone()
    };
    let image = std::env::var("SAGGAR_TEST_IMAGE").unwrap_or_else(|_| "saggar-test:latest".to_owned());
    let found = ask(&image);
    assert_eq!((&found["ok"], &found["host"]), (&Value::Bool(true), &Value::from(host())), "{found}");
    assert!(found["version"].is_string() && found["runtime"].is_string(), "{found}");
    assert!(!found["missing"].as_array().unwrap().contains(&Value::from("seccomp")), "{found}");
    let found = ask("no/such:image");
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
