//! Workers: ordered of zygotes, or started by an init, and what is heard of either.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use types::Layer;

use super::zygote::{News, Zygote};
use super::{Keeper, NO_WORKER, Source, ZYGOTE};
use crate::seccomp::Profile;
use crate::wire::{self, FromKeeper, SandboxId, Start, Trouble, ZygoteId};

impl Keeper {
    pub(super) fn start_zygote(&mut self, spec: &wire::Zygote) -> Result<(), Errno> {
        let profile =
            if self.groups.layers().contains(&Layer::CgroupMemory) { Profile::Metered } else { Profile::Unmetered };
        match Zygote::start(spec, &self.overlays, profile) {
            Ok(zygote) => {
                self.listen(zygote.line(), ZYGOTE | u64::from(spec.id))?;
                self.zygotes.insert(spec.id, zygote);
                Ok(())
            }
            Err(_) => self.engine.send(&FromKeeper::ZygoteGone { id: spec.id }, &[]),
        }
    }

    pub(super) fn retire(&mut self, id: ZygoteId) {
        if let Some(zygote) = self.zygotes.get_mut(&id) {
            zygote.retire();
            self.let_go_if_done(id);
        }
    }

    fn let_go_if_done(&mut self, id: ZygoteId) {
        if self.zygotes.get(&id).is_some_and(Zygote::is_done)
            && let Some(zygote) = self.zygotes.remove(&id)
        {
            zygote.end();
        }
    }

    /// Orders a worker for a sandbox whose init is ready for it, or remembers to.
    pub(super) fn order_worker(&mut self, id: SandboxId) {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
        let zygote = sandbox.zygote.and_then(|zygote| self.zygotes.get_mut(&zygote));
        let ordered = match zygote {
            None => Err(Errno::CHILD),
            Some(zygote) if !zygote.is_ready() => {
                zygote.asked.push_back(id);
                return;
            }
            Some(zygote) => sandbox.order_worker(zygote),
        };
        self.listen_to_worker(id, ordered);
    }

    pub(super) fn prestart(&mut self, start: Start, fds: Vec<OwnedFd>) {
        let id = start.id;
        if let Some(sandbox) = self.sandboxes.get_mut(&id) {
            let started = sandbox.prestart(start, fds);
            self.listen_to_worker(id, started);
        }
    }

    fn listen_to_worker(&mut self, id: SandboxId, made: Result<(), Errno>) {
        let Some(sandbox) = self.sandboxes.get_mut(&id) else { return };
        let listening = made.and_then(|()| match &sandbox.worker {
            Some(worker) => {
                let name = epoll::EventData::new_u64(u64::from(id) * 4 + Source::Worker as u64);
                epoll::add(&self.epoll, worker.line.as_fd(), name, epoll::EventFlags::IN)
            }
            None => Ok(()),
        });
        if let Err(errno) = listening {
            sandbox.worker_lost(no_worker(errno));
        }
    }

    pub(super) fn hear_zygote(&mut self, id: ZygoteId) -> Result<(), Errno> {
        while let Some(news) = self.zygotes.get_mut(&id).and_then(Zygote::hear) {
            match news {
                News::Ready => {
                    let asked = self.zygotes.get_mut(&id).map(|zygote| std::mem::take(&mut zygote.asked));
                    asked.into_iter().flatten().for_each(|sandbox| self.order_worker(sandbox));
                }
                News::Failed(sandbox, trouble) => {
                    if let Some(sandbox) = self.sandboxes.get_mut(&sandbox) {
                        sandbox.worker_lost(trouble);
                    }
                }
                News::Ended { sandbox, status, cpu, largest } => {
                    let cpu = Duration::from_nanos(cpu);
                    if let Some(sandbox) = self.sandboxes.get_mut(&sandbox) {
                        sandbox.worker_ended(status, cpu, largest);
                    }
                }
                News::Gone => self.lose_zygote(id)?,
            }
        }
        self.let_go_if_done(id);
        Ok(())
    }

    /// A zygote was killed or failed. Its workers live on, and are reaped by us; those still to be made are not.
    pub(super) fn lose_zygote(&mut self, id: ZygoteId) -> Result<(), Errno> {
        let Some(zygote) = self.zygotes.remove(&id) else { return Ok(()) };
        for sandbox in zygote.end() {
            if let Some(sandbox) = self.sandboxes.get_mut(&sandbox)
                && sandbox.worker_pid().is_none()
            {
                sandbox.worker_lost(no_worker(Errno::CHILD));
            }
        }
        self.engine.send(&FromKeeper::ZygoteGone { id }, &[])
    }
}

/// Why a sandbox has no worker.
fn no_worker(errno: Errno) -> Trouble {
    Trouble { layer: None, step: NO_WORKER.to_owned(), errno: errno.raw_os_error() }
}
