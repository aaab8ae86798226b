//! The input of one program: what has come for it and was not taken yet.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

/// Our end of a program's input, if it is open, and what waits there.
pub(super) struct Input<F> {
    fd: Option<F>,
    waiting: VecDeque<u8>,
    /// Whether more will come.
    more: bool,
}

impl<F: AsFd> Input<F> {
    /// Does not block: a program that reads nothing holds up nobody.
    pub(super) fn new(fd: Option<F>) -> Result<Self, Errno> {
        if let Some(fd) = &fd {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(Self { fd, waiting: VecDeque::new(), more: true })
    }

    /// The same once there is an end to write to.
    pub(super) fn connect(&mut self, fd: F) {
        self.fd = Some(fd);
    }

    /// More has come.
    pub(super) fn push(&mut self, content: &[u8]) {
        self.waiting.extend(content);
    }

    /// No more will come.
    pub(super) fn end(&mut self) {
        self.more = false;
    }

    /// Nobody is left to read it.
    pub(super) fn close(&mut self) {
        self.fd = None;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.fd.is_none()
    }

    /// What to wait for as long as the program has not taken everything.
    pub(super) fn wanting(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().filter(|_| !self.waiting.is_empty()).map(AsFd::as_fd)
    }

    /// Gives the program what it takes; how much that was.
    pub(super) fn feed(&mut self) -> u32 {
        let mut took = 0;
        while let (Some(fd), false) = (&self.fd, self.waiting.is_empty()) {
            match rustix::io::write(fd, self.waiting.as_slices().0) {
                Ok(n) => {
                    self.waiting.drain(..n);
                    took += n;
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // It has closed its input: whatever comes is taken and thrown away.
                Err(_) => self.fd = None,
            }
        }
        if self.fd.is_none() {
            took += self.waiting.len();
            self.waiting.clear();
        }
        if self.waiting.is_empty() && !self.more {
            self.fd = None;
        }
        u32::try_from(took).unwrap_or(u32::MAX)
    }
}
