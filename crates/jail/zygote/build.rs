//! Links against nothing: what it needs of the C library is there when it is loaded.

fn main() {
    println!("cargo::rustc-link-arg=-nostdlib");
    println!("cargo::rerun-if-changed=build.rs");
}
