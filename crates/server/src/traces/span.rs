//! Spans in the form of OTLP's JSON. Only what is named here is in them.

use std::time::{Duration, SystemTime};

use engine::{Facts, Trace, Watched};
use serde_json::{Value, json};
use types::Outcome;

use crate::keys::random_hex;

/// Whose side of a call a span is.
pub(super) const INTERNAL: u8 = 1;
pub(super) const SERVER: u8 = 2;

/// Something that took time.
pub(super) struct Span {
    pub(super) own: Trace,
    /// The span that it is a part of.
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    pub(super) kind: u8,
    pub(super) begun: SystemTime,
    pub(super) took: Duration,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// Whether it failed by our fault.
    pub(super) failed: bool,
}

impl Span {
    pub(super) fn json(&self) -> Value {
        let since = self.begun.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let attributes: Vec<Value> = self.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
        let mut span = json!({
            "traceId": format!("{:032x}", self.own.id),
            "spanId": format!("{:016x}", self.own.span),
            "name": self.name,
            "kind": self.kind,
            // Numbers of 64 bits are texts in the JSON of protocol buffers.
            "startTimeUnixNano": since.as_nanos().to_string(),
            "endTimeUnixNano": (since + self.took).as_nanos().to_string(),
            "attributes": attributes,
            "status": if self.failed { json!({ "code": 2 }) } else { json!({}) },
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = format!("{parent:016x}").into();
        }
        span
    }
}

pub(super) fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": name, "value": value })
}

/// A run and its steps; a trace of its own, if nobody knows what it is a part of.
pub(super) fn of_run(watched: &Watched<'_>) -> Vec<Span> {
    let parent = watched.caller.trace;
    let own = Trace { id: parent.map_or_else(new_trace, |trace| trace.id), span: new_span() };
    let mut attributes = vec![("enduser.id", Value::from(watched.caller.name.clone()))];
    let failed = match &watched.end {
        Some(Ok(facts)) => {
            attributes.extend(told(facts));
            false
        }
        Some(Err(code)) => {
            attributes.push(("error.type", serde_json::to_value(code).unwrap_or_default()));
            crate::error::is_ours(*code)
        }
        None => {
            attributes.push(("saggar.outcome", "abandoned".into()));
            false
        }
    };
    let mut spans = Vec::with_capacity(watched.steps.len() + 1);
    for (index, (step, begun)) in watched.steps.iter().enumerate() {
        let ended = watched.steps.get(index + 1).map_or(watched.took, |(_, next)| *next);
        spans.push(Span {
            own: Trace { id: own.id, span: new_span() },
            parent: Some(own.span),
            name: step.name().to_owned(),
            kind: INTERNAL,
            begun: watched.begun + *begun,
            took: ended.saturating_sub(*begun),
            attributes: Vec::new(),
            failed: false,
        });
    }
    let (begun, took) = (watched.begun, watched.took);
    let parent = parent.map(|trace| trace.span);
    spans.push(Span { own, parent, name: "execute".to_owned(), kind: INTERNAL, begun, took, attributes, failed });
    spans
}

fn told(facts: &Facts) -> Vec<(&'static str, Value)> {
    let Facts { id, outcome, language, backend, start } = facts;
    let mut told = vec![
        ("saggar.run.id", id.as_str().into()),
        ("saggar.outcome", outcome.name().into()),
        ("saggar.backend", (*backend).into()),
        ("saggar.start", serde_json::to_value(start).unwrap_or_default()),
    ];
    told.extend(language.as_ref().map(|language| ("saggar.language", language.as_str().into())));
    match outcome {
        Outcome::LimitExceeded { limit } => told.push(("saggar.limit", limit.name().into())),
        Outcome::Exited { code } => told.push(("process.exit.code", (*code).into())),
        Outcome::Signaled { .. } | Outcome::Refused { .. } | Outcome::Cancelled => {}
    }
    told
}

pub(super) fn new_trace() -> u128 {
    u128::from_str_radix(&random_hex::<32>(), 16).unwrap_or(1).max(1)
}

pub(super) fn new_span() -> u64 {
    u64::from_str_radix(&random_hex::<16>(), 16).unwrap_or(1).max(1)
}

/// `traceparent`, as the W3C has it: what a request is a part of, and whether that is recorded.
pub(super) fn of_header(text: &str) -> Option<(Trace, bool)> {
    let mut parts = text.trim().split('-');
    let (version, id, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    // Later versions may have more behind it; the first has nothing, and 255 is none.
    let fits = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
    if !fits || !is_hex(id, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
        return None;
    }
    let id = u128::from_str_radix(id, 16).ok().filter(|id| *id != 0)?;
    let span = u64::from_str_radix(span, 16).ok().filter(|span| *span != 0)?;
    Some((Trace { id, span }, u8::from_str_radix(flags, 16).ok()? & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_taken_only_in_the_form_of_the_standard() {
        let (id, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let (trace, recorded) = of_header(&format!("00-{id}-{span}-01")).unwrap();
        assert_eq!(
            (format!("{:032x}", trace.id), format!("{:016x}", trace.span), recorded),
            (id.into(), span.into(), true)
        );
        assert_eq!(of_header(&format!("00-{id}-{span}-00")).map(|(_, recorded)| recorded), Some(false));
        assert!(of_header(&format!("cc-{id}-{span}-01-more")).is_some());
        let zeros = "0".repeat(32);
        for wrong in [
            "",
            "00",
            &format!("00-{id}-{span}"),
            &format!("00-{id}-{span}-01-more"),
            &format!("ff-{id}-{span}-01"),
            &format!("00-{zeros}-{span}-01"),
            &format!("00-{id}-0000000000000000-01"),
            &format!("00-{}-{span}-01", id.to_uppercase()),
            &format!("00-{id}-{span}-1"),
            &format!("00-+bf92f3577b34da6a3ce929d0e0e4736-{span}-01"),
        ] {
            assert_eq!(of_header(wrong), None, "{wrong}");
        }
    }
}
