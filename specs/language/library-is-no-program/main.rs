#![crate_type = "lib"]
pub fn f() {}
