//! What is measured of code: the judge runs it against cases and says which it passed.

pub mod judge;
