//! What an expression is known to be. Copies are cheap: a program may copy a list as often as it has room for the word.

use std::rc::Rc;

/// Something that an expression may stand for.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// A module, or something in one, by its full name: `os`, `os.system`. What a call of it gives ends in `()`.
    Path(Rc<str>),
    /// A text or bytes that are known.
    Text(Rc<str>),
    /// A whole number; one that is too large to be one is the largest.
    Int(i128),
    /// What a loop over `range` goes through: how many turns.
    Range(i128),
    /// A list or tuple of known things.
    List(Rc<[Value]>),
    /// A dictionary or an object of known things, by their keys; what may be under any key has an empty one.
    Map(Rc<[(Rc<str>, Value)]>),
    /// A function of this code, by what a call of it may give.
    Gives(Rc<[Value]>),
    /// A dictionary of names.
    Space(Space),
    /// Takes an attribute of what it is called with.
    Getter(Rc<str>),
    /// Made by this code: a function, a parameter. Not what the name means elsewhere.
    Own,
}

/// A dictionary of names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Space {
    /// Attributes of a module or the like.
    Of(Rc<str>),
    /// The names of this program.
    Globals,
    /// All modules that are loaded.
    Modules,
    /// Names of some function's module.
    Anyones,
}

/// Modules and names that rules are about.
const TELLING: &[&str] = &[
    "os",
    "posix",
    "sys",
    "subprocess",
    "builtins",
    "importlib",
    "shutil",
    "ctypes",
    "pty",
    "socket",
    "child_process",
    "fs",
    "process",
    "require",
    "eval",
    "Function",
    "vm",
    "module",
    "globalThis",
];

impl Value {
    /// The second of a pair.
    pub(crate) fn second(&self) -> Option<&Self> {
        if let Self::List(items) = self { items.get(1).filter(|_| items.len() == 2) } else { None }
    }

    /// How much a rule could say about it.
    fn tells(&self) -> u8 {
        match self {
            Self::Own => 0,
            Self::Int(_) | Self::Range(_) => 1,
            Self::Text(_) => 2,
            Self::Path(path) if TELLING.contains(&path.split('.').next().unwrap_or_default()) => 5,
            Self::List(_) | Self::Map(_) | Self::Gives(_) => 3,
            Self::Path(_) | Self::Getter(_) => 4,
            Self::Space(_) => 5,
        }
    }
    /// Whether it is the same. Lists are only if they are one: comparing what is in them has no bound.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Path(a), Self::Path(b)) | (Self::Text(a), Self::Text(b)) | (Self::Getter(a), Self::Getter(b)) => {
                a == b
            }
            (Self::Int(a), Self::Int(b)) | (Self::Range(a), Self::Range(b)) => a == b,
            (Self::List(a), Self::List(b)) | (Self::Gives(a), Self::Gives(b)) => Rc::ptr_eq(a, b),
            (Self::Map(a), Self::Map(b)) => Rc::ptr_eq(a, b),
            (Self::Space(a), Self::Space(b)) => a == b,
            (Self::Own, Self::Own) => true,
            _ => false,
        }
    }
}

/// Values of one name at most; also of one expression.
const MOST: usize = 4;
/// Texts are followed up to here.
pub(crate) const MOST_TEXT: usize = 256;
/// Paths are followed up to here.
const MOST_PATH: usize = 120;
/// Items of a list that are followed.
pub(crate) const MOST_ITEMS: usize = 32;

/// What an expression may be, if anything is known; empty is "anything".
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(Vec<Value>);

impl Values {
    pub(crate) fn one(value: Value) -> Self {
        Self(vec![value])
    }

    pub(crate) fn path(path: &str) -> Self {
        Self::one(Value::Path(path.into()))
    }

    pub(crate) fn text(text: String) -> Self {
        if text.len() > MOST_TEXT { Self::default() } else { Self::one(Value::Text(text.into())) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a meaning. Where there are too many, those that tell least go first: a name that is set to numbers first
    /// and to a module last is the module.
    pub(crate) fn add(&mut self, value: Value) {
        if self.0.iter().any(|known| known.is(&value)) {
            return;
        }
        if self.0.len() < MOST {
            self.0.push(value);
            return;
        }
        let least = self.0.iter_mut().min_by_key(|known| known.tells());
        if let Some(least) = least.filter(|least| least.tells() < value.tells()) {
            *least = value;
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        for value in other.0 {
            self.add(value);
        }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|value| if let Value::Path(path) = value { Some(&**path) } else { None })
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|value| if let Value::Text(text) = value { Some(&**text) } else { None })
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        self.texts().next()
    }

    pub(crate) fn as_int(&self) -> Option<i128> {
        self.0.iter().find_map(|value| if let Value::Int(number) = value { Some(*number) } else { None })
    }

    /// What a call of this code's own functions may give.
    pub(crate) fn given(&self) -> Self {
        let given = self.0.iter().filter_map(|value| if let Value::Gives(given) = value { Some(given) } else { None });
        given.flat_map(|given| given.iter().cloned()).collect()
    }

    /// What is under a key, of whatever dictionaries these may be; under any, if the key is not known.
    pub(crate) fn under(&self, key: Option<&str>) -> Self {
        let mut found = Self::default();
        for value in &self.0 {
            if let Value::Map(items) = value {
                let fits = |name: &str| key.is_none_or(|key| name == key || name.is_empty());
                items.iter().filter(|(name, _)| fits(name)).for_each(|(_, value)| found.add(value.clone()));
            }
        }
        found
    }

    /// A dictionary or list of which only is known what may be in it.
    pub(crate) fn somewhere(&self) -> Self {
        let items: Vec<(Rc<str>, Value)> = self.0.iter().map(|value| ("".into(), value.clone())).collect();
        if items.is_empty() { Self::default() } else { Self::one(Value::Map(items.into())) }
    }

    /// What a loop over it goes through.
    pub(crate) fn items(&self) -> Self {
        let mut items = self.under(None);
        self.as_list().into_iter().flatten().for_each(|item| items.add(item.clone()));
        items
    }

    pub(crate) fn as_list(&self) -> Option<&[Value]> {
        self.0.iter().find_map(|value| if let Value::List(items) = value { Some(&**items) } else { None })
    }
}

impl FromIterator<Value> for Values {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        let mut all = Self::default();
        values.into_iter().for_each(|value| all.add(value));
        all
    }
}

/// `path.name`, unless that gets too long to be anything we know.
pub(crate) fn below(path: &str, name: &str) -> Option<Rc<str>> {
    (path.len() + name.len() < MOST_PATH).then(|| format!("{path}.{name}").into())
}
