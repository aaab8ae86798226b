//! Paths that cannot be swapped: inside the sandbox, and relative to its work folder.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a path was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Starts at the root, or is empty.
    #[error("`{0}` must be a path relative to the work folder")]
    NotRelative(String),
    /// Has `..`, `.`, an empty part or a NUL in it.
    #[error("`{0}` has a part that is not a plain name")]
    Part(String),
    /// Longer than the kernel takes, or nested too deep.
    #[error("`{0}` is too long or nested too deep")]
    Long(String),
    /// A guest path must start at the root.
    #[error("`{0}` must be an absolute path")]
    NotAbsolute(String),
}

/// A path below the work folder: plain names only, so that joining it cannot leave the folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RelPath(String);

impl RelPath {
    /// The deepest nesting that inputs and outputs may have.
    pub const MAX_DEPTH: usize = 64;

    /// Checks `path`; a leading `./` is dropped.
    pub fn new(path: impl Into<String>) -> Result<Self, PathError> {
        let path: String = path.into();
        let path = path.trim_start_matches("./").to_owned();
        if path.is_empty() || path.starts_with('/') {
            return Err(PathError::NotRelative(path));
        }
        if path.len() > 4000
            || path.split('/').count() > Self::MAX_DEPTH
            || path.split('/').any(|part| part.len() > 255)
        {
            return Err(PathError::Long(path.chars().take(80).collect()));
        }
        if path.contains('\0') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(PathError::Part(path));
        }
        Ok(Self(path))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RelPath {
    type Error = PathError;

    fn try_from(path: String) -> Result<Self, PathError> {
        Self::new(path)
    }
}

impl From<RelPath> for String {
    fn from(path: RelPath) -> Self {
        path.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An absolute path inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GuestPath(String);

impl GuestPath {
    /// Checks that `path` starts at the root and has no `..` in it.
    pub fn new(path: impl Into<String>) -> Result<Self, PathError> {
        let path = path.into();
        if !path.starts_with('/') {
            return Err(PathError::NotAbsolute(path));
        }
        if path.contains('\0') || path.split('/').any(|part| part == "..") {
            return Err(PathError::Part(path));
        }
        Ok(Self(path))
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_cannot_leave_its_folder() {
        for bad in
            ["", "/etc/passwd", "..", "a/../b", "a//b", "a/.", "a\0b", "a/..", &"x".repeat(256), &"a/".repeat(70)]
        {
            assert!(RelPath::new(bad).is_err(), "{bad}");
        }
        assert_eq!(RelPath::new("./a/b.txt").unwrap().as_str(), "a/b.txt");
        assert_eq!(RelPath::new("..a").unwrap().as_str(), "..a");
    }
}
