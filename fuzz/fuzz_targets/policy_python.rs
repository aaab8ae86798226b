//! The reader of Python: any bytes.
#![no_main]
libfuzzer_sys::fuzz_target!(|code: &[u8]| {
    let report = policy::check(code, policy::Language::Python, &policy::Options::default());
    assert!(report.findings.iter().all(|finding| !finding.rule.ends_with(".source.unreadable")));
});
