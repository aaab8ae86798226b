//! Our own terminal: its size, and keys as they are pressed.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use engine::TerminalSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::SIGWINCH;
use signal_hook::low_level;

/// A terminal whose keys are passed on as they come, until this is dropped.
pub(crate) struct Window {
    before: Termios,
    /// Can be read when the size has changed.
    resized: UnixStream,
}

impl Window {
    /// Takes our terminal over; `Err` if standard input is none.
    pub(crate) fn take() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let (resized, tell) = UnixStream::pair()?;
        resized.set_nonblocking(true)?;
        low_level::pipe::register(SIGWINCH, tell)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before, resized })
    }

    /// Its size now; the usual one where it has none.
    pub(crate) fn size() -> TerminalSize {
        let usual = TerminalSize { columns: 80, rows: 24 };
        let Ok(size) = tcgetwinsize(io::stdin()) else { return usual };
        let size = TerminalSize { columns: size.ws_col, rows: size.ws_row };
        if size.columns == 0 || size.rows == 0 { usual } else { size }
    }

    /// Its size, if it has changed since the last time.
    pub(crate) fn changed(&self) -> Option<TerminalSize> {
        let mut heard = [0; 64];
        (&self.resized).read(&mut heard).ok().filter(|n| *n > 0).map(|_| Self::size())
    }
}

impl AsFd for Window {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.resized.as_fd()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // Nothing better can be done with a terminal that is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
