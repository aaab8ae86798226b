//! The groups of one keeper: made for runs, and used again where a run has left nothing in them.

use rustix::io::Errno;
use types::Layer;

use super::{Group, Tree, prefix};
use crate::wire::{Limits, SandboxId};

/// Groups that are kept for further runs: as many as a batch has sandboxes made while its interpreter starts.
const MOST_SPARE: usize = 16;

/// Makes groups, and keeps some.
pub(crate) struct Groups {
    tree: Tree,
    prefix: String,
    /// Whose runs are over, oldest first; whether they are empty is looked at when one is wanted.
    spare: Vec<Group>,
    is_swept: bool,
}

impl Groups {
    pub(crate) fn new(tree: Tree) -> Self {
        Self { tree, prefix: prefix(), spare: Vec::new(), is_swept: false }
    }

    /// The meters of every group.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        self.tree.layers()
    }

    /// An empty group with the run's limits on it, if there can be one.
    pub(crate) fn take(&mut self, id: SandboxId, limits: &Limits) -> Result<Option<Group>, Errno> {
        for index in 0..self.spare.len() {
            // Writing limits may fail half-way: then the group stays where it is, and is removed with the others.
            if self.spare[index].renew(limits).unwrap_or(false) {
                return Ok(Some(self.spare.remove(index)));
            }
        }
        self.tree.create(&format!("{}{id}", self.prefix), limits)
    }

    /// Keeps the group of a run that is over; what comes back is to be removed.
    pub(crate) fn keep(&mut self, group: Group) -> Option<Group> {
        if !group.can_be_renewed() {
            return Some(group);
        }
        self.spare.push(group);
        (self.spare.len() > MOST_SPARE).then(|| self.spare.remove(0))
    }

    /// Removes, once, what keepers that were killed have left. Nobody should wait for it.
    pub(crate) fn sweep(&mut self) {
        if !std::mem::replace(&mut self.is_swept, true) {
            self.tree.sweep();
        }
    }

    /// Every spare group, to be removed.
    pub(crate) fn empty(&mut self) -> Vec<Group> {
        std::mem::take(&mut self.spare)
    }
}
