//! **What this room is for:** standard input and output without a thread hand-over for each message, and lines of bounded
//! length. **Who may enter:** the ways in that speak in lines. **Never done here:** changing the flags of descriptors
//! that others hold too. **Where the proof is:** the tests below.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nix::fcntl::OFlag;
use nix::sys::socket::{MsgFlags, recv, send};
use nix::sys::stat::{Mode, SFlag, fstat};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};
use tokio::net::unix::pipe;

use super::INPUT_BYTES;

/// Bytes read ahead; a pipe holds as much.
const READ_AHEAD: usize = 64 * 1024;

/// Standard input. Pipes and sockets (which is what Node gives its children) are read when they are ready; anything else
/// (terminals, files) by tokio's helper thread.
#[derive(Debug)]
pub(crate) enum Input {
    /// Reopened, so that non-blocking mode stays ours.
    Pipe(pipe::Receiver),
    /// Read with `MSG_DONTWAIT`; the description is shared and stays as it is.
    Socket(AsyncFd<OwnedFd>),
    /// Everything else.
    Other(tokio::io::Stdin),
}

/// Standard output, by the same three ways.
#[derive(Debug)]
pub(crate) enum Output {
    /// Reopened, so that non-blocking mode stays ours.
    Pipe(pipe::Sender),
    /// Written with `MSG_DONTWAIT`.
    Socket(AsyncFd<OwnedFd>),
    /// Everything else.
    Other(tokio::io::Stdout),
}

fn kind(fd: impl AsFd) -> Option<SFlag> {
    Some(SFlag::from_bits_truncate(fstat(fd).ok()?.st_mode) & SFlag::S_IFMT)
}

/// A second, non-blocking description of the same pipe. Fails where `/proc` is missing or the pipe belongs to somebody
/// else; the caller has another way then.
fn reopened(fd: impl AsFd, flags: OFlag) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    nix::fcntl::open(path.as_str(), flags | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty()).ok()
}

/// A duplicate of a socket's descriptor in the reactor.
#[expect(
    deprecated,
    reason = "what is unsound are types that give out changing descriptors; an OwnedFd cannot, and the other way in is not a safe function"
)]
fn watched(fd: BorrowedFd<'_>) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd.try_clone_to_owned().ok()?).ok()
}

impl Input {
    /// Takes standard input. Needs a running runtime.
    pub(crate) fn stdin() -> Input {
        let stdin = io::stdin();
        let socket = || watched(stdin.as_fd());
        let found = match kind(&stdin) {
            Some(SFlag::S_IFIFO) => {
                reopened(&stdin, OFlag::O_RDONLY).and_then(|fd| pipe::Receiver::from_owned_fd(fd).ok()).map(Input::Pipe)
            }
            Some(SFlag::S_IFSOCK) => socket().map(Input::Socket),
            _ => None,
        };
        found.unwrap_or_else(|| Input::Other(tokio::io::stdin()))
    }
}

impl Output {
    /// Takes standard output. Needs a running runtime.
    pub(crate) fn stdout() -> Output {
        let stdout = io::stdout();
        let socket = || watched(stdout.as_fd());
        let found = match kind(&stdout) {
            Some(SFlag::S_IFIFO) => {
                reopened(&stdout, OFlag::O_WRONLY).and_then(|fd| pipe::Sender::from_owned_fd(fd).ok()).map(Output::Pipe)
            }
            Some(SFlag::S_IFSOCK) => socket().map(Output::Socket),
            _ => None,
        };
        found.unwrap_or_else(|| Output::Other(tokio::io::stdout()))
    }

    /// Writes all of it and flushes.
    ///
    /// # Errors
    /// Those of write(2); mostly that nobody reads any more.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        AsyncWriteExt::write_all(self, bytes).await?;
        self.flush().await
    }
}

impl AsyncRead for Input {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Input::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Input::Other(stdin) => Pin::new(stdin).poll_read(cx, buf),
            Input::Socket(socket) => loop {
                let mut guard = ready!(socket.poll_read_ready(cx))?;
                let read =
                    guard.try_io(|fd| Ok(recv(fd.as_raw_fd(), buf.initialize_unfilled(), MsgFlags::MSG_DONTWAIT)?));
                if let Ok(result) = read {
                    buf.advance(result?);
                    return Poll::Ready(Ok(()));
                }
            },
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Output::Pipe(pipe) => Pin::new(pipe).poll_write(cx, bytes),
            Output::Other(stdout) => Pin::new(stdout).poll_write(cx, bytes),
            Output::Socket(socket) => loop {
                let mut guard = ready!(socket.poll_write_ready(cx))?;
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                if let Ok(result) = guard.try_io(|fd| Ok(send(fd.as_raw_fd(), bytes, flags)?)) {
                    return Poll::Ready(result);
                }
            },
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Output::Pipe(pipe) => Pin::new(pipe).poll_flush(cx),
            Output::Other(stdout) => Pin::new(stdout).poll_flush(cx),
            Output::Socket(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// What came of one line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read<'a> {
    /// A line without its line feed; also the rest before the end of input.
    Line(&'a [u8]),
    /// Longer than [`INPUT_BYTES`]; it was dropped while it was read, the next line is fine.
    TooLong,
    /// The end of input, or an error of read(2), which ends the stream as well.
    End,
}

/// Reads lines and never holds more than [`INPUT_BYTES`].
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    most: usize,
    /// The line was handed out; the next call starts afresh.
    taken: bool,
    /// The rest of a line that is too long is being dropped.
    dropping: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Lines of this input.
    pub(crate) fn new(input: R) -> Self {
        LineReader::with_most(input, INPUT_BYTES)
    }

    fn with_most(input: R, most: usize) -> Self {
        let input = BufReader::with_capacity(READ_AHEAD, input);
        LineReader { input, line: Vec::new(), most, taken: false, dropping: false }
    }

    /// The next line. Safe to cancel: what was read of a line stays, and the next call goes on with it.
    pub(crate) async fn next(&mut self) -> Read<'_> {
        if std::mem::take(&mut self.taken) {
            // A large line is rare; its memory is given back.
            self.line.clear();
            self.line.shrink_to(READ_AHEAD);
        }
        loop {
            // Nothing is consumed while this waits, and nothing waits between here and `consume`.
            let ahead = match self.input.fill_buf().await {
                Ok(ahead) => ahead,
                Err(_) => return Read::End,
            };
            if ahead.is_empty() {
                self.taken = true;
                let unfinished = !std::mem::take(&mut self.dropping) && !self.line.is_empty();
                return if unfinished { Read::Line(&self.line) } else { Read::End };
            }
            let end = ahead.iter().position(|byte| *byte == b'\n');
            let (part, used) = match end {
                Some(at) => (ahead.get(..at).unwrap_or(ahead), at + 1),
                None => (ahead, ahead.len()),
            };
            let fits = !self.dropping && self.line.len() + part.len() <= self.most;
            if fits {
                self.line.extend_from_slice(part);
            }
            self.input.consume(used);
            if !fits {
                self.line.clear();
                self.line.shrink_to(READ_AHEAD);
                // Answered once the line is over, so that answers keep the order of lines.
                self.dropping = end.is_none();
                if end.is_some() {
                    return Read::TooLong;
                }
            } else if end.is_some() {
                self.taken = true;
                return Read::Line(&self.line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn lines_are_bounded_and_the_stream_goes_on() {
        run(async {
            let text = format!("one\n\n{}\n12345678\n123456789\nlast", "x".repeat(200_000));
            let mut lines = LineReader::with_most(text.as_bytes(), 8);
            for expected in [Read::Line(b"one"), Read::Line(b""), Read::TooLong, Read::Line(b"12345678"), Read::TooLong]
            {
                assert_eq!(lines.next().await, expected);
            }
            assert_eq!(lines.next().await, Read::Line(b"last"));
            assert_eq!(lines.next().await, Read::End);
            assert_eq!(lines.next().await, Read::End);
        });
    }

    #[test]
    fn a_cancelled_read_loses_nothing() {
        run(async {
            let (mut writer, reader) = tokio::io::duplex(4);
            let mut lines = LineReader::new(reader);
            tokio::spawn(async move {
                for part in ["ab", "cd", "ef\n", "gh\n"] {
                    writer.write_all(part.as_bytes()).await.unwrap();
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
            });
            let mut got = Vec::new();
            while got.len() < 2 {
                tokio::select! {
                    biased;
                    line = lines.next() => if let Read::Line(line) = line { got.push(line.to_vec()) },
                    () = tokio::time::sleep(std::time::Duration::from_millis(1)) => {}
                }
            }
            assert_eq!(got, [b"abcdef".to_vec(), b"gh".to_vec()]);
        });
    }

    #[test]
    fn sockets_are_read_and_written_without_touching_their_flags() {
        run(async {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            let flags =
                |s: &std::os::unix::net::UnixStream| nix::fcntl::fcntl(s, nix::fcntl::FcntlArg::F_GETFL).unwrap();
            let before = flags(&ours);
            let fd = || watched(ours.as_fd()).unwrap();
            let mut lines = LineReader::new(Input::Socket(fd()));
            let mut output = Output::Socket(fd());
            std::io::Write::write_all(&mut &theirs, b"hello\n").unwrap();
            assert_eq!(lines.next().await, Read::Line(b"hello"));
            output.write_all(b"there\n").await.unwrap();
            let mut back = [0; 6];
            std::io::Read::read_exact(&mut &theirs, &mut back).unwrap();
            assert_eq!(&back, b"there\n");
            drop(theirs);
            assert_eq!(lines.next().await, Read::End);
            assert!(output.write_all(b"gone\n").await.is_err());
            assert_eq!(flags(&ours), before);
        });
    }
}
