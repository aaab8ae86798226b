//! Where a project's history is.

use std::path::{Path, PathBuf};

use crate::swe::SweError;

/// Where everybody finds projects, unless the settings say otherwise.
const USUAL: &str = "https://github.com/{owner}/{name}.git";

/// Where to get a commit from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repository {
    /// A repository on this host, with or without a work tree.
    Folder(PathBuf),
    /// A bundle on this host.
    Bundle(PathBuf),
    /// Somewhere else: it is cloned once, and the clone is kept.
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
            Self::Remote(url) => url.strip_prefix("file://").map(str::to_owned).into_iter().collect(),
        }
    }

    /// Whether it takes a network.
    pub(super) fn is_away(&self) -> bool {
        matches!(self, Self::Remote(url) if !url.starts_with("file://"))
    }
}

/// The two parts of a name that no command takes for anything else.
fn parts(repo: &str) -> Result<(&str, &str), SweError> {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    match repo.split_once('/') {
        Some((owner, name)) if plain(owner) && plain(name) => Ok((owner, name)),
        _ => Err(SweError::Name(repo.to_owned())),
    }
}

/// Where `OWNER/NAME` is cloned from: an address with `{owner}` and `{name}` in it, or the usual place.
pub fn origin(template: Option<&str>, repo: &str) -> Result<Repository, SweError> {
    let (owner, name) = parts(repo)?;
    let template = template.unwrap_or(USUAL);
    let is_known = ["https://", "http://", "file:///"].iter().any(|scheme| template.starts_with(scheme));
    if !is_known || !template.contains("{name}") || template.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(SweError::Origin(template.chars().take(200).collect()));
    }
    Ok(Repository::Remote(template.replace("{owner}", owner).replace("{name}", name)))
}

/// Finds the repository of `OWNER/NAME` among those of a folder.
pub fn find(folder: &Path, repo: &str) -> Result<Repository, SweError> {
    let (owner, name) = parts(repo)?;
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
            assert!(origin(None, bad).is_err() && find(Path::new("/nowhere"), bad).is_err(), "{bad}");
        }
        assert_eq!(origin(None, "a/b").unwrap(), Repository::Remote("https://github.com/a/b.git".to_owned()));
    }

    #[test]
    fn an_origin_is_an_address_with_the_name_in_it() {
        let from = |template| origin(Some(template), "a/b").map(|found| found.source()).ok();
        assert_eq!(from("http://git.example/{owner}-{name}").as_deref(), Some("http://git.example/a-b"));
        assert_eq!(from("file:///srv/git/{name}.git").as_deref(), Some("file:///srv/git/b.git"));
        for bad in
            ["ext::sh -c {name}", "https://x/one.git", "{name}", "https://x/ {name}", "-u{name}", "ssh://x/{name}"]
        {
            assert_eq!(from(bad), None, "{bad}");
        }
    }
}
