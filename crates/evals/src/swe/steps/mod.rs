//! The steps of grading, each by itself and on any repository: check out, make an environment, patch, test, check.
//!
//! ```text
//!   Workshop::environment(python, pins) ── a disk with a virtual environment, kept
//!   Workshop::tree(plan, repository)    ── the same with the repository at its commit, installed, kept
//!   Site::open(that)                    ── a sandbox on it
//!   apply(site, patch)                  ── Applied, or why not
//!   neutralise, restore                 ── what could decide the verdict is as it was
//!   test(site, command)                 ── Tested: a log, and what the reporter heard
//!   check::check_tests(tested, parser, fail_to_pass, pass_to_pass)
//! ```

mod apply;
mod aside;
mod building;
mod clones;
mod contained;
mod renew;
mod repository;
mod site;
mod test;
mod tidy;
mod workshop;

pub use apply::{Applied, apply};
pub use aside::{install_aside, is_by_pip};
pub use building::Building;
pub use clones::clones;
pub use contained::image_name;
pub use renew::{is_module, only_copies, renew};
pub use repository::{Repository, find, origin};
pub use site::{ENVIRONMENT, Ground, IMAGE_TREE, Said, Script, Site, TREE, Where};
pub use test::{Tested, test};
pub use tidy::{Edit, changed, neutralise, restore, restore_officially};
pub use workshop::{Prepared, Workshop};
