//! Which files of a patch could decide the verdict instead of the code that is tested.

use serde::{Deserialize, Serialize};

/// What to do with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edits {
    /// They are reported and put back.
    #[default]
    Strict,
    /// They stay, as in the official harness.
    Official,
}

/// Why a file could decide the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Power {
    /// Hooks of pytest.
    Conftest,
    /// Settings of the runner.
    RunnerSettings,
    /// What the installation runs and reads, settings of the runner among it.
    Installation,
    /// Code that Python runs whenever it starts.
    StartUp,
    /// The runner itself.
    Runner,
    /// It lies with the tests.
    Tests,
    /// A module in the place of another.
    Shadow,
}

/// Folders of tests that a test patch touches: down to the last part that is called so.
#[must_use]
pub fn test_folders(test_files: &[String]) -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    for file in test_files {
        let parts: Vec<&str> = file.split('/').collect();
        let above = &parts[..parts.len() - 1];
        let Some(last) = above.iter().rposition(|part| matches!(*part, "test" | "tests" | "testing")) else { continue };
        let folder = above[..=last].join("/");
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// Parts of projects that run their tests, or that their tests are made of, beside those that are called tests.
const RUNNERS: &[&str] = &[
    "bin/test",
    "bin/doctest",
    "django/test/",
    "sympy/testing/",
    "sympy/utilities/pytest.py",
    "sympy/utilities/runtests.py",
    "sphinx/testing/",
    "lib/matplotlib/testing/",
    "sklearn/utils/testing.py",
    "sklearn/utils/_testing.py",
    "sklearn/utils/_unittest_backport.py",
    "astropy/tests/",
    "xarray/testing.py",
    "xarray/testing/",
];

/// Which of those parts a file belongs to.
#[must_use]
pub fn runner(path: &str) -> Option<&'static str> {
    RUNNERS.iter().copied().find(|part| if part.ends_with('/') { path.starts_with(part) } else { path == *part })
}

/// What power a file has by its name and place.
#[must_use]
pub fn power(path: &str, test_folders: &[String]) -> Option<Power> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let below = |folder: &String| {
        path == folder || path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
    };
    let starts_up = |part: &str| matches!(part.strip_suffix(".py").unwrap_or(part), "sitecustomize" | "usercustomize");
    match name {
        "conftest.py" => Some(Power::Conftest),
        "pytest.ini" | ".pytest.ini" | "pytest.toml" | ".pytest.toml" | "tox.ini" => Some(Power::RunnerSettings),
        "setup.py" | "setup.cfg" | "pyproject.toml" => Some(Power::Installation),
        "runtests.py" => Some(Power::Runner),
        _ if path.split('/').any(starts_up) || ends(name, "pth") => Some(Power::StartUp),
        _ if runner(path).is_some() => Some(Power::Runner),
        _ if test_folders.iter().any(below) => Some(Power::Tests),
        _ => None,
    }
}

/// Whether a name has an ending, in whatever letters.
pub(super) fn ends(name: &str, ending: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, last)| last.eq_ignore_ascii_case(ending))
}

/// Modules that new files would make importable: `(folder, name)`, for folders from which tests import.
#[must_use]
pub fn modules(added: &[String], test_files: &[String]) -> Vec<(String, String)> {
    let mut roots: Vec<&str> = vec!["", "src", "lib"];
    roots.extend(test_files.iter().map(|file| file.rsplit_once('/').map_or("", |(folder, _)| folder)));
    let mut found: Vec<(String, String)> = Vec::new();
    for path in added {
        for root in &roots {
            let rest = if root.is_empty() {
                Some(path.as_str())
            } else {
                path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'))
            };
            let Some(first) = rest.and_then(|rest| rest.split('/').next()) else { continue };
            let is_folder = rest != Some(first);
            let name = first.split('.').next().unwrap_or(first);
            let is_module = is_folder || [".py", ".so", ".pyc", ".pyd"].iter().any(|ending| first.ends_with(ending));
            let entry = ((*root).to_owned(), name.to_owned());
            if is_module && !name.is_empty() && !found.contains(&entry) {
                found.push(entry);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn files_that_decide_are_told_by_name_and_place() {
        let folders =
            test_folders(&texts(&["tests/roots/a/b.py", "sympy/testing/tests/test_x.py", "test_requests.py"]));
        assert_eq!(folders, ["tests", "sympy/testing/tests"]);
        for (path, wanted) in [
            ("src/flask/conftest.py", Some(Power::Conftest)),
            ("pytest.ini", Some(Power::RunnerSettings)),
            ("setup.cfg", Some(Power::Installation)),
            ("sitecustomize.py", Some(Power::StartUp)),
            ("src/sitecustomize/__init__.py", Some(Power::StartUp)),
            ("x.pth", Some(Power::StartUp)),
            ("tests/helper.py", Some(Power::Tests)),
            ("tests", Some(Power::Tests)),
            ("testsuite/x.py", None),
            ("sympy/testing/pytest.py", Some(Power::Runner)),
            ("django/test/testcases.py", Some(Power::Runner)),
            ("django/tests.py", None),
            ("bin/test", Some(Power::Runner)),
            ("src/flask/app.py", None),
        ] {
            assert_eq!(power(path, &folders), wanted, "{path}");
        }
    }

    #[test]
    fn new_modules_are_seen_where_tests_import_from() {
        let found = modules(
            &texts(&["pytest.py", "src/unittest/__init__.py", "docs/json.py", "tests/a/py.py", "NOTES.txt"]),
            &texts(&["tests/a/test_x.py"]),
        );
        let names: Vec<String> = found.iter().map(|(root, name)| format!("{root}:{name}")).collect();
        assert!(names.contains(&":pytest".to_owned()) && names.contains(&"src:unittest".to_owned()));
        assert!(names.contains(&"tests/a:py".to_owned()) && !names.contains(&":NOTES".to_owned()));
    }
}
