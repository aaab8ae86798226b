//! The keeper program. Embedded in saggar and run from a sealed memfd; its only descriptor is the engine's channel.
//!
//! Under the name `init` it is process 1 of a container instead, under the name `guest` our one process in somebody else's
//! sandbox, under that of a clerk it looks after files in a container, and under the name `sudo` it asks process 1 of a
//! session: one static program for all, which every image can run.

use std::process::ExitCode;

use jail::contained::{self, Role};

fn main() -> ExitCode {
    let name = std::env::args().next().unwrap_or_default();
    let role = match name.as_str() {
        contained::NAME => Some(Role::Init),
        contained::GUEST_NAME => Some(Role::Guest),
        _ => None,
    };
    if let Some(role) = role {
        let Err(_) = contained::run(role);
        return ExitCode::FAILURE;
    }
    if name == jail::clerk::NAME {
        return jail::clerk::run();
    }
    if name.rsplit('/').next() == Some(jail::sudo::NAME) {
        return jail::sudo::run();
    }
    let Some(engine) = jail::adopt_engine() else { return ExitCode::from(2) };
    match jail::run_keeper(engine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
