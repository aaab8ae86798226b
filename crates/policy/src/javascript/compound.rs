//! Expressions that are made of others: objects, assignments, tagged templates.

use std::rc::Rc;

use oxc_ast::ast::{
    ArrayExpressionElement, AssignmentExpression, ObjectExpression, ObjectPropertyKind, PropertyKey,
    TaggedTemplateExpression,
};
use oxc_syntax::operator::{AssignmentOperator, BinaryOperator};

use super::bind::start;
use super::reader::{Reader, plain};
use crate::value::{MOST_ITEMS, MOST_TEXT, Value, Values};

impl<'a> Reader<'a, '_, '_> {
    pub(super) fn assignment(&mut self, assignment: &AssignmentExpression<'a>) -> Values {
        let at = start(assignment);
        let right = self.eval(&assignment.right);
        let values = match (assignment.operator, assignment.left.get_identifier_name()) {
            (AssignmentOperator::Addition, Some(name)) => {
                let left = self.name(name, at);
                self.operate(&left, BinaryOperator::Addition, &right, at)
            }
            (
                AssignmentOperator::Assign
                | AssignmentOperator::LogicalNullish
                | AssignmentOperator::LogicalOr
                | AssignmentOperator::LogicalAnd,
                _,
            ) => right,
            _ => Values::default(),
        };
        self.assign(&assignment.left, &values);
        values
    }

    pub(super) fn tagged(&mut self, tagged: &TaggedTemplateExpression<'a>) -> Values {
        let tag = self.eval(&tagged.tag);
        let text = self.template(&tagged.quasi);
        for path in tag.paths() {
            self.sink.call(path, start(tagged));
        }
        if tag.paths().any(|path| path == "String.raw") { text } else { tag.given() }
    }

    pub(super) fn object(&mut self, object: &ObjectExpression<'a>) -> Values {
        let mut known: Vec<(Rc<str>, Value)> = Vec::new();
        let mut others = Values::default();
        for property in &object.properties {
            match property {
                ObjectPropertyKind::ObjectProperty(property) => {
                    let name: Rc<str> = match &property.key {
                        PropertyKey::StaticIdentifier(name) => name.name.as_str().into(),
                        PropertyKey::PrivateIdentifier(_) => "".into(),
                        key => {
                            let key = key.as_expression().map(|key| self.eval(key)).unwrap_or_default();
                            key.as_text().unwrap_or_default().into()
                        }
                    };
                    let values = self.eval(&property.value);
                    self.escape(&values);
                    let known_values = values.iter().cloned().chain(values.is_empty().then_some(Value::Own));
                    known.extend(
                        known_values.take(MOST_ITEMS.saturating_sub(known.len())).map(|value| (name.clone(), value)),
                    );
                }
                // A copy has what the original has.
                ObjectPropertyKind::SpreadProperty(spread) => others.join(self.eval(&spread.argument)),
            }
        }
        if !known.is_empty() {
            others.add(Value::Map(known.into()));
        }
        others
    }

    pub(super) fn array(&mut self, elements: &oxc_allocator::Vec<'a, ArrayExpressionElement<'a>>) -> Values {
        let mut items = Vec::new();
        for element in elements {
            let values = match element {
                ArrayExpressionElement::SpreadElement(spread) => {
                    let values = self.eval(&spread.argument);
                    if let Some(text) = values.as_text() {
                        items.extend(text.chars().take(MOST_ITEMS).map(|c| Value::Text(c.to_string().into())));
                        continue;
                    }
                    if let Some(spread) = values.as_list() {
                        items.extend(spread.iter().take(MOST_ITEMS).cloned());
                        continue;
                    }
                    values
                }
                ArrayExpressionElement::Elision(_) => Values::default(),
                element => element.as_expression().map(|element| self.eval(element)).unwrap_or_default(),
            };
            self.escape(&values);
            if items.len() <= MOST_ITEMS {
                items.push(values.iter().next().cloned().unwrap_or(Value::Own));
            }
        }
        if items.len() <= MOST_ITEMS { Values::one(Value::List(items.into())) } else { Values::default() }
    }

    pub(super) fn operate(&mut self, left: &Values, operator: BinaryOperator, right: &Values, at: usize) -> Values {
        match (operator, left.as_int(), right.as_int()) {
            (BinaryOperator::Multiplication, Some(a), Some(b)) => Values::one(Value::Int(a.saturating_mul(b))),
            (BinaryOperator::Exponential, Some(a), Some(b)) => {
                u32::try_from(b).map(|b| Values::one(Value::Int(a.saturating_pow(b)))).unwrap_or_default()
            }
            (BinaryOperator::Addition, Some(a), Some(b)) => Values::one(Value::Int(a.saturating_add(b))),
            (BinaryOperator::Addition, ..) => {
                let (a, b) = (left.iter().find_map(plain), right.iter().find_map(plain));
                match (a, b) {
                    (Some(a), Some(b)) if a.len() + b.len() <= MOST_TEXT => self.text(&format!("{a}{b}"), at),
                    _ => Values::default(),
                }
            }
            _ => Values::default(),
        }
    }
}
