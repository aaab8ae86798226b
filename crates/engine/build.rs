//! Builds the keeper as a small static program, to be embedded in this crate.
//!
//! Static, because it runs before and outside any sandbox root; a program of its own, because a copy of the whole of
//! saggar in memory would cost milliseconds in every cold run.
#![expect(clippy::disallowed_methods, reason = "a build script starts cargo")]

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let crates = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("..");
    for folder in ["jail/src", "jail/Cargo.toml", "types/src", "types/Cargo.toml", "../Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", crates.join(folder).display());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let target = env::var("TARGET")?;
    // Its own target folder: cargo holds a lock on ours while this runs.
    let folder = out.join("keeper");
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .args(["build", "--release", "--locked", "--package", "saggar-jail", "--bin", "saggar-keeper"])
        .args(["--target", &target, "--target-dir"])
        .arg(&folder)
        .arg("--manifest-path")
        .arg(crates.join("../Cargo.toml"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static -C panic=abort")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    if !cargo.status()?.success() {
        return Err(
            "the keeper could not be built; a static C library is needed (Debian: libc6-dev, Fedora: glibc-static)"
                .into(),
        );
    }
    println!("cargo::rustc-env=SAGGAR_KEEPER={}", folder.join(target).join("release/saggar-keeper").display());
    Ok(())
}
