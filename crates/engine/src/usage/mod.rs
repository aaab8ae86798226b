//! The books: what models have cost, by component and model.

mod ledger;
mod prices;
mod report;

pub use ledger::{Books, Call, Ledger, LedgerError, Spent};
pub use prices::{BUILT_IN_AS_OF, BUILT_IN_SOURCE, Price, Prices};
pub use report::{Line, Totals, UsageReport};
