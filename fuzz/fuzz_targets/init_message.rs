//! What the keeper reads from a sandbox's init, should that ever be taken over.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jail::fuzz::init_message(bytes));
