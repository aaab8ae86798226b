//! Lines of a batch that wait for their turn. The engine is told how many: it has as many sandboxes ready when its
//! interpreter has started, and makes none that nobody would take at the end.

use std::sync::{Arc, Mutex, PoisonError};

use engine::{Engine, Foresight};

/// How many wait, and whether more may come.
pub(crate) struct InLine {
    engine: Arc<Engine>,
    known: Mutex<Known>,
}

struct Known {
    waiting: usize,
    open: bool,
}

/// One that waits; it no longer does when this is dropped.
pub(crate) struct Waiting(Arc<InLine>);

impl InLine {
    pub(crate) fn new(engine: Arc<Engine>) -> Arc<Self> {
        Arc::new(Self { engine, known: Mutex::new(Known { waiting: 0, open: true }) })
    }

    /// One more.
    pub(crate) fn enter(self: &Arc<Self>) -> Waiting {
        self.change(|known| known.waiting += 1);
        Waiting(Arc::clone(self))
    }

    /// No more will come.
    pub(crate) fn close(&self) {
        self.change(|known| known.open = false);
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut known);
        let Known { waiting, open } = *known;
        // Told in the order in which it came to be so.
        self.engine.foresee(Foresight { least: waiting, most: (!open).then_some(waiting) });
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.engine.foresee(Foresight::default());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.change(|known| known.waiting -= 1);
    }
}
