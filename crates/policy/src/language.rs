//! Languages that have a reader.

/// A language that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript, as Node reads it.
    JavaScript,
    /// TypeScript whose types are stripped.
    TypeScript,
    /// bash, and sh as far as they are alike.
    Bash,
}

impl Language {
    /// The reader for a recipe's name, if there is one.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "python" | "python3" | "py" => Some(Self::Python),
            "node" | "javascript" | "js" => Some(Self::JavaScript),
            "typescript" | "ts" => Some(Self::TypeScript),
            "bash" | "sh" | "shell" => Some(Self::Bash),
            _ => None,
        }
    }

    /// The reader for a file, by its ending.
    #[must_use]
    pub fn by_file_name(name: &str) -> Option<Self> {
        let (_, ending) = name.rsplit_once('.')?;
        match ending {
            "py" | "pyw" => Some(Self::Python),
            "js" | "mjs" | "cjs" => Some(Self::JavaScript),
            "ts" | "mts" | "cts" => Some(Self::TypeScript),
            "sh" | "bash" => Some(Self::Bash),
            _ => None,
        }
    }

    /// How ids of its rules begin. TypeScript shares those of JavaScript.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript | Self::TypeScript => "javascript",
            Self::Bash => "bash",
        }
    }
}
