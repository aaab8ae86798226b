//! Calls: what is called, and what it gives where that matters.

use ruff_python_ast::{self as ast, Expr};
use ruff_text_size::Ranged;

use super::fold;
use super::names::any_of;
use super::reader::Reader;
use crate::rule::Shape;
use crate::text::is_system_path;
use crate::value::{Space, Value, Values};

/// Modules of which an attribute chosen at run time is a way around every rule.
const SENSITIVE: &[&str] =
    &["builtins", "os", "sys", "subprocess", "importlib", "shutil", "ctypes", "posix", "socket", "pty"];
/// They print: what they are given is for people.
const PROSE: &[&str] =
    &["builtins.print", "builtins.input", "logging.info", "logging.debug", "logging.warning", "logging.error"];
/// They give numbers and texts.
const PLAIN: &[&str] = &[
    "builtins.abs",
    "builtins.all",
    "builtins.any",
    "builtins.ascii",
    "builtins.bin",
    "builtins.callable",
    "builtins.divmod",
    "builtins.filter",
    "builtins.format",
    "builtins.frozenset",
    "builtins.hash",
    "builtins.hex",
    "builtins.id",
    "builtins.isinstance",
    "builtins.issubclass",
    "builtins.len",
    "builtins.max",
    "builtins.min",
    "builtins.oct",
    "builtins.ord",
    "builtins.pow",
    "builtins.repr",
    "builtins.round",
    "builtins.sum",
];
/// They end the program.
const ENDS: &[&str] = &["sys.exit", "os._exit", "builtins.exit", "builtins.quit", "os.abort"];

/// What a call is given.
pub(super) struct Given {
    pub(super) positional: Vec<Values>,
    pub(super) named: Vec<(String, Values)>,
}

impl Given {
    pub(super) fn get(&self, place: usize, name: &str) -> Option<&Values> {
        self.positional.get(place).or_else(|| self.named.iter().find(|(n, _)| n == name).map(|(_, values)| values))
    }

    pub(super) fn text(&self, place: usize) -> Option<&str> {
        self.positional.get(place).and_then(Values::as_text)
    }

    pub(super) fn int(&self, place: usize) -> Option<i128> {
        self.positional.get(place).and_then(Values::as_int)
    }
}

impl<'a> Reader<'a, '_, '_> {
    pub(super) fn call(&mut self, call: &'a ast::ExprCall) -> Values {
        let at = call.range().start().to_usize();
        // A method needs its object as well as itself.
        let (object, name, called) = match &*call.func {
            Expr::Attribute(attribute) => {
                let object = self.eval(&attribute.value);
                let name = attribute.attr.as_str();
                let place = (at, attribute.attr.range.start().to_usize());
                let called = self.attribute(&object, name, place);
                if called.paths().all(|path| path.contains("()") && !self.sink.knows(path)) {
                    self.sink.method(name, place.1);
                }
                (object, Some(name), called)
            }
            Expr::Lambda(lambda) => {
                let given = self.given(&call.arguments);
                return self.lambda(lambda, &given.positional).given();
            }
            function => (Values::default(), None, self.eval(function)),
        };
        let prose = called.paths().any(|path| PROSE.contains(&path));
        self.prose += usize::from(prose);
        let given = self.given(&call.arguments);
        self.prose -= usize::from(prose);
        self.hand_over(&called, name, &given);
        let mut result = called.given();
        if let Some(name) = name {
            result.join(self.method(&object, name, &given, call));
            self.put_in(name, &given, &call.func);
        }
        for value in called.iter() {
            match value {
                Value::Path(path) => {
                    self.sink.call(path, at);
                    if let Some(module) = path.strip_suffix(".?") {
                        self.sink.shape(Shape::DynamicCall, module, at);
                    }
                    result.join(self.known(path, &given, call));
                }
                Value::Getter(name) => {
                    let mut object = given.positional.first().cloned().unwrap_or_default();
                    if object.iter().any(|value| matches!(value, Value::Space(_) | Value::Map(_))) {
                        object = self.item(&object, &Values::text(name.to_string()), at);
                    } else {
                        for part in name.split('.').take(8) {
                            object = self.attribute(&object, part, (at, at));
                        }
                    }
                    result.join(object);
                }
                Value::Text(_)
                | Value::Int(_)
                | Value::Range(_)
                | Value::List(_)
                | Value::Map(_)
                | Value::Gives(_)
                | Value::Space(_)
                | Value::Own => {}
            }
        }
        if let Some(text) = result.as_text() {
            self.tell_text(text, at);
        }
        result
    }

    fn given(&mut self, arguments: &'a ast::Arguments) -> Given {
        let positional = arguments.args.iter().map(|argument| self.eval(argument)).collect();
        let mut named = Vec::new();
        for keyword in &arguments.keywords {
            let values = self.eval(&keyword.value);
            if let Some(name) = &keyword.arg {
                named.push((name.as_str().to_owned(), values));
            }
        }
        Given { positional, named }
    }

    /// What is given to a function that is not known, or that keeps it, may come out anywhere.
    fn hand_over(&mut self, called: &Values, method: Option<&str>, given: &Given) {
        // They only look at it, or put something in its place for a test.
        const LOOK: &[&str] = &[
            "builtins.",
            "inspect.",
            "unittest.",
            "mock.",
            "pytest.",
            "pprint.",
            "logging.",
            "typing.",
            "importlib.",
            "os.",
            "sys.",
            "operator.",
            "types.",
        ];
        let looks = |path: &str| path != "inspect.getmembers" && LOOK.iter().any(|start| path.starts_with(start));
        let patches = matches!(method, Some("setattr" | "delattr" | "object" | "patch"));
        if patches || called.paths().any(looks) {
            return;
        }
        for values in given.positional.iter().chain(given.named.iter().map(|(_, values)| values)) {
            self.escape(values);
        }
    }

    /// `x.append(os)`, `x.update(m=os)`: what is put into something may be found in it.
    fn put_in(&mut self, name: &str, given: &Given, function: &'a Expr) {
        if !matches!(name, "append" | "add" | "insert" | "appendleft" | "extend" | "update" | "setdefault" | "put") {
            return;
        }
        for (name, values) in &given.named {
            self.remember(name, values);
        }
        let Expr::Attribute(ast::ExprAttribute { value, .. }) = function else { return };
        if let (Expr::Name(object), Some(last)) = (&**value, given.positional.last()) {
            let mut values = last.somewhere();
            values.join(last.items().somewhere());
            self.scopes.amend(object.id.as_str(), values);
        }
    }

    /// Methods of texts and of dictionaries of names.
    fn method(&mut self, object: &Values, name: &str, given: &Given, call: &'a ast::ExprCall) -> Values {
        let at = call.range().start().to_usize();
        let mut result = Values::default();
        for value in object.iter() {
            match value {
                Value::Text(text) => result.join(fold::method(text, name, &given.positional, &given.named)),
                Value::Space(_) | Value::Map(_) if name == "copy" => result.add(value.clone()),
                Value::Map(items) if name == "items" => {
                    let pair = |(key, value): &(std::rc::Rc<str>, Value)| {
                        Value::List([Value::Text(key.clone()), value.clone()].into())
                    };
                    result.add(Value::List(items.iter().map(pair).collect()));
                }
                Value::Map(_) | Value::List(_) if matches!(name, "values" | "pop" | "popleft") => {
                    let key = given.positional.first().and_then(Values::as_text);
                    let object = Values::one(value.clone());
                    let found = if key.is_some() { object.under(key) } else { object.items() };
                    result.join(if name == "values" { found.somewhere() } else { found });
                }
                Value::Path(path) if &**path == "pathlib.Path()" && name == "joinpath" => {
                    let parts = given.positional.iter().map(Values::as_text);
                    let whole: Option<Vec<&str>> = std::iter::once(object.as_text()).chain(parts).collect();
                    result.add(value.clone());
                    result.join(whole.map(|parts| Values::text(parts.join("/"))).unwrap_or_default());
                }
                Value::Path(path) if &**path == "pathlib.Path()" => self.path_method(name, object, given, at),
                Value::Map(_) | Value::Space(_) if matches!(name, "get" | "pop" | "setdefault" | "__getitem__") => {
                    let key = given.positional.first().cloned().unwrap_or_default();
                    result.join(self.item(&Values::one(value.clone()), &key, at));
                    result.join(given.positional.get(1).cloned().unwrap_or_default());
                }
                Value::Space(Space::Of(module)) if matches!(name, "items" | "values") => {
                    let any = any_of(module).somewhere();
                    result.join(if name == "items" { any.somewhere() } else { any });
                }
                Value::Space(Space::Modules) if matches!(name, "items" | "values") => {
                    let any = Values::path("?").somewhere();
                    result.join(if name == "items" { any.somewhere() } else { any });
                }
                Value::Path(path) if name == "__getattribute__" && &**path != "builtins.object" => {
                    if let Some(name) = given.text(0) {
                        result.join(self.attribute(object, name, (at, at)));
                    }
                }
                Value::Path(path) if &**path == "builtins" && name == "__getitem__" => {
                    let key = given.positional.first().cloned().unwrap_or_default();
                    result.join(self.item(object, &key, at));
                }
                Value::Path(_)
                | Value::Int(_)
                | Value::Range(_)
                | Value::List(_)
                | Value::Map(_)
                | Value::Gives(_)
                | Value::Space(_)
                | Value::Getter(_)
                | Value::Own => {}
            }
        }
        // Of whatever importer: `sys.meta_path[0].load_module("os")`.
        if name == "load_module" && given.text(0).is_some() {
            result.join(self.import_call("load_module", given, at));
        }
        result
    }

    /// What a known function gives.
    fn known(&mut self, path: &str, given: &Given, call: &'a ast::ExprCall) -> Values {
        let at = call.range().start().to_usize();
        let first = given.positional.first();
        if let Some(values) = self.made(path, given, at) {
            return values;
        }
        match path {
            "builtins.getattr"
            | "builtins.object.__getattribute__"
            | "builtins.type.__getattribute__"
            | "inspect.getattr_static" => self.getattr(given, at),
            "builtins.vars" | "builtins.dir" => match first {
                Some(object) => object.paths().map(|path| Value::Space(Space::Of(path.into()))).collect(),
                None => Values::one(Value::Space(Space::Globals)),
            },
            "builtins.globals" | "builtins.locals" => Values::one(Value::Space(Space::Globals)),
            "builtins.__import__"
            | "importlib.__import__"
            | "importlib.import_module"
            | "imp.load_module"
            | "__loader__.load_module"
            | "importlib._bootstrap._gcd_import"
            | "importlib._bootstrap._find_and_load"
            | "importlib.util.find_spec" => self.import_call(path, given, at),
            "pkgutil.resolve_name" | "pydoc.locate" => match given.text(0) {
                Some(name) => {
                    let name = name.replace(':', ".");
                    self.sink.import(name.split('.').next().unwrap_or_default(), at);
                    self.sink.name(&name, at);
                    Values::path(&name)
                }
                None => Values::default(),
            },
            "operator.attrgetter" | "operator.methodcaller" | "operator.itemgetter" => {
                given.text(0).map(|name| Values::one(Value::Getter(name.into()))).unwrap_or_default()
            }
            "operator.getitem" => {
                let key = given.positional.get(1).cloned().unwrap_or_default();
                first.map(|object| self.item(object, &key, at)).unwrap_or_default()
            }
            // What is left to say is which attribute.
            "functools.partial" if first.is_some_and(|f| f.paths().any(|path| path == "builtins.getattr")) => given
                .positional
                .get(1)
                .into_iter()
                .flat_map(Values::paths)
                .flat_map(|path| any_of(path).iter().cloned().collect::<Vec<_>>())
                .collect(),
            "functools.partial"
            | "builtins.list"
            | "builtins.tuple"
            | "builtins.set"
            | "builtins.sorted"
            | "builtins.iter"
            | "copy.copy"
            | "copy.deepcopy"
            | "contextlib.nullcontext"
            | "importlib.util.module_from_spec"
            | "importlib.reload"
            | "types.MappingProxyType" => first.cloned().unwrap_or_default(),
            "builtins.open" | "io.open" | "io.FileIO" | "codecs.open" | "os.fdopen" => {
                self.open(given, at);
                Values::path("builtins.open()")
            }
            "builtins.chr" => given.int(0).and_then(character).map(Values::text).unwrap_or_default(),
            "builtins.str" => first.and_then(|v| v.iter().find_map(fold::plain)).map(Values::text).unwrap_or_default(),
            "builtins.bytes" | "builtins.bytearray" => {
                if let Some(size) = given.int(0) {
                    self.check_size(size, at);
                }
                first.map(from_codes).unwrap_or_default()
            }
            "builtins.bytes.fromhex" | "builtins.bytearray.fromhex" => {
                given.text(0).and_then(crate::decode::hex).map(Values::text).unwrap_or_default()
            }
            _ if path.starts_with("base64.") || path.starts_with("binascii.") || path.starts_with("codecs.") => {
                let codec = given.get(1, "encoding").and_then(Values::as_text);
                given.text(0).and_then(|text| fold::decoded(path, text, codec)).map(Values::text).unwrap_or_default()
            }
            // The last class of any is the one that all are of.
            _ if path.starts_with("builtins.") && path.rsplit('.').next() == Some("mro") => {
                Values::path("builtins.object")
            }
            _ if path.starts_with("builtins.str.") || path.starts_with("builtins.bytes.") => {
                // `str.lower("SYSTEM")`
                let name = path.rsplit('.').next().unwrap_or_default();
                let rest = given.positional.get(1..).unwrap_or_default();
                given.text(0).map(|text| fold::method(text, name, rest, &given.named)).unwrap_or_default()
            }
            "builtins.range" => range(given).map(|turns| Values::one(Value::Range(turns))).unwrap_or_default(),
            "os.fork" | "os.forkpty" if self.in_loop() => {
                self.sink.shape(Shape::ForkLoop, path, at);
                Values::default()
            }
            _ => {
                self.exits += usize::from(ENDS.contains(&path));
                // What an object gives is an object of who knows what, twice removed.
                if path.ends_with("()") || path.len() > 80 || PLAIN.contains(&path) {
                    Values::default()
                } else {
                    Values::path(&format!("{path}()"))
                }
            }
        }
    }

    fn getattr(&mut self, given: &Given, at: usize) -> Values {
        let (Some(object), Some(name)) = (given.positional.first(), given.positional.get(1)) else {
            return Values::default();
        };
        if name.texts().next().is_none() {
            if let Some(path) = object.paths().find(|path| SENSITIVE.contains(path)) {
                let path = path.to_owned();
                self.sink.shape(Shape::DynamicName, &path, at);
            }
            return object.paths().flat_map(|path| any_of(path).iter().cloned().collect::<Vec<_>>()).collect();
        }
        let mut result = given.positional.get(2).cloned().unwrap_or_default();
        for name in name.texts() {
            result.join(self.attribute(object, name, (at, at)));
        }
        result
    }

    fn import_call(&mut self, path: &str, given: &Given, at: usize) -> Values {
        let Some(name) = given.get(0, "name") else { return Values::default() };
        if name.texts().next().is_none() {
            self.sink.shape(Shape::DynamicImport, "", at);
            return Values::path("?");
        }
        let whole = !path.ends_with("__import__") || given.get(3, "fromlist").is_some();
        let mut result = Values::default();
        for module in name.texts() {
            self.sink.import(module, at);
            let first = module.split('.').next().unwrap_or(module);
            result.add(Value::Path(if whole { module } else { first }.into()));
        }
        result
    }

    fn open(&mut self, given: &Given, at: usize) {
        let writes =
            given.get(1, "mode").is_some_and(|mode| mode.texts().any(|mode| mode.contains(['w', 'a', 'x', '+'])));
        if !writes {
            return;
        }
        self.written(given.get(0, "file"), at);
    }

    /// A file of this path is written.
    pub(super) fn written(&mut self, path: Option<&Values>, at: usize) {
        let Some(path) = path else { return };
        let path = path.as_text().unwrap_or_default();
        let shape = if is_system_path(path) { Shape::SystemWrite } else { Shape::FileWrite };
        self.sink.shape(shape, path, at);
    }

    fn path_method(&mut self, name: &str, object: &Values, given: &Given, at: usize) {
        let opens =
            || given.get(0, "mode").is_some_and(|mode| mode.texts().any(|mode| mode.contains(['w', 'a', 'x', '+'])));
        let writes = matches!(name, "write_text" | "write_bytes" | "touch") || (name == "open" && opens());
        if writes && object.texts().any(is_system_path) {
            self.written(Some(object), at);
        }
    }
}

pub(super) fn character(code: i128) -> Option<String> {
    u32::try_from(code).ok().and_then(char::from_u32).map(String::from)
}

/// `bytes([101, 118])`
fn from_codes(values: &Values) -> Values {
    let Some(items) = values.as_list() else {
        return values.as_text().map(|t| Values::text(t.to_owned())).unwrap_or_default();
    };
    let texts: Option<Vec<String>> =
        items.iter().map(|item| if let Value::Int(code) = item { character(*code) } else { None }).collect();
    texts.map(|texts| Values::text(texts.concat())).unwrap_or_default()
}

/// How many turns a loop over this range takes.
fn range(given: &Given) -> Option<i128> {
    let (start, stop, step) = match given.positional.len() {
        1 => (0, given.int(0)?, 1),
        2 => (given.int(0)?, given.int(1)?, 1),
        _ => (given.int(0)?, given.int(1)?, given.int(2)?),
    };
    stop.saturating_sub(start).checked_div(step)
}
