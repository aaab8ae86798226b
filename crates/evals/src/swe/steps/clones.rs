//! Clones of projects that nobody has put into a folder: made once, in a sandbox, and kept below the state folder.
//!
//! Git runs in the sandbox alone. What comes out of it is one pack, its index and the names of commits; all that could name
//! a program, hooks and settings, is written here.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use engine::{Engine, Way};
use tokio::io::AsyncReadExt as _;

use super::repository::Repository;
use super::site::{Site, name};
use super::workshop::{Failure, GIT_SETTINGS, Workshop, git_environment, script};
use crate::swe::SweError;

/// Every branch and tag, in one pack.
const SCRIPT: &str = r#"set -e
exec 2>&1
printf '%s' "$GIT_SETTINGS" > "$HOME/.gitconfig"
git init -q --bare /work/clone
cd /work/clone
git -c fetch.unpackLimit=1 -c pack.writeReverseIndex=false fetch -q --no-tags --no-recurse-submodules "$1" \
  '+refs/heads/*:refs/heads/*' '+refs/tags/*:refs/tags/*'
git pack-refs --all
mv objects/pack/pack-*.pack /work/history.pack
mv objects/pack/pack-*.idx /work/history.idx
mv packed-refs /work/packed-refs
"#;

/// What a clone consists of, inside and here.
const FILES: [(&str, &str); 3] = [
    ("/work/history.pack", "objects/pack/pack-history.pack"),
    ("/work/history.idx", "objects/pack/pack-history.idx"),
    ("/work/packed-refs", "packed-refs"),
];

impl Workshop {
    /// The clone of what is elsewhere; made if it is not there yet. Nobody else clones the same meanwhile, in this process
    /// or in another.
    pub(super) async fn clone_of(&self, origin: &Repository) -> Result<Repository, SweError> {
        let url = origin.source();
        let folder = folder(self.engine());
        let clone = folder.join(folder_name(&url));
        let found = Repository::Folder(clone.clone());
        if clone.is_dir() {
            return Ok(found);
        }
        let _alone = self.alone(&url).await;
        let _locked = locked(&clone).await?;
        if clone.is_dir() {
            return Ok(found);
        }
        // Other instances of the project are told the same, and wait for nobody.
        if let Some(Failure { why, .. }) = self.failures().get(&url).cloned() {
            return Err(SweError::Clone { url, why });
        }
        // Whoever left one half made is gone: its lock was free.
        let part = clone.with_extension("part");
        remove(&part)?;
        let made = self.bring(origin, &url, &part).await;
        let kept = made.and_then(|()| fs::rename(&part, &clone).map_err(|source| failed(&clone, source)));
        if let Err(error) = kept {
            remove(&part)?;
            if let SweError::Clone { why, .. } = &error {
                let failure = Failure { what: "cloned", why: why.clone(), log: "".into() };
                self.failures().insert(url, failure);
            }
            return Err(error);
        }
        self.count();
        Ok(found)
    }

    async fn bring(&self, origin: &Repository, url: &str, part: &Path) -> Result<(), SweError> {
        // What is not there cannot be shown to a sandbox either.
        if let Some(tree) = origin.trees().iter().find(|tree| !Path::new(tree).exists()) {
            return Err(SweError::Clone { url: url.to_owned(), why: format!("there is no {tree}") });
        }
        let way = if origin.is_away() { Way::Index } else { Way::Closed };
        let mut env = self.index();
        env.extend(git_environment(self.engine().sources().ca_bundle.is_some()));
        env.insert("GIT_SETTINGS".to_owned(), GIT_SETTINGS.to_owned());
        let site = self.site(None, origin.trees(), way, env).await?;
        self.trust(&site).await?;
        let said = site.run(script(SCRIPT, &[url])).await?;
        if !said.is_ok() {
            return Err(SweError::Clone { url: url.to_owned(), why: said.last(3) });
        }
        for folder in ["", "objects", "objects/pack", "refs"] {
            let folder = part.join(folder);
            fs::create_dir_all(&folder).map_err(|source| failed(&folder, source))?;
            open_to_all(&folder, 0o755)?;
        }
        for (inside, here) in FILES {
            take(&site, inside, &part.join(here)).await?;
        }
        for (file, text) in [("HEAD", "ref: refs/heads/main\n"), ("config", "[core]\n\tbare = true\n")] {
            let file = part.join(file);
            fs::write(&file, text).map_err(|source| failed(&file, source))?;
            open_to_all(&file, 0o644)?;
        }
        Ok(())
    }
}

/// Bytes that clones take on the disk.
#[must_use]
pub fn clones(engine: &Engine) -> u64 {
    let folders = fs::read_dir(folder(engine)).into_iter().flatten().flatten();
    let files = folders.flat_map(|clone| FILES.map(|(_, file)| clone.path().join(file)));
    files.filter_map(|file| fs::metadata(file).ok()).map(|about| about.len()).sum()
}

fn folder(engine: &Engine) -> PathBuf {
    engine.state().join("swe-clones")
}

/// A name that people know again, and that no other address has.
fn folder_name(url: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let end: Vec<&str> = url.trim_end_matches(".git").trim_end_matches('/').rsplit('/').take(2).collect();
    let end = end.into_iter().rev().collect::<Vec<_>>().join("__");
    let end: String = end.chars().filter(|c| plain(*c)).take(100).collect();
    format!("{end}-{}.git", name("clone", &[url]).trim_start_matches("swe-clone-"))
}

/// Holds the name of a clone, as long as what comes back lives; also against other processes.
async fn locked(clone: &Path) -> Result<File, SweError> {
    let path = clone.with_extension("lock");
    let taken = tokio::task::spawn_blocking(move || {
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
        let file = File::create(&path).map_err(|source| failed(&path, source))?;
        file.lock().map_err(|source| failed(&path, source))?;
        Ok(file)
    });
    taken.await.map_err(|_| SweError::Worker)?
}

/// Brings a file out of the sandbox.
async fn take(site: &Site, inside: &str, here: &Path) -> Result<(), SweError> {
    let mut content = site.read(inside).await?;
    let mut file = File::create(here).map_err(|source| failed(here, source))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = content.read(&mut buffer).await.map_err(|source| failed(here, source))?;
        if count == 0 {
            return open_to_all(here, 0o644);
        }
        file.write_all(&buffer[..count]).map_err(|source| failed(here, source))?;
    }
}

/// Whoever runs in the sandbox that reads it may be somebody else, whatever the caller's umask is.
fn open_to_all(path: &Path, mode: u32) -> Result<(), SweError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|source| failed(path, source))
}

fn remove(path: &Path) -> Result<(), SweError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(failed(path, source)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, source: std::io::Error) -> SweError {
    SweError::File { path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_other_addresses_have_other_names() {
        let one = folder_name("https://github.com/pallets/flask.git");
        assert!(one.starts_with("pallets__flask-") && one.contains(".git"), "{one}");
        assert_ne!(one, folder_name("https://git.example/pallets/flask.git"));
        let odd = folder_name("file:///a/../..");
        assert!(!odd.contains('/') && !odd.starts_with('.'), "{odd}");
    }
}
