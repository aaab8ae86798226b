//! Patches on repositories, graded as SWE-bench does it.
//!
//! | module | holds |
//! |---|---|
//! | [`row`] | instances of a data set, in every shape that they come in |
//! | [`prediction`] | what models proposed |
//! | [`log`] | what test runners print, read as the official parsers read it |
//! | [`grade`] | which tests had to pass and did |
//! | [`report`] | the files of the official harness |

pub mod error;
pub mod grade;
pub mod log;
pub mod prediction;
pub mod report;
pub mod row;
mod signs;
mod statuses;

pub use error::SweError;
pub use statuses::Statuses;
