//! The HTTP interface as its clients use it: runs by name, judging, batches, what the host tells, and its description.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use common::http::{Server, events, whole};
use common::{eventually, processes_inside, sleeping_tree_code};
use serde_json::{Value, json};

const ADD: &str = r#"{"task_id": "add", "code": "def add(a, b): return a + b", "entry": "add",
    "cases": [{"args": [1, 2], "expected": 3}, {"args": [2, 2], "expected": 5}, {"test": "assert add(1, 1) == 2"}]}"#;

#[test]
fn a_run_is_found_again_by_its_name() {
    let server = Server::start("found");
    let result = server.ask("POST /v1/runs", r#"{"code": "print(6 * 7)"}"#).json();
    let id = result["id"].as_str().unwrap().to_owned();
    let mut found = server.ask(&format!("GET /v1/runs/{id}"), "").json();
    assert_eq!(found.as_object_mut().unwrap().remove("state"), Some("ended".into()));
    assert_eq!(found, result);
    let listed = server.ask("GET /v1/runs", "").json();
    assert_eq!((&listed[0]["id"], &listed[0]["state"]), (&result["id"], &"ended".into()));
    assert_eq!(server.ask(&format!("DELETE /v1/runs/{id}"), "").json()["ok"], true);
    let gone = server.ask(&format!("GET /v1/runs/{id}"), "");
    assert_eq!((gone.status, gone.error().as_str()), (404, "not_found"));
    assert_eq!(server.ask("GET /v1/runs", "").json(), json!([]));
}

#[test]
fn a_run_in_the_background_needs_no_client_and_can_be_taken_back() {
    let server = Server::start("background");
    let code = json!({"code": sleeping_tree_code("mark-background"), "limits": {"wall_ms": 600_000}});
    let accepted = server.ask_with("POST /v1/runs", "prefer: respond-async\r\n", &code.to_string());
    assert_eq!((accepted.status, accepted.json()["state"].as_str()), (202, Some("running")), "{accepted:?}");
    let place = accepted.header("location").unwrap().to_owned();
    eventually("its processes", || !processes_inside("mark-background").is_empty());
    assert_eq!(server.ask(&format!("GET {place}"), "").json()["state"], "running");
    let ended = server.ask(&format!("DELETE {place}"), "").json();
    assert_eq!((&ended["state"], &ended["outcome"]["kind"]), (&"ended".into(), &"cancelled".into()), "{ended}");
    assert_eq!(ended["stdout"], "ready\n");
    eventually("their end", || processes_inside("mark-background").is_empty());
    assert_eq!(server.ask(&format!("GET {place}"), "").json()["outcome"]["kind"], "cancelled");
}

#[test]
fn a_run_in_the_background_is_known_after_a_restart() {
    let home = common::http::home("restart");
    let mut server = Server::start_in(&home, &[]);
    let accept = |server: &Server, code: &str| {
        let body = json!({"code": code, "limits": {"wall_ms": 600_000}}).to_string();
        let accepted = server.ask_with("POST /v1/runs", "prefer: respond-async\r\n", &body);
        accepted.header("location").unwrap().to_owned()
    };
    let state = |server: &Server, place: &str| {
        server.ask(&format!("GET {place}"), "").json()["state"].as_str().unwrap().to_owned()
    };
    let done = accept(&server, "print('done')");
    eventually("its end", || state(&server, &done) == "ended");
    let sleeping: Vec<String> = (0..3).map(|_| accept(&server, "import time; time.sleep(600)")).collect();
    // Killed, and then stopped in order: neither loses one.
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    let mut server = Server::start_in(&home, &[]);
    for place in &sleeping {
        assert_eq!(state(&server, place), "interrupted");
        let error = server.ask(&format!("GET {place}"), "").json()["error"]["code"].clone();
        assert_eq!(error, "server_gone");
    }
    assert_eq!(server.ask(&format!("GET {done}"), "").json()["stdout"], "done\n");
    let last = accept(&server, "import time; time.sleep(600)");
    common::send(server.child.id(), rustix::process::Signal::TERM);
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let server = Server::start_in(&home, &[]);
    assert_eq!(state(&server, &last), "interrupted");
    assert_eq!(server.ask("GET /v1/runs", "").json().as_array().map(Vec::len), Some(5));
}

#[test]
fn events_are_numbered_and_told_again_from_any_of_them() {
    let server = Server::start("resume");
    let code = json!({"code": "import sys\nfor i in range(5):\n    print(i, flush=True)\n    sys.stdin.readline()\n"});
    let streamed = server.ask_with("POST /v1/runs", "accept: text/event-stream\r\n", &code.to_string());
    let all = events(&streamed.body);
    let names: Vec<&str> = all.iter().map(|event| event.1.as_str()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"start"), Some(&"result")), "{streamed:?}");
    let numbers: Vec<u64> = all.iter().map(|event| event.0).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    let id = all[0].2["id"].as_str().unwrap();
    assert_eq!(all.last().unwrap().2["id"], id);
    for after in [0, 2, all.len() as u64 - 1, all.len() as u64, u64::MAX] {
        let rest: Vec<_> = all.iter().filter(|event| event.0 > after).cloned().collect();
        let header = format!("accept: text/event-stream\r\nlast-event-id: {after}\r\n");
        assert_eq!(events(&server.ask_with(&format!("GET /v1/runs/{id}"), &header, "").body), rest, "{after}");
        let query = format!("GET /v1/runs/{id}?offset={after}");
        assert_eq!(events(&server.ask_with(&query, "accept: text/event-stream\r\n", "").body), rest, "{after}");
    }
    let wrong = server.ask_with(&format!("GET /v1/runs/{id}?offset=x"), "accept: text/event-stream\r\n", "");
    assert_eq!((wrong.status, wrong.error().as_str()), (400, "invalid_request"));
}

#[test]
fn who_reads_a_run_of_the_background_comes_and_goes_as_he_likes() {
    let server = Server::start("readers");
    let code = json!({"code": sleeping_tree_code("mark-readers"), "limits": {"wall_ms": 600_000}});
    let accepted = server.ask_with("POST /v1/runs", "prefer: respond-async\r\n", &code.to_string());
    let place = accepted.header("location").unwrap().to_owned();
    for _ in 0..2 {
        let stream = server.send(&server.key(), &format!("GET {place}"), "accept: text/event-stream\r\n", b"");
        let mut lines = BufReader::new(stream).lines();
        assert!(lines.any(|line| line.unwrap().contains("ready")));
    }
    assert_eq!(server.ask(&format!("GET {place}"), "").json()["state"], "running");
    let reader = server.send(&server.key(), &format!("GET {place}"), "accept: text/event-stream\r\n", b"");
    server.ask(&format!("DELETE {place}"), "");
    let told = events(&whole(reader).body);
    assert_eq!(told.last().map(|event| &event.2["outcome"]["kind"]), Some(&"cancelled".into()), "{told:?}");
}

#[test]
fn a_task_is_judged_as_on_the_command_line() {
    let server = Server::start("judge");
    let judged = server.ask("POST /v1/judge", ADD);
    assert_eq!(judged.status, 200, "{judged:?}");
    let judged = judged.json();
    let verdicts: Vec<&str> =
        judged["cases"].as_array().unwrap().iter().map(|case| case["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["pass", "wrong_answer", "pass"]);
    assert_eq!((&judged["passed"], &judged["total"], &judged["all_passed"]), (&2.into(), &3.into(), &false.into()));
    for (wrong, status, code) in [
        ("nonsense", 400, "invalid_request"),
        (r#"{"code": "1", "cases": [{"argz": 1}]}"#, 400, "invalid_request"),
        (r#"{"code": "x", "entry": "x", "cases": [{"args": []}], "limits": {"pids": 0}}"#, 422, "invalid_limit"),
    ] {
        let answer = server.ask("POST /v1/judge", wrong);
        assert_eq!((answer.status, answer.error().as_str()), (status, code), "{wrong}");
    }
}

#[test]
fn a_batch_is_answered_line_by_line_in_order() {
    let server = Server::start("batch");
    let line = |id: usize, code: &str| {
        json!({"task_id": id, "code": code, "entry": "f", "cases": [{"args": [], "expected": id}]}).to_string()
    };
    let mut tasks: Vec<String> = (0..30).map(|id| line(id, &format!("def f(): return {id}"))).collect();
    tasks[7] = "{\"task_id\": 7, \"nonsense\": true}".to_owned();
    tasks[9] = "not json".to_owned();
    let answer = server.ask("POST /v1/batch?jobs=4", &tasks.join("\n"));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
    let lines: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 30, "{answer:?}");
    for (id, line) in lines.iter().enumerate() {
        match id {
            7 => assert_eq!((&line["task_id"], line["error"]["code"].as_str()), (&7.into(), Some("invalid_request"))),
            9 => {
                assert_eq!((&line["task_id"], line["error"]["code"].as_str()), (&Value::Null, Some("invalid_request")));
            }
            _ => assert_eq!((&line["task_id"], &line["score"]), (&id.into(), &1.0.into()), "{line}"),
        }
    }
    assert_eq!(server.ask("POST /v1/batch?jobs=0", "").error(), "invalid_request");
    assert_eq!(server.ask("POST /v1/batch", "").body, "");
}

/// Sends a piece of a body in the form of HTTP/1.1.
fn piece(stream: &mut TcpStream, bytes: &str) {
    write!(stream, "{:x}\r\n{bytes}\r\n", bytes.len()).unwrap();
}

#[test]
fn a_batch_answers_while_it_is_still_being_sent() {
    let server = Server::start("batch-live");
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let (host, key) = (&server.address, server.key());
    write!(
        stream,
        "POST /v1/batch HTTP/1.1\r\nhost: {host}\r\nx-api-key: {key}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    for id in 0..3 {
        let task = json!({"task_id": format!("t{id}"), "code": "def f(): return 1", "entry": "f",
            "cases": [{"args": [], "expected": 1}]});
        piece(&mut stream, &format!("{task}\n"));
        // The answer to each must come before the next is sent.
        assert!(answers.any(|line| line.unwrap().contains(&format!("\"task_id\":\"t{id}\""))));
    }
    write!(stream, "0\r\n\r\n").unwrap();
    assert_eq!(answers.map(Result::unwrap).filter(|line| line.contains("task_id")).count(), 0);
}

#[test]
fn clients_that_go_away_end_their_judging() {
    let server = Server::start("judge-gone");
    let task = |mark: &str| {
        let code = format!("import subprocess\ndef f():\n    subprocess.run(['bash', '-c', 'sleep 600; : {mark}'])\n");
        json!({"code": code, "entry": "f", "cases": [{"args": [], "timeout_ms": 500_000}], "limits": {"wall_ms": 500_000}})
            .to_string()
    };
    for (path, mark) in [("POST /v1/judge", "mark-judge-gone"), ("POST /v1/batch", "mark-batch-gone")] {
        let stream = server.send(&server.key(), path, "", task(mark).as_bytes());
        eventually(mark, || !processes_inside(mark).is_empty());
        drop(stream);
        let start = std::time::Instant::now();
        eventually("their end", || processes_inside(mark).is_empty());
        assert!(start.elapsed().as_secs_f64() < 5.0, "{path}");
    }
}

#[test]
fn the_host_the_trail_and_the_books_are_told() {
    let server = Server::start("host");
    server.ask("POST /v1/runs", r#"{"code": "print(1)"}"#);
    server.ask("POST /v1/runs", r#"{"code": "1", "language": "nonsense"}"#);
    let doctor = server.ask("GET /v1/doctor", "").json();
    assert!(doctor["layers"].as_array().is_some_and(|layers| !layers.is_empty()), "{doctor}");
    let entries = server.ask("GET /v1/audit?kind=run&limit=5&since=1h", "").json();
    assert_eq!((entries.as_array().map(Vec::len), &entries[0]["caller"]), (Some(1), &"http".into()));
    assert_eq!(server.ask("GET /v1/audit?since=yesterday", "").error(), "invalid_request");
    assert_eq!(server.ask("GET /v1/usage?since=7d", "").json()["total"]["calls"], 0);
}

#[test]
fn what_happens_is_counted() {
    let server = Server::start("metrics");
    server.ask("POST /v1/runs", r#"{"code": "print(1)"}"#);
    server.ask("POST /v1/runs", r#"{"code": "import time; time.sleep(9)", "limits": {"wall_ms": 100}}"#);
    server.ask("POST /v1/runs", r#"{"code": "1", "language": "nonsense"}"#);
    server.ask("POST /v1/judge", ADD);
    for (series, least) in [
        ("saggar_runs_total{outcome=\"exited\"}", 1),
        ("saggar_runs_total{outcome=\"limit_exceeded\",limit=\"wall\"}", 1),
        ("saggar_errors_total{code=\"unknown_language\"}", 1),
        ("saggar_judged_total{result=\"failed\"}", 1),
        ("saggar_http_answers_total{status=\"422\"}", 1),
        ("saggar_memory_bytes", 1_000_000),
        ("saggar_places", 1),
        ("saggar_queue_seconds_count", 2),
    ] {
        assert!(server.metric(series) >= least, "{series}: {}", server.ask("GET /metrics", "").body);
    }
    eventually("the end of all", || server.metric("saggar_underway") == 0);
}

#[test]
fn what_needs_no_key_is_told_without_one_and_the_rest_is_not() {
    let server = Server::start("open");
    for path in ["/healthz", "/openapi.json", "/docs"] {
        assert_eq!(server.ask_as("none", &format!("GET {path}"), "").status, 200, "{path}");
    }
    let document = server.ask("GET /openapi.json", "").json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if operation["security"] == json!([]) {
                continue;
            }
            let path = path.replace("{id}", "x").replace("{name}", "x").replace("{pid}", "1");
            let answer = server.ask_as("none", &format!("{} {path}", method.to_uppercase()), "");
            assert_eq!((answer.status, answer.error().as_str()), (401, "unauthorized"), "{method} {path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    let nothing = server.ask_as("none", "GET /v1/no-such-thing", "");
    assert_eq!(nothing.status, 401, "whoever has no key does not learn what there is");
    let page = server.ask_as("none", "GET /docs", "");
    assert!(page.header("content-security-policy").is_some_and(|rules| rules.contains("default-src 'none'")));
    assert!(!page.body.contains("http://") && !page.body.contains("https://"), "it asks nobody else");
}

#[test]
fn every_operation_of_the_description_exists_and_errors_have_one_form() {
    let server = Server::start("described");
    let document = server.ask("GET /openapi.json", "").json();
    let codes: BTreeSet<&str> = document["components"]["schemas"]["ErrorCode"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| code.as_str().unwrap())
        .collect();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let real = path.replace("{id}", "nobody_x").replace("{name}", "x").replace("{pid}", "1");
        for method in methods.as_object().unwrap().keys() {
            let answer = server.ask(&format!("{} {real}", method.to_uppercase()), "");
            assert_ne!(answer.status, 405, "{method} {path}");
            assert!(answer.header("x-request-id").is_some_and(|id| id.starts_with("req_")), "{answer:?}");
            if answer.status >= 400 {
                assert!(codes.contains(answer.error().as_str()), "{answer:?}");
                assert_ne!(answer.json()["error"]["message"], "there is nothing at this path", "{method} {path}");
            }
        }
        // A method that it does not name is not there.
        for method in ["PATCH", "PUT", "DELETE", "POST"] {
            if methods.get(method.to_lowercase()).is_none() {
                let answer = server.ask(&format!("{method} {real}"), "");
                assert_eq!((answer.status, answer.error().as_str()), (405, "method_not_allowed"), "{method} {path}");
            }
        }
    }
    let odd = server.ask("GET /v1/runs/%ff%fe", "");
    assert_eq!((odd.status, odd.error().as_str()), (400, "invalid_request"));
}

#[test]
fn overload_is_told_at_once_and_with_a_time_to_come_back() {
    let home = common::http::home("overload");
    let config = home.join("saggar.toml");
    std::fs::write(&config, "[pool]\nrunning = 1\n[admission]\nwaiting = 1\n[admission.first_key]\nconcurrent = 8\n")
        .unwrap();
    let server = Server::start_in(&home, &["--config", config.to_str().unwrap()]);
    let body = json!({"code": sleeping_tree_code("mark-overload"), "limits": {"wall_ms": 600_000}}).to_string();
    let streams: Vec<TcpStream> =
        (0..2).map(|_| server.send(&server.key(), "POST /v1/runs", "", body.as_bytes())).collect();
    eventually("one to run and one to wait", || server.metric("saggar_queue_length") == 1);
    let answer = server.ask("POST /v1/runs", r#"{"code": "1"}"#);
    assert_eq!((answer.status, answer.error().as_str()), (429, "busy"));
    assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    drop(streams);
    eventually("room", || server.ask("POST /v1/runs", r#"{"code": "print(1)"}"#).status == 200);
}

/// Why a value does not fit a schema; nothing if it does.
fn misfit(all: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return misfit(all, &all["components"]["schemas"][name], value).map(|why| format!("{name}: {why}"));
    }
    if let Some(either) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let misfits: Vec<String> = either.iter().filter_map(|one| misfit(all, one, value)).collect();
        return (misfits.len() == either.len()).then(|| format!("none fits {value}: {misfits:?}"));
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => value.is_null(),
    };
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(kind)) {
        return Some(format!("{value} is none of {kinds:?}"));
    }
    if schema["enum"].as_array().is_some_and(|names| !names.contains(value) && !value.is_null()) {
        return Some(format!("{value} is not in {}", schema["enum"]));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return Some(format!("{value} is not {}", schema["const"]));
    }
    if let Some(missing) =
        schema["required"].as_array().into_iter().flatten().find(|name| value.get(name.as_str().unwrap()).is_none())
    {
        return Some(format!("{missing} is missing in {value}"));
    }
    let mut items = value.as_array().into_iter().flatten();
    if let Some(why) = items.find_map(|item| misfit(all, &schema["items"], item)) {
        return Some(why);
    }
    value.as_object().into_iter().flatten().find_map(|(name, field)| match schema["properties"].get(name) {
        Some(inner) => misfit(all, inner, field).map(|why| format!("{name}: {why}")),
        None if schema["additionalProperties"].is_object() => misfit(all, &schema["additionalProperties"], field),
        None => (schema["additionalProperties"] == false).then(|| format!("{name} is not described")),
    })
}

#[test]
fn answers_are_as_described() {
    let server = Server::start("as-described");
    let document = server.ask("GET /openapi.json", "").json();
    let session = server.ask("POST /v1/sessions", "").json()["id"].as_str().unwrap().to_owned();
    let long = r#"{"code": "import time; time.sleep(9)", "limits": {"wall_ms": 50}, "policy": "report"}"#;
    let files = r#"{"code": "open('a','w').write('x'); import os; os.system('true'); 1/0", "collect": ["**"]}"#;
    let tests = [
        ("post", "/v1/runs", "", r#"{"code": "print(1)"}"#),
        ("post", "/v1/runs", "", long),
        ("post", "/v1/runs", "", files),
        ("post", "/v1/runs", "", r#"{"language": "c", "code": "int main( {"}"#),
        ("post", "/v1/runs", "", r#"{"argv": ["bash", "-c", "kill -9 $$"]}"#),
        ("post", "/v1/runs", "", r#"{"code": "import ctypes", "policy": "strict"}"#),
        ("post", "/v1/judge", "", ADD),
        ("get", "/v1/runs", "", ""),
        ("get", "/healthz", "", ""),
        ("get", "/v1/doctor", "", ""),
        ("get", "/v1/audit", "", ""),
        ("get", "/v1/usage", "", ""),
        ("get", "/v1/sessions", "", ""),
        ("get", "/v1/sessions/{id}", "", ""),
        ("post", "/v1/sessions/{id}/exec", "", r#"{"argv": ["ls"]}"#),
        ("post", "/v1/sessions/{id}/run", "", r#"{"code": "1 + 1"}"#),
        ("get", "/v1/sessions/{id}/contexts", "", ""),
        ("post", "/v1/sessions/{id}/processes", "", r#"{"argv": ["sleep", "60"]}"#),
        ("get", "/v1/sessions/{id}/processes", "", ""),
        ("put", "/v1/sessions/{id}/files", "?path=/work/a", "content"),
        ("get", "/v1/sessions/{id}/entries", "?path=/work", ""),
        ("get", "/v1/sessions/{id}/entry", "?path=/work/a", ""),
        ("post", "/v1/sessions/{id}/folders", "?path=/work/b", ""),
        ("post", "/v1/sessions/{id}/snapshots", "", "{}"),
        ("get", "/v1/snapshots", "", ""),
        ("post", "/v1/sessions/{id}/pause", "", ""),
        ("post", "/v1/sessions/{id}/resume", "", ""),
        ("post", "/v1/sessions/{id}/extend", "", r#"{"ttl_ms": 60000}"#),
        ("delete", "/v1/sessions/{id}", "", ""),
    ];
    for (method, path, query, body) in tests {
        let request = format!("{} {}{query}", method.to_uppercase(), path.replace("{id}", &session));
        let answer = server.ask(&request, body);
        assert_eq!(answer.status, 200, "{request}: {answer:?}");
        let schema = &document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(misfit(&document, schema, &answer.json()), None, "{request} {body}");
    }
    let record = &document["components"]["schemas"]["RunRecord"];
    for run in server.ask("GET /v1/runs", "").json().as_array().unwrap() {
        let answer = server.ask(&format!("GET /v1/runs/{}", run["id"].as_str().unwrap()), "");
        assert_eq!(misfit(&document, record, &answer.json()), None);
    }
}
