//! Calls that stand for values: `Decimal('1')`, `set()`, `float('nan')`.

use super::{Int, Tag, Value};

/// What the usual constructors make of literals.
pub(super) fn construct(name: &str, arguments: &[Value]) -> Option<Value> {
    let numbers = || arguments.iter().map(Value::as_int).collect::<Option<Vec<i64>>>();
    let only = || if let [one] = arguments { Some(one.clone()) } else { None };
    let items = || match arguments {
        [] => Some(Vec::new()),
        [Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items)] => Some(items.clone()),
        _ => None,
    };
    match name {
        "set" => Some(Value::Set(items()?)),
        "frozenset" => Some(Value::FrozenSet(items()?)),
        "list" | "deque" => Some(Value::List(items()?)),
        "tuple" => Some(Value::Tuple(items()?)),
        "dict" if arguments.is_empty() => Some(Value::Dict(Vec::new())),
        "dict" | "OrderedDict" | "Counter" => only().filter(|value| matches!(value, Value::Dict(_))),
        "bytearray" => only().filter(|value| matches!(value, Value::Bytes(_))),
        "float" => match only()? {
            Value::Str(text) => text.trim().parse().ok().map(Value::Float),
            Value::Int(int) => Some(Value::Float(int.to_float())),
            value @ Value::Float(_) => Some(value),
            _ => None,
        },
        "complex" => match arguments {
            [Value::Float(real), Value::Float(imaginary)] => Some(Value::Complex(*real, *imaginary)),
            [Value::Int(real), Value::Int(imaginary)] => Some(Value::Complex(real.to_float(), imaginary.to_float())),
            _ => None,
        },
        "Decimal" => match only()? {
            value @ Value::Str(_) => Some(Value::Tagged(Tag::Decimal, vec![value])),
            Value::Int(int) => Some(Value::Tagged(Tag::Decimal, vec![Value::Str(int.to_string())])),
            _ => None,
        },
        "Fraction" => match arguments {
            [numerator @ Value::Int(_)] => Some(Value::Tagged(Tag::Fraction, vec![numerator.clone(), Value::int(1)])),
            [Value::Int(Int::Small(over)), Value::Int(Int::Small(under))] => fraction(*over, *under),
            _ => None,
        },
        "range" => {
            let (start, stop, step) = match numbers()?[..] {
                [stop] => (0, stop, 1),
                [start, stop] => (start, stop, 1),
                [start, stop, step] if step != 0 => (start, stop, step),
                _ => return None,
            };
            Some(Value::Tagged(Tag::Range, [start, stop, step].map(Value::int).to_vec()))
        }
        "date" => moment(Tag::Date, &numbers()?),
        "time" => moment(Tag::Time, &numbers()?),
        "datetime" => moment(Tag::DateTime, &numbers()?),
        "timedelta" => {
            let mut parts = numbers()?;
            parts.resize(3, 0);
            Some(Value::Tagged(Tag::TimeDelta, parts.into_iter().map(Value::int).collect()))
        }
        _ => None,
    }
}

fn fraction(over: i64, under: i64) -> Option<Value> {
    let (mut a, mut b) = (over.unsigned_abs(), under.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let divisor = i64::try_from(a).ok().filter(|_| under != 0)?;
    let sign = if under < 0 { -1 } else { 1 };
    Some(Value::Tagged(Tag::Fraction, vec![Value::int(sign * over / divisor), Value::int(sign * under / divisor)]))
}

/// As `isoformat` writes it.
fn moment(tag: Tag, parts: &[i64]) -> Option<Value> {
    let date = |p: &[i64]| format!("{:04}-{:02}-{:02}", p[0], p[1], p[2]);
    let time = |p: &[i64]| {
        let at = |i: usize| p.get(i).copied().unwrap_or(0);
        let micros = if at(3) > 0 { format!(".{:06}", at(3)) } else { String::new() };
        format!("{:02}:{:02}:{:02}{micros}", at(0), at(1), at(2))
    };
    let text = match tag {
        Tag::Date if parts.len() == 3 => date(parts),
        Tag::Time => time(parts),
        Tag::DateTime if parts.len() >= 3 => format!("{}T{}", date(parts), time(&parts[3..])),
        _ => return None,
    };
    Some(Value::Tagged(tag, vec![Value::Str(text)]))
}
