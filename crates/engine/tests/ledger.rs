//! The books: what is counted, what it costs, and who may write at once.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

#[path = "common/model_server.rs"]
mod model_server;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime};

use engine::llm::{ApiKey, ChatModel, ChatRequest, Client, Endpoint, Message, OpenAi, Patience};
use engine::usage::{Books, Call, Ledger, Price, Prices, Spent};
use model_server::{Act, ModelServer};

const KEY: &str = "sk-proj-Zq8vN3xw5RtY7uIoPa2s";

fn state(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ledger").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn client(ledger: &Arc<Ledger>, model: &str, component: &'static str, server: &ModelServer) -> Client {
    let endpoint = Endpoint::parse(&server.base_url).unwrap();
    let model = OpenAi::new(model, endpoint, ApiKey::new(KEY)).unwrap();
    let own = Price { input: 10.0, cached: None, output: 20.0 };
    let prices = Prices::new([("house-model".to_owned(), own)].into());
    let patience = Patience {
        timeout: Duration::from_secs(20),
        retries: 1,
        deadline: Duration::from_mins(1),
        backoff: Duration::from_millis(1),
    };
    Client::new(Arc::new(model), patience, Books::new(Arc::clone(ledger), component, Arc::new(prices)))
}

fn question() -> ChatRequest {
    ChatRequest { messages: vec![Message::user("hello")], ..ChatRequest::default() }
}

#[tokio::test]
async fn calls_tokens_and_costs_are_counted_by_component_and_model() {
    let ledger = Arc::new(Ledger::open(&state("counts")).unwrap());
    let server = ModelServer::start([Act::Status(500, "", String::new()), Act::Say("hi".to_owned())]);
    for (model, component) in [("gpt-4o-mini", "review"), ("house-model", "evolve"), ("nobody-knows", "evolve")] {
        let client = client(&ledger, model, component, &server);
        assert_eq!(client.chat(&question(), client.deadline()).await.unwrap().text, "hi");
    }
    let report = ledger.report(None).unwrap();
    let shown: Vec<_> = report
        .lines
        .iter()
        .map(|line| (line.component.as_str(), line.model.as_str(), line.totals.calls, line.totals.failed))
        .collect();
    assert_eq!(
        shown,
        [("evolve", "house-model", 1, 0), ("evolve", "nobody-knows", 1, 0), ("review", "gpt-4o-mini", 2, 1)]
    );
    let cost = |index: usize| report.lines[index].totals.cost_usd();
    let near = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 1e-12;
    assert!(near(cost(0), (100.0 * 10.0 + 20.0 * 20.0) / 1e6));
    assert_eq!(cost(1), None);
    assert!(near(cost(2), (60.0 * 0.15 + 40.0 * 0.075 + 20.0 * 0.60) / 1e6));
    let totals = &report.lines[2].totals;
    assert_eq!((totals.prompt_tokens, totals.cached_tokens, totals.completion_tokens), (100, 40, 20));
    // What is unknown is said, in the sum as well, and beside it what is known.
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["lines"][1]["cost_usd"], serde_json::Value::Null);
    assert_eq!((&json["total"]["cost_usd"], &json["total"]["unpriced_calls"]), (&serde_json::Value::Null, &1.into()));
    assert!((json["total"]["known_cost_usd"].as_f64().unwrap() - 0.001_424).abs() < 1e-12, "{json}");
}

#[tokio::test]
async fn an_answer_without_a_count_has_no_known_cost() {
    let ledger = Arc::new(Ledger::open(&state("uncounted")).unwrap());
    let server = ModelServer::start([Act::SayUncounted("hi".to_owned())]);
    let client = client(&ledger, "gpt-4o-mini", "review", &server);
    client.chat(&question(), client.deadline()).await.unwrap();
    assert_eq!((client.totals().calls, client.totals().cost_usd()), (1, None));
    assert_eq!(ledger.report(None).unwrap().total, client.totals());
}

#[tokio::test]
async fn a_server_that_claims_absurd_counts_does_not_break_the_sums() {
    let ledger = Arc::new(Ledger::open(&state("absurd")).unwrap());
    let server = ModelServer::start([Act::SayCounted("hi".to_owned(), u64::MAX)]);
    let client = client(&ledger, "gpt-4o-mini", "review", &server);
    for _ in 0..3 {
        client.chat(&question(), client.deadline()).await.unwrap();
    }
    assert_eq!(ledger.report(None).unwrap().total.calls, 3);
}

#[tokio::test]
async fn a_key_goes_to_the_server_and_nowhere_else() {
    let quoted = format!(r#"{{"error": {{"message": "Incorrect API key provided: {KEY}."}}}}"#);
    let masked = format!(r#"{{"error": "key {}***{} is wrong"}}"#, &KEY[..8], &KEY[KEY.len() - 6..]);
    let server = ModelServer::start([
        Act::Status(401, "", quoted),
        Act::Status(403, "", masked),
        Act::Say(format!("your key is {KEY}")),
    ]);
    let endpoint = Endpoint::parse(&server.base_url).unwrap();
    let model = OpenAi::new("m", endpoint, ApiKey::new(KEY)).unwrap();
    let mut told = vec![format!("{model:?}")];
    for _ in 0..3 {
        match model.chat(&question()).await {
            Ok(reply) => told.push(format!("{reply:?}")),
            Err(error) => told.extend([format!("{error:?}"), error.to_string(), error.hint()]),
        }
    }
    for text in told {
        assert!(!text.contains(&KEY[..8]) && !text.contains(&KEY[KEY.len() - 6..]), "{text}");
    }
    for received in server.received() {
        assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
        assert_eq!(received.target, "/v1/chat/completions");
        assert!(!received.body.to_string().contains(KEY));
    }
}

#[test]
fn a_key_is_not_sent_in_the_clear() {
    let endpoint = |url| Endpoint::parse(url).unwrap();
    assert!(OpenAi::new("m", endpoint("http://192.0.2.1/v1"), ApiKey::new(KEY)).is_err());
    assert!(OpenAi::new("m", endpoint("http://192.0.2.1/v1"), None).is_ok());
    assert!(OpenAi::new("m", endpoint("https://192.0.2.1/v1"), ApiKey::new(KEY)).is_ok());
}

#[test]
fn many_may_open_and_write_at_once_and_nothing_is_lost() {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    let state = state("many");
    let barrier = Arc::new(Barrier::new(WRITERS));
    let write = |_| {
        let (state, barrier) = (state.clone(), Arc::clone(&barrier));
        thread::spawn(move || {
            barrier.wait();
            // Each opens the file anew, as processes do.
            let books = Books::new(Arc::new(Ledger::open(&state).unwrap()), "review", Arc::default());
            for _ in 0..EACH {
                let call = Call { failure: None, spent: Spent::Nothing, wall: Duration::from_millis(1) };
                books.write("gpt-4o-mini", call).unwrap();
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(write).collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let ledger = Ledger::open(&state).unwrap();
    assert_eq!(ledger.report(None).unwrap().total.calls, (WRITERS * EACH) as u64);
    assert_eq!(ledger.report(Some(SystemTime::now() + Duration::from_mins(1))).unwrap().lines, []);
    for name in ["usage.db", "usage.db-wal"] {
        let mode = fs::metadata(state.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn books_of_a_newer_saggar_are_left_alone() {
    let state = state("newer");
    drop(Ledger::open(&state).unwrap());
    let file = rusqlite::Connection::open(state.join("usage.db")).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    let error = Ledger::open(&state).err().unwrap();
    assert!(error.to_string().contains("newer"), "{error}");
}
