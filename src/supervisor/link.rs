//! **What this room is for:** the supervisor's end of a socket to the launcher or a worker, without blocking.
//! **Who may enter:** `supervisor`. **Never done here:** interpreting messages. **Where the proof is:** `tests/pipeline.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::wire;

/// The reading half.
#[derive(Debug)]
pub struct Reader(OwnedReadHalf);

/// The writing half.
#[derive(Debug)]
pub struct Writer(OwnedWriteHalf);

/// Takes a socket into the runtime.
///
/// # Errors
/// The kernel's.
pub fn open(stream: BlockingStream) -> io::Result<(Reader, Writer)> {
    stream.set_nonblocking(true)?;
    let (read, write) = UnixStream::from_std(stream)?.into_split();
    Ok((Reader(read), Writer(write)))
}

impl Reader {
    /// The next message and its descriptors; `None` when the other side has ended.
    ///
    /// Not cancel-safe: a frame that was read in part is lost. Only one task reads, and it gives the link up when it is
    /// cancelled.
    ///
    /// # Errors
    /// The kernel's; `InvalidData` for what is no message.
    pub async fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        let mut head = [0; 4];
        let mut descriptors = Vec::new();
        let mut have = 0;
        let stream: &UnixStream = self.0.as_ref();
        while have < head.len() {
            let into = head.get_mut(have..).unwrap_or_default();
            let got = stream
                .async_io(Interest::READABLE, || wire::receive_some(stream.as_fd(), into, &mut descriptors))
                .await?;
            if got == 0 {
                return if have == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            have += got;
        }
        let mut body = vec![0; wire::body_length(head)?];
        self.0.read_exact(&mut body).await?;
        Ok(Some((wire::decode(&body)?, descriptors)))
    }
}

impl Writer {
    /// Sends a message; the descriptors travel with it.
    ///
    /// # Errors
    /// The kernel's; `InvalidData` for a message past the limit.
    pub async fn send<M: Serialize>(&mut self, message: &M, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let frame = wire::encode(message)?;
        let stream: &UnixStream = self.0.as_ref();
        let sent =
            stream.async_io(Interest::WRITABLE, || wire::send_start(stream.as_fd(), &frame, descriptors)).await?;
        self.0.write_all(frame.get(sent..).unwrap_or_default()).await
    }
}
