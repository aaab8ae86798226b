//! How far the bench is: a bar on stderr, on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};

/// One part's bar; gone when it is dropped.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar of `steps`; indicatif shows it only if stderr is a terminal.
    pub(super) fn new(name: &'static str, steps: usize) -> Self {
        let bar = ProgressBar::new(u64::try_from(steps).unwrap_or(u64::MAX)).with_message(name);
        if let Ok(style) = ProgressStyle::with_template("{msg:12} [{bar:40}] {pos}/{len} {elapsed} (still {eta})") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.tick();
        Self(bar)
    }

    pub(super) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
