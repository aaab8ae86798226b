//! Files of a sandbox of this host that stays: its root is open here, and what may wait for a disk waits on a thread.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use jail::GuestIds;
use jail::inside::Files;
use jail::measure::Sum;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use types::GuestPath;

use super::{archive, watch};
use crate::backend::{
    BoxFuture, FileContentStream, FileEntry, FileError, FileEvent, GuestUser, Marks, PlaceFiles, Reach, Unpacked,
};

const PIECE: usize = 256 << 10;

/// The files of one sandbox.
#[derive(Clone)]
pub(super) struct NativeFiles(Files);

impl NativeFiles {
    pub(super) fn new(root: Arc<OwnedFd>, ids: GuestIds) -> Self {
        Self(Files::new(root, ids))
    }

    /// Everybody inside but init, as `number name`, whatever they call themselves.
    pub(super) fn processes(&self) -> Vec<String> {
        self.0.processes()
    }

    /// Adds files of its disk that have no name any more, but that somebody inside has open.
    pub(super) fn add_unlinked(&self, sum: &mut Sum) {
        self.0.add_unlinked(sum);
    }

    /// Does something that may wait for a disk where nobody else waits for it.
    fn away<T: Send + 'static>(
        &self,
        path: &GuestPath,
        act: impl FnOnce(&Files, &GuestPath) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, FileError>> {
        self.told(path, act, FileError::from_io)
    }

    /// The same with a failure told in other words.
    fn told<T: Send + 'static>(
        &self,
        path: &GuestPath,
        act: impl FnOnce(&Files, &GuestPath) -> io::Result<T> + Send + 'static,
        tell: fn(&GuestPath, io::Error) -> FileError,
    ) -> BoxFuture<'static, Result<T, FileError>> {
        let (files, path) = (self.0.clone(), path.clone());
        Box::pin(async move {
            let asked = path.clone();
            let done = tokio::task::spawn_blocking(move || act(&files, &asked)).await;
            done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| tell(&path, error))
        })
    }
}

impl PlaceFiles for NativeFiles {
    fn stat<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<FileEntry, FileError>> {
        self.away(path, |files, path| files.stat(path).map(FileEntry::from))
    }

    fn list<'a>(&'a self, path: &'a GuestPath, depth: u32) -> BoxFuture<'a, Result<Vec<FileEntry>, FileError>> {
        let listed = self.told(path, move |files, path| files.list(path, depth.max(1)), FileError::of_list);
        Box::pin(async move { Ok(listed.await?.into_iter().map(FileEntry::from).collect()) })
    }

    fn read<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<FileContentStream, FileError>> {
        self.away(path, |files, path| files.read(path).map(|(file, bytes)| FileContentStream::of(file, bytes)))
    }

    fn write<'a>(
        &'a self,
        path: &'a GuestPath,
        user: GuestUser,
        mode: u32,
        content: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> BoxFuture<'a, Result<u64, FileError>> {
        Box::pin(async move {
            let mut file = self.away(path, move |files, path| files.create(path, user.number(), mode)).await?;
            let failed = |error| FileError::from_io(path, error);
            let (mut buffer, mut bytes) = (vec![0; PIECE], 0);
            loop {
                let n = content.read(&mut buffer).await.map_err(failed)?;
                if n == 0 {
                    return Ok(bytes);
                }
                bytes += n as u64;
                let written = tokio::task::spawn_blocking(move || {
                    let written = file.write_all(&buffer[..n]);
                    (file, buffer, written)
                });
                let (same, again, written) = written.await.map_err(|error| failed(io::Error::other(error)))?;
                written.map_err(failed)?;
                (file, buffer) = (same, again);
            }
        })
    }

    fn make_folder<'a>(&'a self, path: &'a GuestPath, user: GuestUser) -> BoxFuture<'a, Result<(), FileError>> {
        self.away(path, move |files, path| files.make_folder(path, user.number()))
    }

    fn rename<'a>(&'a self, from: &'a GuestPath, to: &'a GuestPath) -> BoxFuture<'a, Result<(), FileError>> {
        let to = to.clone();
        self.away(from, move |files, from| files.rename(from, &to, GuestUser::User.number()))
    }

    fn remove<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<(), FileError>> {
        self.away(path, Files::remove)
    }

    fn marks<'a>(
        &'a self,
        paths: Vec<GuestPath>,
        prefix: &'static str,
    ) -> BoxFuture<'a, Result<Vec<Marks>, FileError>> {
        let files = self.0.clone();
        Box::pin(async move {
            let read = move || paths.iter().map(|path| files.marks(path, prefix)).collect();
            Ok(tokio::task::spawn_blocking(read).await.unwrap_or_default())
        })
    }

    fn mark<'a>(
        &'a self,
        path: &'a GuestPath,
        prefix: &'static str,
        marks: Marks,
    ) -> BoxFuture<'a, Result<(), FileError>> {
        self.away(path, move |files, path| files.mark(path, prefix, &marks))
    }

    fn pack<'a>(&'a self, path: &'a GuestPath) -> BoxFuture<'a, Result<Box<dyn AsyncRead + Send + Unpin>, FileError>> {
        self.away(path, archive::pack)
    }

    fn unpack<'a>(
        &'a self,
        path: &'a GuestPath,
        user: GuestUser,
        most: u64,
        content: &'a mut (dyn AsyncRead + Send + Unpin),
    ) -> BoxFuture<'a, Result<Unpacked, FileError>> {
        Box::pin(async move {
            let unpacked = archive::unpack(self.0.clone(), path.clone(), user, most, content).await;
            unpacked.map_err(|error| FileError::from_io(path, error))
        })
    }

    fn watch<'a>(
        &'a self,
        path: &'a GuestPath,
        reach: Reach,
    ) -> BoxFuture<'a, Result<mpsc::Receiver<FileEvent>, FileError>> {
        self.away(path, move |files, path| watch::begin(files, path, reach))
    }
}
