//! Jobs in the background of a server: accepted, followed, taken back, and never lost.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::io::{BufRead, BufReader};

use common::eventually;
use common::http::{Server, events, home, whole};
use serde_json::{Value, json};

/// A program that mutations mend: a number has to become larger.
fn mendable() -> Value {
    json!({"kind": "evolve", "task": {
        "prompt": "f must return more than 1", "program": "def f():\n    return 1\n", "tests": ["assert f() > 1"],
        "strategy": "islands", "parallel": 2, "max_iterations": 200, "seed": 3, "generator": {"kind": "mutate"}}})
}

/// One that nothing mends.
fn endless() -> Value {
    let mut order = mendable();
    order["task"]["tests"] = json!(["assert f() == 'never'"]);
    order["task"]["max_iterations"] = json!(100_000);
    order
}

fn begin(server: &Server, order: &Value) -> String {
    let answer = server.ask("POST /v1/jobs", &order.to_string());
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), Some(format!("/v1/jobs/{id}").as_str()));
    id
}

fn show(server: &Server, id: &str) -> Value {
    server.ask(&format!("GET /v1/jobs/{id}"), "").json()
}

fn done(job: &Value) -> u64 {
    job["progress"]["done"].as_u64().unwrap()
}

#[test]
fn an_evolution_is_followed_to_its_result() {
    let server = Server::start("job-evolve");
    let key = server.key();
    let body = mendable().to_string();
    let told = whole(server.send(&key, "POST /v1/jobs", "accept: text/event-stream\r\n", body.as_bytes()));
    let all = events(&told.body);
    let names: Vec<&str> = all.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("started", "result"), "{names:?}");
    assert!(names.contains(&"proposed") && names.contains(&"evaluated"), "{names:?}");
    let result = &all.last().unwrap().2;
    assert_eq!((&result["target_reached"], &result["stop_reason"]), (&json!(true), &json!("target_score")), "{result}");
    let id = result["id"].as_str().unwrap();
    assert_eq!(told.header("location"), Some(format!("/v1/jobs/{id}").as_str()));
    // What others are told has no path of this host in it.
    assert!(!told.body.contains(&*server.home.to_string_lossy()), "{}", told.body);
    let job = show(&server, id);
    assert_eq!((&job["state"], &job["kind"], &job["result"]), (&json!("ended"), &json!("evolve"), result));
    assert_eq!(job["progress"]["best"], 1.0);
    // From the middle on, by either way of saying so.
    let (number, ..) = all[all.len() - 2];
    for (path, header) in [
        (format!("GET /v1/jobs/{id}?offset={number}"), String::new()),
        (format!("GET /v1/jobs/{id}"), format!("last-event-id: {number}\r\n")),
    ] {
        let rest = server.ask_with(&path, &format!("accept: text/event-stream\r\n{header}"), "");
        assert_eq!(events(&rest.body).len(), 1, "{rest:?}");
    }
    assert_eq!(server.metric("saggar_jobs_total{kind=\"evolve\",state=\"ended\"}"), 1);
    assert_eq!(server.ask(&format!("DELETE /v1/jobs/{id}"), "").status, 200);
    assert_eq!(server.ask(&format!("GET /v1/jobs/{id}"), "").error(), "not_found");
    assert!(!server.home.join("jobs").join(id).exists(), "what it has kept is gone");
}

#[test]
fn a_job_goes_on_without_readers_and_is_taken_back_at_once() {
    let server = Server::start("job-cancel");
    let key = server.key();
    let body = endless().to_string();
    let stream = server.send(&key, "POST /v1/jobs", "accept: text/event-stream\r\n", body.as_bytes());
    let mut lines = BufReader::new(stream).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("event: evaluated")));
    drop(lines);
    let id = server.ask("GET /v1/jobs", "").json()[0]["id"].as_str().unwrap().to_owned();
    let before = done(&show(&server, &id));
    eventually("it to go on", || done(&show(&server, &id)) > before + 4);
    // Others wait for their turn, and can be taken back while they do.
    let others: Vec<String> = (0..3).map(|_| begin(&server, &endless())).collect();
    eventually("two at work", || server.metric("saggar_jobs{state=\"running\"}") == 2);
    assert_eq!(server.metric("saggar_jobs{state=\"queued\"}"), 2);
    for id in others.iter().rev().chain([&id]) {
        let job = server.ask(&format!("DELETE /v1/jobs/{id}"), "").json();
        assert_eq!(job["state"], "cancelled", "{job}");
        let told = server.ask_with(&format!("GET /v1/jobs/{id}"), "accept: text/event-stream\r\n", "");
        assert_eq!(events(&told.body).last().unwrap().1, "cancelled", "{told:?}");
    }
    eventually("nothing left", || {
        server.metric("saggar_jobs{state=\"running\"}") == 0 && server.metric("saggar_running") == 0
    });
    let most: Vec<u16> = (0..20).map(|_| server.ask("POST /v1/jobs", &endless().to_string()).status).collect();
    assert_eq!(most.iter().filter(|status| **status == 202).count(), 16, "{most:?}");
    let refused = server.ask("POST /v1/jobs", &endless().to_string());
    assert_eq!((refused.status, refused.error().as_str()), (429, "busy"));
    assert!(refused.header("retry-after").is_some());
}

#[test]
fn a_server_that_is_stopped_or_killed_loses_no_job() {
    let home = home("job-restart");
    let server = Server::start_in(&home, &[]);
    let long = begin(&server, &endless());
    let waiting: Vec<String> = (0..4).map(|_| begin(&server, &endless())).collect();
    let ended = server.ask(&format!("DELETE /v1/jobs/{}", waiting[3]), "").json();
    assert_eq!(ended["state"], "cancelled");
    eventually("some work", || done(&show(&server, &long)) > 8);
    let guest = server.saggar(&["key", "create", "--name", "guest", "--per-minute", "6000"]).output().unwrap();
    let guest = String::from_utf8(guest.stdout).unwrap().trim().to_owned();
    let of_guest = server.ask_as(&guest, "POST /v1/jobs", &endless().to_string()).json();
    let of_guest = of_guest["id"].as_str().unwrap().to_owned();
    let before = done(&show(&server, &long));
    // Killed, as a machine that loses its power.
    drop(server);
    assert!(common::http::saggar(&home, &["key", "revoke", "guest"]).status().unwrap().success());
    let server = Server::start_in(&home, &[]);
    let listed = server.ask("GET /v1/jobs", "").json();
    assert_eq!(listed.as_array().unwrap().len(), 6, "{listed}");
    for id in [&long, &waiting[0], &waiting[1], &waiting[2]] {
        let state = show(&server, id)["state"].as_str().unwrap().to_owned();
        assert!(["queued", "running"].contains(&state.as_str()), "{id}: {state}");
    }
    assert_eq!(show(&server, &waiting[3])["state"], "cancelled");
    // Nobody works for a key that was taken back.
    let interrupted = show(&server, &of_guest);
    assert_eq!((&interrupted["state"], &interrupted["error"]["code"]), (&json!("interrupted"), &json!("server_gone")));
    // It goes on where it was, and does nothing twice.
    eventually("more work", || done(&show(&server, &long)) > before + 4);
    let told = server.send(
        &server.key(),
        &format!("GET /v1/jobs/{long}"),
        "accept: text/event-stream\r\nlast-event-id: 3\r\n",
        b"",
    );
    let first: Vec<String> =
        BufReader::new(told).lines().map(Result::unwrap).skip_while(|line| !line.is_empty()).take(8).collect();
    assert!(first.iter().any(|line| line == "event: gap"), "a reader from before is told what he missed: {first:?}");
    // Told to stop, it writes down how far it is and ends.
    let mut server = server;
    let pid = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    let again = Server::start_in(&home, &[]);
    eventually("it to go on", || show(&again, &long)["state"] == "running");
}

#[test]
fn what_is_the_owners_is_not_for_jobs() {
    let server = Server::start("job-refused");
    let refused = |order: &Value, status: u16, code: &str| {
        let answer = server.ask("POST /v1/jobs", &order.to_string());
        assert_eq!((answer.status, answer.error().as_str()), (status, code), "{order}: {answer:?}");
        assert!(!answer.body.contains(&*server.home.to_string_lossy()), "{answer:?}");
    };
    let with = |generator: Value| {
        let mut order = mendable();
        order["task"]["generator"] = generator;
        order
    };
    for generator in [
        json!({"kind": "command", "command": ["touch", "/tmp/never"]}),
        json!({"kind": "manual", "queue": "/tmp"}),
        json!({"kind": "replay", "from": "../../evolve"}),
        json!({"kind": "model", "model": "gpt-4o-mini"}),
        json!({"kind": "model", "model": "m", "base_url": "http://127.0.0.1:1/", "api_key_env": "HOME"}),
    ] {
        refused(&with(generator), 403, "forbidden");
    }
    let row = json!({"instance_id": "o__n-1", "repo": "o/n", "base_commit": "0".repeat(40)});
    refused(&json!({"kind": "swe", "instances": [row]}), 403, "forbidden");
    for body in [json!({}), json!({"kind": "nonsense"}), json!({"kind": "evolve"}), json!({"kind": "evolve", "x": 1})] {
        refused(&body, 400, "invalid_request");
    }
    let mut order = mendable();
    order["task"]["evaluator"] = json!("/etc/hostname");
    order["task"]["tests"] = json!([]);
    refused(&order, 422, "input_unreadable");
    order["files"] = json!([{"path": "../x", "text": ""}]);
    refused(&order, 400, "invalid_request");
    assert_eq!(server.ask("GET /v1/jobs", "").json(), json!([]));
    let checked = server.ask("POST /v1/check", r#"{"code": "import os\nos.system('id')"}"#).json();
    assert_eq!((&checked["ok"], &checked["policy"]), (&json!(false), &json!("guard")), "{checked}");
    assert_eq!(server.ask("POST /v1/check", r#"{"code": "print(1)"}"#).json()["ok"], true);
    assert_eq!(server.ask("POST /v1/check", "{}").error(), "invalid_request");
}
