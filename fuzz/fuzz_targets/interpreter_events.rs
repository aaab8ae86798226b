//! What a driver in a session says: any bytes can be there.
#![no_main]
libfuzzer_sys::fuzz_target!(|chunks: Vec<Vec<u8>>| {
    let given: usize = chunks.iter().map(Vec::len).sum();
    // Text that is no text becomes replacement characters, of three bytes each.
    assert!(engine::fuzz::heard(&chunks) <= 4 * given + 200);
});
