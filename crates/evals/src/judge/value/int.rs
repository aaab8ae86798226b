//! Integers of any size: read, compared, shown. Nothing is computed with them.

/// An integer; large only where it does not fit the small form, so equal numbers are equal values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Int {
    /// Most of them.
    Small(i64),
    /// Sign and magnitude, least significant limb first, the last one not zero.
    Large {
        /// Below zero.
        negative: bool,
        /// The magnitude.
        limbs: Vec<u32>,
    },
}

/// The longest that is shown in full: converting takes time that grows with the square.
const MOST_SHOWN_LIMBS: usize = 512;

impl Int {
    /// From sign and magnitude.
    pub(crate) fn new(negative: bool, mut limbs: Vec<u32>) -> Self {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        if limbs.len() <= 2 {
            let magnitude = limbs.iter().rev().fold(0_i128, |sum, limb| (sum << 32) | i128::from(*limb));
            if let Ok(small) = i64::try_from(if negative { -magnitude } else { magnitude }) {
                return Self::Small(small);
            }
        }
        Self::Large { negative, limbs }
    }

    /// From digits of `radix`, which are already checked.
    pub(crate) fn from_digits(negative: bool, digits: impl Iterator<Item = u32>, radix: u32) -> Self {
        let mut limbs: Vec<u32> = Vec::new();
        for digit in digits {
            let mut carry = u64::from(digit);
            for limb in &mut limbs {
                carry += u64::from(*limb) * u64::from(radix);
                *limb = low(carry);
                carry >>= 32;
            }
            if carry > 0 {
                limbs.push(low(carry));
            }
        }
        Self::new(negative, limbs)
    }

    /// From marshal's digits of 15 bits, least significant first.
    pub(crate) fn from_15_bits(negative: bool, digits: &[u16]) -> Self {
        let mut limbs = Vec::with_capacity(digits.len() / 2 + 1);
        let (mut waiting, mut bits) = (0_u64, 0);
        for digit in digits {
            waiting |= u64::from(*digit) << bits;
            bits += 15;
            if bits >= 32 {
                limbs.push(low(waiting));
                waiting >>= 32;
                bits -= 32;
            }
        }
        limbs.push(low(waiting));
        Self::new(negative, limbs)
    }

    /// Sign and marshal's digits of 15 bits.
    pub(crate) fn to_15_bits(&self) -> (bool, Vec<u16>) {
        let (negative, limbs) = self.parts();
        let mut digits = Vec::with_capacity(limbs.len() * 3);
        let (mut waiting, mut bits) = (0_u64, 0);
        for limb in limbs {
            waiting |= u64::from(limb) << bits;
            bits += 32;
            while bits >= 15 {
                digits.push(low15(waiting));
                waiting >>= 15;
                bits -= 15;
            }
        }
        digits.push(low15(waiting));
        while digits.last() == Some(&0) {
            digits.pop();
        }
        (negative, digits)
    }

    /// The integer that a float is, if it is one.
    pub(crate) fn from_float(float: f64) -> Option<Self> {
        if !float.is_finite() || float.fract() != 0.0 {
            return None;
        }
        let bits = float.abs().to_bits();
        let exponent = i32::try_from(bits >> 52).ok()? - 1075;
        let mantissa = (bits & ((1 << 52) - 1)) | if bits >> 52 == 0 { 0 } else { 1 << 52 };
        let negative = float < 0.0;
        if exponent <= 0 {
            let whole = mantissa.checked_shr(exponent.unsigned_abs()).unwrap_or(0);
            return Some(Self::new(negative, vec![low(whole), low(whole >> 32)]));
        }
        let shift = exponent.unsigned_abs();
        let mut limbs = vec![0; (shift / 32) as usize];
        let wide = u128::from(mantissa) << (shift % 32);
        limbs.extend([low128(wide), low128(wide >> 32), low128(wide >> 64)]);
        Some(Self::new(negative, limbs))
    }

    /// As near as a float comes.
    pub(crate) fn to_float(&self) -> f64 {
        let (negative, limbs) = self.parts();
        let magnitude = limbs.iter().rev().fold(0.0, |sum, limb| sum * 4_294_967_296.0 + f64::from(*limb));
        if negative { -magnitude } else { magnitude }
    }

    fn parts(&self) -> (bool, Vec<u32>) {
        match self {
            Self::Small(small) => {
                let magnitude = small.unsigned_abs();
                (*small < 0, vec![low(magnitude), low(magnitude >> 32)])
            }
            Self::Large { negative, limbs } => (*negative, limbs.clone()),
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
fn low(wide: u64) -> u32 {
    wide as u32
}

#[expect(clippy::cast_possible_truncation, reason = "the low part is what is wanted")]
fn low128(wide: u128) -> u32 {
    wide as u32
}

fn low15(wide: u64) -> u16 {
    u16::try_from(wide & 0x7fff).unwrap_or_default()
}

impl std::fmt::Display for Int {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Large { negative, limbs } = self else {
            let Self::Small(small) = self else { return Ok(()) };
            return write!(f, "{small}");
        };
        let sign = if *negative { "-" } else { "" };
        if limbs.len() > MOST_SHOWN_LIMBS {
            return write!(f, "{sign}<an integer of {} bits>", limbs.len() * 32);
        }
        let mut rest = limbs.clone();
        let mut groups = Vec::new();
        while !rest.is_empty() {
            let mut remainder = 0_u64;
            for limb in rest.iter_mut().rev() {
                let wide = (remainder << 32) | u64::from(*limb);
                *limb = low(wide / 1_000_000_000);
                remainder = wide % 1_000_000_000;
            }
            groups.push(remainder);
            while rest.last() == Some(&0) {
                rest.pop();
            }
        }
        let mut groups = groups.into_iter().rev();
        write!(f, "{sign}{}", groups.next().unwrap_or(0))?;
        groups.try_for_each(|group| write!(f, "{group:09}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str) -> Int {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        Int::from_digits(negative, digits.bytes().map(|byte| u32::from(byte - b'0')), 10)
    }

    #[test]
    fn every_way_in_and_out_keeps_the_number() {
        for text in ["0", "7", "-7", "9223372036854775807", "-9223372036854775808", "9223372036854775808"] {
            assert_eq!(int(text).to_string(), text);
        }
        let large = "-123456789012345678901234567890123456789012345678901234567890";
        let (negative, digits) = int(large).to_15_bits();
        assert_eq!(Int::from_15_bits(negative, &digits).to_string(), large);
    }

    #[test]
    fn floats_are_integers_only_where_they_are() {
        assert_eq!(Int::from_float(2.0), Some(Int::Small(2)));
        assert_eq!(Int::from_float(-0.0), Some(Int::Small(0)));
        assert_eq!(Int::from_float(1e22), Some(int("10000000000000000000000")));
        assert_eq!(Int::from_float(2.5), None);
        assert_eq!(Int::from_float(f64::INFINITY), None);
        assert!((int("10000000000000000000000").to_float() - 1e22).abs() < 1.0);
    }
}
