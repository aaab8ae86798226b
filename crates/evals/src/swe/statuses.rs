//! What a log says of each test.

use std::collections::HashMap;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// The words with which runners begin or end a line about a test.
pub(super) const WORDS: [&str; 5] = [FAILED, PASSED, SKIPPED, ERROR, XFAIL];
pub(super) const FAILED: &str = "FAILED";
pub(super) const PASSED: &str = "PASSED";
pub(super) const SKIPPED: &str = "SKIPPED";
pub(super) const ERROR: &str = "ERROR";
pub(super) const XFAIL: &str = "XFAIL";

/// The last word of a log on each test, in the order in which the tests were first named. A status is what stands in the
/// log: a line `ERROR: not found` has the status `ERROR:`, which is none of the five and counts as none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statuses {
    tests: Vec<(String, String)>,
    at: HashMap<String, usize>,
}

impl Statuses {
    pub(super) fn put(&mut self, test: impl Into<String>, status: &str) {
        let test = test.into();
        if let Some((_, old)) = self.at.get(&test).and_then(|&at| self.tests.get_mut(at)) {
            status.clone_into(old);
        } else {
            self.at.insert(test.clone(), self.tests.len());
            self.tests.push((test, status.to_owned()));
        }
    }

    /// The status of a test.
    #[must_use]
    pub fn get(&self, test: &str) -> Option<&str> {
        self.at.get(test).and_then(|&at| self.tests.get(at)).map(|(_, status)| status.as_str())
    }

    /// Whether no test was named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// Tests and their statuses.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tests.iter().map(|(test, status)| (test.as_str(), status.as_str()))
    }
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.tests.len()))?;
        for (test, status) in self.iter() {
            map.serialize_entry(test, status)?;
        }
        map.end()
    }
}
