//! What names and properties stand for.

use oxc_ast::ast::MemberExpression;

use super::bind::start;
use super::reader::Reader;
use crate::rule::Shape;
use crate::value::{Value, Values, below};

/// Names that mean something of the platform where nothing else is bound.
const GLOBALS: &[&str] = &[
    "Array",
    "Buffer",
    "Map",
    "Set",
    "atob",
    "decodeURI",
    "decodeURIComponent",
    "structuredClone",
    "unescape",
    "Deno",
    "Bun",
    "EventSource",
    "Function",
    "Object",
    "Reflect",
    "String",
    "WebAssembly",
    "WebSocket",
    "XMLHttpRequest",
    "console",
    "eval",
    "fetch",
    "module",
    "process",
    "require",
    "setImmediate",
    "setInterval",
    "setTimeout",
];
/// The object that holds all names, by its names.
const EVERYTHING: &[&str] = &["globalThis", "global", "window", "self"];
/// Things of which a property chosen at run time is a way around every rule.
const SENSITIVE: &[&str] = &["process", "globalThis", "require", "child_process", "fs", "module", "Reflect", "vm"];

/// Modules that are looked for where they may have gone out of sight.
pub(super) const ESCAPING: &[&str] = &["child_process", "fs", "vm", "module"];
/// Modules of which nobody calls what is chosen at run time.
const CHOSEN: &[&str] = &["child_process", "vm", "module"];

/// Something of a module that is chosen at run time.
pub(super) fn any_of(object: &Values) -> Values {
    object.paths().filter(|path| CHOSEN.contains(path)).map(|path| Value::Path(format!("{path}.?").into())).collect()
}

impl<'a> Reader<'a, '_, '_> {
    pub(super) fn name(&mut self, name: &str, at: usize) -> Values {
        let (bound, may_be_global) = self.scopes.find(name);
        let mut values = bound.cloned().unwrap_or_default();
        if bound.is_none() && !self.spread.is_empty() {
            let objects = self.spread.clone();
            for object in &objects {
                values.join(self.member(object, name, (at, at)));
            }
        }
        if may_be_global {
            if GLOBALS.contains(&name) {
                values.add(Value::Path(name.into()));
            } else if EVERYTHING.contains(&name) {
                values.add(Value::Path("globalThis".into()));
            }
        }
        for path in values.paths() {
            self.sink.name(path, at);
        }
        values
    }

    pub(super) fn member_expression(&mut self, member: &MemberExpression<'a>) -> Values {
        let (object, name, at) = self.parts(member);
        match name {
            Some(name) => self.member(&object, &name, at),
            None => self.picked.take().unwrap_or_default(),
        }
    }

    /// The object, the property if it is known, and where both stand.
    pub(super) fn parts(&mut self, member: &MemberExpression<'a>) -> (Values, Option<String>, (usize, usize)) {
        let at = start(member);
        let object = self.eval(member.object());
        match member {
            MemberExpression::StaticMemberExpression(member) => {
                (object, Some(member.property.name.as_str().to_owned()), (at, start(&member.property)))
            }
            MemberExpression::ComputedMemberExpression(member) => {
                let key = self.eval(&member.expression);
                let name = key.as_text().map(str::to_owned);
                if let (None, Some(path)) = (&name, object.paths().find(|path| SENSITIVE.contains(path)))
                    && key.as_int().is_none()
                {
                    self.sink.shape(Shape::DynamicName, path, at);
                }
                if name.is_none() {
                    let item = object.as_list().and_then(|items| items.get(usize::try_from(key.as_int()?).ok()?));
                    let mut picked: Values = item.cloned().into_iter().collect();
                    picked.join(object.under(None));
                    if key.as_int().is_none() {
                        picked.join(any_of(&object));
                    }
                    self.picked = Some(picked);
                }
                (object, name, (at, at))
            }
            MemberExpression::PrivateFieldExpression(member) => {
                (object, Some(member.field.name.as_str().to_owned()), (at, at))
            }
        }
    }

    /// What `object.name` stands for.
    pub(super) fn member(&mut self, object: &Values, name: &str, (at, name_at): (usize, usize)) -> Values {
        self.sink.attribute(name, name_at);
        let mut values = object.under(Some(name));
        for path in object.paths() {
            let member: Option<std::rc::Rc<str>> = match (path, name) {
                ("globalThis", name) if EVERYTHING.contains(&name) => Some("globalThis".into()),
                ("globalThis", name) => GLOBALS.contains(&name).then(|| name.into()),
                (path, "default") => Some(path.into()),
                // A module of which only is known that it was loaded, if it has something that only this one has.
                ("?", name) => {
                    let path = below("child_process", name).filter(|path| self.sink.is_critical(path));
                    path.or_else(|| below("?", name))
                }
                ("fs", "promises") => Some("fs".into()),
                ("function" | "constructor", "constructor") => Some("Function".into()),
                // How a function is called does not change which one it is.
                (path, "call" | "apply" | "bind") if path != "Reflect" => Some(path.into()),
                (path, "require") => {
                    Some(if path.starts_with("module") || path.starts_with("process") || path.starts_with("require") {
                        "require".into()
                    } else {
                        format!("{path}.require").into()
                    })
                }
                (path, name) => below(path, name),
            };
            if let Some(member) = member {
                values.add(Value::Path(member));
            }
        }
        if values.is_empty() {
            match name {
                "constructor" => values.add(Value::Path("constructor".into())),
                name => values.join(self.properties.get(name).cloned().unwrap_or_default()),
            }
        }
        for path in values.paths() {
            self.sink.name(path, at);
        }
        let settled = |path: &str| {
            let root = path.split('.').next().unwrap_or_default();
            !path.contains("()") && root != "function" && !ESCAPING.contains(&root)
        };
        if !self.sink.quiet && self.sink.may_be_critical(name) && !values.paths().any(settled) {
            self.escapes.used(name, at);
        }
        values
    }

    /// These may be anywhere from here on.
    pub(super) fn escape(&mut self, values: &Values) {
        if !values.is_empty() {
            self.escapes.out(values, ESCAPING);
        }
    }
}
