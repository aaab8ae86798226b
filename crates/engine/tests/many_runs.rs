//! Many runs at once are all correct, and a run ends with its caller.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::fs;
use std::sync::Arc;

use common::{bash, engine, settle};
use engine::{Caller, Delivery};
use types::Outcome;

#[tokio::test(flavor = "current_thread")]
async fn two_hundred_runs_at_once_are_all_correct() {
    let engine = engine();
    let mut tasks = Vec::new();
    for i in 0..200 {
        let engine = Arc::clone(&engine);
        tasks.push(tokio::spawn(async move {
            let mut request = bash(&format!("read word; echo $word {i} > f; cat f; exit {}", i % 7));
            request.stdin = "hello\n".to_owned();
            let result = engine.execute(&Caller::default(), request, Delivery::default()).await.unwrap();
            assert_eq!(result.outcome, Outcome::Exited { code: i % 7 }, "{i}");
            assert_eq!(result.stdout, format!("hello {i}\n"));
            assert_eq!(result.files.len(), 1, "{i}");
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_caller_who_goes_away_takes_the_run_along() {
    let engine = engine();
    let mark = "mark-dropped-future";
    let request = bash(&format!("exec -a {mark} sleep 600"));
    let caller = Caller::default();
    let run = engine.execute(&caller, request, Delivery::default());
    let seen = || {
        fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(mark.as_bytes())))
    };
    tokio::select! {
        result = run => panic!("ended: {result:?}"),
        () = async { while !seen() { tokio::task::yield_now().await } } => {}
    }
    settle(|| !seen(), "processes");
}
