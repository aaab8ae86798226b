//! A process that becomes a zygote: an interpreter in a root like a run's, without rights and without a user of its own.
//!
//! It stays the keeper's user, in the keeper's user namespace: that is what lets its forks into sandboxes. Everything
//! else is taken: capabilities, the host's files, the network and, where Landlock can, signals to others.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Signal, chdir, getegid, geteuid, set_parent_process_death_signal, setsid};
use rustix::thread::set_no_new_privs;
use types::Layer;

use super::root::{self, Identity};
use super::{Step, seal};
use crate::stage::Overlay;
use crate::sys::{self, CStrings};
use crate::wire::{Trouble, Zygote};

/// What a fork of the keeper has in hand when it becomes a zygote.
pub(crate) struct Birth<'a> {
    /// To the keeper; the library in the interpreter expects it as descriptor 3.
    pub(crate) channel: OwnedFd,
    /// In place of a terminal: input that never comes, output that nobody reads.
    pub(crate) streams: (OwnedFd, OwnedFd),
    pub(crate) writable: OwnedFd,
    pub(crate) overlays: &'a [Overlay],
    pub(crate) zygote: &'a Zygote,
}

impl Birth<'_> {
    /// Becomes the interpreter; ends the process if it cannot, which the keeper sees.
    pub(crate) fn live(self) -> ! {
        let keep = [self.channel.as_fd(), self.streams.0.as_fd(), self.streams.1.as_fd(), self.writable.as_fd()];
        if sys::close_all_but(&keep).is_ok() {
            let Err(_trouble) = self.become_interpreter();
        }
        sys::exit_now(1)
    }

    fn become_interpreter(self) -> Result<Infallible, Trouble> {
        let guest = (geteuid().as_raw(), getegid().as_raw());
        // Its cgroup view stays the keeper's: from there its forks enter the groups of runs. The keeper's processes are
        // none of its business, so that it has no `/proc`.
        let without = vec![Layer::UserNs, Layer::CgroupNs, Layer::PidNs];
        let identity = Identity { guest, without, accept: &[], lent: false, disk: None };
        drop(root::enter(&self.writable, self.overlays, &identity, &mut Vec::new())?);
        sys::reset_signals();
        setsid().step("leave the session")?;
        chdir("/work").step("enter /work")?;
        seal::drop_capabilities().wall(Layer::CapsDropped, "drop every capability")?;
        set_no_new_privs(true).wall(Layer::NoNewPrivs, "set no_new_privs")?;
        seal::fence_signals().wall(Layer::LandlockScope, "fence signals with Landlock")?;
        set_parent_process_death_signal(Some(Signal::KILL)).step("tie the zygote to the keeper")?;
        let argv = CStrings::new(&self.zygote.argv).step("read the arguments")?;
        let env = CStrings::new(&self.zygote.env).step("read the environment")?;
        let program = CString::new(self.zygote.program.as_str()).map_err(|_| Errno::INVAL).step("read the path")?;
        rustix::stdio::dup2_stdin(&self.streams.0).step("place standard input")?;
        rustix::stdio::dup2_stdout(&self.streams.1).step("place standard output")?;
        rustix::stdio::dup2_stderr(&self.streams.1).step("place standard error")?;
        sys::place_channel(&self.channel).step("place the channel")?;
        Err(sys::execve(&program, &argv, &env)).step("start the interpreter")
    }
}
