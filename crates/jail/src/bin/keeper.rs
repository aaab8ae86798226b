//! The keeper program. Embedded in saggar and run from a sealed memfd; its only descriptor is the engine's channel.
//!
//! Under the name `init` it is process 1 of a container instead: one static program for both, which every image can run.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().next().is_some_and(|name| name == jail::contained::NAME) {
        let Err(_) = jail::contained::run();
        return ExitCode::FAILURE;
    }
    let Some(engine) = jail::adopt_engine() else { return ExitCode::from(2) };
    match jail::run_keeper(engine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
