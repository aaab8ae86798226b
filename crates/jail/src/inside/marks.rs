//! Words that are attached to files of a sandbox that stays: extended attributes of the user's own kind.

use std::ffi::CString;
use std::fs::File;
use std::io;

use rustix::fs::{Mode, OFlags, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use types::GuestPath;

use super::{Files, Marks};

/// Bytes of all names, and of one value. The kernel takes 64 KiB of each.
const MOST: usize = 64 << 10;

/// Those of a file whose names begin with a prefix; none where it cannot be opened.
pub(super) fn read(files: &Files, path: &GuestPath, prefix: &str) -> Marks {
    let Ok(file) = files.open_regular(path.as_str(), OFlags::RDONLY, Mode::empty()) else { return Marks::new() };
    let mut marks = Marks::new();
    for name in names(&file, prefix).unwrap_or_default() {
        let mut value = vec![0; MOST];
        let Ok(length) = fgetxattr(&file, &name, &mut value[..]) else { continue };
        value.truncate(length);
        let short = name.to_string_lossy()["user.".len() + prefix.len()..].to_owned();
        if let Ok(text) = String::from_utf8(value) {
            marks.insert(short, text);
        }
    }
    marks
}

/// Sets these, and removes all others that begin with the prefix.
pub(super) fn write(files: &Files, path: &GuestPath, prefix: &str, marks: &Marks) -> io::Result<()> {
    let file = files.open_regular(path.as_str(), OFlags::RDONLY, Mode::empty())?;
    for old in names(&file, prefix).unwrap_or_default() {
        let short = old.to_string_lossy()["user.".len() + prefix.len()..].to_owned();
        if !marks.contains_key(&short) {
            fremovexattr(&file, &old)?;
        }
    }
    for (name, value) in marks {
        let name = CString::new(format!("user.{prefix}{name}")).map_err(io::Error::other)?;
        fsetxattr(&file, &name, value.as_bytes(), XattrFlags::empty())?;
    }
    Ok(())
}

fn names(file: &File, prefix: &str) -> Result<Vec<CString>, Errno> {
    let mut list = vec![0; MOST];
    let length = flistxattr(file, &mut list[..])?;
    let wanted = format!("user.{prefix}");
    let all = list[..length].split(|byte| *byte == 0);
    let ours = all.filter(|name| name.starts_with(wanted.as_bytes()) && std::str::from_utf8(name).is_ok());
    Ok(ours.filter_map(|name| CString::new(name).ok()).collect())
}
