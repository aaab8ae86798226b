//! `/metrics`: what was counted, in the text form of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use engine::{BOUNDS, Counts, Gauges, Histogram};

use crate::http::Shared;

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/metrics", get(metrics))
}

/// Answers by their status.
#[derive(Default)]
pub(crate) struct Answers(Mutex<BTreeMap<u16, u64>>);

impl Answers {
    pub(crate) fn count(&self, status: StatusCode) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(status.as_u16()).or_default() += 1;
    }

    fn all(&self) -> BTreeMap<u16, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let mut text = page(&shared.engine.metrics().counts(), shared.engine.gauges(), &shared.answers.all(), memory());
    text.push_str(&jobs(&shared.jobs.counts()));
    text.push_str(&connections(&[("tcp", shared.by_tcp.counts()), ("socket", shared.by_socket.counts())]));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// Bytes of this process that are in memory.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    resident.unwrap_or(0_u64) << 10
}

fn page(counts: &Counts, now: Gauges, answers: &BTreeMap<u16, u64>, memory: u64) -> String {
    let mut page = Page(String::new());
    page.family("saggar_runs_total", "counter", "Runs that have ended, by outcome.");
    for ((outcome, limit), count) in &counts.runs {
        let labels = format!("outcome=\"{outcome}\"");
        let labels = if limit.is_empty() { labels } else { format!("{labels},limit=\"{limit}\"") };
        page.line("saggar_runs_total", &labels, count);
    }
    page.family("saggar_errors_total", "counter", "Requests that came to no result, by the error's code.");
    for (code, count) in &counts.errors {
        page.line("saggar_errors_total", &format!("code=\"{code}\""), count);
    }
    page.family("saggar_refusals_total", "counter", "Requests that were refused: by the policy, or for now.");
    let refused = |outcome: &'static str| counts.runs.get(&(outcome, "")).copied().unwrap_or(0);
    let turned_away = |code: &str| counts.errors.get(code).copied().unwrap_or(0);
    let reasons =
        [("policy", refused("refused")), ("rate_limited", turned_away("rate_limited")), ("busy", turned_away("busy"))];
    for (reason, count) in reasons {
        page.line("saggar_refusals_total", &format!("reason=\"{reason}\""), count);
    }
    page.family("saggar_run_seconds", "histogram", "From the request to its answer, for runs that were started.");
    page.histogram("saggar_run_seconds", "start=\"warm\"", &counts.warm);
    page.histogram("saggar_run_seconds", "start=\"cold\"", &counts.cold);
    page.family("saggar_queue_seconds", "histogram", "Time in line before a run.");
    page.histogram("saggar_queue_seconds", "", &counts.queued);
    page.family("saggar_judged_total", "counter", "Judged tasks.");
    for (end, count) in &counts.judged {
        page.line("saggar_judged_total", &format!("result=\"{end}\""), count);
    }
    page.single("saggar_run_cpu_seconds_total", "counter", "Processor time of all runs.", counts.cpu_seconds);
    page.single("saggar_underway", "gauge", "Requests under way, in line or running.", counts.underway);
    page.single("saggar_running", "gauge", "Runs that hold a place.", now.running);
    page.single("saggar_places", "gauge", "Places for runs.", now.places);
    page.single("saggar_queue_length", "gauge", "Runs in line.", now.waiting);
    page.single("saggar_pool_ready", "gauge", "Sandboxes that wait for a run.", now.ready);
    page.single("saggar_sessions", "gauge", "Sessions that live.", now.sessions);
    let sandboxes = now.running + now.ready + now.sessions;
    page.single("saggar_sandboxes", "gauge", "Sandboxes: running, ready and of sessions.", sandboxes);
    page.single("saggar_memory_bytes", "gauge", "Resident memory of the server.", memory);
    page.family("saggar_http_answers_total", "counter", "Answers over HTTP, by status.");
    for (status, count) in answers {
        page.line("saggar_http_answers_total", &format!("status=\"{status}\""), count);
    }
    page.0
}

/// Work that takes long.
fn jobs(counts: &crate::jobs::Counts) -> String {
    let mut page = Page(String::new());
    page.family("saggar_jobs", "gauge", "Jobs that wait or are worked on.");
    for (state, count) in [("queued", counts.queued), ("running", counts.running)] {
        page.line("saggar_jobs", &format!("state=\"{state}\""), count);
    }
    page.family("saggar_jobs_total", "counter", "Jobs that have ended, by kind and how.");
    for ((kind, state), count) in &counts.ended {
        page.line("saggar_jobs_total", &format!("kind=\"{kind}\",state=\"{state}\""), count);
    }
    page.0
}

/// Of each way in: open ones, those that made room for others, and those that found none.
fn connections(ways: &[(&str, [u64; 3])]) -> String {
    let mut page = Page(String::new());
    let families = [
        ("saggar_connections", "gauge", "Connections that are open."),
        ("saggar_connections_closed_total", "counter", "Idle connections that made room for others."),
        ("saggar_connections_refused_total", "counter", "Connections for which there was no room."),
    ];
    for (index, (name, kind, help)) in families.into_iter().enumerate() {
        page.family(name, kind, help);
        for (way, counts) in ways {
            page.line(name, &format!("way=\"{way}\""), counts[index]);
        }
    }
    page.0
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.line(name, "", value);
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        if labels.is_empty() {
            self.put(format_args!("{name} {value}\n"));
        } else {
            self.put(format_args!("{name}{{{labels}}} {value}\n"));
        }
    }

    fn histogram(&mut self, name: &str, labels: &str, times: &Histogram) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut so_far = 0;
        for (bound, count) in BOUNDS.iter().zip(times.buckets) {
            so_far += count;
            self.put(format_args!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {so_far}\n"));
        }
        self.put(format_args!("{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}\n", times.count()));
        self.line(&format!("{name}_sum"), labels, times.seconds);
        self.line(&format!("{name}_count"), labels, times.count());
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing into memory does not fail.
        let _ = self.0.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_a_type_and_a_number() {
        let mut counts = Counts::default();
        counts.runs.insert(("limit_exceeded", "memory"), 2);
        counts.errors.insert("rate_limited".to_owned(), 3);
        counts.warm.buckets[1] = 4;
        let text = page(&counts, Gauges::default(), &BTreeMap::from([(200, 7)]), 1 << 20)
            + &connections(&[("tcp", [5, 2, 1])]);
        for line in [
            "saggar_runs_total{outcome=\"limit_exceeded\",limit=\"memory\"} 2",
            "saggar_refusals_total{reason=\"rate_limited\"} 3",
            "saggar_run_seconds_bucket{start=\"warm\",le=\"0.001\"} 0",
            "saggar_run_seconds_bucket{start=\"warm\",le=\"0.002\"} 4",
            "saggar_run_seconds_bucket{start=\"warm\",le=\"+Inf\"} 4",
            "saggar_run_seconds_count{start=\"cold\"} 0",
            "saggar_queue_seconds_bucket{le=\"60\"} 0",
            "saggar_http_answers_total{status=\"200\"} 7",
            "saggar_memory_bytes 1048576",
            "saggar_connections_closed_total{way=\"tcp\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let mut typed = std::collections::BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                typed.insert(rest.split(' ').next().unwrap().to_owned());
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
                let name = series.split('{').next().unwrap();
                let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                assert!(typed.contains(base) || typed.contains(name), "{line}");
            }
        }
    }
}
