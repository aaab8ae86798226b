//! Keys and who owns what: one key sees nothing of another's, and opens only what it is for.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use common::http::{Answer, Server, home, saggar, whole};
use common::{eventually, json as json_of, text};
use serde_json::{Value, json};

/// A key with what was said on the command line.
fn make(server: &Server, args: &[&str]) -> String {
    let output = server.saggar(&[&["key", "create"], args].concat()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// What somebody owns.
struct Owned {
    run: String,
    session: String,
    snapshot: String,
    pid: String,
    job: String,
}

/// One of everything.
fn furnish(server: &Server, key: &str) -> Owned {
    let ask = |request: &str, body: &str| {
        let answer = server.ask_as(key, request, body);
        assert!(answer.status < 300, "{request}: {answer:?}");
        answer.json()
    };
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let code =
        json!({"code": "import time\nprint('secret', flush=True)\ntime.sleep(600)", "limits": {"wall_ms": 600_000}});
    let run = whole(server.send(key, "POST /v1/runs", "prefer: respond-async\r\n", code.to_string().as_bytes())).json();
    let session = word(&ask("POST /v1/sessions", "{\"metadata\": {\"is\": \"secret\"}}")["id"]);
    ask(&format!("PUT /v1/sessions/{session}/files?path=/work/secret"), "secret");
    ask(&format!("POST /v1/sessions/{session}/run"), r#"{"code": "x = 'secret'"}"#);
    let snapshot = word(&ask(&format!("POST /v1/sessions/{session}/snapshots"), r#"{"name": "secret"}"#)["id"]);
    let process =
        ask(&format!("POST /v1/sessions/{session}/processes"), r#"{"argv": ["sleep", "600"], "tag": "secret"}"#);
    // It looks for what there is none of, and would for very long.
    let task = json!({"kind": "evolve", "task": {"prompt": "secret", "program": "x = 1\n", "tests": ["assert x == 'never'"],
        "strategy": "islands", "parallel": 1, "max_iterations": 100_000, "generator": {"kind": "mutate"}}});
    let job = ask("POST /v1/jobs", &task.to_string());
    let (run, job) = (word(&run["id"]), word(&job["id"]));
    Owned { run, session, snapshot, pid: process["pid"].to_string(), job }
}

/// The operations that are about somebody's objects: method, path, query and body.
fn operations(server: &Server) -> Vec<(String, String)> {
    let document = server.ask("GET /openapi.json", "").json();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        if !path.contains("{id}") {
            continue;
        }
        for (method, operation) in methods.as_object().unwrap() {
            let needed = operation["parameters"].as_array().into_iter().flatten();
            let query: Vec<&str> = needed
                .filter(|one| one["in"] == "query" && one["required"] == true)
                .filter_map(|one| one["name"].as_str())
                .collect();
            let query: Vec<String> = query.iter().map(|name| format!("{name}=/work/secret")).collect();
            all.push((method.to_uppercase(), format!("{path}?{}", query.join("&"))));
        }
    }
    assert!(all.len() > 25, "{all:?}");
    all
}

/// The operations that list somebody's objects: each must be of a kind that `furnish` makes.
fn listings(server: &Server) -> Vec<String> {
    let document = server.ask("GET /openapi.json", "").json();
    let paths = document["paths"].as_object().unwrap();
    let has_objects = |path: &str| paths.keys().any(|other| *other == format!("{path}/{{id}}"));
    let all: Vec<String> =
        paths.keys().filter(|path| has_objects(path) && paths[*path].get("get").is_some()).cloned().collect();
    assert_eq!(all.len(), 4, "{all:?}");
    all
}

/// Operations that are about nobody's objects, or about everybody's: then for the owner of the machine alone.
#[test]
fn every_operation_is_about_somebodys_objects_or_for_a_reason_not() {
    let server = Server::start("operations");
    let guest = make(&server, &["--scope", "run,judge,session"]);
    let document = server.ask("GET /openapi.json", "").json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let words = operation["description"].as_str().unwrap_or_default();
            let is_admins = words.contains("Needs a key for `admin`");
            let is_own =
                ["/v1/runs", "/v1/jobs", "/v1/sessions", "/v1/snapshots"].iter().any(|own| path.starts_with(own));
            // They take everything that they need along, or look at nothing but what the caller names as his own.
            let is_passing = ["/v1/judge", "/v1/batch", "/v1/check", "/v1/diff"].contains(&path.as_str());
            let is_open = ["/healthz", "/openapi.json", "/docs"].contains(&path.as_str());
            assert!(is_admins || is_own || is_passing || is_open, "{method} {path}: whose is it?");
            if is_admins {
                let real = path.replace("{id}", "x").replace("{entry}", "1").replace("{key}", "x");
                let answer = server.ask_as(&guest, &format!("{} {real}", method.to_uppercase()), "");
                assert_eq!((answer.status, answer.error().as_str()), (403, "forbidden"), "{method} {path}");
            }
        }
    }
}

/// A body that would do something, if it were one's own.
fn body_of(path: &str) -> &'static str {
    let last = path.split('?').next().unwrap().rsplit('/').next().unwrap();
    match last {
        "extend" => r#"{"ttl_ms": 1000}"#,
        "exec" | "processes" => r#"{"argv": ["cat", "/work/secret"]}"#,
        "run" => r#"{"code": "x"}"#,
        "signal" => r#"{"signal": 9}"#,
        "resize" => r#"{"columns": 80, "rows": 24}"#,
        "rollback" => r#"{"snapshot": "secret"}"#,
        "fork" => r#"{"count": 1}"#,
        "snapshots" => "{}",
        _ => "",
    }
}

/// Without what differs from answer to answer.
fn told(answer: &Answer, id: &str) -> String {
    let mut body = answer.json();
    body["error"].as_object_mut().unwrap().remove("request_id");
    format!("{} {}", answer.status, body).replace(id, "ID")
}

#[test]
fn a_second_tenant_finds_nothing_of_the_first() {
    let server = Server::start("tenants");
    let (first, second) = (make(&server, &["--per-minute", "6000"]), make(&server, &["--per-minute", "6000"]));
    let owned = furnish(&server, &first);
    for (method, path) in operations(&server) {
        let (real, unreal) = match path.split('/').nth(2) {
            Some("runs") => (&owned.run, "run_00000000000000000000000000000000"),
            Some("jobs") => (&owned.job, "job_00000000000000000000000000000000"),
            Some("snapshots") => (&owned.snapshot, "snap_00000000000000000000000000000000"),
            Some("sessions") => (&owned.session, "ses_00000000000000000000000000000000"),
            // Whoever adds a kind of object adds one of it to those of the first tenant.
            _ => panic!("nobody has looked at whose objects are behind {path}"),
        };
        let fill = |id: &str| path.replace("{id}", id).replace("{pid}", &owned.pid).replace("{name}", "python");
        let ask = |id: &str| server.ask_as(&second, &format!("{method} {}", fill(id)), body_of(&path));
        let (answer, of_nothing) = (ask(real), ask(unreal));
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
        assert_eq!(answer.error(), "not_found", "{method} {path}");
        // Whether it exists cannot be told either.
        assert_eq!(told(&answer, real), told(&of_nothing, unreal), "{method} {path}");
    }
    for path in listings(&server) {
        assert_eq!(server.ask_as(&second, &format!("GET {path}"), "").json(), json!([]), "{path}");
        assert_eq!(
            server.ask_as(&first, &format!("GET {path}"), "").json().as_array().map(Vec::len),
            Some(1),
            "{path}"
        );
    }
    // Nor by way of one's own.
    let own = server.ask_as(&second, "POST /v1/sessions", "").json()["id"].as_str().unwrap().to_owned();
    for name in [owned.snapshot.as_str(), "secret"] {
        let body = json!({"from": name}).to_string();
        assert_eq!(server.ask_as(&second, "POST /v1/sessions", &body).status, 404, "{name}");
        let body = json!({"snapshot": name}).to_string();
        assert_eq!(server.ask_as(&second, &format!("POST /v1/sessions/{own}/rollback"), &body).status, 404, "{name}");
        assert_eq!(server.ask_as(&second, &format!("GET /v1/diff?from={name}&to={own}"), "").status, 404, "{name}");
        assert_eq!(server.ask_as(&second, &format!("GET /v1/diff?from={own}&to={}", owned.session), "").status, 404);
    }
    // And nothing happened to it.
    for path in [format!("/v1/runs/{}", owned.run), format!("/v1/jobs/{}", owned.job)] {
        assert_eq!(server.ask_as(&first, &format!("GET {path}"), "").json()["state"], "running", "{path}");
    }
    // Nor can a job of one's own have that of another replayed.
    let task = json!({"kind": "evolve", "task": {"prompt": "p", "tests": ["assert True"],
        "generator": {"kind": "replay", "from": owned.job}}});
    let refused = |id: &str| {
        let answer = server.ask_as(&second, "POST /v1/jobs", &task.to_string().replace(&owned.job, id));
        assert_eq!(answer.status, 403, "{answer:?}");
        told(&answer, id)
    };
    assert_eq!(refused(&owned.job), refused("job_00000000000000000000000000000000"));
    let path = format!("GET /v1/sessions/{}/files?path=/work/secret", owned.session);
    assert_eq!(server.ask_as(&first, &path, "").body, "secret");
    let path = format!("GET /v1/sessions/{}/processes/{}", owned.session, owned.pid);
    assert_eq!(server.ask_as(&first, &path, "").json()["outcome"], Value::Null);
    // The owner of the machine sees all of it.
    assert_eq!(server.ask("GET /v1/sessions", "").json().as_array().map(Vec::len), Some(2));
    server.ask(&format!("DELETE /v1/runs/{}", owned.run), "");
    assert_eq!(server.ask(&format!("DELETE /v1/jobs/{}", owned.job), "").json()["state"], "cancelled");
}

#[test]
fn a_key_opens_what_it_is_for() {
    let server = Server::start("scopes");
    let document = server.ask("GET /openapi.json", "").json();
    for scope in ["run", "judge", "session", "admin"] {
        let key = make(&server, &["--scope", scope, "--per-minute", "6000"]);
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let words = operation["description"].as_str().unwrap_or_default();
                let Some(needed) = words.split("Needs a key for `").nth(1).and_then(|rest| rest.split('`').next())
                else {
                    continue;
                };
                // Making something for each would take long; being let in is all that is asked here.
                if needed == scope && ["/v1/doctor", "/v1/sessions"].contains(&path.as_str()) {
                    continue;
                }
                let real = path
                    .replace("{id}", "x")
                    .replace("{pid}", "1")
                    .replace("{name}", "x")
                    .replace("{entry}", "x")
                    .replace("{key}", "x");
                let answer = server.ask_as(&key, &format!("{} {real}", method.to_uppercase()), "");
                assert_eq!(answer.status == 403, needed != scope, "{scope}: {method} {path}: {answer:?}");
                if answer.status == 403 {
                    assert_eq!(answer.error(), "forbidden");
                }
            }
        }
    }
}

#[test]
fn keys_are_made_listed_and_taken_back_while_the_server_runs() {
    let server = Server::start("keys");
    let output = server.saggar(&["key", "create", "--name", "ci", "--scope", "run", "--json"]).output().unwrap();
    let made = json_of(&output);
    let key = made["key"].as_str().unwrap().to_owned();
    assert!(key.len() == 44 && key.starts_with("e2b_"), "{made}");
    let run = |key: &str| server.ask_as(key, "POST /v1/runs", r#"{"code": "print(1)"}"#);
    assert_eq!(run(&key).json()["stdout"], "1\n");
    let listed = text(&server.saggar(&["key", "list", "--json"]).output().unwrap().stdout);
    assert!(listed.contains(made["id"].as_str().unwrap()) && !listed.contains(&key), "{listed}");
    for file in std::fs::read_dir(&server.home).unwrap().flatten() {
        let content = std::fs::read(file.path()).unwrap_or_default();
        assert!(!text(&content).contains(&key), "{:?}", file.path());
    }
    let shown = text(&server.saggar(&["key", "list"]).output().unwrap().stdout);
    assert!(shown.contains("ci") && shown.contains("valid"), "{shown}");
    assert!(server.saggar(&["key", "revoke", "ci"]).status().unwrap().success());
    let refused = run(&key);
    assert_eq!((refused.status, refused.error().as_str()), (401, "unauthorized"));
    assert_eq!(server.saggar(&["key", "revoke", "nobody"]).output().unwrap().status.code(), Some(1));
    assert_eq!(server.saggar(&["key", "create", "--scope", "everything"]).output().unwrap().status.code(), Some(2));
    // Who did what with which is on record.
    let entries = server.ask("GET /v1/audit", "").json();
    let told: Vec<(&str, &str)> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["kind"].as_str().unwrap(), entry["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("key", "revoked"), ("run", "exited"), ("key", "created")]);
    assert_eq!(entries[1]["caller"], made["id"]);
    assert!(!entries.to_string().contains(&key));
}

#[test]
fn each_key_has_its_own_measure() {
    let server = Server::start("measure");
    let hasty = make(&server, &["--per-minute", "3"]);
    let daily = make(&server, &["--per-day", "2", "--per-minute", "600"]);
    let narrow = make(&server, &["--concurrent", "1", "--per-minute", "600"]);
    let run = |key: &str| server.ask_as(key, "POST /v1/runs", r#"{"code": "print(1)"}"#);
    let refused = |key: &str, code: &str| {
        let answer = run(key);
        assert_eq!((answer.status, answer.error().as_str()), (429, code), "{answer:?}");
        answer.header("retry-after").unwrap().parse::<u64>().unwrap()
    };
    for _ in 0..3 {
        assert_eq!(run(&hasty).status, 200);
    }
    assert!((1..=20).contains(&refused(&hasty, "rate_limited")));
    for _ in 0..2 {
        assert_eq!(run(&daily).status, 200);
    }
    assert!(refused(&daily, "rate_limited") <= 86_400);
    let code = r#"{"code": "import time; time.sleep(600)", "limits": {"wall_ms": 600000}}"#;
    let busy = server.send(&narrow, "POST /v1/runs", "", code.as_bytes());
    eventually("it to run", || server.metric("saggar_running") >= 1);
    refused(&narrow, "busy");
    drop(busy);
    eventually("room", || run(&narrow).status == 200);
    // One judged task is one request, however many sandboxes it takes.
    let hasty = make(&server, &["--per-minute", "2"]);
    let task = r#"{"code": "print(input())", "cases": [{"stdin": "1", "stdout": "1"}, {"stdin": "2", "stdout": "2"},
        {"stdin": "3", "stdout": "3"}, {"stdin": "4", "stdout": "4"}]}"#;
    assert_eq!(server.ask_as(&hasty, "POST /v1/judge", task).json()["passed"], 4);
    assert_eq!(server.ask("POST /v1/runs", r#"{"code": "print(1)"}"#).status, 200, "the first key has no measure");
}

#[test]
fn keys_need_no_server() {
    let home = home("keys-alone");
    let key = text(&saggar(&home, &["key", "create"]).output().unwrap().stdout).trim().to_owned();
    let server = Server::start_in(&home, &[]);
    assert_eq!(server.ask_as(&key, "GET /v1/runs", "").status, 200);
    assert_eq!(server.ask_as(&key, "GET /v1/audit", "").status, 403);
}
