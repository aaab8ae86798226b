//! What there is to know of a file, in E2B's words.

use engine::{FileEntry, FileError, FileKind, Marks, PlaceFiles};
use serde_json::{Value, json};
use types::{GuestPath, Timestamp};

use super::connect::{Code, Failure};

/// How the names of attributes begin that are a file's metadata.
pub(super) const PREFIX: &str = "e2b.";

/// One entry; a link is told as what it leads to.
pub(super) async fn stat(files: &dyn PlaceFiles, path: &GuestPath) -> Result<Value, Failure> {
    let entry = files.stat(path).await?;
    let marks = files.marks(vec![path.clone()], PREFIX).await?.pop().unwrap_or_default();
    Ok(told(&entry, &marks))
}

/// The entries below a folder.
pub(super) async fn list(files: &dyn PlaceFiles, path: &GuestPath, depth: u32) -> Result<Vec<Value>, Failure> {
    let mut entries = files.list(path, depth).await.map_err(|error| match error {
        FileError::Kind { .. } => Failure::new(Code::InvalidArgument, format!("path is not a directory: {path}")),
        other => other.into(),
    })?;
    for entry in entries.iter_mut().filter(|entry| entry.kind == FileKind::Link) {
        // It may be gone by now, or lead nowhere.
        if let Ok(path) = GuestPath::new(entry.path.clone())
            && let Ok(followed) = files.stat(&path).await
        {
            *entry = followed;
        }
    }
    let paths = entries.iter().map(|entry| GuestPath::new(entry.path.clone())).collect::<Result<Vec<_>, _>>();
    let marks = match paths {
        Ok(paths) => files.marks(paths, PREFIX).await?,
        Err(_) => Vec::new(),
    };
    let marks = marks.iter().map(Some).chain(std::iter::repeat(None));
    let none = Marks::new();
    Ok(entries.iter().zip(marks).map(|(entry, marks)| told(entry, marks.unwrap_or(&none))).collect())
}

fn told(entry: &FileEntry, marks: &Marks) -> Value {
    let kind = match entry.kind {
        FileKind::File => "FILE_TYPE_FILE",
        FileKind::Folder => "FILE_TYPE_DIRECTORY",
        FileKind::Link | FileKind::Other => "FILE_TYPE_UNSPECIFIED",
    };
    let mut told = json!({
        "name": entry.name,
        "type": kind,
        "path": entry.path,
        "size": entry.bytes.to_string(),
        "mode": entry.mode & 0o777,
        "permissions": permissions(entry),
        "owner": called(entry.uid),
        "group": called(entry.gid),
        "modifiedTime": Timestamp(entry.modified_ms.saturating_mul(1000)),
    });
    if let Some(target) = &entry.target {
        told["symlinkTarget"] = absolute(&entry.path, target).into();
    }
    if !marks.is_empty() {
        told["metadata"] = json!(marks);
    }
    told
}

fn called(id: u32) -> String {
    match id {
        0 => "root".to_owned(),
        1000 => "user".to_owned(),
        65534 => "nobody".to_owned(),
        other => other.to_string(),
    }
}

fn permissions(entry: &FileEntry) -> String {
    let kind = match entry.kind {
        FileKind::Folder => 'd',
        FileKind::Link => 'L',
        FileKind::File | FileKind::Other => '-',
    };
    let bit = |index: u32| if entry.mode & (0o400 >> index) == 0 { '-' } else { ['r', 'w', 'x'][index as usize % 3] };
    std::iter::once(kind).chain((0..9).map(bit)).collect()
}

/// Where a link leads, from the root.
fn absolute(link: &str, target: &str) -> String {
    if target.starts_with('/') {
        return target.to_owned();
    }
    let mut parts: Vec<&str> = link.split('/').filter(|part| !part.is_empty()).collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_told_as_envd_tells_it() {
        let entry = FileEntry {
            name: "l".to_owned(),
            path: "/home/user/d/l".to_owned(),
            kind: FileKind::File,
            bytes: 5,
            mode: 0o644,
            uid: 1000,
            gid: 0,
            modified_ms: 1500,
            target: Some("../x".to_owned()),
        };
        let told = told(&entry, &Marks::from([("a".to_owned(), "b".to_owned())]));
        let expected = json!({
            "name": "l", "type": "FILE_TYPE_FILE", "path": "/home/user/d/l", "size": "5", "mode": 420,
            "permissions": "-rw-r--r--", "owner": "user", "group": "root",
            "modifiedTime": "1970-01-01T00:00:01.500000Z", "symlinkTarget": "/home/user/x", "metadata": {"a": "b"},
        });
        assert_eq!(told, expected);
    }
}
