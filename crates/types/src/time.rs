//! Moments as people and programs write them: RFC 3339, in UTC.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// A moment, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A text that is no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time; write it in UTC, such as 2026-11-15T10:30:00Z or 2026-11-15")]
pub struct TimestampError(String);

impl Timestamp {
    /// This long before.
    #[must_use]
    pub fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        // A clock before 1970 is a clock that was never set.
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.div_euclid(SECOND), self.0.rem_euclid(SECOND));
        let (year, month, day) = date(seconds.div_euclid(DAY));
        let (hour, minute, second) =
            (seconds.rem_euclid(DAY) / 3600, seconds.rem_euclid(3600) / 60, seconds.rem_euclid(60));
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text).ok_or_else(|| TimestampError(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Timestamp> {
    let (day, time) = match text.split_once(['T', 't', ' ']) {
        Some((day, time)) => (day, time.strip_suffix(['Z', 'z']).or_else(|| time.strip_suffix("+00:00"))?),
        None => (text, "00:00:00"),
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(day, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let days = days(year, month, day);
    // A 31st of June comes back as another day.
    if date(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    Some(Timestamp((days * DAY + hour * 3600 + minute * 60 + second) * SECOND + micros))
}

/// Three numbers of so many digits.
fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(between);
    let mut all = [0; 3];
    for (number, digits) in all.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(all)
}

/// Days from 1970 to a date. Years begin in March here, so that a leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days lie between the first of March of the year 0 and 1970.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// The date so many days after 1970.
fn date(after: i64) -> (i64, i64, i64) {
    // A year that is not too late, and from there on.
    let mut year = 1970 + after.div_euclid(if after < 0 { 365 } else { 366 });
    while days(year + 1, 1, 1) <= after {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= after).unwrap_or(1);
    (year, month, after - days(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_and_read_in_utc() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199_123_456, "2024-02-29T23:59:59.123456Z"),
            (1_794_738_600_000_001, "2026-11-15T10:30:00.000001Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(micros)));
        }
    }

    #[test]
    fn short_forms_are_read() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap().0;
        assert_eq!(at("2026-11-15"), at("2026-11-15T00:00:00Z"));
        assert_eq!(at("2026-11-15 10:30:00Z"), at("2026-11-15T10:30:00.000+00:00"));
        assert_eq!(at("1970-01-01T00:00:00.5Z"), 500_000);
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for bad in ["", "1h", "2026-02-30", "2026-11-15T25:00:00Z", "2026-11-15T10:00:00", "2026-11-15T10:00:00+02:00"]
        {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
        for bad in ["2026-11-15T10:00:00.Z", "26-11-15", "2026-11-15-1", "+026-11-15", "2026-11-15T1:00:00Z"] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }
}
