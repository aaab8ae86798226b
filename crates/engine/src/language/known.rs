//! Programs that were found a moment ago: looking for one takes some fifty calls, and a batch asks hundreds of times a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::find::{Found, find};
use crate::settings::Settings;

/// How long what was found is taken to be there still. Whoever installs another has it after that.
const FRESH: Duration = Duration::from_secs(1);

/// What was found, and when. What was not is looked for each time.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<String, (Instant, Found)>>);

impl Known {
    /// Looks for `programs` as [`find`] does, unless that was done a moment ago with the same settings.
    pub(crate) fn find(&self, language: &str, programs: &[&str], settings: &Settings) -> Option<Found> {
        let name = format!("{language}: {}", programs.join(" "));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, found)) = known.get(&name)
            && at.elapsed() < FRESH
        {
            return Some(found.clone());
        }
        let found = find(language, programs, settings)?;
        known.insert(name, (Instant::now(), found.clone()));
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_not_looked_for_again_at_once() {
        let known = Known::default();
        let mut settings = Settings::default();
        settings.interpreters.insert("bash".to_owned(), "/bin/no-such-program".into());
        assert_eq!(known.find("bash", &["bash"], &settings), None);
        settings.interpreters.insert("bash".to_owned(), "/bin/sh".into());
        let found = known.find("bash", &["bash"], &settings);
        assert_eq!(found.as_ref().map(|found| found.program.as_str()), Some("/bin/sh"));
        settings.interpreters.insert("bash".to_owned(), "/bin/no-such-program".into());
        assert_eq!(known.find("bash", &["bash"], &settings), found);
        assert_eq!(known.find("bash", &["another"], &settings), None);
    }
}
