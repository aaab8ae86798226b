//! Where a project's history is.

use std::path::{Path, PathBuf};

use crate::swe::SweError;

/// Where to get a commit from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repository {
    /// A repository on this host, with or without a work tree.
    Folder(PathBuf),
    /// A bundle on this host.
    Bundle(PathBuf),
    /// Somewhere else.
    Remote(String),
}

impl Repository {
    /// What git is told to fetch from.
    #[must_use]
    pub(super) fn source(&self) -> String {
        match self {
            Self::Folder(path) => format!("file://{}", path.display()),
            Self::Bundle(path) => path.display().to_string(),
            Self::Remote(url) => url.clone(),
        }
    }

    /// What of this host must be seen for that.
    pub(super) fn trees(&self) -> Vec<String> {
        match self {
            Self::Folder(path) | Self::Bundle(path) => vec![path.display().to_string()],
            Self::Remote(_) => Vec::new(),
        }
    }
}

/// Finds the repository of `OWNER/NAME` among those of a folder; without a folder it is where everybody finds it.
pub fn find(folder: Option<&Path>, repo: &str) -> Result<Repository, SweError> {
    let parts: Vec<&str> = repo.split('/').collect();
    let plain = |part: &&str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let [owner, name] = parts[..] else { return Err(SweError::Name(repo.to_owned())) };
    if ![owner, name].iter().all(plain) {
        return Err(SweError::Name(repo.to_owned()));
    }
    let Some(folder) = folder else { return Ok(Repository::Remote(format!("https://github.com/{owner}/{name}.git"))) };
    let names = [format!("{owner}__{name}"), format!("{owner}/{name}"), format!("{owner}+{name}"), name.to_owned()];
    for name in &names {
        for ending in ["", ".git"] {
            // A link is what it leads to: that is what the sandbox gets to see.
            let Ok(path) = std::fs::canonicalize(folder.join(format!("{name}{ending}"))) else { continue };
            if let Some(found) = [path.join(".git"), path.clone(), path.join("repo")].iter().find(|path| is_git(path)) {
                return Ok(Repository::Folder(found.clone()));
            }
        }
        if let Ok(path) = std::fs::canonicalize(folder.join(format!("{name}.bundle"))) {
            return Ok(Repository::Bundle(path));
        }
    }
    Err(SweError::NoRepository { repo: repo.to_owned(), folder: folder.to_path_buf() })
}

fn is_git(path: &Path) -> bool {
    path.join("HEAD").is_file() && path.join("objects").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_project_is_an_option_or_a_way_out() {
        for bad in ["", "flask", "a/b/c", "../x", "a/..", "-x/y", "a/b c", "a/$(x)"] {
            assert!(find(None, bad).is_err(), "{bad}");
        }
        assert_eq!(find(None, "a/b").unwrap(), Repository::Remote("https://github.com/a/b.git".to_owned()));
    }
}
