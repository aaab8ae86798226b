//! Operators, truth values, `min` and `max`.

use super::Edit;
use super::sites::Sites;
use crate::evolve::rng::Rng;

/// Puts another in the place of one.
pub(super) fn changed(sites: &Sites, rng: &mut Rng) -> Option<Vec<Edit>> {
    let sign = rng.pick(&sites.signs)?;
    let text = rng.pick(sign.instead)?;
    Some(vec![Edit { at: sign.at.clone(), text: (*text).to_owned() }])
}
