//! Languages: recipes as data, and where their programs are on this host.

mod find;
mod known;
mod pythons;
mod recipe;

pub use find::Found;
pub(crate) use find::{find, visible_interpreters};
pub(crate) use known::Known;
pub(crate) use pythons::python;
pub use recipe::Recipe;
pub(crate) use recipe::{Fill, RECIPES, Recorder, Step};

use crate::settings::Settings;

/// Where the interpreters' drivers leave the record of an exception.
pub(crate) const EXCEPTION_RECORD: &str = ".saggar-exception.json";

/// Drivers that every sandbox sees, as `(guest path, content)`.
pub(crate) fn drivers() -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        (recipe::PYTHON_DRIVER, include_str!("driver/python.py")),
        ("/opt/saggar/python-record.py", include_str!("driver/python-record.py")),
        ("/opt/saggar/python-worker.py", WORKER),
        ("/opt/saggar/beside.py", include_str!("driver/beside.py")),
        (recipe::NODE_DRIVER, include_str!("driver/node.cjs")),
        (recipe::NODE_WORKER, include_str!("driver/node-worker.cjs")),
        (recipe::PYTHON_JUDGE, JUDGE),
        ("/opt/saggar/judge-evaluator.py", include_str!("driver/judge/evaluator.py")),
        (recipe::NODE_JUDGE, include_str!("driver/judge.cjs")),
    ]
    .into_iter()
}

/// What a zygote runs.
const WORKER: &str = concat!(include_str!("driver/python-worker.py"), include_str!("driver/calm.py"));

/// The judge's harness for Python: one file in the sandbox, in parts here.
const JUDGE: &str = concat!(
    include_str!("driver/judge/values.py"),
    include_str!("driver/calm.py"),
    include_str!("driver/judge/cases.py"),
    include_str!("driver/judge/candidate.py"),
    include_str!("driver/judge/tests.py"),
    include_str!("driver/judge/frameworks.py"),
    include_str!("driver/judge/rehearsal.py"),
    include_str!("driver/judge/main.py"),
);

/// The recipe called `name`.
pub(crate) fn recipe(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.name == name || recipe.aliases.contains(&name))
}

/// The recipe's name for a file, by its ending.
#[must_use]
pub fn for_file_name(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    RECIPES.iter().find(|recipe| recipe.endings.contains(&ending)).map(|recipe| recipe.name)
}

/// The real program that runs `language` here: what a run would use, never a shim.
#[must_use]
pub fn program_of(language: &str, settings: &Settings) -> Option<Found> {
    let recipe = recipe(language)?;
    find(recipe.name, recipe.programs, settings)
}

/// What the program of a language may be called, first to last.
pub(crate) fn programs(language: &str) -> &'static [&'static str] {
    recipe(language).map_or(&[], |recipe| recipe.programs)
}

/// Every recipe's name, for messages.
pub(crate) fn names() -> String {
    RECIPES.iter().map(|recipe| recipe.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_run_by_its_ending() {
        for (file, language) in [
            ("a.py", Some("python")),
            ("x/y.mjs", Some("node")),
            ("s.sh", Some("bash")),
            ("m.cpp", Some("cpp")),
            ("t.ts", Some("typescript")),
            ("R.R", Some("r")),
            ("README", None),
            ("data.csv", None),
        ] {
            assert_eq!(for_file_name(file), language, "{file}");
        }
    }

    #[test]
    fn no_two_recipes_answer_to_one_name_or_ending() {
        let names: Vec<_> = RECIPES.iter().flat_map(|r| r.aliases.iter().copied().chain([r.name])).collect();
        let endings: Vec<_> = RECIPES.iter().flat_map(|r| r.endings.iter().copied()).collect();
        for list in [names, endings] {
            let mut unique = list.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), list.len(), "{list:?}");
        }
    }
}
