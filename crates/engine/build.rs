//! Builds the keeper as a small static program, and the library that makes zygotes, to be embedded in this crate.
//!
//! Static, because it runs before and outside any sandbox root; a program of its own, because a copy of the whole of
//! saggar in memory would cost milliseconds in every cold run.
#![expect(clippy::disallowed_methods, reason = "a build script starts cargo")]

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let crates = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("..");
    for folder in [
        "jail/src",
        "jail/Cargo.toml",
        "jail/zygote/src",
        "jail/zygote/Cargo.toml",
        "types/src",
        "types/Cargo.toml",
        "../Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", crates.join(folder).display());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let target = env::var("TARGET")?;
    let release = PathBuf::from(&target).join("release");
    // Target folders of their own: cargo holds a lock on ours while this runs.
    let folder = out.join("keeper");
    let mut keeper = cargo(&crates.join("../Cargo.toml"), &target, &folder)?;
    keeper
        .args(["--locked", "--package", "saggar-jail", "--bin", "saggar-keeper"])
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static -C panic=abort")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    if !keeper.status()?.success() {
        return Err(
            "the keeper could not be built; a static C library is needed (Debian: libc6-dev, Fedora: glibc-static)"
                .into(),
        );
    }
    println!("cargo::rustc-env=SAGGAR_KEEPER={}", folder.join(&release).join("saggar-keeper").display());
    let folder = out.join("zygote");
    let mut zygote = cargo(&crates.join("jail/zygote/Cargo.toml"), &target, &folder)?;
    if !zygote.env("RUSTFLAGS", "").status()?.success() {
        return Err("the zygote's library could not be built".into());
    }
    println!("cargo::rustc-env=SAGGAR_ZYGOTE={}", folder.join(&release).join("libzygote.so").display());
    Ok(())
}

/// A build of its own, untouched by how we are built ourselves.
fn cargo(manifest: &Path, target: &str, folder: &Path) -> Result<Command, Box<dyn Error>> {
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .args(["build", "--release", "--target", target, "--target-dir"])
        .arg(folder)
        .arg("--manifest-path")
        .arg(manifest)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET");
    Ok(cargo)
}
