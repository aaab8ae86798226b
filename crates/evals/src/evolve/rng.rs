//! Chance that can be had again: one seed, one history.
//!
//! Every iteration draws from a stream of its own, so that what one draws does not depend on what others drew, on the
//! order in which they came, or on an interruption. Of our own make because its numbers are part of histories: a new
//! version of a library must not change them.

/// Xoshiro256**, by Blackman and Vigna (public domain).
#[derive(Debug, Clone)]
pub(crate) struct Rng([u64; 4]);

impl Rng {
    /// The stream of one iteration; `purpose` tells apart what is drawn for different ends.
    pub(crate) fn of(seed: u64, iteration: u64, purpose: u64) -> Self {
        let mut state = mix(seed) ^ mix(iteration.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.rotate_left(48));
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(state)
        };
        Self([next(), next(), next(), next()])
    }

    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// From 0 up to 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 up to `bound`; 0 if there is nothing to choose from.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()) * (bound as u128);
        usize::try_from(wide >> 64).unwrap_or_default()
    }

    /// One of them, if there is any.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// The place of one of them, by weight.
    pub(crate) fn weighted(&mut self, weights: &[f64]) -> Option<usize> {
        let total: f64 = weights.iter().sum();
        let mut left = self.fraction() * total;
        for (index, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return Some(index);
            }
        }
        weights.len().checked_sub(1)
    }

    /// Normally distributed, by Box and Muller.
    pub(crate) fn gauss(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.fraction()).cos()
    }
}

/// The end of Steele's `SplitMix64`.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_can_be_had_again_and_differ_from_each_other() {
        let draw = |seed, iteration, purpose| Rng::of(seed, iteration, purpose).next();
        assert_eq!(draw(1, 2, 3), draw(1, 2, 3));
        let all = [draw(1, 2, 3), draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4), draw(0, 0, 0)];
        let different: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn what_is_drawn_is_spread_as_it_should_be() {
        let mut rng = Rng::of(7, 0, 0);
        let many = 20_000;
        let mut counts = [0_u32; 5];
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..many {
            counts[rng.below(5)] += 1;
            let value = rng.gauss();
            sum += value;
            squares += value * value;
        }
        assert!(counts.iter().all(|count| (3700..4300).contains(count)), "{counts:?}");
        let many = f64::from(many);
        assert!((sum / many).abs() < 0.03 && (squares / many - 1.0).abs() < 0.05);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.weighted(&[0.0, 1.0, 0.0]), Some(1));
        assert_eq!(rng.weighted(&[]), None);
    }
}
