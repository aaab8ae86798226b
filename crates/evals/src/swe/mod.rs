//! Patches on repositories, graded as SWE-bench does it.
//!
//! | module | holds |
//! |---|---|
//! | [`row`] | instances of a data set, in every shape that they come in |
//! | [`prediction`] | what models proposed |
//! | [`log`] | what test runners print, read as the official parsers read it |
//! | [`grade`], [`check`] | which tests had to pass and did |
//! | [`hunks`] | what became of a patch that does not apply |
//! | [`report`], [`timing`] | the files of the official harness; what a run took |
//! | [`plan`], [`script`] | how an instance is installed and tested |
//! | [`steps`] | check out, make an environment, patch, test: each by itself, in a sandbox |
//! | [`channel`], [`edits`], [`integrity`] | what keeps a patch from deciding its own verdict |
//! | [`evaluate`], [`evaluation`] | one patch; all of them |

pub mod channel;
pub mod check;
pub mod diff;
pub mod edits;
pub mod error;
pub mod evaluate;
pub mod evaluation;
pub mod grade;
pub mod hunks;
pub mod integrity;
pub mod log;
pub mod plan;
pub mod prediction;
mod records;
pub mod report;
pub mod row;
pub mod script;
mod signs;
mod specs;
mod statuses;
pub mod steps;
pub mod timing;

pub use error::SweError;
pub use statuses::Statuses;
