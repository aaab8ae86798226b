//! `--review` and `saggar usage`, as a user meets them, against a scripted model on real sockets.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;
#[path = "../../engine/tests/common/model_server.rs"]
mod model_server;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;

use common::{folder, json, saggar, text};
use model_server::{Act, ModelServer, approve, reject};
use serde_json::{Value, json};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

const KEY: &str = "sk-proj-Zq8vN3xw5RtY7uIoPa2s";

/// A user with settings and a state folder of their own.
struct User {
    home: PathBuf,
}

impl User {
    fn new(name: &str, settings: &str) -> Self {
        let home = folder(name);
        fs::create_dir(home.join("saggar")).unwrap();
        fs::write(home.join("saggar/saggar.toml"), settings).unwrap();
        Self { home }
    }

    /// With a model at `base_url`, whose key is in `TEST_MODEL_KEY`.
    fn with_model(name: &str, base_url: &str) -> Self {
        let review =
            format!("model = 'gpt-4o-mini'\nbase_url = '{base_url}'\napi_key_env = 'TEST_MODEL_KEY'\nbackoff_ms = 1");
        Self::new(name, &format!("[review]\n{review}\n"))
    }

    fn saggar(&self, args: &[&str]) -> Command {
        let mut command = saggar(args);
        command.env("XDG_CONFIG_HOME", &self.home).env("SAGGAR_HOME", self.home.join("state"));
        command.env("TEST_MODEL_KEY", KEY).env_remove("OPENAI_API_KEY");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.saggar(args).output().unwrap()
    }

    fn usage(&self) -> Value {
        json(&self.run(&["usage", "--json"]))
    }
}

fn assert_keyless(output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        assert!(!text(stream).contains(&KEY[..8]), "{}", text(stream));
    }
}

#[test]
fn a_review_that_nobody_can_make_is_an_error_with_the_remedy() {
    let user = User::new("review-off", "");
    let output = user.run(&["run", "--review", "-c", "print(1)"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""));
    let told = text(&output.stderr);
    assert!(told.contains("hint:") && told.contains("[review]\nmodel = \"gpt-4o-mini\""), "{told}");
    // The remedy is TOML that can be used as it is.
    let example = &told[told.rfind("[review]").unwrap()..];
    assert_eq!(
        toml::from_str::<toml::Table>(example).unwrap()["review"]["api_key_env"].as_str(),
        Some("OPENAI_API_KEY")
    );
    let output = user.run(&["exec", "--review", "--json", "--", "true"]);
    assert_eq!((output.status.code(), &json(&output)["error"]["code"]), (Some(125), &json!("review_unavailable")));
}

#[test]
fn an_approved_program_runs_with_its_review_in_the_result() {
    let note = r#"{"verdict": "approve", "confidence": 0.8, "findings": [{"line": 1, "severity": "info", "message": "prints"}]}"#;
    let server = ModelServer::start([Act::Say(note.to_owned())]);
    let user = User::with_model("review-approved", &server.base_url);
    let output = user.run(&["run", "--review", "--json", "-c", "print(6 * 7)"]);
    let result = json(&output);
    assert_eq!((output.status.code(), &result["stdout"]), (Some(0), &json!("42\n")));
    let finding = json!({"rule": "review.finding", "severity": "info", "points": 0, "line": 1, "column": 1,
        "message": "prints", "blocks": false});
    assert_eq!(result["findings"], json!([finding]));
    assert_eq!(server.received()[0].headers["authorization"], format!("Bearer {KEY}"));
    assert_keyless(&output);
    // The verdict is kept for the next process.
    assert_eq!(user.run(&["run", "--review", "-c", "print(6 * 7)"]).status.code(), Some(0));
    assert_eq!(server.calls(), 1);
    // Without --review nobody is asked.
    assert_eq!(user.run(&["run", "-c", "print(1)"]).status.code(), Some(0));
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_check_asks_the_model_too() {
    let server = ModelServer::start([reject()]);
    let user = User::with_model("review-check", &server.base_url);
    let output = user.run(&["check", "--review", "--json", "-c", "print(1)"]);
    let answer = json(&output);
    assert_eq!((output.status.code(), &answer["ok"]), (Some(1), &json!(false)));
    let rules: Vec<_> = answer["findings"].as_array().unwrap().iter().map(|finding| &finding["rule"]).collect();
    assert!(rules.contains(&&json!("review.rejected")), "{rules:?}");
    assert_keyless(&output);
}

#[test]
fn a_rejected_program_is_refused_with_the_reasons() {
    let server = ModelServer::start([reject()]);
    let user = User::with_model("review-rejected", &server.base_url);
    let marker = user.home.join("ran");
    let code = format!("import os\nopen('{}', 'w')", marker.display());
    let output = user.run(&["run", "--review", "-c", &code]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(126), ""));
    let told = text(&output.stderr);
    assert!(told.contains("the model rejects the program") && told.contains("sends a key away"), "{told}");
    let output = user.run(&["run", "--review", "--json", "-c", &code]);
    let result = json(&output);
    assert_eq!(output.status.code(), Some(126));
    assert_eq!(result["outcome"], json!({"kind": "refused", "rule": "review.rejected"}));
    assert_eq!((&result["ok"], &result["isolation"]["layers"]), (&json!(false), &json!([])));
}

#[test]
fn a_key_is_told_to_nobody_but_its_server() {
    let quoting = format!(r#"{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}"#);
    let server = ModelServer::start([Act::Status(401, "", quoting)]);
    let user = User::with_model("review-key", &server.base_url);
    for args in [&["run", "--review", "-c", "1"][..], &["run", "--review", "--json", "-c", "1"]] {
        let output = user.run(args);
        assert_eq!(output.status.code(), Some(126));
        assert!(text(&[output.stdout.clone(), output.stderr.clone()].concat()).contains("401"));
        assert_keyless(&output);
    }
    for entry in fs::read_dir(user.home.join("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert!(!text(&fs::read(&path).unwrap()).contains(&KEY[..8]), "{}", path.display());
        }
    }
    let output = user.saggar(&["run", "--review", "-c", "1"]).env_remove("TEST_MODEL_KEY").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("`TEST_MODEL_KEY` holds no API key"), "{}", text(&output.stderr));
    // One that fits no header is not shown either.
    let output =
        user.saggar(&["run", "--review", "-c", "1"]).env("TEST_MODEL_KEY", format!("{KEY}\nx")).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_keyless(&output);
    // A key is for whom it is meant: no other server gets OpenAI's.
    let elsewhere = User::new("review-elsewhere", &format!("[review]\nmodel = 'm'\nbase_url = '{}'", server.base_url));
    let output = elsewhere.saggar(&["run", "--review", "-c", "1"]).env("OPENAI_API_KEY", KEY).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(!server.received().last().unwrap().headers.contains_key("authorization"));
}

#[test]
fn usage_says_what_was_spent_and_what_is_not_known() {
    let server = ModelServer::start([Act::Status(500, "", String::new()), approve()]);
    let user = User::with_model("usage", &server.base_url);
    let output = user.run(&["usage"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "no model was asked\n"));
    assert_eq!(user.run(&["run", "--review", "-c", "1"]).status.code(), Some(0));
    let usage = user.usage();
    let line = &usage["lines"][0];
    assert_eq!((&line["component"], &line["model"]), (&json!("review"), &json!("gpt-4o-mini")));
    assert_eq!((&line["calls"], &line["failed"], &line["cached_tokens"]), (&json!(2), &json!(1), &json!(40)));
    assert!((usage["total"]["cost_usd"].as_f64().unwrap() - 0.000_024).abs() < 1e-9, "{usage}");
    // A model without a price: in the settings of the same user it is unknown, not free.
    let settings = fs::read_to_string(user.home.join("saggar/saggar.toml")).unwrap().replace("gpt-4o-mini", "house");
    fs::write(user.home.join("saggar/saggar.toml"), &settings).unwrap();
    assert_eq!(user.run(&["run", "--review", "-c", "1"]).status.code(), Some(0));
    let usage = user.usage();
    assert_eq!((&usage["lines"][1]["model"], &usage["lines"][1]["cost_usd"]), (&json!("house"), &Value::Null));
    assert_eq!(usage["total"]["cost_usd"], Value::Null);
    let table = text(&user.run(&["usage", "--since", "1h"]).stdout);
    let house = table.lines().find(|line| line.contains("house")).unwrap();
    assert!(house.ends_with("unknown") && table.contains("0.000024"), "{table}");
    // Its price in the settings makes it known from then on.
    fs::write(user.home.join("saggar/saggar.toml"), settings + "[prices]\nhouse = { input = 1, output = 2 }\n")
        .unwrap();
    assert_eq!(user.run(&["run", "--review", "-c", "2"]).status.code(), Some(0));
    let usage = user.usage();
    assert_eq!(
        (&usage["lines"][1]["known_cost_usd"], &usage["lines"][1]["unpriced_calls"]),
        (&json!(0.000_14), &json!(1))
    );
    assert_eq!(user.run(&["usage", "--since", "soon"]).status.code(), Some(2));
}

#[test]
fn files_of_the_caller_are_read_by_the_model_and_by_the_program() {
    let model = ModelServer::start([approve()]);
    let user = User::with_model("review-files", &model.base_url);
    for (name, content) in [("a.py", &b"print('from a')"[..]), ("b.bin", b"\xff"), ("c.py", b"import a")] {
        fs::write(user.home.join(name), content).unwrap();
    }
    let file = |name: &str| user.home.join(name).display().to_string();
    let mut serve = user.saggar(&["serve", "--listen", "127.0.0.1:0"]);
    // Alone, and through a server, which asks the client for each file.
    for served in [false, true] {
        let server = served.then(|| {
            let mut server = serve.stderr(Stdio::piped()).spawn().unwrap();
            BufReader::new(server.stderr.take().unwrap()).read_line(&mut String::new()).unwrap();
            server
        });
        let code = format!("import c, os; print(os.stat('b.bin').st_size, {})", u8::from(served));
        let args = ["run", "--review", "--file", &file("a.py"), "--file", &file("b.bin"), "--file", &file("c.py")];
        let output = user.run(&[&args[..], &["-c", &code]].concat());
        let shown = model.received().last().unwrap().messages()[1].1.clone();
        if let Some(mut server) = server {
            common::send(server.id(), rustix::process::Signal::TERM);
            server.wait().unwrap();
        }
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).starts_with("from a\n1 "), "{}", text(&output.stdout));
        assert!(shown.contains("\n\"a.py\"\nprint('from a')\n<<<END FILE"), "{shown}");
        assert!(shown.contains("\n\"c.py\"\nimport a\n<<<END FILE") && shown.contains("[\"b.bin\"]"), "{shown}");
    }
    assert_eq!(model.calls(), 2);
}

#[test]
fn a_run_through_a_server_is_reviewed_too() {
    let model = ModelServer::start([reject()]);
    let user = User::with_model("review-served", &model.base_url);
    let mut command = user.saggar(&["serve", "--listen", "127.0.0.1:0"]);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).unwrap().split(' ').next().unwrap();
    let key = fs::read_to_string(user.home.join("state/api-key")).unwrap();
    let body = r#"{"code": "print(1)", "review": true}"#;
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: close",
        key.trim()
    );
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(r#""rule":"review.rejected""#), "{answer}");
    // The command line's own way in; the client itself has no key to the model.
    let mut client = user.saggar(&["run", "--review", "-c", "print(2)"]);
    let output = client.env_remove("TEST_MODEL_KEY").output().unwrap();
    assert_eq!(output.status.code(), Some(126), "{}", text(&output.stderr));
    assert_eq!(model.calls(), 2);
    common::send(server.id(), rustix::process::Signal::TERM);
    server.wait().unwrap();
}

#[test]
fn tls_is_spoken_with_whom_the_host_trusts_and_nobody_else() {
    let model = ModelServer::start([approve()]);
    let port = tls_before(&model.base_url);
    let user = User::with_model("review-tls", &format!("https://localhost:{port}/v1"));
    let trusting = |authority: &Path| trusting_with(&user, authority, "print(1)");
    let other = user.home.join("other.pem");
    fs::copy(tls_file("certificate.pem"), &other).unwrap();
    let refused = json(&trusting(&other));
    assert_eq!((&refused["outcome"]["rule"], model.calls()), (&json!("review.failed"), 0), "{refused}");
    let ran = trusting(&tls_file("authority.pem"));
    assert_eq!((ran.status.code(), model.calls()), (Some(0), 1), "{}", text(&ran.stdout));
    assert_eq!(model.received()[0].headers["authorization"], format!("Bearer {KEY}"));
    // Who trusts nobody has no way to ask, which is a matter of set-up and not an answer.
    let nobody = user.home.join("nobody.pem");
    fs::write(&nobody, "").unwrap();
    let output = trusting_with(&user, &nobody, "print(2)");
    assert_eq!((output.status.code(), &json(&output)["error"]["code"]), (Some(125), &json!("review_unavailable")));
    // Trusted, but by another name.
    let user = User::with_model("review-tls-name", &format!("https://127.0.0.1:{port}/v1"));
    let output = trusting_with(&user, &tls_file("authority.pem"), "print(1)");
    assert_eq!((output.status.code(), model.calls()), (Some(126), 1));
}

fn trusting_with(user: &User, authority: &Path, code: &str) -> Output {
    let mut command = user.saggar(&["run", "--review", "--json", "-c", code]);
    command.env("SSL_CERT_FILE", authority).env_remove("SSL_CERT_DIR").output().unwrap()
}

fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// A port that speaks TLS, and passes on to the server at `base_url`.
fn tls_before(base_url: &str) -> u16 {
    let behind = base_url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let certificate = CertificateDer::from_pem_file(tls_file("certificate.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls_file("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate], key).unwrap());
    let listener = TcpListener::bind("localhost:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut front = BufReader::new(StreamOwned::new(connection, stream.unwrap()));
            // One that does not trust us hangs up.
            let Some(request) = whole_request(&mut front) else { continue };
            let mut back = TcpStream::connect(&behind).unwrap();
            back.write_all(&request).unwrap();
            let mut answer = Vec::new();
            back.read_to_end(&mut answer).unwrap();
            front.get_mut().write_all(&answer).unwrap();
            front.get_mut().conn.send_close_notify();
            front.get_mut().flush().unwrap();
        }
    });
    port
}

fn whole_request(front: &mut impl BufRead) -> Option<Vec<u8>> {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        front.read_line(&mut head).ok().filter(|read| *read > 0)?;
        if let Some(value) = head[from..].to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    front.read_exact(&mut body).ok()?;
    Some([head.into_bytes(), body].concat())
}
