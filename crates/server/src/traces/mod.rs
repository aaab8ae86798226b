//! Traces of requests and of the steps of their runs, for a collector that speaks OTLP over HTTP. Only in programs that were
//! built with the feature `otel`; in all others there is nothing of it but these names.

#[cfg(feature = "otel")]
mod export;
#[cfg(not(feature = "otel"))]
mod off;
#[cfg(feature = "otel")]
mod on;
#[cfg(feature = "otel")]
mod span;
#[cfg(feature = "otel")]
mod target;

#[cfg(not(feature = "otel"))]
pub(crate) use off::Traces;
#[cfg(feature = "otel")]
pub(crate) use on::Traces;
