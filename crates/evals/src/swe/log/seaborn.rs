//! seaborn's rows know two statuses only.

use super::words;
use crate::swe::statuses::{FAILED, PASSED, Statuses};

pub(super) fn read(log: &str) -> Statuses {
    let mut statuses = Statuses::default();
    for line in log.split('\n') {
        let [first, second, ..] = words(line)[..] else { continue };
        if line.starts_with(FAILED) {
            statuses.put(second, FAILED);
        } else if line.contains(&format!(" {PASSED} ")) {
            if second == PASSED {
                statuses.put(first, PASSED);
            }
        } else if line.starts_with(PASSED) {
            statuses.put(second, PASSED);
        }
    }
    statuses
}
