//! Calls: what is called, and what it gives where that matters.

use oxc_ast::ast::{Argument, CallExpression, NewExpression};

use super::bind::start;
use super::reader::{Reader, plain};
use crate::rule::Shape;
use crate::value::{MOST_ITEMS, MOST_TEXT, Value, Values};

/// Bytes or items that are many.
const GIANT_REPEAT: i128 = 100_000_000;

impl<'a> Reader<'a, '_, '_> {
    pub(super) fn arguments(&mut self, arguments: &oxc_allocator::Vec<'a, Argument<'a>>) -> Vec<Values> {
        let mut given = Vec::new();
        for argument in arguments {
            given.push(match argument {
                Argument::SpreadElement(spread) => self.eval(&spread.argument),
                argument => argument.as_expression().map(|argument| self.eval(argument)).unwrap_or_default(),
            });
        }
        given
    }

    pub(super) fn call(&mut self, call: &CallExpression<'a>) -> Values {
        let at = start(call);
        let (called, object, method) = match call.callee.get_inner_expression().as_member_expression() {
            Some(member) => {
                let (object, name, place) = self.parts(member);
                let called = name.as_deref().map(|name| self.member(&object, name, place)).unwrap_or_default();
                if let (Some(name), None) = (&name, called.paths().next()) {
                    self.sink.method(name, place.1);
                }
                (called, object, name)
            }
            None => (self.eval(&call.callee), Values::default(), None),
        };
        let prose = called.paths().any(|path| path.starts_with("console."));
        self.prose += usize::from(prose);
        let given = self.arguments(&call.arguments);
        self.prose -= usize::from(prose);
        let first = given.first().cloned().unwrap_or_default();
        if method.as_deref() == Some("constructor") && first.as_text().is_some() {
            self.sink.shape(Shape::CodeFromText, "constructor", at);
        }
        let mut result = method.map(|method| self.of_text(&object, &method, &given, at)).unwrap_or_default();
        for path in called.paths() {
            self.sink.call(path, at);
            result.join(self.known(path, &given, at));
        }
        result
    }

    /// What a known function gives.
    pub(super) fn known(&mut self, path: &str, given: &[Values], at: usize) -> Values {
        let first = given.first().cloned().unwrap_or_default();
        match path {
            "require"
            | "process.getBuiltinModule"
            | "module.constructor._load"
            | "process.binding"
            | "module.createRequire()"
            | "process.mainModule.constructor._load" => self.load(&first, at),
            "setTimeout" | "setInterval" | "setImmediate" if first.as_text().is_some() => {
                self.sink.shape(Shape::CodeFromText, path, at);
                Values::default()
            }
            "Reflect.get" => match given.get(1).and_then(Values::as_text) {
                Some(name) => self.member(&first, name, (at, at)),
                None => Values::default(),
            },
            "Reflect.apply" | "Reflect.construct" => {
                for path in first.paths() {
                    self.sink.call(path, at);
                }
                Values::default()
            }
            "Array" | "Buffer.alloc" | "Buffer.allocUnsafe" => {
                self.check_size(first.as_int(), at);
                Values::default()
            }
            "String.fromCharCode" | "String.fromCodePoint" => {
                let code = |values: &Values| u32::try_from(values.as_int()?).ok().and_then(char::from_u32);
                let text: Option<String> = given.iter().take(MOST_TEXT).map(code).collect();
                text.map(|text| self.text(&text, at)).unwrap_or_default()
            }
            "process.exit" | "process.abort" => {
                self.exits += 1;
                Values::default()
            }
            _ if path.ends_with("()") || path.len() > 80 => Values::default(),
            _ => Values::path(&format!("{path}()")),
        }
    }

    /// Methods of texts and lists that give another known text.
    pub(super) fn of_text(&mut self, object: &Values, method: &str, given: &[Values], at: usize) -> Values {
        let first = given.first().and_then(Values::as_text);
        if let (Some(text), "repeat") = (object.as_text(), method) {
            let times = given.first().and_then(Values::as_int).unwrap_or(0);
            let length = i128::try_from(text.len()).unwrap_or(i128::MAX);
            self.check_size(Some(times.saturating_mul(length)), at);
        }
        if let (Some(items), "join") = (object.as_list(), method) {
            let texts: Option<Vec<String>> = items.iter().map(plain).collect();
            let joined = texts.map(|texts| texts.join(first.unwrap_or(",")));
            return joined.filter(|text| text.len() <= MOST_TEXT).map(|text| self.text(&text, at)).unwrap_or_default();
        }
        if let (Some(items), "reverse") = (object.as_list(), method) {
            return Values::one(Value::List(items.iter().rev().cloned().collect()));
        }
        let Some(text) = object.as_text() else { return Values::default() };
        let known = match (method, first, given.get(1).and_then(Values::as_text)) {
            ("concat", Some(more), _) if text.len() + more.len() <= MOST_TEXT => Some(format!("{text}{more}")),
            ("replace" | "replaceAll", Some(old), Some(new)) if text.len() * (new.len() + 1) <= MOST_TEXT * 8 => {
                Some(text.replace(old, new))
            }
            ("toLowerCase", ..) => Some(text.to_lowercase()),
            ("toUpperCase", ..) => Some(text.to_uppercase()),
            ("trim" | "toString", ..) => Some(text.trim().to_owned()),
            ("split", Some(""), _) => {
                let items = text.chars().take(MOST_ITEMS).map(|c| Value::Text(c.to_string().into()));
                return Values::one(Value::List(items.collect()));
            }
            _ => None,
        };
        known.filter(|text| text.len() <= MOST_TEXT).map(|text| self.text(&text, at)).unwrap_or_default()
    }

    pub(super) fn construct(&mut self, new: &NewExpression<'a>) -> Values {
        let called = self.eval(&new.callee);
        let given = self.arguments(&new.arguments);
        let at = start(new);
        let mut result = Values::default();
        for path in called.paths() {
            self.sink.call(path, at);
            result.join(self.known(path, &given, at));
        }
        result
    }

    pub(super) fn load(&mut self, name: &Values, at: usize) -> Values {
        let mut result = Values::default();
        for name in name.texts() {
            result.join(self.module(name, at));
        }
        if name.texts().next().is_none() {
            self.sink.shape(Shape::DynamicImport, "", at);
        }
        result
    }

    pub(super) fn check_size(&mut self, size: Option<i128>, at: usize) {
        if let Some(size) = size.filter(|size| *size > GIANT_REPEAT) {
            self.sink.shape(Shape::GiantRepeat, &size.to_string(), at);
        }
    }
}
