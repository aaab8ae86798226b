//! The words that every door of saggar speaks: requests, limits, outcomes, results and error codes.
//!
//! No I/O happens here. The wire forms are those of the public contract; a field is added freely and
//! changed only with an entry in `CHANGELOG.md`.

mod cell;
mod check;
pub mod connect;
mod error;
mod layer;
mod limits;
mod outcome;
mod path;
mod policy;
mod quantity;
mod request;
mod result;
mod time;

pub use cell::{Bundle, CellResult};
pub use check::{CheckResult, SyntaxError};
pub use error::{ErrorBody, ErrorCode};
pub use layer::{Layer, UnknownLayer};
pub use limits::{Ceiling, LimitError, Limits, LimitsSpec};
pub use outcome::{LimitKind, Outcome};
pub use path::{GuestPath, PathError, RelPath};
pub use policy::{ImportLists, OwnMatch, OwnRule, PolicyFile, ToolFiles};
pub use quantity::{QuantityError, parse_duration, parse_size};
pub use request::{BackendKind, ExecRequest, FileContent, InputFile, Network, Policy, Source};
pub use result::{
    Change, Compile, Exception, ExecResult, Feedback, FileRecord, Finding, Isolation, Severity, Start, Usage,
};
pub use time::{Timestamp, TimestampError};
