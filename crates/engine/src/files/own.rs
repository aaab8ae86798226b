//! Reading the caller's own files before they are placed, for whoever judges them.

use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use types::{ExecRequest, FileContent};

use super::Inputs;
use crate::error::RunError;

/// Puts the content of the wanted ones into the request, as far as there is room; the others stay a path.
/// They are opened again when they are placed: whoever owns them could change them in between, and is who asks.
pub(crate) fn read_own(
    request: &mut ExecRequest,
    inputs: &mut dyn Inputs,
    mut room: usize,
    wanted: impl Fn(&str) -> bool,
) -> Result<(), RunError> {
    for (index, file) in request.files.iter_mut().enumerate() {
        let FileContent::Host(path) = &file.content else { continue };
        if !wanted(file.path.as_str()) {
            continue;
        }
        let unreadable = |source| RunError::Input { path: path.clone(), source };
        let mut content = inputs.open(index, path).map_err(unreadable)?.content;
        let mut start = Vec::new();
        (&mut content).take(room as u64 + 1).read_to_end(&mut start).map_err(unreadable)?;
        // A door that hands over files one after the other wants each to be read to its end.
        io::copy(&mut content, &mut io::sink()).map_err(unreadable)?;
        if start.len() <= room {
            room -= start.len();
            file.content = String::from_utf8(start)
                .map_or_else(|other| FileContent::Base64(STANDARD.encode(other.as_bytes())), FileContent::Text);
        }
    }
    Ok(())
}
