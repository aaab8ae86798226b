//! The reader of Bash: any bytes.
#![no_main]
libfuzzer_sys::fuzz_target!(|code: &[u8]| {
    let report = policy::check(code, policy::Language::Bash, &policy::Options::default());
    assert!(report.findings.iter().all(|finding| !finding.rule.ends_with(".source.unreadable")));
});
