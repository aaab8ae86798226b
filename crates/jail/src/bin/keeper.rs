//! The keeper program. Embedded in saggar and run from a sealed memfd; its only descriptor is the engine's channel.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(engine) = jail::adopt_engine() else { return ExitCode::from(2) };
    match jail::run_keeper(engine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
