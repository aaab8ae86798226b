//! What the weaker meters read from a run's own /proc: names and numbers that the run chooses.
#![no_main]
libfuzzer_sys::fuzz_target!(|text: &str| jail::fuzz::proc_files(text));
