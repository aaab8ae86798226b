//! Patches on repositories in the background of a server, on a small repository of its own.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "swe_eval/project.rs"]
mod project;

use std::fs;

use common::http::{Server, home};
use common::{json, text};
use project::{FIX, Project, adding};
use serde_json::json;

#[test]
fn a_server_grades_patches_on_repositories_that_its_settings_name() {
    let project = Project::new("swe-job");
    let unrelated = adding("NOTES.txt", "nothing\n");
    project.write(&[("fix", Some(FIX)), ("unrelated", Some(unrelated.as_str())), ("empty", Some(""))]);
    let home = home("swe-job");
    let (settings, repositories) = (home.join("saggar.toml"), project.place.join("repos"));
    let wheels = std::env::var("SAGGAR_TEST_WHEELS").unwrap();
    fs::write(&settings, format!("[jobs]\nrepositories = {repositories:?}\nwheels = {wheels:?}\n")).unwrap();
    let server = Server::start_in(&home, &["--config", settings.to_str().unwrap()]);
    let key = server.saggar(&["key", "create", "--scope", "judge"]).output().unwrap();
    let key = text(&key.stdout).trim().to_owned();
    let url = format!("http://{}", server.address);
    let words = ["swe", "eval", "--dataset", "rows.jsonl", "--predictions", "predictions.jsonl", "--run-id", "job"];
    let mut eval = common::saggar(&[&words[..], &["--server", &url, "--json"]].concat());
    eval.current_dir(&project.place).env("SAGGAR_HOME", home.join("nothing-here")).env("SAGGAR_API_KEY", &key);
    let done = eval.output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let summary = json(&done);
    assert_eq!(summary["resolved_ids"], json!(["a__calc-fix"]), "{summary}");
    assert_eq!(summary["unresolved_ids"], json!(["a__calc-unrelated"]), "{summary}");
    assert_eq!(summary["empty_patch_ids"], json!(["a__calc-empty"]), "{summary}");
    // Nothing of it is told that is only the owner's affair.
    let listed = server.ask_as(&key, "GET /v1/jobs", "").json();
    let id = listed[0]["id"].as_str().unwrap();
    let job = server.ask_as(&key, &format!("GET /v1/jobs/{id}"), "");
    assert_eq!(job.json()["progress"], json!({"done": 3, "total": 3}), "{job:?}");
    assert!(
        !job.body.contains(&*project.place.to_string_lossy()) && !job.body.contains(&*home.to_string_lossy()),
        "{job:?}"
    );
    // A project that the settings do not name is not fetched from anywhere.
    let rows = fs::read_to_string(project.place.join("rows.jsonl")).unwrap().replace("a/calc", "psf/requests");
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    let refused = server.ask_as(&key, "POST /v1/jobs", &json!({"kind": "swe", "instances": [row]}).to_string());
    assert_eq!((refused.status, refused.error().as_str()), (400, "invalid_request"));
    assert!(!refused.body.contains(&*project.place.to_string_lossy()), "{refused:?}");
}
