//! The record that a run leaves of its exception: any bytes can be there.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(exception) = engine::parse_report(bytes) {
        assert!(!exception.kind.is_empty());
    }
});
