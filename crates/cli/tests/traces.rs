//! Traces, against a scripted collector: what is in them, and what never is.
#![cfg(feature = "otel")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::http::{Server, home, saggar, whole};
use common::{send, text};
use rustix::process::Signal;
use serde_json::{Value, json};

/// What a collector was sent: the head and the body of each request.
fn collector(status: &'static str) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                head.push_str(&std::mem::take(&mut line).to_lowercase());
            }
            let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{{}}");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            if tell.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (address, told)
}

/// A server with these variables.
fn serve(name: &str, variables: &[(&str, &str)]) -> Server {
    let home = home(name);
    let mut serve: Command = saggar(&home, &["serve", "--listen", "127.0.0.1:0"]);
    let serve = serve.envs(variables.iter().copied()).stdout(Stdio::null()).stderr(Stdio::piped());
    Server::of(serve.spawn().unwrap(), &home)
}

/// Attributes of a span by name, each as what it is.
fn attributes(span: &Value) -> BTreeMap<String, String> {
    let one = |pair: &Value| {
        let value = pair["value"].as_object().unwrap().values().next().unwrap();
        (pair["key"].as_str().unwrap().to_owned(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    span["attributes"].as_array().unwrap().iter().map(one).collect()
}

/// Spans until `done` has all that it wants.
fn gather(told: &Receiver<(String, Value)>, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut spans = Vec::new();
    while !done(&spans) {
        let (_, body) = told.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("no more: {spans:#?}"));
        spans.extend(body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().iter().cloned());
    }
    spans
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

#[test]
fn a_request_and_the_steps_of_its_run_are_one_trace_without_secrets() {
    let (address, told) = collector("200 OK");
    let headers = "x-collector-key=open%20sesame";
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", address.as_str()), ("OTEL_EXPORTER_OTLP_HEADERS", headers)];
    let server = serve("traces", &variables);
    let (trace, parent) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let run = json!({"code": "import sys; print('SECRET-out', sys.argv, input()); 'SECRET-code'", "args": ["SECRET-arg"],
        "stdin": "SECRET-in\n", "env": {"TOKEN": "SECRET-env"}, "files": [{"path": "SECRET-file", "text": "SECRET-text"}]});
    let more = format!("traceparent: 00-{trace}-{parent}-01\r\nx-secret: SECRET-header\r\n");
    let ran = whole(server.send(&server.key(), "POST /v1/runs?x=SECRET-query", &more, run.to_string().as_bytes()));
    assert_eq!((ran.status, ran.json()["ok"].as_bool()), (200, Some(true)), "{ran:?}");
    let unknown = server.ask("GET /v1/runs/SECRET-name", "");
    assert_eq!(unknown.status, 404);
    let compiled = server.ask("POST /v1/runs", r#"{"language": "c", "code": "int main(void) { return 3; }"}"#);
    assert_eq!(compiled.json()["outcome"]["code"], 3);
    server.ask("SECRET /SECRET-path", "");
    let spans = gather(&told, |spans| named(spans, "execute").len() == 2 && named(spans, "_OTHER unknown").len() == 1);
    // A request is a part of what its client is a part of, its run of the request, and the steps of the run.
    let request = named(&spans, "POST /v1/runs").into_iter().find(|span| span["traceId"] == trace).unwrap();
    assert_eq!((&request["parentSpanId"], &request["kind"]), (&json!(parent), &json!(2)));
    let about = attributes(request);
    assert_eq!((about["http.route"].as_str(), about["http.response.status_code"].as_str()), ("/v1/runs", "200"));
    assert_eq!(
        (about["enduser.id"].as_str(), about["saggar.request.id"].as_str()),
        ("http", ran.header("x-request-id").unwrap())
    );
    let execute = named(&spans, "execute").into_iter().find(|span| span["traceId"] == trace).unwrap();
    assert_eq!(execute["parentSpanId"], request["spanId"]);
    let about = attributes(execute);
    assert_eq!(
        (about["saggar.run.id"].as_str(), about["saggar.outcome"].as_str()),
        (ran.json()["id"].as_str().unwrap(), "exited")
    );
    let steps = |run: &Value| -> Vec<String> {
        let mut own: Vec<&Value> = spans.iter().filter(|span| span["parentSpanId"] == run["spanId"]).collect();
        let time = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u128>().unwrap();
        own.sort_by_key(|span| time(span, "startTimeUnixNano"));
        for pair in own.windows(2) {
            assert_eq!(pair[0]["endTimeUnixNano"], pair[1]["startTimeUnixNano"], "one ends where the next begins");
        }
        own.iter().map(|span| span["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(steps(execute), ["review", "admit", "wait", "acquire", "run", "collect", "record"]);
    let other = named(&spans, "execute").into_iter().find(|span| span["traceId"] != trace).unwrap();
    let all = ["review", "admit", "wait", "acquire", "compile", "acquire", "run", "collect", "record"];
    assert_eq!(steps(other), all);
    assert_eq!(attributes(other)["process.exit.code"], "3");
    let written = serde_json::to_string(&spans).unwrap();
    assert!(!written.contains("SECRET") && !written.contains(&server.key()), "{written}");
    // Somebody else's trace that is not recorded stays so; what is left is sent at the end.
    let unsampled = format!("traceparent: 00-{}-{parent}-00\r\n", "a".repeat(32));
    whole(server.send(&server.key(), "GET /v1/runs", &unsampled, b""));
    server.ask("GET /v1/usage", "");
    send(server.child.id(), Signal::TERM);
    let last = gather(&told, |spans| !named(spans, "GET /v1/usage").is_empty());
    assert!(!serde_json::to_string(&last).unwrap().contains(&"a".repeat(32)));
}

#[test]
fn a_collector_knows_who_sends_and_one_that_refuses_or_is_away_is_in_nobodys_way() {
    let (address, told) = collector("503 Service Unavailable");
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &*format!("{address}/own/path")),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-key=open%20sesame"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test"),
    ];
    let server = serve("traces-refused", &variables);
    let run = |server: &Server| server.ask("POST /v1/runs", r#"{"code": "print(1)"}"#).json()["stdout"].clone();
    assert_eq!(run(&server), "1\n");
    let (head, body) = told.recv_timeout(Duration::from_secs(30)).unwrap();
    assert!(
        head.starts_with("post /own/path http/1.1\r\n") && head.contains("x-collector-key: open sesame\r\n"),
        "{head}"
    );
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    let who = attributes(&body["resourceSpans"][0]["resource"]);
    assert_eq!((who["service.name"].as_str(), who["deployment.environment"].as_str()), ("saggar", "test"));
    assert_eq!(run(&server), "1\n");
    // Nobody listens there, or it is no address at all.
    for (name, nowhere) in [("traces-away", "http://127.0.0.1:1"), ("traces-wrong", "127.0.0.1:4318")] {
        let server = serve(name, &[("OTEL_EXPORTER_OTLP_ENDPOINT", nowhere)]);
        assert_eq!(run(&server), "1\n", "{}", text(name.as_bytes()));
    }
}
