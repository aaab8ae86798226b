//! Which modules may be imported: lists of the owner, of the request, of one file.

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

    fn allows(&self, module: &str) -> bool {
        self.allow.is_empty()
            || Self::ALWAYS.iter().any(|name| covers(name, module))
            || self.allow.iter().any(|name| covers(name, module))
    }

    fn denies(&self, module: &str) -> bool {
        self.deny.iter().any(|name| covers(name, module))
    }
}

/// Every pair of lists that holds for one piece of code, and the modules that come with it.
#[derive(Debug, Clone, Default)]
pub struct ImportsOf {
    /// All of these must agree.
    pub lists: Vec<Imports>,
    /// Modules that are files of the same run.
    pub own: Vec<String>,
}

/// What the lists say of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Nothing,
    NotAllowed,
    Denied,
}

impl ImportsOf {
    pub(crate) fn say(&self, module: &str) -> Word {
        if self.lists.iter().any(|lists| lists.denies(module)) {
            Word::Denied
        } else if !self.own.iter().any(|own| covers(own, module))
            && self.lists.iter().any(|lists| !lists.allows(module))
        {
            Word::NotAllowed
        } else {
            Word::Nothing
        }
    }

    /// Whether a list names this module as allowed: then the table's own remark on its import is left out.
    pub(crate) fn names(&self, module: &str) -> bool {
        self.lists.iter().any(|lists| lists.allow.iter().any(|name| covers(name, module)))
    }
}

/// `name` itself, or anything below it, by dots (Python) or slashes (Node).
pub(crate) fn covers(name: &str, module: &str) -> bool {
    let name = name.strip_suffix(".*").unwrap_or(name);
    module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_covers_what_is_below_it_and_nothing_beside_it() {
        assert!(covers("http", "http.client"));
        assert!(covers("http", "http"));
        assert!(!covers("http", "httpx"));
        assert!(!covers("os.path", "os"));
        assert!(covers("@scope/name", "@scope/name/sub"));
    }

    #[test]
    fn all_lists_must_agree_and_a_denial_wins() {
        let list = |allow: &[&str], deny: &[&str]| Imports {
            allow: allow.iter().map(|s| (*s).to_owned()).collect(),
            deny: deny.iter().map(|s| (*s).to_owned()).collect(),
        };
        let both =
            ImportsOf { lists: vec![list(&["math", "json"], &[]), list(&["math"], &[])], own: vec!["mine".into()] };
        assert_eq!(both.say("math"), Word::Nothing);
        assert_eq!(both.say("re"), Word::Nothing);
        assert_eq!(both.say("mine.part"), Word::Nothing);
        assert_eq!(both.say("json"), Word::NotAllowed);
        let denied = ImportsOf { lists: vec![list(&["os"], &["os"])], own: Vec::new() };
        assert_eq!(denied.say("os.path"), Word::Denied);
    }
}
