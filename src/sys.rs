//! **What this room is for:** the system calls that no crate of ours wraps, each behind one safe function. The only
//! `unsafe` of the project. **Who may enter:** `confine`, `launcher`, `worker`, `wire`, `supervisor`.
//! **Never done here:** deciding anything. **Where the proof is:** the tests below and `tests/escape.rs`.
#![allow(unsafe_code)]

pub mod notify;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `MOUNT_ATTR_*` bits (Linux 5.12).
pub mod attr {
    /// Read-only.
    pub const RDONLY: u64 = 0x1;
    /// Set-user-id bits mean nothing.
    pub const NOSUID: u64 = 0x2;
    /// Device nodes mean nothing.
    pub const NODEV: u64 = 0x4;
    /// Nothing can be executed.
    pub const NOEXEC: u64 = 0x8;
}

const AT_EMPTY_PATH: u32 = 0x1000;
const AT_RECURSIVE: u32 = 0x8000;
const OPEN_TREE_CLONE: u32 = 1;
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 0x4;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(check(result)?).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // JUSTIFICATION: the raw calls below return descriptors that nothing wraps yet.
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// A detached copy of the mounts at `path`, recursively (`open_tree`, Linux 5.2). Follows no link in the last part.
///
/// # Errors
/// The kernel's: `ENOENT`, `EPERM` without `CAP_SYS_ADMIN` over the mount namespace.
pub fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let path = c_path(path)?;
    let flags = OPEN_TREE_CLONE | AT_RECURSIVE | libc::O_CLOEXEC as u32 | libc::AT_SYMLINK_NOFOLLOW as u32;
    // JUSTIFICATION: neither libc nor nix wraps open_tree.
    // SAFETY: the path is NUL-terminated and lives through the call.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
}

/// Attaches a detached tree at `path`.
///
/// # Errors
/// The kernel's; `ENOENT` when the place is gone.
pub fn attach_tree(tree: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // JUSTIFICATION: neither libc nor nix wraps move_mount.
    // SAFETY: both strings are NUL-terminated and live through the call; the descriptor is open.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })
    .map(drop)
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Sets mount attributes on a tree that is held by descriptor (`mount_setattr`, Linux 5.12).
///
/// # Errors
/// The kernel's.
pub fn set_tree_attr(tree: BorrowedFd<'_>, set: u64, recursive: bool) -> io::Result<()> {
    let attr = MountAttr { set, clear: 0, propagation: 0, userns_fd: 0 };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // JUSTIFICATION: neither libc nor nix wraps mount_setattr.
    // SAFETY: the struct is the kernel's first version of it, its size is passed, and it lives through the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// A new file system instance, not attached anywhere (`fsopen`, `fsconfig`, `fsmount`, Linux 5.2).
///
/// # Errors
/// The kernel's; `EPERM` for `proc` where the host's own is partly covered (containers).
pub fn new_filesystem(kind: &CStr, options: &[(&CStr, &CStr)], attributes: u64) -> io::Result<OwnedFd> {
    const SET_STRING: u32 = 1;
    const SET_FLAG: u32 = 0;
    const CREATE: u32 = 6;
    // JUSTIFICATION: the new mount API has no wrappers; the old call cannot make a detached mount.
    // SAFETY: `kind` is NUL-terminated.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1u32) })?;
    for (key, value) in options {
        let (command, value) =
            if value.is_empty() { (SET_FLAG, std::ptr::null()) } else { (SET_STRING, value.as_ptr()) };
        // JUSTIFICATION: as above.
        // SAFETY: key and value are NUL-terminated (the value null for a flag, as fsconfig wants it).
        check(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key.as_ptr(), value, 0) })?;
    }
    let null = std::ptr::null::<libc::c_char>();
    // JUSTIFICATION: as above.
    // SAFETY: CREATE takes no key and no value.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, null, null, 0) })?;
    let attributes = u32::try_from(attributes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // JUSTIFICATION: as above.
    // SAFETY: only integers are passed.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1u32, attributes) })
}

/// Which side of a fork we are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The new process.
    Child,
    /// The old one; the child's pid as seen from here.
    Parent(i32),
}

/// Forks the calling process, the child in new namespaces as the `CLONE_NEW*` flags say.
///
/// Callers hold to one rule: the process has a single thread (the launcher is started by exec and makes none), so the
/// child may go on without an exec.
///
/// # Errors
/// The kernel's: `EPERM`, `ENOSPC` (too many namespaces), `EAGAIN`.
pub fn fork_into(namespaces: i32) -> io::Result<Forked> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    let zero: libc::c_long = 0;
    // JUSTIFICATION: fork(2) cannot make namespaces; unshare(CLONE_NEWPID) works only once a process (EINVAL after).
    // SAFETY: with a null stack clone behaves as fork: the child continues on a copy of this stack. There is one
    // thread, so no lock is held by somebody who does not exist in the child.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, zero, zero, zero, zero) })?;
    match i32::try_from(pid) {
        Ok(0) => Ok(Forked::Child),
        Ok(pid) => Ok(Forked::Parent(pid)),
        Err(_) => Err(io::Error::from_raw_os_error(libc::EOVERFLOW)),
    }
}

/// Ends the process at once, without destructors: after a fork the copies of the parent's objects are not ours to end.
pub fn exit_now(status: i32) -> ! {
    // JUSTIFICATION: std::process::exit runs the exit handlers that the parent registered.
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(status) }
}

/// A descriptor for a process (Linux 5.3).
///
/// # Errors
/// `ESRCH` when it is gone.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // JUSTIFICATION: not wrapped by nix.
    // SAFETY: only integers are passed.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Sends a signal to the process that the descriptor names, never to another that got its number (Linux 5.1).
///
/// # Errors
/// `ESRCH` when it is gone.
pub fn pidfd_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let info = std::ptr::null::<libc::siginfo_t>();
    // JUSTIFICATION: not wrapped by nix.
    // SAFETY: a null siginfo is what kill(2) would pass.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, info, 0) }).map(drop)
}

/// Closes every descriptor from 3 on but these (`close_range`, Linux 5.9; older than every kernel with Landlock).
///
/// # Errors
/// The kernel's.
pub fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    close_ranges(keep).or_else(|_| close_listed(keep))
}

/// The same one by one, where `close_range` is refused.
fn close_listed(keep: &[RawFd]) -> io::Result<()> {
    let listed: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2 && !keep.contains(fd))
        .collect();
    for fd in listed {
        // JUSTIFICATION: as for close_range: the owners are copies that are never dropped here, or nobody (at start).
        // SAFETY: see `close_ranges`; the descriptor of the listing itself is closed already, which is EBADF.
        let _ = unsafe { libc::close(fd) };
    }
    Ok(())
}

fn close_ranges(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<u32> = keep.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    keep.sort_unstable();
    let mut first = 3;
    for kept in keep.into_iter().chain([u32::MAX]) {
        let last = if kept == u32::MAX { u32::MAX } else { kept.saturating_sub(1) };
        if last >= first {
            // JUSTIFICATION: not wrapped by nix; walking /proc/self/fd would race and needs /proc.
            // SAFETY: called right after a fork, where the owners of these numbers are copies of the parent's objects
            // that are never dropped here: the child ends by exit_now.
            check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
        }
        first = kept.saturating_add(1);
    }
    Ok(())
}

/// Takes a descriptor number that `recvmsg` has just returned.
#[must_use]
pub fn received(fd: RawFd) -> OwnedFd {
    // JUSTIFICATION: nix hands received descriptors over as numbers.
    // SAFETY: the kernel has just made it for us; the one caller (room wire) takes each number once.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The highest Landlock ABI of this kernel; 0 when Landlock is absent or off.
#[must_use]
pub fn landlock_abi() -> u32 {
    const VERSION: u32 = 1;
    let null = std::ptr::null::<libc::c_void>();
    // JUSTIFICATION: the landlock crate keeps its probe private.
    // SAFETY: with the VERSION flag the call takes no attributes and makes nothing.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, null, 0usize, VERSION) };
    u32::try_from(abi).unwrap_or(0)
}

/// Is this kernel at least of that version? Only for what cannot be probed without doing harm.
#[must_use]
pub fn kernel_at_least(major: u32, minor: u32) -> bool {
    let Ok(name) = nix::sys::utsname::uname() else { return false };
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

/// Locks the securebits so that uid 0 means nothing: `NOROOT`, `NO_SETUID_FIXUP`, `KEEP_CAPS` off, `NO_CAP_AMBIENT_RAISE`.
///
/// # Errors
/// `EPERM` without `CAP_SETPCAP`.
pub fn lock_securebits() -> io::Result<()> {
    const NOROOT: libc::c_ulong = 0b11;
    const NO_SETUID_FIXUP: libc::c_ulong = 0b11 << 2;
    const KEEP_CAPS_LOCKED: libc::c_ulong = 1 << 5;
    const NO_AMBIENT: libc::c_ulong = 0b11 << 6;
    let bits = NOROOT | NO_SETUID_FIXUP | KEEP_CAPS_LOCKED | NO_AMBIENT;
    // JUSTIFICATION: nix and caps do not set the whole mask.
    // SAFETY: only integers are passed.
    check(libc::c_long::from(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, bits, 0, 0, 0) })).map(drop)
}

/// Drops one capability from the bounding set. Returns false when the number is past the kernel's last.
///
/// # Errors
/// `EPERM` without `CAP_SETPCAP`.
pub fn drop_bounding(capability: u8) -> io::Result<bool> {
    // JUSTIFICATION: the caps crate stops at the capabilities it knows; a newer kernel may have more.
    // SAFETY: only integers are passed.
    let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) };
    match check(libc::c_long::from(result)) {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Brings the loopback interface of this network namespace up.
///
/// # Errors
/// The kernel's.
pub fn loopback_up() -> io::Result<()> {
    #[repr(C)]
    struct InterfaceFlags {
        name: [u8; libc::IFNAMSIZ],
        flags: libc::c_short,
        rest: [u8; 22],
    }
    let socket = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Datagram,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let mut request = InterfaceFlags { name: [0; libc::IFNAMSIZ], flags: 0, rest: [0; 22] };
    request.name[..2].copy_from_slice(b"lo");
    #[allow(clippy::cast_possible_truncation, reason = "0x1 | 0x40")]
    {
        request.flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    }
    // JUSTIFICATION: no crate of ours wraps SIOCSIFFLAGS; netlink would be a hundred lines for one bit.
    // SAFETY: the struct has the layout and at least the size of the kernel's ifreq for this request.
    check(libc::c_long::from(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) }))
        .map(drop)
}

/// What the kernel or the filter says to `keyctl` with an operation that does not exist: our filters answer `EPERM`, the
/// kernel `EOPNOTSUPP` (or `ENOSYS` where keyrings are not built in). Returns the errno, 0 for success.
#[must_use]
pub fn keyctl_canary() -> i32 {
    // JUSTIFICATION: a canary for seccomp must be a call that means nothing and that only our filter answers so.
    // SAFETY: the operation number is not assigned; the kernel reads no argument.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, 0xffff_usize, 0usize, 0usize, 0usize, 0usize) };
    if result < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pidfd_names_this_process() {
        let own = pidfd_open(i32::try_from(std::process::id()).expect("a pid")).expect("pidfd_open");
        pidfd_signal(own.as_fd(), 0).expect("signal 0 reaches this process");
    }

    #[test]
    fn the_canary_is_not_stopped_outside() {
        assert_ne!(keyctl_canary(), libc::EPERM, "no filter of ours is in force in a test");
    }

    #[test]
    fn versions_are_numbers() {
        assert!(kernel_at_least(5, 13) && kernel_at_least(0, 99) && !kernel_at_least(1000, 0));
    }
}
