//! Texts, lists and numbers that are written down or put together.

use std::rc::Rc;

use ruff_python_ast::{self as ast, Expr, FStringPart, InterpolatedStringElement, Operator};

use super::fold;
use super::reader::Reader;
use crate::rule::Shape;
use crate::value::{MOST_ITEMS, MOST_TEXT, Value, Values};

/// Bytes or items that are many.
const GIANT_REPEAT: i128 = 100_000_000;

impl<'a> Reader<'a, '_, '_> {
    pub(super) fn list(&mut self, items: impl Iterator<Item = &'a Expr>, at: usize) -> Values {
        let mut known = Vec::new();
        let mut whole = true;
        for item in items {
            let values = self.eval(item);
            self.escape(&values);
            match values.iter().next() {
                Some(value) if known.len() < MOST_ITEMS => known.push(value.clone()),
                Some(_) => whole = false,
                None => known.push(Value::Own),
            }
            whole &= known.len() <= MOST_ITEMS;
            known.truncate(MOST_ITEMS);
        }
        let words: Option<Vec<&str>> =
            known.iter().map(|item| if let Value::Text(text) = item { Some(&**text) } else { None }).collect();
        if let Some(words) = words.filter(|words| (2..=8).contains(&words.len())) {
            // A command in pieces, as programs that start others take it.
            self.tell_command(&words.join(" "), at);
        }
        let known = Values::one(Value::List(known.into()));
        if whole { known } else { known.items().somewhere() }
    }

    pub(super) fn dictionary(&mut self, items: &'a [ast::DictItem]) -> Values {
        let mut known: Vec<(Rc<str>, Value)> = Vec::new();
        let mut others = Values::default();
        for item in items {
            let key = item.key.as_ref().map(|key| self.eval(key));
            let values = self.eval(&item.value);
            self.escape(&values);
            let name: Option<Rc<str>> = key.as_ref().and_then(Values::as_text).map(Rc::from);
            for value in values.iter() {
                match (&name, value) {
                    // `{**vars(os)}` is what it was made of.
                    (None, Value::Map(_) | Value::Space(_)) if key.is_none() => others.add(value.clone()),
                    _ if known.len() < MOST_ITEMS => known.push((name.clone().unwrap_or_default(), value.clone())),
                    _ => {}
                }
            }
        }
        if !known.is_empty() {
            others.add(Value::Map(known.into()));
        }
        others
    }

    fn tell_command(&mut self, text: &str, at: usize) {
        if crate::text::is_destructive(text) {
            self.tell_text(text, at);
        }
    }

    pub(super) fn operation(&mut self, operation: &'a ast::ExprBinOp) -> Values {
        let (left, right) = (self.eval(&operation.left), self.eval(&operation.right));
        let at = operation.range.start().to_usize();
        if operation.op == Operator::Mult {
            self.check_repeat((&operation.left, &left), &right, at);
            self.check_repeat((&operation.right, &right), &left, at);
        }
        if operation.op == Operator::Pow && fold::is_giant_power(&left, &right) {
            self.sink.shape(Shape::GiantPower, "", at);
        }
        let values = fold::operate(&left, operation.op, &right);
        if let Some(text) = values.as_text() {
            self.tell_text(text, at);
        }
        values
    }

    pub(super) fn check_repeat(&mut self, (expression, what): (&Expr, &Values), times: &Values, at: usize) {
        let Some(times) = times.as_int() else { return };
        let length = match expression {
            Expr::StringLiteral(literal) => literal.value.len(),
            Expr::BytesLiteral(literal) => literal.value.len(),
            Expr::List(list) => list.elts.len(),
            Expr::Tuple(tuple) => tuple.elts.len(),
            _ => what.as_text().map_or(0, str::len),
        };
        let length = i128::try_from(length).unwrap_or(i128::MAX);
        let size = length.saturating_mul(times);
        if size > GIANT_REPEAT {
            self.sink.shape(Shape::GiantRepeat, &shown(size), at);
        }
    }

    pub(super) fn interpolated(&mut self, literal: &'a ast::ExprFString) -> Values {
        let at = literal.range.start().to_usize();
        let mut text = Some(String::new());
        for part in &literal.value {
            match part {
                FStringPart::Literal(part) => append(&mut text, Some(&part.value)),
                FStringPart::FString(part) => {
                    for element in &part.elements {
                        self.element(element, &mut text);
                    }
                }
            }
        }
        text.map(|text| {
            self.tell_text(&text, at);
            Values::text(text)
        })
        .unwrap_or_default()
    }

    pub(super) fn element(&mut self, element: &'a InterpolatedStringElement, text: &mut Option<String>) {
        match element {
            InterpolatedStringElement::Literal(literal) => {
                self.tell_text(&literal.value, literal.range.start().to_usize());
                append(text, Some(&literal.value));
            }
            InterpolatedStringElement::Interpolation(inner) => {
                let values = self.eval(&inner.expression);
                let known = values.iter().find_map(fold::plain);
                let plain = |spec: &ast::InterpolatedStringFormatSpec| matches!(&spec.elements[..], [InterpolatedStringElement::Literal(spec)] if &*spec.value == "s");
                append(text, known.as_deref().filter(|_| inner.format_spec.as_deref().is_none_or(plain)));
                if let Some(spec) = &inner.format_spec {
                    let mut nothing = None;
                    for element in &spec.elements {
                        self.element(element, &mut nothing);
                    }
                }
            }
        }
    }

    pub(super) fn tell_text(&mut self, text: &str, at: usize) {
        if self.prose == 0 {
            self.sink.text(text, at);
        }
    }

    pub(super) fn check_size(&mut self, size: i128, at: usize) {
        if size > GIANT_REPEAT {
            self.sink.shape(Shape::GiantRepeat, &shown(size), at);
        }
    }
}

/// Adds to a text that is known so far; what is not known makes all of it unknown.
fn append(text: &mut Option<String>, more: Option<&str>) {
    match (text.as_mut(), more) {
        (Some(known), Some(more)) if known.len() + more.len() <= MOST_TEXT => known.push_str(more),
        _ => *text = None,
    }
}

pub(super) fn shown(number: i128) -> String {
    if number == i128::MAX { "more than anybody counts".to_owned() } else { number.to_string() }
}
