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

impl Value {
    /// Whether it is the same. Lists are only if they are one: comparing what is in them has no bound.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Path(a), Self::Path(b)) | (Self::Text(a), Self::Text(b)) | (Self::Getter(a), Self::Getter(b)) => {
                a == b
            }
            (Self::Int(a), Self::Int(b)) | (Self::Range(a), Self::Range(b)) => a == b,
            (Self::List(a), Self::List(b)) => Rc::ptr_eq(a, b),
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

    pub(crate) fn add(&mut self, value: Value) {
        if self.0.len() < MOST && !self.0.iter().any(|known| known.is(&value)) {
            self.0.push(value);
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
