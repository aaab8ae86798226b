//! What is measured of code: the judge runs it against cases and says which it passed; evolution makes it pass more of
//! them; patches are graded on repositories.

pub mod evolve;
pub mod jobs;
pub mod judge;
pub mod swe;
