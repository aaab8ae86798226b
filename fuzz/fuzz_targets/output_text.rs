//! Output as kept and shown: any bytes, cut anywhere.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: (u16, Vec<Vec<u8>>)| {
    let (limit, chunks) = input;
    let (text, total) = engine::fuzz::kept_text(u64::from(limit) + 1, &chunks);
    assert_eq!(total, chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>());
    assert!(text.len() as u64 <= 3 * (u64::from(limit) + 1) + 64);
});
