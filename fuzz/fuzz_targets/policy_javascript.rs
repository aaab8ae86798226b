//! The reader of JavaScript: any bytes.
#![no_main]
libfuzzer_sys::fuzz_target!(|code: &[u8]| {
    let report = policy::check(code, policy::Language::JavaScript, &policy::Options::default());
    assert!(report.findings.iter().all(|finding| !finding.rule.ends_with(".source.unreadable")));
    let _ = policy::check(code, policy::Language::TypeScript, &policy::Options::default());
});
