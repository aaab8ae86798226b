//! The state folder: where saggar keeps what outlives a command.
//!
//! It has a version. What an older saggar left is brought up to date step by step, by whoever finds it first; what a newer
//! one left is not touched.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, access, flock};

use crate::error::RunError;

/// The file with the version.
const FILE: &str = "version";
/// Held by whoever brings it up to date.
const LOCK: &str = "version.lock";

/// One step towards the newest version. A step that was cut short is made again, so it must bear that.
type Step = fn(&Path) -> io::Result<()>;

/// What makes each version of the one before it; the first makes version 1 of a folder without one.
const STEPS: &[Step] = &[remove_unfinished];

/// Folders before versions may hold rooms of sockets whose server was killed while it began to listen.
fn remove_unfinished(state: &Path) -> io::Result<()> {
    for entry in fs::read_dir(state)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".serve-") {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Makes the folder, for its owner only, and sees that it can be written and is of our version.
///
/// A run whose record could not be kept is a run that is not started.
pub(crate) fn open(path: &Path) -> Result<PathBuf, RunError> {
    let failed = |source: io::Error| RunError::State { path: path.to_path_buf(), source };
    if !path.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    }
    access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| failed(e.into()))?;
    upgrade(path, STEPS)?;
    Ok(path.to_path_buf())
}

/// Brings a folder to the version that has as many steps behind it as there are.
fn upgrade(path: &Path, steps: &[Step]) -> Result<(), RunError> {
    let failed = |source: io::Error| RunError::State { path: path.to_path_buf(), source };
    let newest = steps.len();
    let is_current = |version: usize| {
        let newer = RunError::NewerState { path: path.to_path_buf(), version, known: newest };
        if version > newest { Err(newer) } else { Ok(version == newest) }
    };
    if is_current(version(path).map_err(failed)?)? {
        return Ok(());
    }
    let lock = open_own(&path.join(LOCK)).map_err(failed)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
    // Somebody else may have done it meanwhile.
    let mut now = version(path).map_err(failed)?;
    while !is_current(now)? {
        steps[now](path).map_err(failed)?;
        now += 1;
        write(path, now).map_err(failed)?;
    }
    Ok(())
}

/// The version of a folder; 0 if it has none.
fn version(path: &Path) -> io::Result<usize> {
    match fs::read_to_string(path.join(FILE)) {
        Ok(text) => {
            text.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "`version` is no number"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Whole or not at all.
fn write(path: &Path, version: usize) -> io::Result<()> {
    let aside = path.join(".version");
    let mut file = open_own(&aside)?;
    file.set_len(0)?;
    writeln!(file, "{version}")?;
    fs::rename(aside, path.join(FILE))
}

fn open_own(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> PathBuf {
        let folder = std::env::temp_dir().join(crate::new_id("saggar-state"));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn note(path: &Path, word: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(path.join("notes"))?;
        write!(file, "{word} ")
    }

    #[test]
    fn an_older_folder_is_brought_up_to_date_once_and_in_order() {
        let steps: [Step; 3] = [|path| note(path, "one"), |path| note(path, "two"), |path| note(path, "three")];
        let folder = folder();
        upgrade(&folder, &steps[..1]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| upgrade(&folder, &steps).unwrap());
            }
        });
        assert_eq!(fs::read_to_string(folder.join("notes")).unwrap(), "one two three ");
        assert_eq!(fs::read_to_string(folder.join("version")).unwrap(), "3\n");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_step_that_fails_is_made_again() {
        let folder = folder();
        let steps: [Step; 2] = [|path| note(path, "one"), |path| fs::remove_file(path.join("blocker"))];
        assert!(upgrade(&folder, &steps).is_err());
        assert_eq!(fs::read_to_string(folder.join("version")).unwrap(), "1\n");
        fs::write(folder.join("blocker"), "").unwrap();
        upgrade(&folder, &steps).unwrap();
        assert_eq!(fs::read_to_string(folder.join("notes")).unwrap(), "one ");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_newer_folder_is_left_alone_and_said_so() {
        let folder = folder();
        open(&folder).unwrap();
        fs::write(folder.join("version"), "99\n").unwrap();
        let error = open(&folder).unwrap_err();
        assert!(error.to_string().contains("99") && error.hint().contains("newer"), "{error}: {}", error.hint());
        for nonsense in ["", "x", "-1"] {
            fs::write(folder.join("version"), nonsense).unwrap();
            assert!(open(&folder).is_err(), "{nonsense}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
