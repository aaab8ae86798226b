//! Calls: what is called, and what it gives where that matters.

use oxc_ast::ast::{Argument, CallExpression, Expression, MemberExpression, NewExpression};

use super::bind::start;
use super::names::any_of;
use super::reader::{Reader, plain};
use crate::decode;
use crate::rule::Shape;
use crate::text::is_system_path;
use crate::value::{MOST_ITEMS, MOST_TEXT, Value, Values};

/// Bytes or items that are many.
const GIANT_REPEAT: i128 = 100_000_000;

/// Functions of `fs` that write the file they name first, or second.
const WRITES: &[&str] = &[
    "writeFile",
    "writeFileSync",
    "appendFile",
    "appendFileSync",
    "createWriteStream",
    "rename",
    "renameSync",
    "copyFile",
    "copyFileSync",
];

fn is_function(expression: &Expression<'_>) -> bool {
    matches!(expression, Expression::FunctionExpression(_) | Expression::ArrowFunctionExpression(_))
}

/// `"xexec".slice(1)` and its kin.
fn part(text: &str, method: &str, given: &[Values]) -> Option<String> {
    let number = |place: usize| given.get(place).and_then(Values::as_int);
    let length = i128::try_from(text.chars().count()).ok()?;
    let from = number(0)?;
    let place = |index: i128| if index < 0 { (index + length).max(0) } else { index.min(length) };
    let (from, to) = match method {
        "charAt" | "at" => (place(from), place(from) + 1),
        "substr" => (place(from), number(1).map_or(length, |count| place(from) + count)),
        _ => (place(from), number(1).map_or(length, place)),
    };
    let count = usize::try_from(to - from).ok()?;
    Some(text.chars().skip(usize::try_from(from).ok()?).take(count).collect())
}

impl<'a> Reader<'a, '_, '_> {
    /// What a call is given. `passed` is what a function among that will be called with.
    pub(super) fn arguments(
        &mut self,
        arguments: &oxc_allocator::Vec<'a, Argument<'a>>,
        passed: &Values,
    ) -> Vec<Values> {
        let mut given = Vec::new();
        for argument in arguments {
            match argument {
                Argument::SpreadElement(spread) => {
                    let values = self.eval(&spread.argument);
                    match values.as_list() {
                        Some(items) => given.extend(items.iter().map(|item| Values::one(item.clone()))),
                        None => given.push(values),
                    }
                }
                argument => {
                    let Some(argument) = argument.as_expression() else { continue };
                    if !passed.is_empty() && is_function(argument.get_inner_expression()) {
                        self.pending = vec![passed.clone()];
                    }
                    given.push(self.eval(argument));
                    self.pending.clear();
                }
            }
        }
        given
    }

    pub(super) fn call(&mut self, call: &CallExpression<'a>) -> Values {
        let at = start(call);
        let (called, object, method) = match call.callee.get_inner_expression().as_member_expression() {
            Some(member) => {
                let (object, name, place) = self.parts(member);
                let called = match &name {
                    Some(name) => self.member(&object, name, place),
                    None => self.picked.take().unwrap_or_default(),
                };
                if let (Some(name), None) = (&name, called.paths().next()) {
                    self.sink.method(name, place.1);
                }
                (called, object, name)
            }
            None if is_function(call.callee.get_inner_expression()) => {
                // Called where it stands: its parameters are what it is given.
                let given = self.arguments(&call.arguments, &Values::default());
                self.hand_over(&Values::default(), None, &given);
                self.pending = given;
                let called = self.eval(&call.callee);
                self.pending.clear();
                return called.given();
            }
            None => (self.eval(&call.callee), Values::default(), None),
        };
        // What a function gets that is given to one of these.
        let passed = match method.as_deref() {
            Some("then") => object.clone(),
            Some("forEach" | "map" | "find" | "filter" | "some" | "every" | "flatMap") => object.items(),
            _ => Values::default(),
        };
        let prose = called.paths().any(|path| path.starts_with("console."));
        self.prose += usize::from(prose);
        let given = self.arguments(&call.arguments, &passed);
        self.prose -= usize::from(prose);
        self.hand_over(&called, method.as_deref(), &given);
        let first = given.first().cloned().unwrap_or_default();
        if method.as_deref() == Some("constructor") && first.as_text().is_some() {
            self.sink.shape(Shape::CodeFromText, "constructor", at);
        }
        let mut result = called.given();
        if let Some(method) = method {
            result.join(self.of_text(&object, &method, &given, at));
            if let ("push" | "unshift" | "set" | "add", Some(last)) = (method.as_str(), given.last()) {
                self.put_in(&call.callee, last);
            }
            if matches!(method.as_str(), "get" | "pop" | "shift" | "at" | "find") {
                result.join(object.items());
            }
            if matches!(method.as_str(), "map" | "flatMap" | "forEach") {
                // `["fs"].map(require)`
                let items = [object.items()];
                let mut made = first.given();
                for path in first.paths().filter(|path| *path != "function") {
                    made.join(self.known(path, &items, at));
                }
                result.join(made.somewhere());
            }
        } else if called.paths().next().is_none() && first.texts().any(|name| name.ends_with("child_process")) {
            // Whoever is given this name may well be `require`.
            result.join(Values::path("child_process"));
        }
        for path in called.paths() {
            self.sink.call(path, at);
            if let Some(module) = path.strip_suffix(".?") {
                self.sink.shape(Shape::DynamicCall, module, at);
            }
            result.join(self.known(path, &given, at));
        }
        result
    }

    /// What is given to a function that is not known, or that keeps it, may come out anywhere.
    fn hand_over(&mut self, called: &Values, method: Option<&str>, given: &[Values]) {
        // They only look at it, or put something in its place for a test.
        let looks = |path: &str| ["console.", "util.", "assert.", "Object.keys"].iter().any(|p| path.starts_with(p));
        let patches = matches!(method, Some("stub" | "mock" | "spy" | "spyOn" | "replace" | "method"));
        if !patches && !called.paths().any(looks) {
            for values in given {
                self.escape(values);
            }
        }
    }

    /// `x.push(y)`: what is put into something may be found in it.
    fn put_in(&mut self, callee: &Expression<'a>, what: &Values) {
        let member = callee.get_inner_expression().as_member_expression();
        if let Some(Expression::Identifier(object)) = member.map(MemberExpression::object) {
            self.scopes.amend(object.name.as_str(), what.somewhere());
        }
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
            | "module._load"
            | "process.mainModule.constructor._load" => self.load(&first, at),
            "vm.runInThisContext" | "vm.runInNewContext" | "vm.runInContext" | "vm.Script" | "vm.compileFunction" => {
                self.sink.shape(Shape::CodeFromText, path, at);
                Values::default()
            }
            "worker_threads.Worker"
                if !given.get(1).map(|how| how.under(Some("eval"))).unwrap_or_default().is_empty() =>
            {
                self.sink.shape(Shape::CodeFromText, path, at);
                Values::default()
            }
            "Object.assign" | "Object.freeze" | "Object.create" | "util.promisify" | "structuredClone" => {
                let mut all = Values::default();
                for one in given {
                    all.join(one.clone());
                }
                all
            }
            "Object.getOwnPropertyDescriptor" => match given.get(1).and_then(Values::as_text) {
                Some(name) => self.member(&first, name, (at, at)).somewhere(),
                None => Values::default(),
            },
            "Object.values" | "Object.entries" => {
                let mut any = any_of(&first);
                any.join(first.items());
                let any = any.somewhere();
                if path == "Object.entries" { any.somewhere() } else { any }
            }
            "Map" | "Set" => {
                let mut items = first.items();
                let pairs: Values = items.iter().filter_map(Value::second).cloned().collect();
                items.join(pairs);
                items.somewhere()
            }
            "atob" => first.as_text().and_then(decode::base64).map(|text| self.text(&text, at)).unwrap_or_default(),
            "decodeURIComponent" | "decodeURI" | "unescape" => {
                first.as_text().and_then(decode::percent).map(|text| self.text(&text, at)).unwrap_or_default()
            }
            "Buffer.from" => {
                let text = match given.get(1).and_then(Values::as_text) {
                    Some("base64" | "base64url") => first.as_text().and_then(decode::base64),
                    Some("hex") => first.as_text().and_then(decode::hex),
                    _ => first.as_text().map(str::to_owned),
                };
                text.map(|text| self.text(&text, at)).unwrap_or_default()
            }
            _ if path.starts_with("fs.") => self.files(path, given, at),
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
                if first.as_int().is_none() {
                    // Of codes that are not known one by one.
                    return Values::path("String.fromCharCode()");
                }
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

    /// What a function of `fs` writes or removes.
    fn files(&mut self, path: &str, given: &[Values], at: usize) -> Values {
        let texts = |place: usize| given.get(place).into_iter().flat_map(Values::texts);
        let place = match path {
            "fs.rmdir" | "fs.rmdirSync" => {
                if given.get(1).is_some_and(|how| !how.under(Some("recursive")).is_empty()) {
                    self.sink.name("fs.rm", at);
                }
                return Values::default();
            }
            "fs.open" | "fs.openSync" if texts(1).any(|how| how.contains(['w', 'a', '+'])) => 0,
            _ if WRITES.contains(&path.trim_start_matches("fs.")) => {
                usize::from(path.contains("rename") || path.contains("copy"))
            }
            _ => return if path.ends_with("()") { Values::default() } else { Values::path(&format!("{path}()")) },
        };
        if let Some(target) = texts(place).find(|path| is_system_path(path)) {
            self.sink.shape(Shape::SystemWrite, target, at);
        }
        Values::default()
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
        if let (Some(items), "map") = (object.as_list(), method) {
            // `[101].map(c => String.fromCharCode(c))`: a list of codes that become text at all becomes that.
            let is_text = given.first().is_some_and(|f| f.paths().any(|path| path.starts_with("String.fromC")));
            let gives_text =
                given.first().is_some_and(|f| f.given().paths().any(|path| path.starts_with("String.fromC")));
            let code = |item: &Value| match item {
                Value::Int(code) => u32::try_from(*code).ok().and_then(char::from_u32),
                _ => None,
            };
            if is_text || gives_text {
                let texts = items.iter().filter_map(code).map(|c| Value::Text(c.to_string().into()));
                return Values::one(Value::List(texts.collect()));
            }
        }
        let Some(text) = object.as_text() else { return Values::default() };
        let known = match (method, first, given.get(1).and_then(Values::as_text)) {
            ("concat", Some(_), _) => {
                let all = given.iter().map(Values::as_text).collect::<Option<Vec<_>>>();
                all.map(|all| format!("{text}{}", all.concat()))
            }
            ("slice" | "substring" | "substr" | "charAt" | "at", ..) => part(text, method, given),
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
        let given = self.arguments(&new.arguments, &Values::default());
        let at = start(new);
        self.hand_over(&called, None, &given);
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
            result.join(Values::path("?"));
        }
        result
    }

    pub(super) fn check_size(&mut self, size: Option<i128>, at: usize) {
        if let Some(size) = size.filter(|size| *size > GIANT_REPEAT) {
            self.sink.shape(Shape::GiantRepeat, &size.to_string(), at);
        }
    }
}
