//! Objects of a file: rows of data sets, predictions, environments.

use std::fs::File;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde::Deserialize;
use serde_json::Value as Json;

use super::SweError;

/// Objects of a `.json` file (a list, or the values of an object), of a `.parquet` file, or of one with an object on each
/// line; each with its number or line.
pub(super) fn records<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<(usize, T)>, SweError> {
    let ends = |ending: &str| path.extension().is_some_and(|extension| extension == ending);
    let values = if ends("parquet") {
        table(path)?
    } else if ends("json") {
        list(path)?
    } else {
        return lines(path);
    };
    let numbered = values.into_iter().enumerate();
    numbered
        .map(|(at, value)| match serde_json::from_value(value) {
            Ok(record) => Ok((at + 1, record)),
            Err(error) => Err(wrong(path, at + 1, &error)),
        })
        .collect()
}

fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<(usize, T)>, SweError> {
    let text = read(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| match serde_json::from_str(line) {
            Ok(record) => Ok((at + 1, record)),
            Err(error) => Err(wrong(path, at + 1, &error)),
        })
        .collect()
}

fn list(path: &Path) -> Result<Vec<Json>, SweError> {
    let whole: Json = serde_json::from_str(&read(path)?).map_err(|error| wrong(path, error.line(), &error))?;
    match whole {
        Json::Array(values) => Ok(values),
        Json::Object(values) => Ok(values.into_iter().map(|(_, value)| value).collect()),
        _ => Err(wrong(path, 1, &"it is neither a list nor an object")),
    }
}

/// Rows of a table, each as an object. What a row does not have is absent: a table has a column for everybody's fields.
fn table(path: &Path) -> Result<Vec<Json>, SweError> {
    let file = File::open(path).map_err(|source| SweError::File { path: path.to_path_buf(), source })?;
    let bad = |error: &dyn std::fmt::Display| SweError::Content {
        path: path.to_path_buf(),
        line: None,
        why: error.to_string(),
    };
    let read = move || {
        let rows = SerializedFileReader::new(file)?;
        let rows = rows.get_row_iter(None)?;
        rows.map(|row| row.map(|row| without_nulls(row.to_json_value()))).collect::<Result<Vec<Json>, ParquetError>>()
    };
    // It trusts numbers in the file: one that is wrong ends it, and is no reason to end everybody else.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)) {
        Ok(rows) => rows.map_err(|error| bad(&error)),
        Err(_) => Err(bad(&"it is no whole table")),
    }
}

fn without_nulls(value: Json) -> Json {
    match value {
        Json::Object(fields) => {
            let there = fields.into_iter().filter(|(_, value)| !value.is_null());
            Json::Object(there.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}

fn read(path: &Path) -> Result<String, SweError> {
    std::fs::read_to_string(path).map_err(|source| SweError::File { path: path.to_path_buf(), source })
}

fn wrong(path: &Path, line: usize, why: &dyn std::fmt::Display) -> SweError {
    SweError::Content { path: path.to_path_buf(), line: Some(line), why: why.to_string() }
}
