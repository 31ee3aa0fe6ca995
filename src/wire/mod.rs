//! **What this room is for:** frames and descriptors between supervisor, launcher and workers: a length, that many bytes
//! of JSON, and descriptors beside the length. **Who may enter:** those three. **Never done here:** interpreting.
//! **Where the proof is:** the tests below, `fuzz/properties/wire_frame.rs`.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::{Serialize, de::DeserializeOwned};

use crate::limits::FRAME_BYTES;

pub mod message;

/// Descriptors that one frame may carry: a plan has at most twenty paths, each with one.
pub const FRAME_DESCRIPTORS: usize = 32;

/// Writes one frame; the descriptors travel with its first byte.
///
/// # Errors
/// The kernel's; `InvalidData` for a message past the limit.
pub fn send<M: Serialize>(stream: &UnixStream, message: &M, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let frame = encode(message)?;
    let sent = send_start(stream.as_fd(), &frame, descriptors)?;
    (&mut &*stream).write_all(frame.get(sent..).unwrap_or_default())
}

/// The bytes of a frame.
///
/// # Errors
/// `InvalidData` for a message past the limit.
pub fn encode<M: Serialize>(message: &M) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    if length > FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is larger than a frame"));
    }
    let length = u32::try_from(length).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Sends what the socket takes at once of a frame, with the descriptors; returns how many bytes went.
///
/// # Errors
/// The kernel's; `WouldBlock` on a non-blocking socket.
pub fn send_start(stream: BorrowedFd<'_>, frame: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    loop {
        match sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(frame)], control, MsgFlags::MSG_NOSIGNAL, None) {
            Err(nix::Error::EINTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Reads one frame. `None` at the end of the stream.
///
/// # Errors
/// The kernel's; `InvalidData` for a frame past the limit or one that is not the message.
pub fn receive<M: DeserializeOwned>(stream: &UnixStream) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut head = [0; 4];
    let mut descriptors = Vec::new();
    let mut have = 0;
    while have < head.len() {
        let got = receive_some(stream.as_fd(), head.get_mut(have..).unwrap_or_default(), &mut descriptors)?;
        if got == 0 {
            return if have == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        have += got;
    }
    let mut body = vec![0; body_length(head)?];
    (&mut &*stream).read_exact(&mut body)?;
    Ok(Some((decode(&body)?, descriptors)))
}

/// The length in a frame's head.
///
/// # Errors
/// `InvalidData` past the limit: nothing is allocated for it.
pub fn body_length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head) as usize;
    if length > FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame past the limit"));
    }
    Ok(length)
}

/// The message in a frame's body.
///
/// # Errors
/// `InvalidData` when it is another message.
pub fn decode<M: DeserializeOwned>(body: &[u8]) -> io::Result<M> {
    serde_json::from_slice(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads what is there, collecting descriptors (closed at exec). 0 is the end of the stream.
///
/// # Errors
/// The kernel's; `WouldBlock` on a non-blocking socket.
pub fn receive_some(stream: BorrowedFd<'_>, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = nix::cmsg_space!([RawFd; FRAME_DESCRIPTORS]);
    let mut slices = [IoSliceMut::new(into)];
    loop {
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(stream.as_raw_fd(), &mut slices, Some(&mut space), flags) {
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(message) => {
                for control in message.cmsgs()? {
                    if let ControlMessageOwned::ScmRights(raw) = control {
                        descriptors.extend(raw.into_iter().map(crate::sys::received));
                    }
                }
                return Ok(message.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_borders() {
        let (a, b) = UnixStream::pair().expect("a pair");
        let file = tempfile::tempfile().expect("a file");
        send(&a, &"one", &[file.as_fd()]).expect("sent");
        send(&a, &"two", &[]).expect("sent");
        drop(a);
        let (one, fds) = receive::<String>(&b).expect("read").expect("a frame");
        assert_eq!((one.as_str(), fds.len()), ("one", 1));
        let (two, fds) = receive::<String>(&b).expect("read").expect("a frame");
        assert_eq!((two.as_str(), fds.len()), ("two", 0));
        assert!(receive::<String>(&b).expect("read").is_none(), "the end is an end, not an error");
    }

    #[test]
    fn a_length_past_the_limit_allocates_nothing() {
        assert!(body_length([0xff; 4]).is_err());
        let (mut a, b) = UnixStream::pair().expect("a pair");
        a.write_all(&[0xff; 8]).expect("sent");
        assert_eq!(receive::<String>(&b).expect_err("refused").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn half_a_frame_is_an_error() {
        let (mut a, b) = UnixStream::pair().expect("a pair");
        a.write_all(&[9, 0]).expect("sent");
        drop(a);
        assert_eq!(receive::<String>(&b).expect_err("cut").kind(), io::ErrorKind::UnexpectedEof);
    }
}
