//! Sizes and durations as people write them.

use std::time::Duration;

/// Why a size or a duration could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a known unit.
    #[error("`{0}` is not a size; write bytes or a number with K, M, G or T, such as 256M")]
    Size(String),
    /// Not a number with a known unit.
    #[error("`{0}` is not a duration; write seconds or a number with ms, s, m, h or d, such as 500ms")]
    Duration(String),
}

/// Reads `256M`, `2G`, `100K` (1024-based) or a bare number of bytes.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let bad = || QuantityError::Size(text.to_owned());
    let (number, unit) = split(text).ok_or_else(bad)?;
    let unit = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')).unwrap_or(unit);
    let factor = match unit {
        "" => 1_u64,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        "T" | "t" => 1 << 40,
        _ => return Err(bad()),
    };
    let bytes = number * factor as f64;
    if bytes > 1e18 {
        return Err(bad());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`split` refuses signs, and 1e18 fits")]
    Ok(bytes as u64)
}

/// Reads `500ms`, `30s`, `2m`, `1h`, `7d` or a bare number of seconds.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let bad = || QuantityError::Duration(text.to_owned());
    let (number, unit) = split(text).ok_or_else(bad)?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

/// A number without sign or exponent, and the letters behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_1024_based_and_bare_numbers_are_bytes() {
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        assert_eq!(parse_size("100K"), Ok(100 << 10));
        assert_eq!(parse_size("1.5K"), Ok(1536));
        assert_eq!(parse_size("77"), Ok(77));
        for bad in ["", "M", "-1", "12Q", "1e9", "99999999999T", "0x10"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_below_a_second_keep_their_parts() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(parse_duration("30"), Ok(Duration::from_secs(30)));
        for bad in ["", "s", "-1s", "5 days", "inf", "NaN"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
