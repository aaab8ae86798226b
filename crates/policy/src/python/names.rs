//! What names, attributes and items stand for.

use ruff_python_ast::{self as ast, Expr};

use super::fold;
use super::reader::Reader;
use crate::rule::Shape;
use crate::value::{Space, Value, Values, below};

/// Modules that others carry along: `random._os` is `os`.
const CARRIED: &[&str] = &[
    "os",
    "sys",
    "subprocess",
    "builtins",
    "importlib",
    "ctypes",
    "shutil",
    "socket",
    "pty",
    "posix",
    "nt",
    "signal",
    "posixsubprocess",
    "pickle",
    "marshal",
    "runpy",
    "imp",
];
/// Modules that are looked for where they may have gone out of sight.
const ESCAPING: &[&str] = &["os", "posix", "subprocess", "builtins", "shutil", "pty", "importlib", "runpy"];
/// Names that mean a builtin where nothing else is bound.
const BUILTINS: &[&str] = &[
    "__import__",
    "abs",
    "all",
    "any",
    "ascii",
    "bin",
    "breakpoint",
    "callable",
    "dir",
    "divmod",
    "enumerate",
    "filter",
    "format",
    "frozenset",
    "hash",
    "hex",
    "id",
    "isinstance",
    "issubclass",
    "len",
    "max",
    "min",
    "next",
    "oct",
    "ord",
    "pow",
    "repr",
    "round",
    "set",
    "sorted",
    "sum",
    "zip",
    "bytearray",
    "bytes",
    "chr",
    "compile",
    "delattr",
    "dict",
    "eval",
    "exec",
    "exit",
    "getattr",
    "globals",
    "hasattr",
    "input",
    "iter",
    "list",
    "locals",
    "map",
    "object",
    "open",
    "print",
    "quit",
    "range",
    "reversed",
    "setattr",
    "str",
    "tuple",
    "type",
    "vars",
    "super",
];

impl Reader<'_, '_, '_> {
    /// What a bare name stands for.
    pub(super) fn name(&mut self, name: &str, at: usize) -> Values {
        let (bound, may_be_builtin) = self.scopes.find(name);
        let mut values = bound.cloned().unwrap_or_default();
        if bound.is_none() {
            let starred = self.stars.iter().filter_map(|module| below(module, name));
            let known: Vec<_> = starred.filter(|path| self.sink.knows(path)).collect();
            for path in known {
                values.add(Value::Path(path));
            }
            // `globals()["m"] = os`
            if let Some(known) = self.attributes.get(name) {
                values.join(known.clone());
            }
        }
        if may_be_builtin {
            match name {
                "__builtins__" => values.add(Value::Path("builtins".into())),
                "__loader__" | "__spec__" => values.add(Value::Path(name.into())),
                _ if BUILTINS.contains(&name) => values.add(Value::Path(format!("builtins.{name}").into())),
                _ => {}
            }
        }
        values.paths().for_each(|path| self.sink.name(path, at));
        values
    }

    /// What `object.name` stands for. `place` is where the object and where the name stand.
    pub(super) fn attribute(&mut self, object: &Values, name: &str, place: (usize, usize)) -> Values {
        self.sink.attribute(name, place.1);
        let mut values = Values::default();
        for value in object.iter() {
            match value {
                Value::Path(path) => values.join(self.attribute_of(path, name, place.0)),
                Value::Gives(_) if name == "__class__" => values.add(Value::Path("types.FunctionType".into())),
                _ => {}
            }
        }
        match name {
            "__globals__" | "f_globals" | "f_builtins" | "func_globals" => values.add(Value::Space(Space::Anyones)),
            "__builtins__" => values.add(Value::Path("builtins".into())),
            "__base__" | "__bases__" | "__mro__" if values.is_empty() => {
                values.add(Value::Path("builtins.object".into()));
            }
            "mro" if values.is_empty() => values.add(Value::Getter("__mro__".into())),
            _ => {}
        }
        if values.is_empty()
            && let Some(known) = self.attributes.get(name)
        {
            values = known.clone();
        }
        values.paths().for_each(|path| self.sink.name(path, place.0));
        self.use_of(&values, name, place.0);
        values
    }

    /// These may be anywhere from here on.
    pub(super) fn escape(&mut self, values: &Values) {
        if !values.is_empty() {
            self.escapes.out(values, ESCAPING);
        }
    }

    /// Something of this name is used; `found` is what it is known to be.
    fn use_of(&mut self, found: &Values, name: &str, at: usize) {
        let settled =
            |path: &str| !path.contains("()") && !ESCAPING.contains(&path.split('.').next().unwrap_or_default());
        if !self.sink.quiet && self.sink.may_be_critical(name) && !found.paths().any(settled) {
            self.escapes.used(name, at);
        }
    }

    fn attribute_of(&mut self, path: &str, name: &str, at: usize) -> Values {
        let Some(full) = below(path, name) else { return Values::default() };
        match (path, name) {
            // A module of which only is known that it was imported: `os`, if it has something that only `os` has.
            ("?", name) => {
                let path = below("os", name).filter(|path| self.sink.is_critical(path));
                return Values::one(Value::Path(path.unwrap_or(full)));
            }
            // A module of its own that only has that name.
            ("asyncio", "subprocess") => {
                self.sink.import("subprocess", at);
                return Values::one(Value::Path(full));
            }
            (_, "__dict__") => return Values::one(Value::Space(Space::Of(path.into()))),
            ("sys", "modules") => return Values::one(Value::Space(Space::Modules)),
            // Builtin functions know the module that they are of.
            (_, "__self__") if path.starts_with("builtins.") => return Values::path("builtins"),
            ("builtins.object", "__subclasses__") => return Values::path(&full),
            ("builtins.object" | "builtins.type()", "__class__" | "__base__" | "__bases__" | "__mro__") => {
                return Values::path("builtins.object");
            }
            _ => {}
        }
        let bare = name.trim_start_matches('_');
        let is_module = !path.contains("()") && !path.starts_with("builtins");
        if is_module && bare != path && CARRIED.contains(&bare) && !self.sink.knows(&full) && name != "signal" {
            self.sink.shape(Shape::Through, &full, at);
            self.sink.import(bare, at);
            return Values::path(bare);
        }
        Values::one(Value::Path(full))
    }

    /// What `object[key]` stands for.
    pub(super) fn item(&mut self, object: &Values, key: &Values, at: usize) -> Values {
        let mut values = object.under(key.as_text());
        for value in object.iter() {
            match value {
                Value::Text(text) => {
                    if let Some(index) = key.as_int() {
                        values.join(character(text, index));
                    }
                }
                Value::List(items) => match key.as_int().and_then(|index| pick(items, index)) {
                    Some(item) => values.add(item.clone()),
                    None => items.iter().for_each(|item| values.add(item.clone())),
                },
                Value::Space(space) => {
                    if let (Space::Of(module), None) = (space, key.as_text()) {
                        values.join(any_of(module));
                    }
                    for name in key.texts().map(str::to_owned).collect::<Vec<_>>() {
                        values.join(self.named_in(space, &name, at));
                    }
                }
                Value::Path(path) if &**path == "builtins" => {
                    let names: Vec<Value> =
                        key.texts().filter_map(|name| below("builtins", name)).map(Value::Path).collect();
                    for path in names {
                        values.add(path);
                    }
                    if key.is_empty() {
                        self.sink.shape(Shape::DynamicName, "builtins", at);
                        values.join(any_of("builtins"));
                    }
                }
                Value::Path(path) if &**path == "builtins.object" => values.add(value.clone()),
                Value::Path(_)
                | Value::Int(_)
                | Value::Range(_)
                | Value::Map(_)
                | Value::Gives(_)
                | Value::Getter(_)
                | Value::Own => {}
            }
        }
        if values.is_empty()
            && let Some(known) = key.as_text().and_then(|key| self.attributes.get(key))
        {
            values = known.clone();
        }
        values.paths().for_each(|path| self.sink.name(path, at));
        if let Some(name) = key.as_text() {
            self.use_of(&values, name, at);
        }
        values
    }

    fn named_in(&mut self, space: &Space, name: &str, at: usize) -> Values {
        match space {
            Space::Of(path) => self.attribute(&Values::path(path), name, (at, at)),
            Space::Globals => self.name(name, at),
            Space::Modules => {
                self.sink.import(name, at);
                Values::path(name)
            }
            Space::Anyones if name == "__builtins__" => Values::path("builtins"),
            Space::Anyones if BUILTINS.contains(&name) => Values::one(Value::Path(format!("builtins.{name}").into())),
            Space::Anyones => {
                self.sink.shape(Shape::Through, name, at);
                self.sink.import(name, at);
                Values::path(name)
            }
        }
    }
}

/// Something of a module that is chosen at run time, if the module has what nobody should choose so.
pub(super) fn any_of(module: &str) -> Values {
    if ESCAPING.contains(&module) { Values::path(&format!("{module}.?")) } else { Values::default() }
}

/// `"xsystem"[1:]`, where all of it is known.
pub(super) fn slice(object: &Values, slice: &Expr) -> Values {
    let Expr::Slice(slice) = slice else { return Values::default() };
    let mut whole = true;
    let mut number = |bound: &Option<Box<Expr>>| {
        let known = bound.as_deref().map(small)?;
        whole &= known.is_some();
        known
    };
    let bounds = (number(&slice.lower), number(&slice.upper), number(&slice.step));
    match object.as_text().filter(|_| whole) {
        Some(text) => fold::slice(text, bounds.0, bounds.1, bounds.2).map(Values::text).unwrap_or_default(),
        None => object.as_list().map(|items| items.iter().cloned().collect::<Values>().somewhere()).unwrap_or_default(),
    }
}

/// A number as it stands in a slice.
fn small(bound: &Expr) -> Option<i128> {
    match bound {
        Expr::NumberLiteral(ast::ExprNumberLiteral { value: ast::Number::Int(number), .. }) => {
            number.as_i64().map(i128::from)
        }
        Expr::UnaryOp(ast::ExprUnaryOp { op: ast::UnaryOp::USub, operand, .. }) if operand.is_number_literal_expr() => {
            small(operand).map(|number| -number)
        }
        _ => None,
    }
}

fn pick(items: &[Value], index: i128) -> Option<&Value> {
    let length = i128::try_from(items.len()).ok()?;
    let index = if index < 0 { index + length } else { index };
    items.get(usize::try_from(index).ok()?)
}

fn character(text: &str, index: i128) -> Values {
    let length = i128::try_from(text.chars().count()).unwrap_or(0);
    let index = if index < 0 { index + length } else { index };
    let found = usize::try_from(index).ok().and_then(|index| text.chars().nth(index));
    found.map(|c| Values::text(c.to_string())).unwrap_or_default()
}
