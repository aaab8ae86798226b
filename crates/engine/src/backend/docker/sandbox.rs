//! One container as a sandbox.

use std::sync::Arc;

use types::{Layer, Limits};

use super::daemon::Known;
use super::held::Held;
use crate::backend::contained::{self, ContainedTree, Watched};
use crate::backend::{BoxFuture, Cancel, Command, Ended, Output, Sandbox, Stdin};
use crate::error::BackendError;
use crate::files::Tree;

/// A container of ours.
pub(super) struct Container {
    pub(super) tree: ContainedTree,
    pub(super) held: Arc<Held>,
    pub(super) known: Known,
    pub(super) limits: Limits,
    /// Whether it has a way out.
    pub(super) way_out: bool,
    /// Walls that may be missing.
    pub(super) accept: Vec<Layer>,
    /// Those that are on, once it is closed.
    pub(super) layers: Vec<Layer>,
}

impl Sandbox for Container {
    fn tree(&self) -> &dyn Tree {
        &self.tree
    }

    fn is_alive(&self) -> bool {
        self.tree.is_alive()
    }

    fn lease<'a>(&'a mut self, limits: &'a Limits) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.close_for(limits))
    }

    fn run<'a>(
        &'a mut self,
        command: Command,
        stdin: Stdin,
        output: &'a mut dyn Output,
        cancel: Cancel<'a>,
    ) -> BoxFuture<'a, Result<Ended, BackendError>> {
        let Self { tree, limits, layers, .. } = self;
        Box::pin(contained::run(Watched { link: tree.link_mut(), limits, layers }, command, stdin, output, cancel))
    }
}
