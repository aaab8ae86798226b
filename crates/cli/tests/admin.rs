//! Keys and images over HTTP, for whoever looks after the machine and for nobody else.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::http::{Answer, Server, whole};
use common::{folder, json as json_of, text};
use serde_json::{Value, json};

fn make(server: &Server, args: &[&str]) -> Value {
    let output = server.saggar(&[&["key", "create", "--json"], args].concat()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    json_of(&output)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// A client that knows the address and a key, and has no state of its own.
fn client(server: &Server, args: &[&str]) -> Command {
    let mut command = common::saggar(args);
    command.args(["--server", &format!("http://{}", server.address)]);
    command.env("SAGGAR_HOME", server.home.join("nothing-here")).env("SAGGAR_API_KEY", server.key());
    command
}

#[test]
fn keys_are_made_listed_and_taken_back_over_http() {
    let server = Server::start("admin-keys");
    let answer = server.ask("POST /v1/keys", r#"{"name": "ci", "scopes": ["run"], "allowance": {"per_minute": 60}}"#);
    assert_eq!((answer.status, answer.header("cache-control")), (201, Some("no-store")), "{answer:?}");
    let made = answer.json();
    let key = word(&made["key"]);
    let runs = |key: &str| server.ask_as(key, "GET /v1/runs", "").status;
    assert_eq!(runs(&key), 200);
    let listed = server.ask("GET /v1/keys", "");
    assert!(listed.body.contains("\"ci\"") && !listed.body.contains(&key), "{listed:?}");
    assert_eq!(listed.json()[0]["allowance"]["per_minute"], 60);
    assert_eq!(server.ask("DELETE /v1/keys/nobody", "").error(), "not_found");
    assert_eq!(server.ask("DELETE /v1/keys/ci", "").json()["id"], made["id"]);
    assert_eq!(runs(&key), 401);
    // What cannot be meant is refused, and makes nothing.
    for wrong in [
        "",
        "{}",
        "[]",
        r#"{"scopes": []}"#,
        r#"{"scopes": ["root"]}"#,
        r#"{"scopes": ["run"], "key": "e2b_0000"}"#,
        r#"{"scopes": ["run"], "name": "a\u0000b"}"#,
        r#"{"scopes": ["run"], "name": "a\u001b[31m"}"#,
        r#"{"scopes": ["run"], "valid_ms": -1}"#,
        r#"{"scopes": ["run"], "allowance": {"per_minute": 0}}"#,
    ] {
        let answer = server.ask("POST /v1/keys", wrong);
        assert_eq!((answer.status, answer.error().as_str()), (400, "invalid_request"), "{wrong}: {answer:?}");
    }
    assert_eq!(server.ask("GET /v1/keys", "").json().as_array().map(Vec::len), Some(1));
    let trail = server.ask("GET /v1/audit?kind=key", "").json();
    let told: Vec<(&Value, &Value)> =
        trail.as_array().unwrap().iter().map(|entry| (&entry["outcome"], &entry["caller"])).collect();
    assert_eq!(told, [(&json!("revoked"), &json!("http")), (&json!("created"), &json!("http"))]);
    assert!(!trail.to_string().contains(&key));
}

#[test]
fn a_key_makes_none_that_may_more_than_itself() {
    let server = Server::start("admin-escalation");
    let narrow = make(&server, &["--scope", "admin"]);
    let key = word(&narrow["key"]);
    let ask = |body: &str| server.ask_as(&key, "POST /v1/keys", body);
    for more in [
        r#"{"scopes": ["run"]}"#,
        r#"{"scopes": ["admin", "session"]}"#,
        r#"{"scopes": ["admin"], "allowance": {"per_minute": 100000}}"#,
        r#"{"scopes": ["admin"], "allowance": {}}"#,
    ] {
        let answer = ask(more);
        assert_eq!((answer.status, answer.error().as_str()), (403, "forbidden"), "{more}: {answer:?}");
    }
    let same = ask(r#"{"scopes": ["admin"]}"#);
    assert_eq!(same.status, 201, "{same:?}");
    // Who made it is on record, so that what a stolen key has made can be found and taken back.
    let trail = server.ask(&format!("GET /v1/audit?kind=key&caller={}", word(&narrow["id"])), "").json();
    assert_eq!((trail.as_array().map(Vec::len), &trail[0]["id"]), (Some(1), &same.json()["id"]));
    let brief = word(&make(&server, &["--scope", "admin", "--expires", "1h"])["key"]);
    let lasting = |valid: Value| {
        server.ask_as(&brief, "POST /v1/keys", &json!({"scopes": ["admin"], "valid_ms": valid}).to_string()).status
    };
    assert_eq!((lasting(Value::Null), lasting(json!(7_200_000)), lasting(json!(60_000))), (403, 403, 201));
}

#[test]
fn who_is_not_for_admin_finds_nothing_of_keys_and_images() {
    let server = Server::start("admin-scopes");
    let guest = word(&make(&server, &["--scope", "run,judge,session", "--name", "guest"])["key"]);
    for (request, body) in [
        ("GET /v1/keys", ""),
        ("POST /v1/keys", r#"{"scopes": ["run"]}"#),
        ("DELETE /v1/keys/guest", ""),
        ("DELETE /v1/keys/no-such-key", ""),
        ("GET /v1/images", ""),
        ("DELETE /v1/images?name=x", ""),
        ("POST /v1/images/build", r#"{"name": "x", "pip": ["y"]}"#),
        ("POST /v1/images/import?name=x", "no tar"),
    ] {
        let answer = server.ask_as(&guest, request, body);
        assert_eq!((answer.status, answer.error().as_str()), (403, "forbidden"), "{request}: {answer:?}");
        assert_eq!(server.ask_as("e2b_none", request, body).status, 401, "{request}");
    }
    assert_eq!(server.ask_as(&guest, "GET /v1/runs", "").status, 200, "it was not taken back");
    let refused = client(&server, &["key", "list", "--json"]).env("SAGGAR_API_KEY", &guest).output().unwrap();
    assert_eq!((refused.status.code(), &json_of(&refused)["error"]["code"]), (Some(125), &json!("forbidden")));
}

#[test]
fn keys_of_a_server_elsewhere_are_made_by_the_command_line() {
    let server = Server::start("admin-keys-away");
    let args = ["key", "create", "--name", "a b/c", "--scope", "run", "--expires", "1h", "--per-day", "5", "--json"];
    let made = json_of(&client(&server, &args).output().unwrap());
    assert_eq!((&made["scopes"], &made["allowance"]["per_day"]), (&json!(["run"]), &json!(5)), "{made}");
    assert_eq!(server.ask_as(&word(&made["key"]), "GET /v1/runs", "").status, 200);
    let own = server.saggar(&["key", "list", "--json"]).output().unwrap().stdout;
    assert_eq!(text(&client(&server, &["key", "list", "--json"]).output().unwrap().stdout), text(&own));
    assert!(text(&client(&server, &["key", "list"]).output().unwrap().stdout).contains("a b/c"));
    let revoked = client(&server, &["key", "revoke", "a b/c", "--json"]).output().unwrap();
    assert_eq!(json_of(&revoked)["id"], made["id"]);
    assert_eq!(client(&server, &["key", "revoke", "a b/c"]).output().unwrap().status.code(), Some(1));
    assert!(!server.home.join("nothing-here").exists(), "nothing was asked of this machine");
}

/// A tar of a root file system with a static shell.
fn archive(name: &str) -> PathBuf {
    let root = folder(name);
    fs::create_dir_all(root.join("tree/bin")).unwrap();
    fs::create_dir_all(root.join("tree/usr/share")).unwrap();
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(Path::new).into_iter().find(|path| path.exists()).unwrap();
    fs::copy(busybox, root.join("tree/bin/busybox")).unwrap();
    for tool in ["sh", "cat"] {
        std::os::unix::fs::symlink("busybox", root.join("tree/bin").join(tool)).unwrap();
    }
    fs::write(root.join("tree/usr/share/mark"), "of the image\n").unwrap();
    let tar = root.join("small.tar");
    assert!(
        Command::new("tar").arg("-C").arg(root.join("tree")).arg("-cf").arg(&tar).arg(".").status().unwrap().success()
    );
    tar
}

fn send(server: &Server, request: &str, body: &[u8]) -> Answer {
    whole(server.send(&server.key(), request, "content-type: application/octet-stream\r\n", body))
}

#[test]
fn an_image_that_was_sent_is_run_listed_and_removed() {
    let server = Server::start("admin-images");
    let tar = archive("admin-images-tree");
    let sent = send(&server, "POST /v1/images/import?name=house/small:1", &fs::read(&tar).unwrap());
    assert_eq!((sent.status, &sent.json()["name"]), (200, &json!("house/small:1")), "{sent:?}");
    assert!(!sent.body.contains(server.home.to_str().unwrap()), "where it lies is nobody's business: {sent:?}");
    let run = || server.ask("POST /v1/runs", r#"{"argv": ["cat", "/usr/share/mark"], "image": "house/small:1"}"#);
    assert_eq!(run().json()["stdout"], "of the image\n");
    let listed = client(&server, &["image", "list", "--json"]).output().unwrap();
    assert_eq!(json_of(&listed)[0]["id"], sent.json()["id"]);
    // The command line sends it too, under the name of its file.
    let again = client(&server, &["image", "import", tar.to_str().unwrap(), "--json"]).output().unwrap();
    assert_eq!((&json_of(&again)["name"], &json_of(&again)["id"]), (&json!("small"), &sent.json()["id"]));
    let folder = client(&server, &["image", "import", tar.parent().unwrap().to_str().unwrap()]).output().unwrap();
    assert!(folder.status.code() == Some(2) && text(&folder.stderr).contains("tar"), "{}", text(&folder.stderr));
    assert!(client(&server, &["image", "remove", "small"]).status().unwrap().success());
    assert_eq!(client(&server, &["image", "remove", "small"]).output().unwrap().status.code(), Some(1));
    assert_eq!(server.ask("DELETE /v1/images?name=house%2Fsmall:1", "").json()["name"], "house/small:1");
    assert_eq!((run().status, run().error().as_str()), (404, "not_found"));
    let trail = server.ask("GET /v1/audit?kind=image", "").json();
    let told: Vec<&Value> = trail.as_array().unwrap().iter().rev().map(|entry| &entry["outcome"]).collect();
    assert_eq!(told, ["imported", "imported", "removed", "failed", "removed"], "{trail}");
    assert!(!server.home.join("nothing-here").exists(), "nothing was asked of this machine");
}

/// Archives made to harm, by Python, whose tar writes whatever it is told.
const EVIL: &str = r#"
import io, sys, tarfile
def write(name, *entries):
    with tarfile.open(name, "w") as tar:
        for path, kind, target in entries:
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = kind, target
            data = b"evil" if kind == tarfile.REGTYPE else b""
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
F, L, H = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
write("up.tar", ("../../../../tmp/saggar-evil", F, ""))
write("link.tar", ("out", L, "/tmp"), ("out/saggar-evil", F, ""))
write("hard.tar", ("hard", H, "../../../../../etc/shadow"))
open("cut.tar", "wb").write(open("up.tar", "rb").read()[:700])
open("noise.tar", "wb").write(bytes(range(256)) * 64)
open("none.tar", "wb").close()
"#;

#[test]
fn what_is_sent_to_harm_makes_no_image() {
    let server = Server::start("admin-evil");
    let evil = folder("admin-evil-archives");
    assert!(Command::new("python3").args(["-c", EVIL]).current_dir(&evil).status().unwrap().success());
    let _ = fs::remove_file("/tmp/saggar-evil");
    for name in ["up", "link", "hard", "cut", "noise", "none"] {
        let answer =
            send(&server, "POST /v1/images/import?name=evil", &fs::read(evil.join(format!("{name}.tar"))).unwrap());
        if answer.status == 200 {
            // An empty archive is an empty root; a link inside stays inside.
            assert!(["none", "link"].contains(&name), "{name}: {answer:?}");
        } else {
            assert_eq!((answer.status, answer.error().as_str()), (422, "input_unreadable"), "{name}: {answer:?}");
        }
        assert!(!Path::new("/tmp/saggar-evil").exists(), "{name}");
    }
    for name in ["..", "../x", "/x", "a//b", "%00", "a%00b", "%1b", "%2e%2e%2fx", ""] {
        let answer = send(&server, &format!("POST /v1/images/import?name={name}"), b"");
        assert_eq!((answer.status, answer.error().as_str()), (400, "invalid_request"), "{name}: {answer:?}");
        let answer = server.ask(&format!("DELETE /v1/images?name={name}"), "");
        assert!(matches!(answer.status, 400 | 404), "{name}: {answer:?}");
    }
    for wrong in [
        "",
        "{}",
        r#"{"name": "x"}"#,
        r#"{"name": "../x", "pip": ["y"]}"#,
        r#"{"name": "x", "pip": ["--index-url=http://169.254.169.254/"]}"#,
        r#"{"name": "x", "pip": ["y\u0000z"]}"#,
        r#"{"name": "x", "pip": ["y"], "sources": {"index_url": "http://10.0.0.1/"}}"#,
        r#"{"name": "x", "pip": ["y"], "ca_bundle": "/etc/shadow"}"#,
        r#"{"name": "x", "apt": ["git"]}"#,
        r#"{"name": "x", "system": {"node": "22; id"}}"#,
    ] {
        let answer = server.ask("POST /v1/images/build", wrong);
        assert_eq!((answer.status, answer.error().as_str()), (400, "invalid_request"), "{wrong}: {answer:?}");
    }
    // Only who may have a way out builds: packages come over the network.
    let admin = word(&make(&server, &["--scope", "admin"])["key"]);
    let answer = server.ask_as(&admin, "POST /v1/images/build", r#"{"name": "x", "pip": ["y"]}"#);
    assert_eq!((answer.status, answer.error().as_str()), (422, "unsupported"), "{answer:?}");
}
