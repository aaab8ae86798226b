//! What code shows, in E2B's words.

use std::ops::ControlFlow;

use engine::{CellOutput, Output, Stream};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use types::{Bundle, Exception};

use super::execute::{line, now};
use crate::events::whole_characters;
use crate::outlet::Outlet;

/// Forms that have a name of their own.
const FORMS: [(&str, &str); 12] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("text/latex", "latex"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
    ("e2b/data", "data"),
    ("e2b/chart", "chart"),
];

/// Tells what a cell makes, a line for each thing.
pub(super) struct Lines {
    outlet: Outlet,
    /// The start of a character whose end has not come yet.
    partial: [Vec<u8>; 2],
}

impl Lines {
    pub(super) fn new(outlet: Outlet) -> Self {
        Self { outlet, partial: [Vec::new(), Vec::new()] }
    }

    /// Another sender into the same queue.
    pub(super) fn queue(&self) -> mpsc::Sender<Vec<u8>> {
        self.outlet.queue()
    }

    fn put(&mut self, value: &Value) -> ControlFlow<()> {
        match self.outlet.put(line(value)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl Output for Lines {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> ControlFlow<()> {
        let (index, kind) = match stream {
            Stream::Out => (0, "stdout"),
            Stream::Err => (1, "stderr"),
        };
        let mut all = std::mem::take(&mut self.partial[index]);
        all.extend_from_slice(bytes);
        let whole = whole_characters(&all);
        self.partial[index] = all.split_off(whole);
        if all.is_empty() {
            return ControlFlow::Continue(());
        }
        self.put(&json!({ "type": kind, "text": String::from_utf8_lossy(&all), "timestamp": now() }))
    }
}

impl CellOutput for Lines {
    fn shown(&mut self, bundle: &Bundle, main: bool) -> ControlFlow<()> {
        self.put(&result(bundle, main))
    }

    fn raised(&mut self, exception: &Exception) -> ControlFlow<()> {
        self.put(&json!({
            "type": "error",
            "name": exception.kind,
            "value": exception.message,
            "traceback": exception.traceback,
        }))
    }
}

fn result(bundle: &Bundle, main: bool) -> Value {
    let mut told = Map::from_iter([("type".to_owned(), "result".into()), ("is_main_result".to_owned(), main.into())]);
    let mut extra = Map::new();
    for (kind, value) in bundle {
        match FORMS.iter().find(|(known, _)| known == kind) {
            Some((_, "text")) => drop(told.insert("text".to_owned(), without_quotes(value))),
            Some((_, name)) => drop(told.insert((*name).to_owned(), value.clone())),
            None => drop(extra.insert(kind.clone(), value.clone())),
        }
    }
    told.insert("extra".to_owned(), extra.into());
    told.into()
}

/// A text is told as it is, not as it would be written in code.
fn without_quotes(value: &Value) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    let inner = |mark: char| text.strip_prefix(mark)?.strip_suffix(mark);
    inner('\'').or_else(|| inner('"')).unwrap_or(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_the_names_that_clients_know() {
        let bundle = Bundle::from([
            ("text/plain".to_owned(), json!("'it's'")),
            ("image/png".to_owned(), json!("AAAA")),
            ("e2b/data".to_owned(), json!({"a": [1]})),
            ("x/y".to_owned(), json!("z")),
        ]);
        let expected = json!({
            "type": "result", "is_main_result": true, "text": "it's", "png": "AAAA", "data": {"a": [1]},
            "extra": {"x/y": "z"},
        });
        assert_eq!(result(&bundle, true), expected);
        assert_eq!(without_quotes(&json!("'")), json!("'"));
        assert_eq!(without_quotes(&json!("\"a\"")), json!("a"));
    }
}
