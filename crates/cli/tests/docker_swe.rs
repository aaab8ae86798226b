//! Patches on repositories that images of a Docker daemon have, as data sets bring them: on a real daemon, with an image
//! made on the spot. `scripts/test` starts one; by hand:
//!
//!     scripts/docker-engine run cargo test --workspace --test docker_swe -- --ignored
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests start the program and fail loudly"
)]

mod common;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "swe_eval/project.rs"]
mod project;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::{json, saggar, text};
use project::{CHEATS, FIX, Project, adding, git};
use serde_json::{Value, json};

const IMAGE: &str = "saggar-test-calc:latest";

fn host() -> String {
    std::env::var("SAGGAR_TEST_DOCKER").expect("SAGGAR_TEST_DOCKER names a daemon: see scripts/docker-engine")
}

/// Asks the daemon itself.
fn ask(method: &str, path: &str, more: &[&str]) -> Value {
    let socket = host();
    let socket = socket.strip_prefix("unix://").unwrap().to_owned();
    let words = ["--silent", "--show-error", "--fail", "--unix-socket", &socket, "-X", method];
    let done = Command::new("curl").args(words).args(more).arg(format!("http://docker{path}")).output().unwrap();
    assert!(done.status.success(), "{method} {path}: {}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap_or_default()
}

/// An image as data sets have them: the project in /testbed, its whole history, root's, imported from there by the
/// environment's Python; something that was built beside it; a change that the image's makers committed.
fn make_image(project: &Project) {
    let root = project.place.join("root");
    let testbed = root.join("testbed");
    fs::create_dir_all(&root).unwrap();
    let tree = project.place.join("repos/a__calc");
    git(&project.place, &["clone", "-q", tree.to_str().unwrap(), testbed.to_str().unwrap()]);
    git(&testbed, &["checkout", "-q", "--detach", &project.commit]);
    fs::write(testbed.join("setup.cfg"), "[tool:pytest]\naddopts = -q\n# pinned by the image\n").unwrap();
    git(&testbed, &["commit", "-q", "-a", "-m", "SWE-bench"]);
    fs::write(testbed.join("calc/built.txt"), "built\n").unwrap();
    let packages = root.join("usr/lib/python3/dist-packages");
    fs::create_dir_all(&packages).unwrap();
    fs::write(packages.join("calc.pth"), "/testbed\n").unwrap();
    let is_wanted = |name: &str| {
        ["pytest-", "pluggy-", "iniconfig-", "packaging-", "pygments-"].iter().any(|w| name.starts_with(w))
    };
    for wheel in fs::read_dir(&project.wheels).unwrap().flatten() {
        if is_wanted(&wheel.file_name().to_string_lossy()) {
            let unpacked =
                Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel.path()).arg(&packages).status();
            assert!(unpacked.unwrap().success());
        }
    }
    let programs = root.join("opt/miniconda3/envs/testbed/bin");
    fs::create_dir_all(&programs).unwrap();
    symlink("/usr/bin/python3", programs.join("python")).unwrap();
    let archive = project.place.join("root.tar");
    let packed = Command::new("tar")
        .args(["--owner=0", "--group=0", "--mode=go-w", "-C"])
        .arg(&root)
        .arg("-cf")
        .arg(&archive)
        .args(["opt", "testbed", "usr"])
        .status();
    assert!(packed.unwrap().success());
    let base = std::env::var("SAGGAR_TEST_IMAGE").unwrap_or_else(|_| "saggar-test:latest".to_owned());
    let body = json!({"Image": base, "Cmd": ["true"]}).to_string();
    let made = ask("POST", "/containers/create", &["-H", "Content-Type: application/json", "-d", &body]);
    let id = made["Id"].as_str().unwrap();
    let upload = ["-H", "Content-Type: application/x-tar", "-T", archive.to_str().unwrap()];
    ask("PUT", &format!("/containers/{id}/archive?path=/"), &upload);
    let (name, tag) = IMAGE.split_once(':').unwrap();
    ask("POST", &format!("/commit?container={id}&repo={name}&tag={tag}"), &[]);
    ask("DELETE", &format!("/containers/{id}?force=1"), &[]);
}

fn evaluate(project: &Project, home: &Path, run: &str, more: &[&str]) -> (Value, String) {
    let words = ["swe", "eval", "--dataset", "rows.jsonl", "--predictions", "predictions.jsonl", "--run-id", run];
    let mut command = saggar(&[&words[..], &["--backend", "docker", "--json"], more].concat());
    let done =
        command.current_dir(&project.place).env("SAGGAR_HOME", home).env("DOCKER_HOST", host()).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    (json(&done), text(&done.stderr))
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn patches_are_graded_in_the_image_of_their_row() {
    let project = Project::new("docker-swe");
    make_image(&project);
    let home = project.place.join("home");
    let unrelated = adding("NOTES.txt", "nothing\n");
    // Of those that do not resolve elsewhere, the ones that depend on what the sandbox is.
    let wanted = ["conftest-report", "forged-lines", "shadow", "git-objects", "report-file", "start-up", "channel"];
    let cheats: Vec<(&str, String)> = CHEATS
        .iter()
        .filter(|(name, _)| wanted.contains(name))
        .map(|(name, make)| (*name, make().replace("PORT", "9")))
        .collect();
    let mut patches = vec![("named", Some(FIX)), ("fix", Some(FIX)), ("unrelated", Some(unrelated.as_str()))];
    patches.extend([("gone", Some(FIX)), ("empty", Some(""))]);
    patches.extend(cheats.iter().map(|(name, patch)| (*name, Some(patch.as_str()))));
    project.write(&patches);
    // One row says nothing of its image, which then has the name that the data sets' own makers give it.
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" };
    ask("POST", &format!("/images/{IMAGE}/tag?repo=swebench/sweb.eval.{machine}.a_1776_calc-named&tag=latest"), &[]);
    project.edit_rows(|_, row| {
        row["recipe"] = json!({"test_cmd": "python -m pytest -rA"});
        match row["instance_id"].as_str().unwrap() {
            "a__calc-named" => {}
            "a__calc-gone" => row["image"] = json!("no/such:image"),
            _ => row["image"] = json!(IMAGE),
        }
    });
    let (first, said) = evaluate(&project, &home, "first", &[]);
    assert_eq!(first["resolved_ids"], json!(["a__calc-fix", "a__calc-named"]), "{first} {said}");
    assert_eq!(first["unresolved_instances"], 1 + cheats.len(), "{first} {said}");
    assert_eq!(first["empty_patch_ids"], json!(["a__calc-empty"]), "{first}");
    assert_eq!(first["infra_failure_ids"], json!(["a__calc-gone"]), "{first}");
    assert!(said.contains("a__calc-gone cannot be run: the Docker daemon has no image `no/such:image`"), "{said}");
    // What the image has is what is tested, in its own place.
    let log = fs::read_to_string(project.file("first", "fix", "test_output.txt")).unwrap();
    assert!(log.contains("passed") && !log.contains("built.txt") && !log.contains("/work/testbed"), "{log}");
    let timing = project.timing("first");
    // The same image under two names is one tree.
    assert_eq!(timing["made"], 1, "{timing} {said}");
    let (second, said) = evaluate(&project, &home, "second", &[]);
    assert_eq!((second, &project.timing("second")["made"]), (first, &json!(0)), "{said}");
    // Where edits stay, the same edit decides.
    let conftest = cheats.iter().find(|(name, _)| *name == "conftest-report").unwrap();
    project.write(&[("conftest-report", Some(conftest.1.as_str()))]);
    project.edit_rows(|_, row| row["recipe"] = json!({"test_cmd": "python -m pytest -rA"}));
    let (official, said) = evaluate(&project, &home, "official", &["--edits", "official", "--image", IMAGE]);
    assert_eq!(official["resolved_ids"], json!(["a__calc-conftest-report"]), "{official} {said}");
}

#[test]
#[ignore = "wants SAGGAR_TEST_DOCKER"]
fn an_image_without_the_project_is_no_fault_of_a_patch() {
    let project = Project::new("docker-swe-bare");
    project.write(&[("fix", Some(FIX))]);
    let image = std::env::var("SAGGAR_TEST_IMAGE").unwrap_or_else(|_| "saggar-test:latest".to_owned());
    let home = project.place.join("home");
    let (summary, said) = evaluate(&project, &home, "bare", &["--image", &image]);
    assert_eq!(summary["infra_failure_ids"], json!(["a__calc-fix"]), "{summary} {said}");
    assert!(said.contains("the image has no repository in /testbed"), "{said}");
}
