//! What clients are expected to ask for next, which is made meanwhile: sandboxes as nobody's, of the templates that they asked for last.
//!
//! The templates are remembered in the state folder, so that the first client of a server finds what the last one of the server
//! before it would have found.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Caller, SessionSpec};

use super::lifecycle;
use super::sandbox::{AtEnd, Wanted};
use super::template;
use crate::http::Shared;

/// Where the templates are remembered, in the state folder.
const FILE: &str = "e2b-templates.json";
/// How many of them.
const MOST: usize = 2;

/// Templates that were asked for, the last one first.
#[derive(Default)]
pub(super) struct Expected(Mutex<Vec<String>>);

impl Expected {
    /// Notes that one was asked for; what to remember, if that has changed.
    fn note(&self, name: &str) -> Option<Vec<String>> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.first().is_some_and(|first| first == name) {
            return None;
        }
        names.retain(|known| known != name);
        names.insert(0, name.to_owned());
        names.truncate(MOST);
        Some(names.clone())
    }
}

/// Whoever got one asks for another soon.
pub(super) fn after(shared: &Arc<Shared>, owner: &Caller, wanted: &Wanted, spec: SessionSpec) {
    // What begins with a snapshot is its owner's.
    if spec.from.is_some() {
        return;
    }
    if let Some(names) = shared.e2b.expected.note(&wanted.template) {
        // Without it the first sandbox of the next server takes longer, and that is all.
        let _ = remember(shared.engine.state(), &names);
    }
    // So is what he says of himself.
    let env = lifecycle::environment(&BTreeMap::new());
    make(shared, owner.clone(), SessionSpec { metadata: BTreeMap::new(), env, ..spec });
}

/// A server that begins makes what was asked for last.
pub(crate) fn at_start(shared: &Arc<Shared>) {
    let names = remembered(shared.engine.state());
    for name in names.iter().rev() {
        shared.e2b.expected.note(name);
    }
    for name in names {
        let Some(origin) = template::known(shared, &name) else { continue };
        let spec = lifecycle::spec(shared, &plain(name), origin);
        // As the owner of the machine: whoever may have less finds that it is not what he would get.
        let caller = Caller { name: "e2b".to_owned(), ..Caller::default() };
        make(shared, caller, spec);
    }
}

fn make(shared: &Arc<Shared>, caller: Caller, spec: SessionSpec) {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let settings = shared.engine.e2b();
        shared.engine.keep_sessions_ready(&caller, &spec, settings.ready, settings.idle).await;
    });
}

/// What most clients ask for.
fn plain(template: String) -> Wanted {
    Wanted {
        template,
        metadata: BTreeMap::new(),
        env: BTreeMap::new(),
        at_end: AtEnd::Kill,
        auto_resume: false,
        secure: true,
        private: false,
        internet: None,
    }
}

/// No more than was written, whoever wrote it.
fn remembered(state: &Path) -> Vec<String> {
    let text = std::fs::read(state.join(FILE)).unwrap_or_default();
    let mut names: Vec<String> = serde_json::from_slice(&text).unwrap_or_default();
    names.truncate(MOST);
    names
}

/// Under another name first: what is there is whole.
fn remember(state: &Path, names: &[String]) -> std::io::Result<()> {
    let new = state.join(format!("{FILE}.new"));
    std::fs::write(&new, serde_json::to_vec(names)?)?;
    std::fs::rename(&new, state.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_templates_are_remembered() {
        let expected = Expected::default();
        assert_eq!(expected.note("base"), Some(vec!["base".to_owned()]));
        assert_eq!(expected.note("base"), None);
        assert_eq!(expected.note("mine"), Some(vec!["mine".to_owned(), "base".to_owned()]));
        assert_eq!(expected.note("base"), Some(vec!["base".to_owned(), "mine".to_owned()]));
        assert_eq!(expected.note("other"), Some(vec!["other".to_owned(), "base".to_owned()]));
    }
}
