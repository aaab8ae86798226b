//! Where an evolution starts: one file, the text itself, or a tree of files.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::beside::{Beside, read_text};
use super::bundle;
use super::error::EvolveError;
use super::scoring::input;

/// Files of a tree, at most.
const MOST_FILES: usize = 200;
/// And how deep it may be.
const MOST_DEPTH: usize = 16;
/// What the file that is run is called, unless the task says.
const MAIN: [&str; 6] = ["main", "program", "initial_program", "solution", "app", "__main__"];

/// As written: a file or a folder beside the task, the text itself, or a list of files.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Written {
    Words(String),
    Files(Vec<String>),
}

/// Where it starts.
#[derive(Debug, Default)]
pub(super) struct Program {
    /// One program, or the texts of a tree.
    pub(super) text: String,
    pub(super) language: Option<String>,
    /// The file of a tree that is run.
    pub(super) main: Option<String>,
    /// Files of a tree that are no text: they stay as they are.
    pub(super) fixed: Vec<types::InputFile>,
}

/// Reads it.
pub(super) fn read(written: &Written, main: Option<&str>, beside: Beside<'_>) -> Result<Program, EvolveError> {
    let folder = match (beside, written) {
        (Beside::Folder(folder), _) => folder,
        (Beside::Carried(_), Written::Words(words)) => return carried(words, beside),
        (Beside::Carried(_), Written::Files(_)) => {
            return Err(EvolveError::Task("a task that is sent elsewhere has a `program` of one file".to_owned()));
        }
    };
    match written {
        Written::Files(files) => {
            let main = main.or(files.first().map(String::as_str)).unwrap_or_default();
            tree(folder, files.clone(), main)
        }
        Written::Words(words) if !words.contains('\n') && !words.is_empty() && folder.join(words).is_dir() => {
            let folder = folder.join(words);
            let files = below(&folder)?;
            let is_main = |path: &&String| {
                let path = Path::new(path.as_str());
                let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
                path.parent() == Some(Path::new("")) && MAIN.contains(&stem) && language(path).is_some()
            };
            let usual = files.iter().find(is_main).or(files.first().filter(|_| files.len() == 1)).cloned();
            let main = main.map(str::to_owned).or(usual).ok_or_else(|| {
                EvolveError::Task("`main` is missing: which file of the folder `program` is run".to_owned())
            })?;
            tree(&folder, files, &main)
        }
        Written::Words(words) => one(words, folder),
    }
}

/// A file that came along, or the program itself.
fn carried(words: &str, beside: Beside<'_>) -> Result<Program, EvolveError> {
    let path = Path::new(words);
    if beside.has(path) {
        return Ok(Program { text: beside.text(path)?, language: language(path), ..Program::default() });
    }
    if !words.contains('\n') && engine::for_file_name(words).is_some() {
        // It looks like a file, and there is none.
        return Err(EvolveError::Read { path: path.to_path_buf(), source: std::io::ErrorKind::NotFound.into() });
    }
    Ok(Program { text: words.to_owned(), ..Program::default() })
}

/// A file beside the task, or the program itself.
fn one(words: &str, folder: &Path) -> Result<Program, EvolveError> {
    let path = folder.join(words);
    let is_line = !words.contains('\n');
    if is_line && path.is_file() {
        return Ok(Program { text: read_text(&path)?, language: language(&path), ..Program::default() });
    }
    if is_line && engine::for_file_name(words).is_some() {
        // It looks like a file, and there is none.
        let source = std::io::ErrorKind::NotFound.into();
        return Err(EvolveError::Read { path, source });
    }
    Ok(Program { text: words.to_owned(), ..Program::default() })
}

fn tree(folder: &Path, mut paths: Vec<String>, main: &str) -> Result<Program, EvolveError> {
    let wrong = |why: String| EvolveError::Task(why);
    if paths.len() > MOST_FILES {
        return Err(wrong(format!("`program` has {} files, more than {MOST_FILES}", paths.len())));
    }
    // The one that is run comes first.
    paths.sort_by_key(|path| (path != main, path.clone()));
    paths.dedup();
    if paths.first().map(String::as_str) != Some(main) {
        return Err(wrong(format!("`main` is `{main}`, and `program` has no such file")));
    }
    let (mut texts, mut fixed) = (Vec::new(), Vec::new());
    for path in paths {
        let file = input(Beside::Folder(folder), Path::new(&path))?;
        match file.content {
            types::FileContent::Text(text) if text.lines().any(|line| bundle::named(line).is_some()) => {
                return Err(wrong(format!("`{path}` has a line that names a file, as saggar writes it between files")));
            }
            types::FileContent::Text(text) => texts.push((path, text)),
            _ if path == main => return Err(wrong(format!("`{path}` is no text"))),
            _ => fixed.push(file),
        }
    }
    let text = bundle::join(texts.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    Ok(Program { text, language: language(Path::new(main)), main: Some(main.to_owned()), fixed })
}

fn language(path: &Path) -> Option<String> {
    engine::for_file_name(path.file_name()?.to_str()?).map(str::to_owned)
}

/// The files of a folder: no links, nothing hidden, nothing that an interpreter has left.
fn below(folder: &Path) -> Result<Vec<String>, EvolveError> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((inner, depth)) = folders.pop() {
        let here = folder.join(&inner);
        let failed = |source| EvolveError::Read { path: here.clone(), source };
        for entry in fs::read_dir(&here).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let is_ours = name.to_str().is_some_and(|name| !name.starts_with('.') && name != "__pycache__");
            let kind = entry.file_type().map_err(failed)?;
            let path = inner.join(&name);
            if kind.is_dir() && is_ours && depth < MOST_DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_file() && is_ours {
                found.extend(path.to_str().map(str::to_owned));
            }
            if found.len() > MOST_FILES {
                return Err(EvolveError::Task(format!("`program` has more than {MOST_FILES} files")));
            }
        }
    }
    found.sort();
    Ok(found)
}
