//! Entries for the fuzz targets: whatever parses bytes that a sandbox could have written.

use crate::keeper::watch;
use crate::sudo::Ask;
use crate::wire::FromInit;

/// Decodes a message of init.
pub fn init_message(bytes: &[u8]) {
    let _ = postcard::from_bytes::<FromInit>(bytes);
}

/// Reads a `/proc` file of a run.
pub fn proc_files(text: &str) {
    watch::parse_anything(text);
}

/// Decodes what somebody asks process 1 of a session for.
pub fn sudo_ask(bytes: &[u8]) {
    let _ = postcard::from_bytes::<Ask>(bytes);
}
