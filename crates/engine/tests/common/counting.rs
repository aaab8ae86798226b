//! A backend that isolates nothing and counts who came.
#![allow(dead_code, reason = "each test file uses its share")]

use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{Backend, BackendError, BoxFuture, Capabilities, Sandbox, SandboxSpec};
use types::BackendKind;

/// Every sandbox that is asked for is counted, and none is made.
#[derive(Default)]
pub(crate) struct Counting(AtomicUsize);

impl Counting {
    pub(crate) fn asked(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Backend for Counting {
    fn kind(&self) -> BackendKind {
        BackendKind::Native
    }

    fn capabilities<'a>(&'a self, _: &'a SandboxSpec) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        Box::pin(async { Ok(Capabilities::default()) })
    }

    fn create<'a>(&'a self, _: &'a SandboxSpec) -> BoxFuture<'a, Result<Box<dyn Sandbox>, BackendError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(BackendError::NoWorker) })
    }
}
