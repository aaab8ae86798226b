//! How an instance is made to run: its interpreter, packages, installation and tests.

use std::collections::{BTreeMap, BTreeSet};

use engine::Way;
use serde::Deserialize;
use serde_json::Value as Json;

use super::SweError;
use super::diff;
use super::edits::ends;
use super::row::Instance;
use super::script::EvalScript;
use super::specs;
use super::steps::Where;

/// What to do to run the tests of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Version of Python; without one there is no environment, and commands find what the system and `trees` have.
    pub python: Option<(u8, u8)>,
    /// Host trees that commands see beside the interpreter, read-only: another language's tools.
    pub trees: Vec<String>,
    /// What pip installs first.
    pub pins: Vec<String>,
    /// How.
    pub pip_flags: Vec<String>,
    /// Files of the repository that name more packages.
    pub requirements: Vec<String>,
    /// Commands in the tree before the installation.
    pub pre_install: Vec<String>,
    /// Commands that install the project.
    pub install: Vec<String>,
    /// Variables of all commands.
    pub env: BTreeMap<String, String>,
    /// Commands before the tests.
    pub before: Vec<String>,
    /// The test command.
    pub test: String,
    /// The way out of the tests.
    pub way: Way,
    /// Whether the pins are all that the installation needs.
    pub offline: bool,
    /// Files that the tests are in.
    pub test_files: Vec<String>,
    /// A patch that is part of the tree: nothing tells what was there before.
    pub bug: Option<String>,
}

/// An environment as a row or a file beside the data set describes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Recipe {
    python: Text,
    pip: Lines,
    pip_flags: Lines,
    env: BTreeMap<String, Text>,
    network: Text,
    test_cmd: Lines,
    pre_install: Lines,
    install: Lines,
}

/// The same as SWE-rebench describes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct InstallConfig {
    pub(super) log_parser: Option<String>,
    python: Text,
    packages: Lines,
    pip_packages: Lines,
    pre_install: Lines,
    install: Lines,
    reqs_path: Lines,
    test_cmd: Lines,
}

/// A text, a number or nothing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Json")]
struct Text(String);

impl From<Json> for Text {
    fn from(value: Json) -> Self {
        Self(match value {
            Json::String(text) => text,
            Json::Null => String::new(),
            other => other.to_string(),
        })
    }
}

/// Lines of a text, a list of texts, or nothing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Json")]
struct Lines(Vec<String>);

impl From<Json> for Lines {
    fn from(value: Json) -> Self {
        let lines = match value {
            Json::Array(values) => values.into_iter().map(|value| Text::from(value).0).collect(),
            other => Text::from(other).0.lines().map(str::to_owned).collect::<Vec<_>>(),
        };
        Self(lines.into_iter().filter(|line| !line.trim().is_empty()).collect())
    }
}

impl Plan {
    /// For any repository: a test command, and commands before it that install what it tests.
    #[must_use]
    pub fn new(install: &[&str], test: &str) -> Self {
        Self {
            python: None,
            trees: Vec::new(),
            pins: Vec::new(),
            pip_flags: Vec::new(),
            requirements: Vec::new(),
            pre_install: Vec::new(),
            install: install.iter().map(|&line| line.to_owned()).collect(),
            env: BTreeMap::new(),
            before: Vec::new(),
            test: test.to_owned(),
            way: Way::Closed,
            offline: true,
            test_files: Vec::new(),
            bug: None,
        }
    }

    /// The same where an image has the project and its environment: what is tested, and how it is installed again.
    pub fn in_image(instance: &Instance) -> Result<Self, SweError> {
        if instance.bug.is_some() {
            return Err(SweError::Smith { instance: instance.id.clone() });
        }
        let mut plan = Self::made(instance, Where::Image)?;
        let moved = |line: &mut String| *line = line.replace(Where::Own.folder(), Where::Image.folder());
        plan.before.iter_mut().chain(&mut plan.install).chain([&mut plan.test]).for_each(moved);
        Ok(plan)
    }

    /// From all that is known: the environment of the row or of a file, the row's own script, the table of projects.
    pub fn of(instance: &Instance) -> Result<Self, SweError> {
        Self::made(instance, Where::Own)
    }

    fn made(instance: &Instance, place: Where) -> Result<Self, SweError> {
        if instance.parser.is_none() {
            // Tests whose log nobody reads would be no verdict on any patch.
            let name = instance.parser_name.as_deref().unwrap_or_default().chars().take(100).collect();
            return Err(SweError::NoParser { instance: instance.id.clone(), name });
        }
        let smith = instance.bug.is_some();
        let spec = if smith { Some(specs::smith()) } else { specs::of(&instance.repo, &instance.version) };
        let script = instance.eval_script.as_deref().map(EvalScript::read).unwrap_or_default();
        let test_files = if smith { named(instance) } else { diff::test_files(&instance.test_patch) };
        let (recipe, config) = (instance.recipe.as_ref(), instance.install_config.as_ref());
        let missing = || SweError::NoRecipe { instance: instance.id.clone() };
        let python = recipe.map(|recipe| &recipe.python.0).filter(|text| !text.is_empty());
        let python = python.or_else(|| config.map(|config| &config.python.0)).and_then(|text| version(text));
        let python = python.or(spec.as_ref().map(|spec| spec.python));
        if python.is_none() && place == Where::Own {
            return Err(missing());
        }
        let mut plan = Self {
            python: python.filter(|_| place == Where::Own),
            trees: Vec::new(),
            pins: Vec::new(),
            pip_flags: Vec::new(),
            requirements: Vec::new(),
            pre_install: Vec::new(),
            install: script.install,
            env: BTreeMap::new(),
            before: script.before,
            test: script.test,
            way: Way::Closed,
            offline: false,
            test_files,
            bug: instance.bug.clone(),
        };
        if let Some(recipe) = recipe {
            plan.take_recipe(recipe)?;
        } else if let Some(config) = config {
            plan.take_config(config);
        } else if let Some(spec) = &spec {
            plan.pins.clone_from(&spec.packages);
            plan.requirements.clone_from(&spec.requirements);
            plan.env.clone_from(&spec.env);
        }
        if let Some(spec) = spec {
            // What mends a version's own mistakes is needed whatever the environment is.
            if plan.pre_install.is_empty() {
                plan.pre_install = spec.pre_install;
            }
            if plan.install.is_empty() {
                plan.install = spec.install;
            }
            if plan.test.is_empty() {
                plan.test = spec.test;
            }
        }
        if plan.install.is_empty() && place == Where::Own {
            plan.install = vec!["python -m pip install -e .".to_owned()];
        }
        if plan.test.is_empty() {
            return Err(missing());
        }
        plan.test = complete(&plan.test, &plan.test_files, &instance.repo);
        Ok(plan)
    }

    fn take_recipe(&mut self, recipe: &Recipe) -> Result<(), SweError> {
        self.pins.clone_from(&recipe.pip.0);
        self.pip_flags =
            recipe.pip_flags.0.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
        self.pre_install.clone_from(&recipe.pre_install.0);
        self.env = recipe.env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
        self.offline = !self.pins.is_empty();
        if !recipe.install.0.is_empty() {
            self.install.clone_from(&recipe.install.0);
        }
        if !recipe.test_cmd.0.is_empty() {
            self.test = recipe.test_cmd.0.join("\n");
        }
        self.way = match recipe.network.0.as_str() {
            "" | "none" => Way::Closed,
            "blackhole" => Way::Silent,
            other => return Err(SweError::Network(other.chars().take(50).collect())),
        };
        Ok(())
    }

    fn take_config(&mut self, config: &InstallConfig) {
        self.pins.clone_from(&config.pip_packages.0);
        // Names of files, or packages with spaces between them.
        let packages = config.packages.0.iter().flat_map(|line| line.split_whitespace());
        for word in packages.filter(|word| !ends(word, "yml")) {
            if ends(word, "txt") {
                self.requirements.push(word.to_owned());
            } else {
                self.pins.push(word.to_owned());
            }
        }
        self.requirements.extend(config.reqs_path.0.iter().cloned());
        self.pre_install.clone_from(&config.pre_install.0);
        if !config.install.0.is_empty() {
            self.install.clone_from(&config.install.0);
        }
        if !config.test_cmd.0.is_empty() {
            self.test = config.test_cmd.0.join("\n");
        }
    }
}

/// Files that the tests of an instance are in, by their ids.
fn named(instance: &Instance) -> Vec<String> {
    let tests = instance.fail_to_pass.iter().chain(&instance.pass_to_pass);
    let files = tests.filter_map(|test| test.split_once("::")).map(|(file, _)| file.to_owned());
    let files: BTreeSet<String> = files.filter(|file| !file.starts_with('-')).collect();
    files.into_iter().collect()
}

/// `3.9`, `3.9.18`, `python3.9`, `3.9.*` are 3.9.
fn version(text: &str) -> Option<(u8, u8)> {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A test command with the files that it is to test, by a runner that is in the environment itself.
fn complete(command: &str, files: &[String], repo: &str) -> String {
    let mut command = command.trim().to_owned();
    if let Some((_, files)) = command.split_once("tox ").and_then(|(_, rest)| rest.split_once(" --")) {
        // Below a virtual environment tox starts another Python than the one that it is told to.
        command = format!("python -X dev -m pytest -rA --durations 25 {}", files.trim());
    }
    let names = specs::arguments(repo, files);
    if names.is_empty() || names.iter().any(|name| command.contains(name.as_str())) {
        return command;
    }
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    format!("{command} {}", names.join(" "))
}

/// A word as the shell reads it; plain ones stay as they are.
pub(super) fn quoted(word: &str) -> String {
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '=' | ',' | ':' | '@' | '%');
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_every_way_they_are_written() {
        for (text, wanted) in [
            ("3.9", Some((3, 9))),
            ("3.11.7", Some((3, 11))),
            ("python3.6", Some((3, 6))),
            ("3.10.*", Some((3, 10))),
            ("3", None),
            ("", None),
        ] {
            assert_eq!(version(text), wanted, "{text}");
        }
    }

    #[test]
    fn commands_get_the_files_that_they_lack() {
        let files = ["tests/a b.py".to_owned()];
        assert_eq!(complete("pytest -rA", &files, "x/y"), "pytest -rA 'tests/a b.py'");
        assert_eq!(complete("pytest -rA tests/a b.py", &files, "x/y"), "pytest -rA tests/a b.py");
        let files = ["tests/model_forms/tests.py".to_owned()];
        assert_eq!(complete("./tests/runtests.py", &files, "django/django"), "./tests/runtests.py model_forms.tests");
        let tox =
            complete("tox --current-env -epy39 -v -- tests/a.py", &["tests/a.py".to_owned()], "sphinx-doc/sphinx");
        assert_eq!(tox, "python -X dev -m pytest -rA --durations 25 tests/a.py");
    }
}
