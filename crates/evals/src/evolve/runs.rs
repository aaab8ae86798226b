//! Where runs are: each in a folder of its own, those that were given none below the state folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::EvolveError;
use super::store::FILE;

/// The folder of runs in the state folder.
const FOLDER: &str = "evolve";
/// A file with the folder of a run that is elsewhere.
const ELSEWHERE: &str = "folder";

/// The runs that a state folder knows of.
pub struct Runs(PathBuf);

impl Runs {
    /// Those of a state folder; it need not be there.
    #[must_use]
    pub fn of(state: &Path) -> Self {
        Self(state.join(FOLDER))
    }

    /// A folder for a run that was given none.
    #[must_use]
    pub fn new_folder(&self) -> PathBuf {
        self.0.join(engine::new_id("run"))
    }

    /// Remembers where a run is, under its name.
    pub fn remember(&self, id: &str, folder: &Path) -> Result<(), EvolveError> {
        let place = self.0.join(id);
        let failed = |source| EvolveError::Write { path: place.clone(), source };
        fs::create_dir_all(&place).map_err(failed)?;
        let folder = fs::canonicalize(folder).map_err(failed)?;
        fs::write(place.join(ELSEWHERE), folder.as_os_str().as_encoded_bytes()).map_err(failed)
    }

    /// The folder of a run by its id or the beginning of it, or by its folder; without either, of the last one.
    pub fn find(&self, name: Option<&str>) -> Result<PathBuf, EvolveError> {
        let Some(name) = name else {
            return self.last().ok_or_else(|| EvolveError::NoRun("none at all".to_owned()));
        };
        let path = Path::new(name);
        let folder = if path.is_file() { path.parent().unwrap_or(Path::new(".")) } else { path };
        if folder.join(FILE).is_file() {
            return Ok(folder.to_path_buf());
        }
        let none = || EvolveError::NoRun(name.to_owned());
        let mut found = self.known().into_iter().filter(|(id, ..)| !name.is_empty() && id.starts_with(name));
        match (found.next(), found.next()) {
            (Some((_, folder, _)), None) => Ok(folder),
            _ => Err(none()),
        }
    }

    fn last(&self) -> Option<PathBuf> {
        self.known().into_iter().max_by_key(|(_, _, when)| *when).map(|(_, folder, _)| folder)
    }

    fn known(&self) -> Vec<(String, PathBuf, SystemTime)> {
        use std::os::unix::ffi::OsStringExt;
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let run = |entry: fs::DirEntry| {
            let id = entry.file_name().into_string().ok()?;
            let note = entry.path().join(ELSEWHERE);
            let folder = PathBuf::from(std::ffi::OsString::from_vec(fs::read(&note).ok()?));
            let when = fs::metadata(&note).and_then(|about| about.modified()).ok()?;
            folder.join(FILE).is_file().then_some((id, folder, when))
        };
        entries.filter_map(run).collect()
    }
}
