//! `expected_type`: names and the usual generic types, checked on plain data.

use super::value::{Tag, Value};

/// A type as Python's annotations write it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Type {
    name: String,
    parts: Vec<Type>,
}

impl Type {
    /// `int`, `list[int]`, `dict[str, int]`, `int | None`, `Optional[int]`, `tuple[int, ...]`, a class's own name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (one, rest) = Self::union(text)?;
        rest.trim().is_empty().then_some(one)
    }

    fn union(text: &str) -> Option<(Self, &str)> {
        let (first, mut rest) = Self::one(text)?;
        let mut parts = vec![first];
        while let Some(after) = rest.trim_start().strip_prefix('|') {
            let (next, after) = Self::one(after)?;
            parts.push(next);
            rest = after;
        }
        if parts.len() == 1 {
            return Some((parts.swap_remove(0), rest));
        }
        Some((Self { name: "Union".to_owned(), parts }, rest))
    }

    fn one(text: &str) -> Option<(Self, &str)> {
        let text = text.trim_start();
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(text.len());
        let (name, mut rest) = text.split_at(end);
        if name.is_empty() {
            return None;
        }
        let name = if name == "..." { name } else { name.rsplit('.').next()? };
        let mut parts = Vec::new();
        if let Some(mut inner) = rest.trim_start().strip_prefix('[') {
            loop {
                let (part, after) = Self::union(inner)?;
                parts.push(part);
                let after = after.trim_start();
                let Some(next) = after.strip_prefix(',') else {
                    rest = after.strip_prefix(']')?;
                    break;
                };
                inner = next;
            }
        }
        Some((Self { name: name.to_owned(), parts }, rest))
    }

    /// Whether a value is of the type. `kinds` are the names of its own classes, where it has any of its own.
    pub(crate) fn holds(&self, value: &Value, kinds: &[String]) -> bool {
        let part = |index: usize| self.parts.get(index);
        let each = |items: &[Value], index: usize| part(index).is_none_or(|t| items.iter().all(|v| t.holds(v, &[])));
        match self.name.as_str() {
            "Any" | "object" => true,
            "Union" => self.parts.iter().any(|t| t.holds(value, kinds)),
            "Optional" => *value == Value::None || part(0).is_none_or(|t| t.holds(value, kinds)),
            "None" | "NoneType" => *value == Value::None,
            "bool" => matches!(value, Value::Bool(_)),
            "int" => matches!(value, Value::Int(_)),
            "float" => matches!(value, Value::Float(_)),
            "complex" => matches!(value, Value::Complex(..)),
            "str" => matches!(value, Value::Str(_)),
            "bytes" => matches!(value, Value::Bytes(_)),
            "list" | "List" => matches!(value, Value::List(items) if each(items, 0)),
            "set" | "Set" => matches!(value, Value::Set(items) if each(items, 0)),
            "frozenset" | "FrozenSet" => matches!(value, Value::FrozenSet(items) if each(items, 0)),
            "Sequence" | "Iterable" | "Collection" => {
                matches!(value, Value::List(items) | Value::Tuple(items) if each(items, 0))
            }
            "dict" | "Dict" | "Mapping" => matches!(value, Value::Dict(pairs) if pairs.iter().all(|(key, item)| {
                part(0).is_none_or(|t| t.holds(key, &[])) && part(1).is_none_or(|t| t.holds(item, &[]))
            })),
            "tuple" | "Tuple" => self.holds_tuple(value),
            "Decimal" => matches!(value, Value::Tagged(Tag::Decimal, _)),
            "Fraction" => matches!(value, Value::Tagged(Tag::Fraction, _)),
            "ndarray" => matches!(value, Value::Tagged(Tag::Array, _)),
            "DataFrame" => matches!(value, Value::Tagged(Tag::Frame, _)),
            name => value.type_name() == name || kinds.iter().any(|kind| kind == name),
        }
    }

    fn holds_tuple(&self, value: &Value) -> bool {
        let items = match value {
            Value::Tuple(items) => items,
            // A named tuple is a tuple.
            Value::Tagged(Tag::Record, words) => {
                return self.parts.is_empty() && words.get(1).and_then(Value::as_str) == Some("namedtuple");
            }
            _ => return false,
        };
        match &self.parts[..] {
            [] => true,
            [one, dots] if dots.name == "..." => items.iter().all(|item| one.holds(item, &[])),
            parts => parts.len() == items.len() && parts.iter().zip(items).all(|(t, item)| t.holds(item, &[])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_hold_for_what_they_name_and_nothing_else() {
        for (text, literal, holds) in [
            ("int", "3", true),
            ("int", "True", false),
            ("int", "3.0", false),
            ("list[int]", "[1, 2]", true),
            ("list[int]", "[1, 'a']", false),
            ("List[List[str]]", "[['a'], []]", true),
            ("dict[str, list[float]]", "{'a': [1.5]}", true),
            ("tuple[int, str]", "(1, 'a')", true),
            ("tuple[int, ...]", "(1, 2, 3)", true),
            ("tuple", "[1]", false),
            ("Optional[int]", "None", true),
            ("int | None", "None", true),
            ("int | None", "'x'", false),
            ("typing.Any", "'x'", true),
        ] {
            let value = Value::from_python(literal).unwrap();
            assert_eq!(Type::parse(text).unwrap().holds(&value, &[]), holds, "{text} {literal}");
        }
        assert!(["", "list[", "list[int", "int]", "1+1", "f(x)"].iter().all(|text| Type::parse(text).is_none()));
        assert!(Type::parse("Point").unwrap().holds(&Value::None, &["Point".to_owned()]));
    }
}
