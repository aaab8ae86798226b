//! Evaluators that forget: whatever one of them measures, its process is afterwards what it was before. Such a one needs no
//! fork for each program, which takes longer than most programs do.
//!
//! An evaluator is trusted, so this looks for what it keeps by design, not for what it hides. It is asked of the text alone,
//! and whatever is not plainly so is none: a global that changes, a class, a module that remembers, a file that is written.

use std::collections::HashMap;

use ruff_python_ast::visitor::{Visitor, walk_comprehension, walk_expr, walk_stmt};
use ruff_python_ast::{
    CmpOp, Comprehension, Expr, ExprCall, Parameters, Stmt, StmtFunctionDef, StmtIf, StmtImport, StmtImportFrom,
};
use ruff_python_parser::parse_module;

/// Modules all of whose functions and values may be used, but for those below.
const WHOLE: [&str; 13] = [
    "bisect",
    "cmath",
    "fractions",
    "heapq",
    "itertools",
    "math",
    "numpy",
    "numpy.fft",
    "numpy.linalg",
    "operator",
    "statistics",
    "string",
    "typing",
];
/// Of other modules these.
const PARTS: [(&str, &[&str]); 14] = [
    ("collections", &["Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"]),
    ("contextlib", &["suppress"]),
    ("copy", &["copy", "deepcopy"]),
    ("decimal", &["Decimal"]),
    ("functools", &["partial", "reduce"]),
    ("hashlib", &["blake2b", "md5", "sha1", "sha256", "sha512"]),
    ("importlib.util", &["module_from_spec", "spec_from_file_location"]),
    ("json", &["JSONDecodeError", "dumps", "loads"]),
    ("openevolve.evaluation_result", &["EvaluationResult"]),
    ("os.path", &["abspath", "basename", "dirname", "exists", "isfile", "join", "splitext"]),
    ("random", &["Random"]),
    ("re", &["compile", "escape", "findall", "finditer", "fullmatch", "match", "search", "split", "sub"]),
    ("time", &["monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep", "time", "time_ns"]),
    ("traceback", &["format_exc", "print_exc"]),
];
/// What numpy remembers, or writes and reads elsewhere.
const NUMPY_KEEPS: [&str; 21] = [
    "fromfile",
    "genfromtxt",
    "load",
    "loadtxt",
    "memmap",
    "random",
    "save",
    "savetxt",
    "savez",
    "savez_compressed",
    "set_printoptions",
    "set_numeric_ops",
    "set_string_function",
    "setbufsize",
    "seterr",
    "seterrcall",
    "seterrobj",
    "ctypeslib",
    "f2py",
    "testing",
    "lib",
];
/// Methods that leave something behind, whosever they are.
const LEAVING: [&str; 4] = ["dump", "load_module", "tofile", "write"];
/// Functions of Python's own that reach what is not theirs.
const REACHING: [&str; 11] =
    ["breakpoint", "compile", "delattr", "eval", "exec", "globals", "input", "locals", "open", "setattr", "vars"];

/// Whether an evaluator with this text forgets.
pub(super) fn forgets(source: &str) -> bool {
    let Ok(parsed) = parse_module(source) else { return false };
    let body = || parsed.suite().iter().filter(|statement| !is_for_main(statement));
    let mut reader = Reader { globals: HashMap::new(), keeps: false };
    for statement in body() {
        reader.define(statement);
    }
    // What is called here may be defined below, and a name may be imported below where it is used.
    for statement in body() {
        Imports(&mut reader).visit_stmt(statement);
    }
    for statement in body() {
        if let Stmt::FunctionDef(function) = statement {
            reader.visit_body(&function.body);
        }
    }
    !reader.keeps
}

/// `if __name__ == "__main__":`, which an evaluator never is.
fn is_for_main(statement: &Stmt) -> bool {
    let Stmt::If(StmtIf { test, elif_else_clauses, .. }) = statement else { return false };
    let Expr::Compare(compare) = &**test else { return false };
    elif_else_clauses.is_empty()
        && *compare.ops == [CmpOp::Eq]
        && matches!(&*compare.left, Expr::Name(name) if name.id == "__name__")
        && matches!(&*compare.comparators, [Expr::StringLiteral(word)] if word.value.to_str() == "__main__")
}

/// What a name of the whole file stands for.
#[derive(PartialEq)]
enum Global {
    /// A module, by its whole name.
    Module(String),
    /// A known part of a module, or a constant, or a function of the evaluator's own.
    Fixed,
    /// Something that is not to be used.
    Unknown,
}

struct Reader {
    globals: HashMap<String, Global>,
    /// Whether something was found that may be kept.
    keeps: bool,
}

impl Reader {
    /// A statement of the module itself, which runs once.
    fn define(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Import(import) => self.import(import),
            Stmt::ImportFrom(import) => self.import_from(import),
            Stmt::FunctionDef(function) => {
                let has_defaults = function
                    .parameters
                    .iter_non_variadic_params()
                    .all(|parameter| parameter.default.as_ref().is_none_or(|default| is_constant(default)));
                self.keeps |= !has_defaults || !function.decorator_list.is_empty();
                self.bind(&function.name, Global::Fixed);
            }
            Stmt::Assign(assign) => {
                self.keeps |= !is_constant(&assign.value);
                for target in &assign.targets {
                    self.bind_constant(target);
                }
            }
            Stmt::AnnAssign(assign) => {
                self.keeps |= !assign.value.as_ref().is_none_or(|value| is_constant(value));
                self.bind_constant(&assign.target);
            }
            Stmt::Expr(expression) => self.keeps |= !is_constant(&expression.value),
            Stmt::Pass(_) => {}
            _ => self.keeps = true,
        }
    }

    fn bind_constant(&mut self, target: &Expr) {
        match target {
            Expr::Name(name) => self.bind(&name.id, Global::Fixed),
            _ => self.keeps = true,
        }
    }

    /// A name with two meanings has none that can be relied on.
    fn bind(&mut self, name: &str, meaning: Global) {
        self.keeps |= self.globals.get(name).is_some_and(|known| *known != meaning);
        self.globals.insert(name.to_owned(), meaning);
    }

    fn import(&mut self, import: &StmtImport) {
        for alias in &import.names {
            let name = alias.name.as_str();
            if let Some(short) = &alias.asname {
                self.bind(short, Global::Module(name.to_owned()));
            } else {
                // `import a.b` gives a name to `a`.
                let first = name.split('.').next().unwrap_or(name);
                self.bind(first, Global::Module(first.to_owned()));
            }
        }
    }

    fn import_from(&mut self, import: &StmtImportFrom) {
        let from = import.module.as_ref().map_or("", |module| module.as_str());
        for alias in &import.names {
            let name = alias.name.as_str();
            let meaning = match () {
                () if from == "__future__" => Global::Fixed,
                () if import.level > 0 || name == "*" => Global::Unknown,
                () if is_known(from, name) => Global::Fixed,
                // A module of a package, perhaps: `from importlib import util`.
                () => Global::Module(format!("{from}.{name}")),
            };
            self.keeps |= name == "*";
            self.bind(alias.asname.as_ref().unwrap_or(&alias.name), meaning);
        }
    }

    /// `a.b.c`, if `a` is a module: its whole name.
    fn path(&self, expression: &Expr) -> Option<String> {
        match expression {
            Expr::Name(name) => match self.globals.get(name.id.as_str())? {
                Global::Module(path) => Some(path.clone()),
                Global::Fixed | Global::Unknown => None,
            },
            Expr::Attribute(attribute) => Some(format!("{}.{}", self.path(&attribute.value)?, attribute.attr)),
            _ => None,
        }
    }

    /// Things that are changed where they are.
    fn target(&mut self, target: &Expr) {
        match target {
            Expr::Attribute(_) => self.keeps = true,
            Expr::Subscript(part) => {
                self.keeps |= matches!(&*part.value, Expr::Name(name) if self.globals.contains_key(name.id.as_str()));
            }
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|one| self.target(one)),
            Expr::List(list) => list.elts.iter().for_each(|one| self.target(one)),
            Expr::Starred(starred) => self.target(&starred.value),
            _ => {}
        }
    }

    fn name(&mut self, name: &str) {
        let is_known = match self.globals.get(name) {
            // A module is used by its parts alone: as a value it could be changed under another name.
            Some(meaning) => *meaning == Global::Fixed,
            None => !REACHING.contains(&name) && (!name.starts_with("__") || matches!(name, "__name__" | "__file__")),
        };
        self.keeps |= !is_known;
    }

    /// Functions that are harmless with some arguments. Whether this was one.
    fn is_harmless(&self, call: &ExprCall) -> bool {
        let Expr::Name(name) = &*call.func else { return false };
        let arguments = &call.arguments;
        let is_own = !self.globals.contains_key(name.id.as_str());
        is_own && name.id == "open" && arguments.keywords.is_empty() && arguments.args.len() == 1
    }
}

impl<'a> Visitor<'a> for Reader {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Global(_) | Stmt::ClassDef(_) => self.keeps = true,
            Stmt::FunctionDef(StmtFunctionDef { decorator_list, .. }) => self.keeps |= !decorator_list.is_empty(),
            // The first import of a module runs it, which must be no news to anybody.
            Stmt::Import(import) => self.keeps |= !import.names.iter().all(|alias| is_module(&alias.name)),
            Stmt::ImportFrom(import) => {
                let from = import.module.as_ref().map_or("", |module| module.as_str());
                self.keeps |= import.level > 0 || !is_module(from);
            }
            Stmt::Assign(assign) => assign.targets.iter().for_each(|target| self.target(target)),
            Stmt::AugAssign(assign) => self.target(&assign.target),
            Stmt::AnnAssign(assign) => self.target(&assign.target),
            Stmt::Delete(delete) => delete.targets.iter().for_each(|target| self.target(target)),
            Stmt::For(each) => self.target(&each.target),
            Stmt::With(with) => {
                with.items
                    .iter()
                    .filter_map(|item| item.optional_vars.as_deref())
                    .for_each(|target| self.target(target));
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) => self.name(&name.id),
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                self.keeps |= (name.starts_with("__") && name != "__name__") || LEAVING.contains(&name);
                match self.path(&attribute.value) {
                    Some(module) => {
                        // Parts of modules that are modules are asked for theirs.
                        self.keeps |= !is_known(&module, name);
                        return;
                    }
                    // What a part of a module has in it is the module's own.
                    None => {
                        self.keeps |= matches!(&*attribute.value, Expr::Name(name) if self.globals.contains_key(name.id.as_str()));
                    }
                }
            }
            Expr::Call(call) if self.is_harmless(call) => {
                self.visit_arguments(&call.arguments);
                return;
            }
            Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if name.id == "getattr" || name.id == "hasattr") =>
            {
                let is_plain =
                    |word: &Expr| matches!(word, Expr::StringLiteral(word) if !word.value.to_str().starts_with("__"));
                self.keeps |= !call.arguments.args.get(1).is_some_and(is_plain);
            }
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.target(&comprehension.target);
        walk_comprehension(self, comprehension);
    }

    // Read when the function is made, not when it is called.
    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_parameters(&mut self, parameters: &'a Parameters) {
        for parameter in parameters.iter_non_variadic_params() {
            if let Some(default) = &parameter.default {
                self.visit_expr(default);
            }
        }
    }
}

/// Gives a meaning to names that functions import.
struct Imports<'r>(&'r mut Reader);

impl<'a> Visitor<'a> for Imports<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(import) => self.0.import(import),
            Stmt::ImportFrom(import) => self.0.import_from(import),
            _ => walk_stmt(self, statement),
        }
    }
}

fn is_known(module: &str, part: &str) -> bool {
    // Some have others among their names.
    let is_other = module != "numpy" && (matches!(part, "os" | "sys" | "numbers") || is_module(part));
    let is_kept =
        is_other || (module == "numpy" && NUMPY_KEEPS.contains(&part)) || is_module(&format!("{module}.{part}"));
    let is_part = PARTS.iter().any(|(name, parts)| *name == module && parts.contains(&part));
    is_part || (WHOLE.contains(&module) && !is_kept)
}

/// Whether a module, or one in it, is known.
fn is_module(name: &str) -> bool {
    let is_it = |known: &str| known == name || known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    WHOLE.iter().any(|known| is_it(known)) || PARTS.iter().any(|(known, _)| is_it(known))
}

/// A value that nobody can change.
fn is_constant(value: &Expr) -> bool {
    match value {
        Expr::NumberLiteral(_)
        | Expr::StringLiteral(_)
        | Expr::BytesLiteral(_)
        | Expr::BooleanLiteral(_)
        | Expr::NoneLiteral(_)
        | Expr::EllipsisLiteral(_) => true,
        Expr::Tuple(tuple) => tuple.elts.iter().all(is_constant),
        Expr::UnaryOp(operation) => is_constant(&operation.operand),
        Expr::BinOp(operation) => is_constant(&operation.left) && is_constant(&operation.right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::forgets;

    /// As most evaluators begin.
    const LOAD: &str = "import importlib.util\ndef load(path):\n    spec = importlib.util.spec_from_file_location('program', path)\n    program = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(program)\n    return program\n";

    #[test]
    fn evaluators_that_keep_nothing() {
        for rest in [
            "def evaluate(path):\n    return {'combined_score': -abs(load(path).f() - 0.5)}\n",
            "\"\"\"About it.\"\"\"\nTARGET = 2.635\nPOINTS = ((0, 1), (-1.5, 2))\ndef evaluate(path, times=3):\n    return {'s': sum(load(path).f(x) for x, _ in POINTS) / TARGET}\n",
            "import math, time\nfrom typing import Dict\ndef evaluate(path: str) -> Dict[str, float]:\n    start = time.perf_counter()\n    try:\n        value = load(path).f()\n    except Exception as error:\n        return {'combined_score': 0.0, 'error': str(error)}\n    return {'combined_score': math.sqrt(value), 'seconds': time.perf_counter() - start}\n",
            "import numpy as np\ndef evaluate(path):\n    rows = np.array(load(path).f())\n    rows[0] = 0\n    return {'combined_score': float(np.linalg.norm(rows).mean())}\n",
            "import os, sys, random\nfrom openevolve.evaluation_result import EvaluationResult\ndef evaluate(path):\n    draws = random.Random(1)\n    found = {}\n    found['x'] = draws.random()\n    assert os.path.exists(path) and hasattr(load(path), 'f')\n    return EvaluationResult(metrics=found, artifacts={})\n",
            "def evaluate(path):\n    import json\n    text = open(path).read()\n    def inner(x, seen=[]):\n        seen.append(x)\n        return len(seen)\n    return json.loads(json.dumps({'combined_score': inner(len(text))}))\nif __name__ == '__main__':\n    import sys\n    print(evaluate(sys.argv[1]))\n",
        ] {
            assert!(forgets(&format!("{LOAD}{rest}")), "{rest}");
        }
    }

    #[test]
    fn evaluators_that_may_keep_something() {
        for rest in [
            "SEEN = []\ndef evaluate(path):\n    SEEN.append(path)\n    return {'combined_score': len(SEEN)}\n",
            "COUNT = 0\ndef evaluate(path):\n    global COUNT\n    COUNT += 1\n    return {'combined_score': COUNT}\n",
            "def evaluate(path, seen=[]):\n    seen.append(path)\n    return {'combined_score': len(seen)}\n",
            "def evaluate(path):\n    evaluate.count = getattr(evaluate, 'count', 0) + 1\n    return {'combined_score': evaluate.count}\n",
            "import functools\n@functools.lru_cache\ndef value(path):\n    return load(path).f()\ndef evaluate(path):\n    return {'combined_score': value(path)}\n",
            "class Best:\n    score = 0\ndef evaluate(path):\n    Best.score += 1\n    return {'combined_score': Best.score}\n",
            "import sys\ndef evaluate(path):\n    sys.modules['program'] = load(path)\n    import program\n    return {'combined_score': program.f()}\n",
            "import sys\ndef evaluate(path):\n    sys.path.insert(0, path)\n    return {'combined_score': 0}\n",
            "def evaluate(path):\n    import program\n    return {'combined_score': program.f()}\n",
            "import random\ndef evaluate(path):\n    return {'combined_score': random.random()}\n",
            "from random import random\ndef evaluate(path):\n    return {'combined_score': random()}\n",
            "import numpy as np\ndef evaluate(path):\n    np.random.seed(1)\n    return {'combined_score': np.random.rand()}\n",
            "import math\ndef evaluate(path):\n    other = math\n    other.pi = load(path).f()\n    return {'combined_score': math.pi}\n",
            "import math\ndef evaluate(path):\n    setattr(math, 'pi', 3)\n    return {'combined_score': math.pi}\n",
            "import math\ndef evaluate(path):\n    math.__dict__['pi'] = 3\n    return {'combined_score': math.pi}\n",
            "import json\ndef evaluate(path):\n    json.encoder.ESCAPE_DCT.update({})\n    return {}\n",
            "import os\ndef evaluate(path):\n    os.environ['A'] = path\n    return {}\n",
            "def evaluate(path):\n    spec = importlib.util.spec_from_file_location('program', path)\n    return {'combined_score': hasattr(spec.loader.load_module(), 'g')}\n",
            "if __name__ != '__main__':\n    SEEN = []\ndef evaluate(path):\n    SEEN.append(path)\n    return {'combined_score': len(SEEN)}\n",
            "def evaluate(path):\n    def count():\n        os.environ['N'] = str(int(os.environ.get('N', 0)) + 1)\n    import os\n    count()\n    return {}\n",
            "import statistics\ndef evaluate(path):\n    other = statistics.random\n    return {'combined_score': other.random()}\n",
            "import time\ndef evaluate(path):\n    return {'combined_score': -time.process_time()}\n",
            "def evaluate(path):\n    return {'combined_score': len([0 for evaluate.best in [1]])}\n",
            "import subprocess\ndef evaluate(path):\n    return {'combined_score': len(subprocess.check_output(['ls']))}\n",
            "import threading\ndef evaluate(path):\n    threading.Thread(target=load, args=(path,)).start()\n    return {}\n",
            "def evaluate(path):\n    with open('best', 'w') as file:\n        file.write(path)\n    return {}\n",
            "def evaluate(path):\n    names = {}\n    exec(open(path).read(), names)\n    return {'combined_score': names['f']()}\n",
            "def evaluate(path):\n    globals()['x'] = 1\n    return {}\n",
            "try:\n    import numpy\nexcept ImportError:\n    numpy = None\ndef evaluate(path):\n    return {}\n",
            "from math import *\ndef evaluate(path):\n    return {}\n",
            "this is no Python",
        ] {
            assert!(!forgets(&format!("{LOAD}{rest}")), "{rest}");
        }
    }
}
