//! The state folder: where saggar keeps what outlives a command.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::error::RunError;

/// Makes the folder, for its owner only, and sees that it can be written.
///
/// A run whose record could not be kept is a run that is not started.
pub(crate) fn open(path: &Path) -> Result<PathBuf, RunError> {
    let failed = |source: io::Error| RunError::State { path: path.to_path_buf(), source };
    if !path.is_dir() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    }
    access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| failed(e.into()))?;
    Ok(path.to_path_buf())
}
