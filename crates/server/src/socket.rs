//! The Unix socket in the state folder: one server, and its owner's clients.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::error::ServeError;
use crate::keys::random_hex;

const NAME: &str = "saggar.sock";

/// Where the server of a state folder listens.
#[must_use]
pub fn socket_path(state: &Path) -> PathBuf {
    state.join(NAME)
}

/// Connects to the server of a state folder, if it is ours or root's: nobody else may see what we run.
pub fn connect(state: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(Short::new(state)?.path(NAME))?;
    if is_trusted(&stream) { Ok(stream) } else { Err(io::Error::other("another user's server listens there")) }
}

/// Whether the other end is ourselves or root.
pub(crate) fn is_trusted(stream: impl AsFd) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid() || peer.uid.is_root())
}

/// A listening socket, and the lock that makes it the only one. Both go when this is dropped.
pub(crate) struct Door {
    state: PathBuf,
    _lock: File,
}

impl Door {
    /// Listens in `state`. A socket that a dead server left is replaced: the lock tells it from a living one's.
    pub(crate) fn open(state: &Path) -> Result<(Self, UnixListener), ServeError> {
        let failed = |source| ServeError::State { path: socket_path(state), source };
        let meta = fs::metadata(state).map_err(failed)?;
        if meta.uid() != geteuid().as_raw() || meta.mode() & 0o022 != 0 {
            return Err(ServeError::Shared(state.to_path_buf()));
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(state.join("serve.lock")).map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(ServeError::Running(state.to_path_buf())),
            Err(errno) => return Err(failed(errno.into())),
        }
        let listener = listen(state).map_err(failed)?;
        Ok((Self { state: state.to_path_buf(), _lock: lock }, listener))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(socket_path(&self.state));
    }
}

/// Binds inside a folder that nobody else can enter, so that the socket never has a mode but its own.
fn listen(state: &Path) -> io::Result<UnixListener> {
    let room = state.join(format!(".serve-{}", random_hex::<16>()));
    fs::DirBuilder::new().mode(0o700).create(&room)?;
    let bound = Short::new(&room).and_then(|short| {
        let listener = UnixListener::bind(short.path(NAME))?;
        let made = room.join(NAME);
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
        fs::rename(&made, socket_path(state))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let _ = fs::remove_dir_all(&room);
    bound
}

/// A folder by a name that fits into a socket's address, which holds 107 bytes.
struct Short {
    folder: PathBuf,
    _fd: Option<OwnedFd>,
}

impl Short {
    fn new(folder: &Path) -> io::Result<Self> {
        if folder.as_os_str().len() + NAME.len() < 100 {
            return Ok(Self { folder: folder.to_path_buf(), _fd: None });
        }
        let fd = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { folder: PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd())), _fd: Some(fd) })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
