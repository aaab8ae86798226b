//! Limits around the parsers: they are other people's code, and what they read was written to break them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// Larger sources are not read.
pub(crate) const MOST_BYTES: usize = 1 << 20;
/// What is nested deeper is not read. People stay below 20, generated tables below 100.
pub(crate) const MOST_DEPTH: usize = 500;
/// Up to here the stack of any thread is enough; a thread of its own costs more than most programs take to be read.
const SHALLOW: usize = 40;
/// For `MOST_DEPTH` levels, each with all frames of a parser without optimisation.
const STACK: usize = 128 << 20;

/// Why code was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    TooDeep,
    Failed,
}

/// Runs `work` on a stack that is large enough for `depth`, an upper bound of how deep it recurses, and survives its
/// panic. Nothing of a failed reader is used again.
pub(crate) fn run<T: Send>(depth: usize, work: impl FnOnce() -> T + Send) -> Result<T, Trouble> {
    if depth > MOST_DEPTH {
        return Err(Trouble::TooDeep);
    }
    if depth <= SHALLOW {
        return catch_unwind(AssertUnwindSafe(work)).map_err(|_| Trouble::Failed);
    }
    thread::scope(|scope| {
        let reader = thread::Builder::new().name("policy".to_owned()).stack_size(STACK).spawn_scoped(scope, work);
        reader.map_err(|_| Trouble::Failed)?.join().map_err(|_| Trouble::Failed)
    })
}

/// Has somebody else read a Python program within the same limits: nothing comes back if it is too large or nested too
/// deeply for any parser, or if the reader fails.
pub fn python<T: Send>(source: &str, work: impl FnOnce(&str) -> T + Send) -> Option<T> {
    if source.len() > MOST_BYTES {
        return None;
    }
    run(crate::python::bound(source), || work(source)).ok()
}

/// Counts how deep a tree can become while tokens go by.
///
/// Each open bracket is a level, and so is each operator since the last comma, because `a + b + c` is a tree that leans
/// to one side. The sum over all open brackets is never less than what a parser makes of it.
#[derive(Debug, Default)]
pub(crate) struct Depth {
    /// Operators of each open level, and those that stay.
    levels: Vec<(usize, usize)>,
    /// Operators of the innermost level.
    here: usize,
    /// Those of them that nothing ends but the level.
    stays: usize,
    below: usize,
    most: usize,
}

impl Depth {
    pub(crate) fn open(&mut self) {
        self.below += self.here + 1;
        self.levels.push((self.here, self.stays));
        (self.here, self.stays) = (0, 0);
        self.note();
    }

    /// What was in the brackets is one operand of what is around them.
    pub(crate) fn close(&mut self) {
        self.close_flat();
        self.deepen();
    }

    /// What was in the brackets stands beside what comes after them.
    pub(crate) fn close_flat(&mut self) {
        if let Some((outer, stays)) = self.levels.pop() {
            self.below -= outer + 1;
            (self.here, self.stays) = (outer, stays);
        }
    }

    /// One more operator, or anything else that can put a tree into a tree.
    pub(crate) fn deepen(&mut self) {
        self.here += 1;
        self.note();
    }

    /// One that no comma ends.
    pub(crate) fn deepen_for_good(&mut self) {
        self.stays += 1;
        self.deepen();
    }

    /// What comes next stands beside, not below.
    pub(crate) fn beside(&mut self) {
        self.here = self.stays;
    }

    /// What comes next is a statement of its own.
    pub(crate) fn restart(&mut self) {
        (self.here, self.stays) = (0, 0);
    }

    fn note(&mut self) {
        self.most = self.most.max(self.below + self.here);
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_and_a_deep_tree_are_answers() {
        assert_eq!(run(1, || 7), Ok(7));
        assert_eq!(run(500, || 7), Ok(7));
        assert_eq!(run(MOST_DEPTH + 1, || 7), Err(Trouble::TooDeep));
        for depth in [1, 500] {
            let failing = || -> u8 { std::panic::panic_any(0_u8) };
            assert_eq!(run(depth, failing), Err(Trouble::Failed));
        }
    }
}
