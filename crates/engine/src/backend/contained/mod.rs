//! Sandboxes of others with one program of ours inside (`jail::contained`): the talk with it, whoever carries that.

mod conversation;
mod errands;
mod link;
mod tree;

use std::io;

use types::Layer;

use crate::error::BackendError;
pub(in crate::backend) use conversation::{Watched, run};
pub(in crate::backend) use errands::Errands;
pub(in crate::backend) use link::{Host, Link, WAITING, cut};
pub(in crate::backend) use tree::ContainedTree;

/// A wall that is not on is an error, unless it is excused or was given up by name.
pub(in crate::backend) fn check_walls(
    on: &[Layer],
    excused: &[Layer],
    accept: &[Layer],
    step: &str,
) -> Result<(), BackendError> {
    let lacks = |layer: &Layer| layer.is_wall() && !excused.contains(layer) && !on.contains(layer);
    match Layer::ALL.into_iter().find(|layer| lacks(layer) && !accept.contains(layer)) {
        Some(layer) => {
            let source = io::Error::from(io::ErrorKind::Unsupported);
            Err(BackendError::Layer { layer, step: step.to_owned(), source })
        }
        None => Ok(()),
    }
}
