//! Who runs next: callers take turns, and each caller's runs go first in, first out.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::admission::AdmissionError;

/// Places for runs, and the line before them.
#[derive(Clone)]
pub(crate) struct Queue(Arc<Mutex<Line>>);

struct Line {
    free: usize,
    /// The most of one caller that may wait.
    most: usize,
    /// Callers with somebody waiting, in the order of their turns.
    turns: VecDeque<String>,
    waiting: HashMap<String, VecDeque<oneshot::Sender<Slot>>>,
}

/// The right to run; whoever is next gets it when this is dropped.
pub(crate) struct Slot(Queue);

impl Queue {
    /// A queue before `places` places, in which at most `most` runs of one caller wait.
    pub(crate) fn new(places: usize, most: usize) -> Self {
        Self(Arc::new(Mutex::new(Line { free: places, most, turns: VecDeque::new(), waiting: HashMap::new() })))
    }

    /// Waits for a place. One who stops waiting has left the line.
    pub(crate) async fn enter(&self, caller: &str) -> Result<Slot, AdmissionError> {
        let promise = {
            let mut line = self.line();
            if line.free > 0 {
                line.free -= 1;
                return Ok(Slot(self.clone()));
            }
            line.join(caller)?
        };
        match promise.await {
            Ok(slot) => Ok(slot),
            // The line is as long as this queue lives, and we hold it.
            Err(_) => Ok(Slot(self.clone())),
        }
    }

    /// Places that are free, and how many wait for one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let line = self.line();
        let waiting = line.waiting.values().flatten().filter(|sender| !sender.is_closed()).count();
        (line.free, waiting)
    }

    /// Hands a place on, or keeps it free.
    fn release(&self) {
        loop {
            let Some(next) = self.line().next() else { return };
            // One who left in the meantime gives it back, and it comes round again.
            match next.send(Slot(self.clone())) {
                Ok(()) => return,
                // Not dropped: that would come back here.
                Err(slot) => std::mem::forget(slot),
            }
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn join(&mut self, caller: &str) -> Result<oneshot::Receiver<Slot>, AdmissionError> {
        let (sender, promise) = oneshot::channel();
        let waiting = self.waiting.entry(caller.to_owned()).or_default();
        if waiting.len() >= self.most {
            // Those who left count no more; the first keeps the caller's turn.
            let mut place = 0;
            waiting.retain(|sender| std::mem::replace(&mut place, 1) == 0 || !sender.is_closed());
        }
        if waiting.len() >= self.most {
            return Err(AdmissionError::Waiting { most: self.most });
        }
        if waiting.is_empty() {
            self.turns.push_back(caller.to_owned());
        }
        waiting.push_back(sender);
        Ok(promise)
    }

    /// The first run of the caller whose turn it is; a place stays free if nobody waits.
    fn next(&mut self) -> Option<oneshot::Sender<Slot>> {
        while let Some(caller) = self.turns.pop_front() {
            let Some(waiting) = self.waiting.get_mut(&caller) else { continue };
            let next = loop {
                match waiting.pop_front() {
                    Some(sender) if sender.is_closed() => {}
                    other => break other,
                }
            };
            if waiting.is_empty() {
                self.waiting.remove(&caller);
            } else {
                self.turns.push_back(caller);
            }
            if next.is_some() {
                return next;
            }
        }
        self.free += 1;
        None
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    /// Lets `callers` wait in this order and says in which order they get in.
    async fn order(queue: &Queue, callers: &[(&'static str, u32)]) -> Vec<(&'static str, u32)> {
        let entered = Arc::new(Mutex::new(Vec::new()));
        let first = queue.enter("first").await.unwrap();
        let mut tasks = Vec::new();
        for (caller, number) in callers.iter().copied() {
            let (queue, entered) = (queue.clone(), Arc::clone(&entered));
            tasks.push(tokio::spawn(async move {
                let _slot = queue.enter(caller).await.unwrap();
                entered.lock().unwrap().push((caller, number));
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        Arc::try_unwrap(entered).unwrap().into_inner().unwrap()
    }

    #[test]
    fn callers_take_turns_and_each_goes_first_in_first_out() {
        let callers = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("a", 4), ("b", 2)];
        let entered = run(order(&Queue::new(1, 100), &callers));
        assert_eq!(entered, [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("a", 4)]);
    }

    #[test]
    fn one_who_leaves_frees_his_place() {
        run(async {
            let queue = Queue::new(1, 100);
            let first = queue.enter("a").await.unwrap();
            let left = tokio::spawn({
                let queue = queue.clone();
                async move { drop(queue.enter("b").await) }
            });
            tokio::task::yield_now().await;
            left.abort();
            assert!(left.await.is_err());
            drop(first);
            // Nobody waits any more: the place is free at once.
            drop(queue.enter("c").await.unwrap());
            assert_eq!(queue.line().free, 1);
        });
    }

    #[test]
    fn a_caller_with_too_many_in_line_is_told_and_others_are_not() {
        run(async {
            let queue = Queue::new(1, 2);
            let _first = queue.enter("a").await.unwrap();
            let wait = |caller: &'static str| {
                let queue = queue.clone();
                tokio::spawn(async move { drop(queue.enter(caller).await) })
            };
            let waiting = [wait("a"), wait("a")];
            tokio::task::yield_now().await;
            assert_eq!(queue.enter("a").await.err(), Some(AdmissionError::Waiting { most: 2 }));
            let other = wait("b");
            tokio::task::yield_now().await;
            assert!(!other.is_finished());
            // One who left has left his place in line to another.
            waiting[1].abort();
            tokio::task::yield_now().await;
            let third = wait("a");
            tokio::task::yield_now().await;
            assert!(!third.is_finished());
            assert!(queue.enter("a").await.is_err());
        });
    }

    #[test]
    fn places_are_neither_lost_nor_made_up() {
        run(async {
            let queue = Queue::new(3, 100);
            let slots = [queue.enter("a").await, queue.enter("a").await, queue.enter("b").await];
            assert_eq!(queue.line().free, 0);
            drop(slots);
            assert_eq!(queue.line().free, 3);
        });
    }
}
