//! Packets with descriptors beside them.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire::{MAX_FDS, MAX_MESSAGE};

/// One end of a `SEQPACKET` pair.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A received message and what came beside it; `None` when the other end is gone.
pub(crate) type Received<T> = Option<(T, Vec<OwnedFd>)>;

impl Channel {
    /// Two connected ends, both closed on exec and non-blocking.
    pub fn pair() -> Result<(Self, Self), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(a), Self(b)))
    }

    /// Takes over an end that was inherited.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// The socket itself, to hand to a child.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Sends one message; waits while the other end's queue is full.
    pub fn send<T: Serialize>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let bytes = postcard::to_stdvec(message).map_err(|_| Errno::INVAL)?;
        if bytes.len() > MAX_MESSAGE {
            return Err(Errno::MSGSIZE);
        }
        send_with(self.as_fd(), &bytes, fds)
    }

    /// Receives one message, or `Err(AGAIN)` when there is none.
    pub(crate) fn try_recv<T: DeserializeOwned>(&self, buffer: &mut Vec<u8>) -> Result<Received<T>, Errno> {
        buffer.resize(MAX_MESSAGE, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let mut iov = [IoSliceMut::new(buffer)];
            match recvmsg(&self.0, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(got) => break got,
                // The other end went without reading all we sent; what it said before is still there.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(errno) => return Err(errno),
            }
        };
        if got.bytes == 0 {
            return Ok(None);
        }
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(Errno::MSGSIZE);
        }
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        let message = postcard::from_bytes(&buffer[..got.bytes]).map_err(|_| Errno::PROTO)?;
        Ok(Some((message, fds)))
    }

    /// Receives one message, waiting for it.
    pub(crate) fn recv<T: DeserializeOwned>(&self) -> Result<Received<T>, Errno> {
        let mut buffer = Vec::new();
        loop {
            match self.try_recv(&mut buffer) {
                Err(Errno::AGAIN) => wait(self.as_fd(), PollFlags::IN)?,
                other => return other,
            }
        }
    }
}

/// Sends one packet with descriptors beside it; waits while the other end's queue is full.
pub(crate) fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    loop {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::TOOBIG);
        }
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => return Ok(()),
            Err(Errno::AGAIN) => wait(socket, PollFlags::OUT)?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn wait(socket: BorrowedFd<'_>, what: PollFlags) -> Result<(), Errno> {
    match poll(&mut [PollFd::new(&socket, what)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
