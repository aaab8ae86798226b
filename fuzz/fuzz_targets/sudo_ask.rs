//! What process 1 of a session reads from whoever asks it to start a program as somebody else.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jail::fuzz::sudo_ask(bytes));
