//! Function cases in Node and TypeScript: a sandbox for each, one line of JSON in, one frame of JSON out.

use tokio::time::Instant;

use super::calls::{judge_exception, judge_value, raised};
use super::error::JudgeError;
use super::ground::{GRACE, Ground, milliseconds};
use super::link::{Heard, Link};
use super::result::{Finished, Verdict};
use super::task::{Call, Case};
use super::value::{Value, short};

/// Judges one case.
pub(crate) async fn run(ground: &Ground, case: &Case, call: &Call) -> Result<Finished, JudgeError> {
    let mut request = ground.harnessed(ground.alone(case));
    if !ground.task.setup.is_empty()
        && let Some(code) = &mut request.code
    {
        code.0.splice(0..0, format!("{}\n", ground.task.setup).into_bytes());
    }
    let order = Value::Dict(vec![
        (Value::text("entry"), Value::text(&ground.task.entry)),
        (Value::text("args"), call.args.clone()),
    ]);
    let start = Instant::now();
    let mut link = Link::open(&ground.engine, &ground.caller, request);
    link.say_all(order.to_json().into_bytes()).await;
    let heard = link.next(start + ground.time(case) + GRACE + super::IN_LINE).await;
    let result = match heard {
        Heard::Frame(_) => link.finish().await?,
        Heard::Over | Heard::Late => link.kill().await?,
    };
    ground.note(&result);
    // The sandbox's own clock: from outside, its start would count.
    let wall_ms = if result.usage.wall_ms > 0.0 { result.usage.wall_ms } else { milliseconds(start.elapsed()) };
    let by_end = ground.ended_by(&result);
    let finished = match heard {
        Heard::Late => Finished::new(Verdict::Timeout, "it did not end in time"),
        Heard::Over => by_end,
        Heard::Frame(frame) => match ground.too_late(case, &result).filter(|_| ground.by_cpu()) {
            Some(late) => late,
            None => judge_frame(case, call, &frame),
        },
    };
    Ok(Finished { wall_ms, ..finished })
}

fn judge_frame(case: &Case, call: &Call, frame: &[u8]) -> Finished {
    let answer = std::str::from_utf8(frame).ok().and_then(|text| Value::from_json(text).ok());
    let tampered = || Finished::new(Verdict::Tampered, "its answer is none of the judge's words");
    let Some(Value::Dict(pairs)) = answer else { return tampered() };
    let [(Value::Str(kind), told)] = &pairs[..] else { return tampered() };
    match (kind.as_str(), told) {
        ("value", value) => judge_value(case, call, &collections(value), &[]),
        ("raised", told) => {
            let (kinds, message, line) = exception(told);
            judge_exception(call.raises.as_ref(), &kinds, &message, &line)
        }
        ("load", told) => {
            let (kinds, message, line) = exception(told);
            raised(&kinds, &message, &line, "loading the program raised ")
        }
        ("missing", Value::Str(what)) => Finished::new(Verdict::Exception, what),
        ("unsupported", Value::Str(what)) => {
            Finished::new(Verdict::UnsupportedValue, format!("it returned {}", short(what)))
        }
        _ => tampered(),
    }
}

fn exception(told: &Value) -> (Vec<String>, String, Value) {
    let Value::Dict(pairs) = told else { return (Vec::new(), String::new(), Value::None) };
    let field = |name: &str| pairs.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value);
    let kinds = field("kinds").map(super::calls::names).unwrap_or_default();
    let message = field("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    (kinds, message, field("line").cloned().unwrap_or(Value::None))
}

/// Sets and maps, which JSON has no word for.
fn collections(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(collections).collect()),
        Value::Dict(pairs) => match &pairs[..] {
            [(Value::Str(name), Value::List(items))] if name == "$set" => {
                Value::Set(items.iter().map(collections).collect())
            }
            [(Value::Str(name), Value::List(items))] if name == "$map" => Value::Dict(
                items
                    .iter()
                    .filter_map(|item| match item {
                        Value::List(pair) => Some((collections(pair.first()?), collections(pair.get(1)?))),
                        _ => None,
                    })
                    .collect(),
            ),
            pairs => Value::Dict(pairs.iter().map(|(key, item)| (key.clone(), collections(item))).collect()),
        },
        other => other.clone(),
    }
}
