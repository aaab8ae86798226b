//! A model with patience and books: tries again where that can help, and writes down every try.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::error::ModelError;
use super::{ChatModel, ChatReply, ChatRequest};
use crate::id::random_fraction;
use crate::usage::{Books, Call, Spent, Totals};

/// The longest pause of our own choice; a server may ask for more, up to the deadline.
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// How long and how often a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For one try, from the first packet to the last.
    pub timeout: Duration,
    /// Further tries after the first.
    pub retries: u32,
    /// For all tries and the pauses between them.
    pub deadline: Duration,
    /// The first pause; each further one may be twice as long.
    pub backoff: Duration,
}

/// A model with patience and books. One for each piece of work whose cost is to be told apart.
pub struct Client {
    model: Arc<dyn ChatModel>,
    patience: Patience,
    books: Books,
    totals: Mutex<Totals>,
}

impl Client {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(model: Arc<dyn ChatModel>, patience: Patience, books: Books) -> Self {
        Self { model, patience, books, totals: Mutex::default() }
    }

    /// When a conversation that starts now must be over.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.patience.deadline
    }

    /// Asks until there is an answer, or no try could help, or `until`.
    pub async fn chat(&self, request: &ChatRequest, until: Instant) -> Result<ChatReply, ModelError> {
        let mut tries = 1;
        loop {
            let error = match self.once(request, until).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let pause = self.pause(tries, &error);
            let goes_on = error.is_passing() && tries <= self.patience.retries && Instant::now() + pause < until;
            if !goes_on {
                return Err(if tries == 1 { error } else { ModelError::GaveUp { tries, last: Box::new(error) } });
            }
            sleep(pause).await;
            tries += 1;
        }
    }

    /// What was spent by this client so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn once(&self, request: &ChatRequest, until: Instant) -> Result<ChatReply, ModelError> {
        let start = Instant::now();
        let call = Entry { client: self, start, written: false };
        let after = self.patience.timeout.min(until.saturating_duration_since(start));
        let result = match timeout_at(start + after, self.model.chat(request)).await {
            Ok(result) => result,
            Err(_) => Err(ModelError::Timeout { after }),
        };
        let spent = match &result {
            Ok(ChatReply { usage: Some(usage), .. }) | Err(ModelError::Declined { usage: Some(usage) }) => {
                Spent::Tokens(*usage)
            }
            Err(error) if error.is_free() => Spent::Nothing,
            Ok(_) | Err(_) => Spent::Unknown,
        };
        call.write(result.as_ref().err().map(ModelError::kind), spent)?;
        result
    }

    /// What the server asks for, but never less than our own pause; that one is partly chance, so that callers who
    /// failed together do not come back together.
    fn pause(&self, tries: u32, error: &ModelError) -> Duration {
        let longest = self.patience.backoff.saturating_mul(1 << (tries - 1).min(16)).min(LONGEST_PAUSE);
        let own = longest.mul_f64(0.5 + random_fraction() / 2.0);
        error.retry_after().map_or(own, |asked| asked.max(own))
    }
}

/// A call under way. Whoever walks away from it has still made it.
struct Entry<'a> {
    client: &'a Client,
    start: Instant,
    written: bool,
}

impl Entry<'_> {
    fn write(mut self, failure: Option<&'static str>, spent: Spent) -> Result<(), ModelError> {
        self.put(failure, spent)
    }

    fn put(&mut self, failure: Option<&'static str>, spent: Spent) -> Result<(), ModelError> {
        self.written = true;
        let client = self.client;
        let call = Call { failure, spent, wall: self.start.elapsed() };
        let totals = client.books.write(client.model.name(), call)?;
        client.totals.lock().unwrap_or_else(PoisonError::into_inner).add(&totals);
        Ok(())
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if !self.written {
            // Nobody is left to be told of an error.
            let _ = self.put(Some("cancelled"), Spent::Unknown);
        }
    }
}
