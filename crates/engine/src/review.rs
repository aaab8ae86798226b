//! Step 2: what the policy says of the code. The static check itself is not part of this version.

use types::{ExecRequest, Policy};

use crate::error::RunError;

/// Lets through what asks for no verdict. A policy that could refuse is itself refused: a check that cannot be made must
/// not look like one that passed.
pub(crate) fn review(request: &ExecRequest) -> Result<(), RunError> {
    match request.policy {
        Policy::Off | Policy::Report => Ok(()),
        Policy::Guard => Err(RunError::Unsupported { what: "policy `guard`".to_owned() }),
        Policy::Strict => Err(RunError::Unsupported { what: "policy `strict`".to_owned() }),
    }
}
