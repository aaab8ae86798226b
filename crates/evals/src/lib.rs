//! What is measured of code: the judge runs it against cases and says which it passed; patches are graded on repositories.

pub mod judge;
pub mod swe;
