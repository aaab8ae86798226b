//! Pythons of other versions than the usual one: on PATH, and where version managers keep theirs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::find::{Found, home, real};
use crate::settings::Settings;

/// Folders of system-wide conda installations.
const CONDA: &[&str] = &["/opt/conda", "/opt/miniconda3", "/opt/anaconda3"];
/// The same in a home.
const OWN_CONDA: &[&str] = &["miniconda3", "anaconda3", "miniforge3", "mambaforge"];

/// A Python of this version: one on PATH, else the newest release that pyenv, uv or conda has.
pub(crate) fn python((major, minor): (u8, u8), settings: &Settings) -> Option<Found> {
    let name = format!("python{major}.{minor}");
    if let Some(path) = settings.interpreters.get(&name) {
        return real(path, settings).filter(|_| path.is_absolute());
    }
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let usual = on_path.into_iter().filter(|folder| folder.is_absolute()).map(|folder| folder.join(&name));
    let managed = prefixes(&format!("{major}.{minor}")).into_iter().map(|prefix| prefix.join("bin").join(&name));
    let wanted = (major, minor);
    usual.chain(managed).find_map(|path| real(&path, settings).filter(|found| found.python_version() == Some(wanted)))
}

/// Where version managers keep interpreters of a version, newest first.
fn prefixes(version: &str) -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    let own = home();
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(|| Some(own.as_ref()?.join(".pyenv")));
    let uv = env::var_os("UV_PYTHON_INSTALL_DIR").map(PathBuf::from);
    let uv = uv.or_else(|| Some(own.as_ref()?.join(".local/share/uv/python")));
    prefixes.extend(pyenv.iter().flat_map(|root| named(&root.join("versions"), &format!("{version}."))));
    prefixes.extend(uv.iter().flat_map(|root| named(root, &format!("cpython-{version}."))));
    let conda = own.iter().flat_map(|home| OWN_CONDA.iter().map(|name| home.join(name)));
    for root in conda.chain(CONDA.iter().map(PathBuf::from)) {
        prefixes.extend(named(&root.join("envs"), ""));
        prefixes.push(root);
    }
    prefixes
}

/// Folders whose names begin so; those of later releases first.
fn named(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let names =
        fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let release = |name: &str| {
        name[begin.len()..].split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse::<u32>().ok())
    };
    let mut names: Vec<String> = names.filter(|name| name.starts_with(begin)).collect();
    names.sort_by_key(|name| std::cmp::Reverse((release(name), name.clone())));
    names.into_iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_release_comes_first() {
        let folder = env::temp_dir().join(format!("saggar-pythons-{}", std::process::id()));
        for name in ["3.9.2", "3.9.18", "3.90.1", "3.10.1"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let found = named(&folder, "3.9.");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [folder.join("3.9.18"), folder.join("3.9.2")]);
    }
}
