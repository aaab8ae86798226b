//! What a session's disk held when it was last counted, and when it must be counted again.

use std::time::{Duration, Instant};

use jail::measure::Fallen;
use types::Limits;

/// How often a disk is counted while something may write to it, whatever free space says: what somebody else frees in the
/// same moment hides a fall.
const LOOK: Duration = Duration::from_millis(500);
/// The same where free space says nothing.
const BLIND_LOOK: Duration = Duration::from_millis(50);
/// Counting may take one part of so many of the time.
const SHARE: u32 = 20;
/// The same while nobody waits for anything.
const IDLE_SHARE: u32 = 200;
/// The same for a disk that may be full, if it has grown when it was last counted.
const GROWN_SHARE: u32 = 2;
/// How often free space is looked at, at least and at most.
const OFTEN: Duration = Duration::from_millis(3);
const SELDOM: Duration = Duration::from_millis(100);
/// What can be written in a millisecond, and rather more than that.
const BYTES: u64 = 4 << 20;
const ENTRIES: u64 = 200;
/// A disk with less room than that is not counted for each little thing that somebody writes.
const FEW_BYTES: u64 = 16 << 20;
const FEW_ENTRIES: u64 = 1000;

/// One count.
pub(super) struct Tally {
    /// Bytes and entries that the disk held.
    pub(super) disk: (u64, u64),
    /// What had fallen when it began.
    fallen: Fallen,
    /// How long it took.
    cost: Duration,
    ended: Option<Instant>,
    has_grown: bool,
    is_under_way: bool,
    /// Whether programs were killed for what the last count found.
    has_killed: bool,
}

/// What is to be done about a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Count it.
    Count,
    /// Nothing, but look at free space again after so long.
    Look(Duration),
}

/// What is known of the file system that a disk is on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    pub(super) fallen: Fallen,
    /// Whether it may have fallen unseen.
    pub(super) is_blind: bool,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            disk: (0, 0),
            fallen: Fallen::default(),
            cost: Duration::ZERO,
            ended: None,
            has_grown: false,
            is_under_way: false,
            has_killed: false,
        }
    }
}

impl Tally {
    /// The disk is another one.
    pub(super) fn forget(&mut self) {
        (self.disk, self.ended) = ((0, 0), None);
    }

    /// How long counting takes.
    pub(super) fn cost(&self) -> Duration {
        self.cost
    }

    /// A count begins.
    pub(super) fn begin(&mut self, fallen: Fallen) {
        (self.fallen, self.is_under_way) = (fallen, true);
    }

    /// A count is over; what the one before had found. None: it could not be counted.
    pub(super) fn end(&mut self, counted: Option<(u64, u64)>, cost: Duration) -> (u64, u64) {
        let before = self.disk;
        self.disk = counted.unwrap_or(before);
        self.has_grown = self.disk.0 > before.0 || self.disk.1 > before.1;
        (self.cost, self.ended, self.is_under_way) = (cost, Some(Instant::now()), false);
        before
    }

    /// Whether the count before this one was one too many already; this one is, if `is_over`.
    pub(super) fn has_just_killed(&mut self, is_over: bool) -> bool {
        let before = self.has_killed;
        self.has_killed = is_over && !before;
        before
    }

    /// What is to be done now. A disk cannot have become full as long as less has fallen than it had room for.
    pub(super) fn next(&self, limits: &Limits, level: Level, is_busy: bool, now: Instant) -> Next {
        let Some(ended) = self.ended else { return if self.is_under_way { Next::Look(OFTEN) } else { Next::Count } };
        if self.is_under_way {
            return Next::Look(OFTEN);
        }
        let bytes =
            Room::new(limits.disk, self.disk.0, FEW_BYTES, level.fallen.bytes.saturating_sub(self.fallen.bytes));
        let entries = Room::new(
            limits.inodes,
            self.disk.1,
            FEW_ENTRIES,
            level.fallen.entries.saturating_sub(self.fallen.entries),
        );
        if bytes.is_far_gone() || entries.is_far_gone() {
            return Next::Count;
        }
        let (look, share) = match (bytes.left().min(entries.left()), level.is_blind, is_busy) {
            (0, ..) => (Duration::ZERO, if self.has_grown { GROWN_SHARE } else { SHARE }),
            (_, true, true) => (BLIND_LOOK, SHARE),
            (_, false, true) => (LOOK, SHARE),
            (.., false) => (LOOK, IDLE_SHARE),
        };
        let due = ended + look.max(self.cost * share);
        if due <= now {
            return Next::Count;
        }
        let soonest = (bytes.left() / BYTES).min(entries.left() / ENTRIES);
        Next::Look(Duration::from_millis(soonest).clamp(OFTEN, SELDOM).min(due - now).max(OFTEN))
    }
}

/// How much of something there may still be.
struct Room {
    limit: u64,
    /// So much must have fallen before it is worth a count.
    step: u64,
    fallen: u64,
}

impl Room {
    fn new(limit: u64, held: u64, few: u64, fallen: u64) -> Self {
        Self { limit, step: limit.saturating_sub(held).max((limit / 16).min(few)).max(1), fallen }
    }

    fn left(&self) -> u64 {
        self.step.saturating_sub(self.fallen)
    }

    /// Whether so much has fallen that it is counted at once, whatever that costs: two sessions could make each other's
    /// counts look needless.
    fn is_far_gone(&self) -> bool {
        self.fallen >= self.step.saturating_add(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn limits() -> Limits {
        Limits { disk: 64 * MB, inodes: 1000, ..Limits::default() }
    }

    fn level(bytes: u64, entries: u64) -> Level {
        Level { fallen: Fallen { bytes, entries }, is_blind: false }
    }

    fn counted(bytes: u64, cost: Duration) -> Tally {
        let mut tally = Tally::default();
        tally.begin(Fallen::default());
        tally.end(Some((bytes, 10)), cost);
        tally
    }

    #[test]
    fn who_comes_right_after_a_program_that_filled_the_disk_is_spared_and_who_goes_on_is_not() {
        let mut tally = Tally::default();
        assert_eq!([true, true, true].map(|is_over| tally.has_just_killed(is_over)), [false, true, false]);
        assert_eq!([false, true].map(|is_over| tally.has_just_killed(is_over)), [true, false]);
    }

    #[test]
    fn a_disk_is_counted_as_soon_as_it_may_be_full_and_not_before() {
        let (tally, now) = (counted(10 * MB, Duration::ZERO), Instant::now());
        assert!(matches!(tally.next(&limits(), level(53 * MB, 0), true, now), Next::Look(_)));
        assert_eq!(tally.next(&limits(), level(54 * MB, 0), true, now), Next::Count);
        assert!(matches!(tally.next(&limits(), level(0, 989), true, now), Next::Look(_)));
        assert_eq!(tally.next(&limits(), level(0, 990), true, now), Next::Count);
        assert_eq!(
            tally.next(&limits(), level(0, 0), true, now + LOOK),
            Next::Count,
            "what another freed hides nothing"
        );
        assert_eq!(Tally::default().next(&limits(), level(0, 0), true, now), Next::Count, "what it begins with");
    }

    #[test]
    fn free_space_is_looked_at_the_oftener_the_less_room_there_is() {
        let look = |fallen| match counted(0, Duration::ZERO).next(&limits(), level(fallen, 0), true, Instant::now()) {
            Next::Look(after) => after,
            Next::Count => Duration::ZERO,
        };
        assert!(look(0) <= Duration::from_millis(16) && look(60 * MB) == OFTEN);
    }

    #[test]
    fn a_disk_that_takes_long_to_count_is_counted_seldom_unless_far_more_has_fallen() {
        let (tally, now) = (counted(0, Duration::from_millis(100)), Instant::now());
        // It has grown, so that it is counted after a while; had it not, rather later.
        assert!(matches!(tally.next(&limits(), level(70 * MB, 0), true, now), Next::Look(_)));
        assert_eq!(tally.next(&limits(), level(70 * MB, 0), true, now + Duration::from_millis(300)), Next::Count);
        let mut idle = counted(0, Duration::ZERO);
        idle.begin(Fallen::default());
        idle.end(Some((0, 10)), Duration::from_millis(100));
        let later = Instant::now() + Duration::from_millis(300);
        assert!(matches!(idle.next(&limits(), level(70 * MB, 0), true, later), Next::Look(_)));
        assert_eq!(idle.next(&limits(), level(130 * MB, 0), true, later), Next::Count);
    }
}
