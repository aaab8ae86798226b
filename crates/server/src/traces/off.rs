//! Without the feature: names, and nothing behind them.

use axum::extract::Request;
use axum::response::Response;
use engine::Engine;

/// Nothing.
pub(crate) struct Traces;

/// A request that nobody traces.
pub(crate) struct Open;

impl Traces {
    pub(crate) const fn begin(_: &Engine) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the other one has something in it")]
    pub(crate) const fn request(&self, _: &mut Request) -> Open {
        Open
    }

    #[expect(clippy::unused_async, reason = "the other one waits for its collector")]
    pub(crate) async fn finish(&self) {}
}

impl Open {
    #[expect(clippy::unused_self, reason = "the other one is over with this")]
    pub(crate) const fn end(self, _: &Response) {}
}
