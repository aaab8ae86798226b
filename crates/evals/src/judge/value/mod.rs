//! Plain data: what a case says and what tested code answers. No code of anybody is part of a value.

mod int;
mod literal;
mod show;
mod wire;

pub use int::Int;
pub use literal::LiteralError;
pub(crate) use literal::is_near;
pub(crate) use show::{short, shorter};
pub use wire::WireError;

/// The deepest value that is read, from a task or from tested code.
pub(crate) const MOST_DEPTH: usize = 110;

/// A Python value without behaviour.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`, JSON's `null`.
    None,
    /// `True` and `False`.
    Bool(bool),
    /// Of any size.
    Int(Int),
    /// NaN and infinities included.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
    /// Text.
    Str(String),
    /// Any bytes.
    Bytes(Vec<u8>),
    /// JSON's array.
    List(Vec<Value>),
    /// Told from a list.
    Tuple(Vec<Value>),
    /// In any order.
    Set(Vec<Value>),
    /// In any order.
    FrozenSet(Vec<Value>),
    /// JSON's object, with keys of any type.
    Dict(Vec<(Value, Value)>),
    /// What the builtin types have no word for.
    Tagged(Tag, Vec<Value>),
}

/// What a tagged value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// `...`
    Ellipsis,
    /// Start, stop, step.
    Range,
    /// Its text.
    Decimal,
    /// Numerator, denominator.
    Fraction,
    /// Days, seconds, microseconds.
    TimeDelta,
    /// ISO text.
    DateTime,
    /// ISO text.
    Date,
    /// ISO text.
    Time,
    /// Class, `dataclass` or `namedtuple`, pairs of name and value.
    Record,
    /// An array's element type and its nested lists.
    Array,
    /// A table's columns, index and rows.
    Frame,
    /// An object that lives with the sender: number, class, name.
    Mine,
    /// An object that lives with the receiver: number.
    Yours,
    /// A class of the sender: number, name, methods, exception it is one of.
    Class,
    /// A module of the standard library.
    Module,
    /// A name in such a module.
    Import,
}

impl Tag {
    const ALL: [Self; 16] = [
        Self::Ellipsis,
        Self::Range,
        Self::Decimal,
        Self::Fraction,
        Self::TimeDelta,
        Self::DateTime,
        Self::Date,
        Self::Time,
        Self::Record,
        Self::Array,
        Self::Frame,
        Self::Mine,
        Self::Yours,
        Self::Class,
        Self::Module,
        Self::Import,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ellipsis => "ellipsis",
            Self::Range => "range",
            Self::Decimal => "decimal",
            Self::Fraction => "fraction",
            Self::TimeDelta => "timedelta",
            Self::DateTime => "datetime",
            Self::Date => "date",
            Self::Time => "time",
            Self::Record => "record",
            Self::Array => "ndarray",
            Self::Frame => "frame",
            Self::Mine => "mine",
            Self::Yours => "yours",
            Self::Class => "class",
            Self::Module => "module",
            Self::Import => "import",
        }
    }

    fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tag| tag.name() == name)
    }
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Str(text.into())
    }

    /// A small integer.
    #[must_use]
    pub const fn int(number: i64) -> Self {
        Self::Int(Int::Small(number))
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Str(text) = self { Some(text) } else { None }
    }

    /// The number, if it is a small integer.
    #[must_use]
    pub const fn as_int(&self) -> Option<i64> {
        if let Self::Int(Int::Small(number)) = self { Some(*number) } else { None }
    }

    /// What a person calls its type.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Complex(..) => "complex",
            Self::Str(_) => "str",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Set(_) => "set",
            Self::FrozenSet(_) => "frozenset",
            Self::Dict(_) => "dict",
            Self::Tagged(Tag::Record, words) => words.first().and_then(Self::as_str).unwrap_or("record"),
            Self::Tagged(Tag::Decimal, _) => "Decimal",
            Self::Tagged(Tag::Fraction, _) => "Fraction",
            Self::Tagged(Tag::Frame, _) => "DataFrame",
            Self::Tagged(tag, _) => tag.name(),
        }
    }
}
