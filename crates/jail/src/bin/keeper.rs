//! The keeper program. Embedded in saggar and run from a sealed memfd; its only descriptor is the engine's channel.
//!
//! Under the name `init` it is process 1 of a container instead, and under the name `sudo` it asks process 1 of a session:
//! one static program for all, which every image can run.

use std::process::ExitCode;

fn main() -> ExitCode {
    let name = std::env::args().next().unwrap_or_default();
    if name == jail::contained::NAME {
        let Err(_) = jail::contained::run();
        return ExitCode::FAILURE;
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
