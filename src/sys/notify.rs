//! **What this room is for:** system calls of others that wait for our answer (`SECCOMP_RET_USER_NOTIF`): putting such a
//! filter on a program, and the listener's questions and answers. **Who may enter:** `confine`, `worker`.
//! **Never done here:** deciding an answer. **Where the proof is:** `tests/guard.rs`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::sys::signal::SigSet;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{Forked, check, exit_now, fork_into, owned};

/// One instruction of a filter.
pub type Step = libc::sock_filter;

const SET_MODE_FILTER: libc::c_uint = 1;
const NEW_LISTENER: libc::c_ulong = 1 << 3;
/// Once its question was read, only a deadly signal ends the asker's wait (Linux 5.19): without it a signal makes it ask
/// again and again.
const WAIT_KILLABLE_RECV: libc::c_ulong = 1 << 5;
// `'!'` requests of linux/seccomp.h; the size of the struct is part of the number, so a kernel with larger ones has others.
const RECV: libc::c_ulong = 0xC050_2100;
const SEND: libc::c_ulong = 0xC018_2101;
const ID_VALID: libc::c_ulong = 0x4008_2102;
const SET_FLAGS: libc::c_ulong = 0x4008_2104;
const SYNC_WAKE_UP: u64 = 1;
const CONTINUE: u32 = 1;

#[repr(C)]
#[derive(Default)]
struct Notice {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction: u64,
    args: [u64; 6],
}

#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const _: () = assert!(size_of::<Notice>() == 80 && size_of::<Response>() == 24, "the sizes are in the request numbers");

/// A call that waits.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Names this question in the answer.
    pub id: u64,
    /// The asking thread, as our own pid namespace numbers it.
    pub pid: i32,
    /// The call.
    pub number: i64,
    /// Its arguments.
    pub args: [u64; 6],
}

/// What the caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The kernel does the call, reading its arguments anew.
    Continue,
    /// This error.
    Errno(i32),
}

/// The next question. Only after `poll` said that there is one: else this waits.
///
/// # Errors
/// `ENOENT` when the asker died meanwhile; the kernel's.
pub fn receive(listener: BorrowedFd<'_>) -> io::Result<Asked> {
    let mut notice = Notice::default();
    // JUSTIFICATION: no crate of ours wraps the listener's requests.
    // SAFETY: the struct is zeroed, as the kernel asks, and has the size that the request number names.
    check(libc::c_long::from(unsafe { libc::ioctl(listener.as_raw_fd(), RECV as _, &raw mut notice) }))?;
    let pid = i32::try_from(notice.pid).unwrap_or(0);
    Ok(Asked { id: notice.id, pid, number: i64::from(notice.number), args: notice.args })
}

/// Whether the asker still waits for this answer: then what was read from its memory was its own, not that of a process
/// which got its number.
#[must_use]
pub fn still_waits(listener: BorrowedFd<'_>, id: u64) -> bool {
    // JUSTIFICATION: as above.
    // SAFETY: the kernel reads one u64, which lives through the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), ID_VALID as _, &raw const id) == 0 }
}

/// Answers.
///
/// # Errors
/// `ENOENT` when nobody waits any more.
pub fn answer(listener: BorrowedFd<'_>, id: u64, answer: Answer) -> io::Result<()> {
    let (error, flags) = match answer {
        Answer::Continue => (0, CONTINUE),
        Answer::Errno(errno) => (-errno.abs(), 0),
    };
    let response = Response { id, value: 0, error, flags };
    // JUSTIFICATION: as above.
    // SAFETY: the struct has the size that the request number names and lives through the call.
    check(libc::c_long::from(unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) })).map(drop)
}

/// Asker and answerer take turns on one processor (Linux 6.6); an older kernel goes without.
pub fn take_turns(listener: BorrowedFd<'_>) {
    // JUSTIFICATION: as above.
    // SAFETY: the request takes the flags by value.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
}

fn install(program: &[Step]) -> io::Result<OwnedFd> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let try_with = |flags: libc::c_ulong| {
        // JUSTIFICATION: neither nix nor seccompiler asks for a listener.
        // SAFETY: pointer and length are those of a slice that lives through the call; the kernel copies it and only reads.
        owned(unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const program) })
    };
    match try_with(NEW_LISTENER | WAIT_KILLABLE_RECV) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => try_with(NEW_LISTENER),
        other => other,
    }
}

/// Whether this process could start programs under a listener; tried in a child that ends at once.
///
/// # Errors
/// `EBUSY` below another listener (a process can have one), `EINVAL` on a kernel without (before 5.0), what an outer filter
/// says.
pub fn available(program: &[Step]) -> io::Result<()> {
    match fork_into(0)? {
        Forked::Child => {
            let tried = nix::sys::prctl::set_no_new_privs().map_err(io::Error::from).and_then(|()| install(program));
            let errno = tried.err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
            exit_now(errno.clamp(0, 255))
        }
        Forked::Parent(pid) => loop {
            match waitpid(Pid::from_raw(pid), None) {
                Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
                Ok(WaitStatus::Exited(_, errno)) => return Err(io::Error::from_raw_os_error(errno)),
                Err(nix::Error::EINTR) => {}
                Ok(_) => return Err(io::Error::from_raw_os_error(libc::EIO)),
                Err(error) => return Err(error.into()),
            }
        },
    }
}

/// Starts a program with no signal blocked (ours would be inherited; a shell whose SIGCHLD is blocked waits for ever), and
/// where there is a filter, with it, returning the listener. This process itself stays without the filter: it answers the
/// questions and must never ask one.
///
/// # Errors
/// As `Command::spawn`, and those of [`available`]: then nothing was started.
pub fn spawn(command: &mut Command, program: Option<&[Step]>) -> io::Result<(Child, Option<OwnedFd>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let guarded = program.is_some();
    let program = program.map(<[Step]>::to_vec);
    let hand_over = move || {
        SigSet::empty().thread_set_mask()?;
        let Some(program) = &program else { return Ok(()) };
        let listener = install(program)?;
        let rights = [listener.as_raw_fd()];
        let byte = [io::IoSlice::new(&[0])];
        sendmsg::<()>(theirs.as_raw_fd(), &byte, &[ControlMessage::ScmRights(&rights)], MsgFlags::MSG_NOSIGNAL, None)?;
        Ok(())
    };
    // JUSTIFICATION: the filter must be on the program before its first instruction and never on us.
    // SAFETY: what runs between fork and exec is three system calls; they may allocate, which is sound here because the
    // callers (launcher and worker) have one thread, so no lock is held by somebody who does not exist in the child.
    let child = unsafe { command.pre_exec(hand_over) }.spawn()?;
    if !guarded {
        return Ok((child, None));
    }
    let mut space = nix::cmsg_space!([i32; 1]);
    let mut byte = [0];
    let mut slices = [io::IoSliceMut::new(&mut byte)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(ours.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
    let received = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmRights(raw) => raw.into_iter().next().map(super::received),
        _ => None,
    });
    received.map(|listener| (child, Some(listener))).ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))
}
