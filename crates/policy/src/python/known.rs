//! Functions of the standard library that put things together, run them or write files.

use ruff_python_ast as ast;

use super::call::{Given, character};
use super::fold;
use super::reader::Reader;
use crate::language::Language;
use crate::text::is_system_path;
use crate::value::{MOST_ITEMS, Value, Values};

/// What runs the texts that it is given first.
const RUN_TEXT: &[&str] = &[
    "timeit.timeit",
    "timeit.repeat",
    "cProfile.run",
    "profile.run",
    "pdb.run",
    "pdb.runeval",
    "trace.Trace().run",
    "trace.Trace().runctx",
    "bdb.Bdb().run",
    "bdb.Bdb().runeval",
    "pdb.Pdb().run",
    "cProfile.Profile().run",
    "profile.Profile().run",
];

impl Reader<'_, '_, '_> {
    /// What one of these gives; `None` for every other function.
    pub(super) fn made(&mut self, path: &str, given: &Given, at: usize) -> Option<Values> {
        let first = given.positional.first();
        Some(match path {
            "builtins.dict" | "types.SimpleNamespace" | "argparse.Namespace" => {
                let mut made = first.cloned().unwrap_or_default();
                for (name, values) in &given.named {
                    self.remember(name, values);
                    made.join(values.somewhere());
                }
                // `dict([("a", os)])`
                let pairs: Values = made.items().iter().filter_map(Value::second).cloned().collect();
                made.join(pairs.somewhere());
                made
            }
            "builtins.next" => {
                let mut next = first.map(Values::items).unwrap_or_default();
                next.join(given.positional.get(1).cloned().unwrap_or_default());
                next
            }
            "builtins.enumerate" | "builtins.zip" => {
                // Which of the pair it is does not matter.
                let all = given.positional.iter().flat_map(|items| items.items().iter().cloned().collect::<Vec<_>>());
                all.collect::<Values>().somewhere().somewhere()
            }
            "builtins.setattr" => {
                if let (Some(name), Some(values)) = (given.text(1), given.positional.get(2)) {
                    self.remember(name, values);
                }
                Values::default()
            }
            "builtins.type" if given.positional.len() == 3 => {
                if let Some(Value::Map(items)) = given.positional.get(2).and_then(|space| space.iter().next()) {
                    for (name, value) in items.iter() {
                        self.remember(name, &Values::one(value.clone()));
                    }
                }
                Values::one(Value::Own)
            }
            "builtins.type" if first.is_some_and(|object| object.iter().any(|v| matches!(v, Value::Gives(_)))) => {
                Values::path("types.FunctionType")
            }
            "types.FunctionType" | "types.CodeType" => {
                self.sink.name(path, at);
                Values::default()
            }
            "builtins.type.mro" => Values::path("builtins.object"),
            "functools.reduce" if first.is_some_and(|f| f.paths().any(|path| path == "builtins.getattr")) => {
                self.reduced(given, at)
            }
            "operator.add" | "operator.concat" | "operator.mod" => {
                let operator = if path == "operator.mod" { ast::Operator::Mod } else { ast::Operator::Add };
                match (first, given.positional.get(1)) {
                    (Some(left), Some(right)) => fold::operate(left, operator, right),
                    _ => Values::default(),
                }
            }
            "builtins.str.maketrans" => match (given.text(0), given.text(1)) {
                (Some(from), Some(to)) => {
                    let text = |text: &str| Value::Text(text.into());
                    [text(from), text(to)].into_iter().collect::<Values>().somewhere()
                }
                _ => Values::default(),
            },
            _ if RUN_TEXT.contains(&path) => {
                for text in given.positional.iter().take(2).filter_map(Values::as_text) {
                    self.sink.inner(Language::Python, text, at);
                }
                Values::default()
            }
            "os.open" => {
                const WRITES: &[&str] = &["os.O_WRONLY", "os.O_RDWR", "os.O_CREAT", "os.O_TRUNC", "os.O_APPEND"];
                if given.get(1, "flags").is_some_and(|flags| flags.paths().any(|flag| WRITES.contains(&flag))) {
                    self.written(given.get(0, "path"), at);
                }
                Values::default()
            }
            "shutil.copy" | "shutil.copy2" | "shutil.copyfile" | "shutil.copytree" | "shutil.move" | "os.rename"
            | "os.replace" | "os.renames" | "os.symlink" | "os.link" => {
                self.written(given.get(1, "dst").filter(|to| to.texts().any(is_system_path)), at);
                Values::default()
            }
            "builtins.map" => match (first, given.positional.get(1).and_then(Values::as_list)) {
                (Some(function), Some(codes)) if function.paths().any(|path| path == "builtins.chr") => {
                    let texts =
                        codes.iter().filter_map(|code| if let Value::Int(n) = code { character(*n) } else { None });
                    Values::one(Value::List(texts.map(|text| Value::Text(text.into())).collect()))
                }
                _ => Values::default(),
            },
            "builtins.reversed" => match given.text(0) {
                Some(text) => Values::one(Value::List(
                    text.chars().rev().take(MOST_ITEMS).map(|c| Value::Text(c.to_string().into())).collect(),
                )),
                None => Values::default(),
            },
            _ => return made_path(path, given),
        })
    }

    /// `functools.reduce(getattr, ["_os", "system"], random)`
    fn reduced(&mut self, given: &Given, at: usize) -> Values {
        let mut object = given.positional.get(2).cloned().unwrap_or_default();
        for name in given.positional.get(1).and_then(Values::as_list).unwrap_or_default() {
            let Value::Text(name) = name else { return Values::default() };
            object = self.attribute(&object, name, (at, at));
        }
        object
    }
}

/// What functions about paths of files give.
fn made_path(path: &str, given: &Given) -> Option<Values> {
    Some(match path {
        "os.path.join" | "posixpath.join" => {
            let parts: Option<Vec<&str>> = given.positional.iter().map(Values::as_text).collect();
            parts.map(|parts| Values::text(parts.join("/"))).unwrap_or_default()
        }
        "os.path.expanduser" | "os.path.abspath" | "os.path.realpath" | "os.path.normpath" | "os.fspath" => {
            given.text(0).map(|text| Values::text(text.to_owned())).unwrap_or_default()
        }
        "pathlib.Path.home" => {
            let mut home = Values::path("pathlib.Path()");
            home.join(Values::text("~".to_owned()));
            home
        }
        "pathlib.Path" | "pathlib.PosixPath" | "pathlib.PurePath" => {
            let mut made = Values::path("pathlib.Path()");
            made.join(given.text(0).map(|text| Values::text(text.to_owned())).unwrap_or_default());
            made
        }
        _ => return None,
    })
}
