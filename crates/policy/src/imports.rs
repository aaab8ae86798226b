//! Which modules may be imported: lists of the owner, of the request, of one file.

use std::collections::HashSet;
use std::sync::Arc;

/// One pair of lists. Names are whole modules: `os` covers `os.path`, `os.path` does not cover `os`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imports {
    /// If not empty, nothing else may be imported but [`Imports::ALWAYS`] and the run's own files.
    pub allow: Vec<String>,
    /// May not be imported, whoever allows it.
    pub deny: Vec<String>,
}

impl Imports {
    /// Harmless and needed everywhere: no allow-list has to name them.
    pub const ALWAYS: &'static [&'static str] = &["ast", "operator", "re", "time", "random", "__future__"];
}

/// Every pair of lists that holds for one piece of code, and the modules that come with it.
#[derive(Debug, Clone, Default)]
pub struct ImportsOf {
    /// All of these must agree.
    pub lists: Vec<Imports>,
    /// Modules that are files of the same run.
    pub own: Arc<HashSet<String>>,
}

/// What the lists say of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Nothing,
    NotAllowed,
    Denied,
}

/// The lists, ready to be asked: a module costs as much as its name is long, however long the lists are.
pub(crate) struct Lists<'a> {
    pairs: Vec<(HashSet<&'a str>, HashSet<&'a str>)>,
    own: &'a HashSet<String>,
}

impl<'a> Lists<'a> {
    pub(crate) fn new(imports: &'a ImportsOf) -> Self {
        let set = |names: &'a [String]| names.iter().map(|name| name.strip_suffix(".*").unwrap_or(name)).collect();
        let pairs = imports.lists.iter().map(|lists| (set(&lists.allow), set(&lists.deny))).collect();
        Self { pairs, own: &imports.own }
    }

    pub(crate) fn say(&self, module: &str) -> Word {
        let is_own = || whole_and_above(module).any(|name| self.own.contains(name));
        let always = || whole_and_above(module).any(|name| Imports::ALWAYS.contains(&name));
        let allows = |allow: &HashSet<&str>| allow.is_empty() || covers(allow, module);
        if self.pairs.iter().any(|(_, deny)| covers(deny, module)) {
            Word::Denied
        } else if self.pairs.iter().any(|(allow, _)| !allows(allow)) && !is_own() && !always() {
            Word::NotAllowed
        } else {
            Word::Nothing
        }
    }

    /// Whether a list names this module as allowed: then the table's own remark on its import is left out.
    pub(crate) fn names(&self, module: &str) -> bool {
        self.pairs.iter().any(|(allow, _)| covers(allow, module))
    }
}

/// A list has the module itself, or something that it is below, by dots (Python) or slashes (Node).
fn covers(list: &HashSet<&str>, module: &str) -> bool {
    !list.is_empty() && whole_and_above(module).any(|name| list.contains(name))
}

/// `a.b.c`, `a.b`, `a`.
pub(crate) fn whole_and_above(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| name.rfind(['.', '/']).and_then(|at| name.get(..at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(allow: &[&str], deny: &[&str]) -> Imports {
        let words = |words: &[&str]| words.iter().map(|s| (*s).to_owned()).collect();
        Imports { allow: words(allow), deny: words(deny) }
    }

    fn word(lists: Vec<Imports>, own: &[&str], module: &str) -> Word {
        let own = Arc::new(own.iter().map(|s| (*s).to_owned()).collect());
        Lists::new(&ImportsOf { lists, own }).say(module)
    }

    #[test]
    fn a_package_covers_what_is_below_it_and_nothing_beside_it() {
        for (name, module, covered) in [
            ("http", "http.client", true),
            ("http", "http", true),
            ("http.*", "http.client", true),
            ("http", "httpx", false),
            ("os.path", "os", false),
            ("@scope/name", "@scope/name/sub", true),
        ] {
            assert_eq!(word(vec![list(&[], &[name])], &[], module) == Word::Denied, covered, "{name} {module}");
        }
    }

    #[test]
    fn all_lists_must_agree_and_a_denial_wins() {
        let both = || vec![list(&["math", "json"], &[]), list(&["math"], &[])];
        assert_eq!(word(both(), &["mine"], "math"), Word::Nothing);
        assert_eq!(word(both(), &["mine"], "re"), Word::Nothing);
        assert_eq!(word(both(), &["mine"], "mine.part"), Word::Nothing);
        assert_eq!(word(both(), &["mine"], "json"), Word::NotAllowed);
        assert_eq!(word(vec![list(&["os"], &["os"])], &[], "os.path"), Word::Denied);
    }
}
