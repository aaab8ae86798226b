//! Step 1: who may ask now, and from a request as written to one that can be carried out.

mod gate;
mod plan;
mod rate;

pub(crate) use gate::Gate;
pub use gate::{AdmissionError, Pass};
pub(crate) use plan::{Admitted, Program, admit, decode, hold, offered, way_out};
