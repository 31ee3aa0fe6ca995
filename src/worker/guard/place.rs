//! **What this room is for:** from a name in a program's memory to the place that the kernel will mean by it: memory, base
//! folder, the folders between, links. **Who may enter:** `worker::guard`. **Never done here:** opening a file for reading
//! (all is `O_PATH`, so no fifo and no device can hold us up); judging. **Where the proof is:** `tests/guard.rs`.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, readlink, readlinkat};
use nix::sys::stat::{Mode, fstatat};

use super::calls::Named;
use crate::limits::{LINKS_FOLLOWED, PATH_BYTES};

/// `RESOLVE_*` flags of the asker that change where its names lead (linux/openat2.h).
const RESOLVE_IN_ROOT: u64 = 0x10;
const RESOLVE_RESTRICTIONS: u64 = 0x01 | 0x02 | 0x04 | 0x08 | RESOLVE_IN_ROOT;
const RESOLVE_NO_LINKS: u64 = 0x02 | 0x04;

/// What stands at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Folder,
    Link,
    Other,
}

/// A true, absolute name.
#[derive(Debug)]
pub(super) struct Place {
    pub path: PathBuf,
    pub found: Found,
}

/// The memory of the asker.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    /// # Errors
    /// `EACCES` for a process that keeps everybody out (not dumpable): the answer then.
    pub(super) fn of(pid: i32) -> Result<Memory, Errno> {
        File::open(format!("/proc/{pid}/mem")).map(Memory).map_err(|error| errno(&error))
    }

    /// A C string. The errors are the kernel's for such a string.
    pub(super) fn text(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; PATH_BYTES];
        let got = self.0.read_at(&mut bytes, address).map_err(|_| Errno::EFAULT)?;
        bytes.truncate(got);
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) => bytes.truncate(end),
            None if got < PATH_BYTES => return Err(Errno::EFAULT),
            None => return Err(Errno::ENAMETOOLONG),
        }
        Ok(bytes)
    }

    /// `flags` and `resolve` of a `struct open_how`.
    pub(super) fn open_how(&self, address: u64) -> Option<(u64, u64)> {
        let word = |at: u64| {
            let mut bytes = [0; 8];
            self.0.read_exact_at(&mut bytes, address.checked_add(at)?).ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        Some((word(0)?, word(16)?))
    }
}

/// The places that a name leads to: itself, and where a link in the last place is followed, what the link means, and so
/// on. An error is what the kernel would say to such a name.
pub(super) fn places(pid: i32, named: &Named, text: Vec<u8>) -> Result<Vec<Place>, Errno> {
    let mut text = OsString::from_vec(text);
    let mut places = Vec::new();
    for _ in 0..=LINKS_FOLLOWED {
        if text.len() > 2 * PATH_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        let base = base(pid, named, &text)?;
        let Some((folder, name)) = split(&text) else {
            let path = if text.is_empty() { base } else { through(pid, base.as_fd(), &text, named.resolve)? };
            places.push(Place { path: true_name(path.as_fd())?, found: Found::Folder });
            return Ok(places);
        };
        let above = if folder.is_empty() { base } else { through(pid, base.as_fd(), folder, named.resolve)? };
        let above_name = true_name(above.as_fd())?;
        let found = kind(above.as_fd(), name)?;
        let path = above_name.join(name);
        if found != Found::Link || !named.follow {
            places.push(Place { path, found });
            return Ok(places);
        }
        let target = readlinkat(&above, name)?;
        if of_a_process(&above_name) {
            // A magic link: its text is the true name of what is open there, or no path at all.
            places.push(Place { path: PathBuf::from(target), found: Found::Other });
            return Ok(places);
        }
        places.push(Place { path, found });
        text = if target.as_bytes().first() == Some(&b'/') { target } else { joined(folder, &target) };
    }
    Err(Errno::ELOOP)
}

fn joined(folder: &OsStr, target: &OsStr) -> OsString {
    let mut text = folder.to_owned();
    if !text.is_empty() {
        text.push("/");
    }
    text.push(target);
    text
}

/// Folder and last name; none when the text ends in no name (`/`, `..`, an empty text).
fn split(text: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = text.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map(|at| at + 1)?;
    let begin = bytes.get(..end)?.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (folder, name) = (bytes.get(..begin)?, bytes.get(begin..end)?);
    (!matches!(name, b"." | b"..")).then(|| (OsStr::from_bytes(folder), OsStr::from_bytes(name)))
}

/// Where a text begins: the root, the asker's folder, or one that it holds open.
fn base(pid: i32, named: &Named, text: &OsStr) -> Result<OwnedFd, Errno> {
    let absolute = text.as_bytes().first() == Some(&b'/');
    let at = if absolute && named.resolve & RESOLVE_IN_ROOT == 0 {
        "/".to_owned()
    } else if named.folder == libc::AT_FDCWD {
        format!("/proc/{pid}/cwd")
    } else {
        format!("/proc/{pid}/fd/{}", named.folder)
    };
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    match nix::fcntl::open(at.as_str(), flags, Mode::empty()) {
        Err(Errno::ENOENT) if named.folder != libc::AT_FDCWD => Err(Errno::EBADF),
        other => other,
    }
}

/// Opens a folder as the asker would.
fn through(pid: i32, base: BorrowedFd<'_>, folder: &OsStr, resolve: u64) -> Result<OwnedFd, Errno> {
    let asked = ResolveFlag::from_bits_retain(resolve & RESOLVE_RESTRICTIONS);
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(asked | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let opened = (0..8).map(|_| openat2(base, folder, how)).find(|opened| !matches!(opened, Err(Errno::EAGAIN)));
    match opened.unwrap_or(Err(Errno::EAGAIN)) {
        // A magic link, or too many: one by one.
        Err(Errno::ELOOP) if resolve & RESOLVE_NO_LINKS == 0 => step_by_step(pid, base, folder),
        // `/proc/self` means another process to us than to the asker.
        Ok(opened) if of_a_process(&true_name(opened.as_fd())?) => step_by_step(pid, base, folder),
        other => other,
    }
}

/// The same by hand: `self` in `/proc` is the asker, and the links of a process are opened, not read.
fn step_by_step(pid: i32, base: BorrowedFd<'_>, folder: &OsStr) -> Result<OwnedFd, Errno> {
    let parts = |text: &[u8]| text.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<VecDeque<_>>();
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let root = || nix::fcntl::open("/", flags, Mode::empty());
    let mut at =
        if folder.as_bytes().first() == Some(&b'/') { root()? } else { openat(base, ".", flags, Mode::empty())? };
    let mut left = parts(folder.as_bytes());
    let mut links = 0;
    while let Some(part) = left.pop_front() {
        if part.is_empty() || part == b"." {
            continue;
        }
        let own = matches!(part.as_slice(), b"self" | b"thread-self") && true_name(at.as_fd())? == Path::new("/proc");
        let part = if own { OsString::from(pid.to_string()) } else { OsString::from_vec(part) };
        if kind(at.as_fd(), &part)? != Found::Link {
            at = openat(&at, part.as_os_str(), flags | OFlag::O_NOFOLLOW, Mode::empty())?;
            continue;
        }
        links += 1;
        if links > LINKS_FOLLOWED {
            return Err(Errno::ELOOP);
        }
        if of_a_process(&true_name(at.as_fd())?) {
            at = openat(&at, part.as_os_str(), flags, Mode::empty())?;
            continue;
        }
        let target = readlinkat(&at, part.as_os_str())?;
        let mut before = parts(target.as_bytes());
        before.append(&mut left);
        left = before;
        if target.as_bytes().first() == Some(&b'/') {
            at = root()?;
        }
    }
    Ok(at)
}

fn kind(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Found, Errno> {
    match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Found::Folder,
            libc::S_IFLNK => Found::Link,
            _ => Found::Other,
        }),
        Err(Errno::ENOENT) => Ok(Found::Nothing),
        Err(error) => Err(error),
    }
}

fn true_name(opened: BorrowedFd<'_>) -> Result<PathBuf, Errno> {
    readlink(format!("/proc/self/fd/{}", opened.as_raw_fd()).as_str()).map(PathBuf::from)
}

/// Below `/proc/NUMBER`, where links lead to what a process has open.
fn of_a_process(path: &Path) -> bool {
    let below = path.as_os_str().as_bytes().strip_prefix(b"/proc/");
    below.is_some_and(|below| below.first().is_some_and(u8::is_ascii_digit))
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EACCES))
}

#[cfg(test)]
mod tests {
    use super::super::calls::Wish;
    use super::*;

    #[test]
    fn the_last_name_is_found() {
        let is = |text: &str| {
            let (folder, name) = split(OsStr::new(text))?;
            Some((folder.to_str()?.to_owned(), name.to_str()?.to_owned()))
        };
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(is("x"), pair("", "x"));
        assert_eq!(is("/x"), pair("/", "x"));
        assert_eq!(is("a//b///"), pair("a//", "b"));
        assert_eq!(is("../.env"), pair("../", ".env"));
        assert_eq!(["", "/", "//", ".", "a/..", "a/./"].map(is), [const { None }; 6]);
    }

    #[test]
    fn names_of_this_process_are_resolved() {
        let dir = tempfile::tempdir().expect("a folder");
        let real = crate::path::real(dir.path()).expect("its name");
        let link = |name: &str, to: &str| std::os::unix::fs::symlink(to, real.join(name)).expect("a link");
        link("e", ".env");
        link("a", "b");
        link("b", "a");
        let pid = i32::try_from(std::process::id()).expect("a pid");
        let wish = Wish::Open { create: true, exclusive: false, write: true };
        let held = File::open(&real).expect("open");
        let named = Named { folder: held.as_raw_fd(), text: 0, wish, follow: true, resolve: 0 };
        let is = |text: &str| {
            let places = places(pid, &named, text.as_bytes().to_vec())?;
            Ok(places.into_iter().map(|place| place.path).collect::<Vec<_>>())
        };
        assert_eq!(is(".env"), Ok(vec![real.join(".env")]));
        assert_eq!(is("e"), Ok(vec![real.join("e"), real.join(".env")]));
        assert_eq!(is("a"), Err(Errno::ELOOP));
        assert_eq!(is("none/x"), Err(Errno::ENOENT));
        assert_eq!(is("e/x"), Err(Errno::ENOENT));
        let number = held.as_raw_fd();
        for text in [format!("/proc/self/fd/{number}/.env"), format!("/proc/thread-self/root{}/.env", real.display())] {
            assert_eq!(is(&text), Ok(vec![real.join(".env")]), "{text}");
        }
        assert_eq!(is(&format!("/dev/fd/{number}/e")).map(|places| places.len()), Ok(2));
        let none = Named { folder: 999_999, ..named };
        assert_eq!(places(pid, &none, b"x".to_vec()).map(|_| ()), Err(Errno::EBADF));
    }

    #[test]
    fn bad_addresses_are_faults() {
        let memory = Memory::of(i32::try_from(std::process::id()).expect("a pid")).expect("our own");
        let text = c"a name";
        assert_eq!(memory.text(text.as_ptr().addr() as u64), Ok(b"a name".to_vec()));
        assert_eq!(memory.text(8), Err(Errno::EFAULT));
        assert_eq!(memory.text(u64::MAX), Err(Errno::EFAULT));
        let long = vec![b'x'; 3 * PATH_BYTES];
        assert_eq!(memory.text(long.as_ptr().addr() as u64), Err(Errno::ENAMETOOLONG));
        assert!(memory.open_how(u64::MAX - 4).is_none());
    }
}
