//! One file per subcommand.

pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod df;
pub(crate) mod doctor;
pub(crate) mod evolve;
pub(crate) mod exec;
pub(crate) mod image;
pub(crate) mod judge;
pub(crate) mod key;
pub(crate) mod mcp;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod swe;
pub(crate) mod usage;
