//! **What this room is for:** looking into folders and files through descriptors that were given. **Who may enter:** the
//! tool bodies, behind the door. **Never done here:** opening a path by its outside name, following a link, waiting for a
//! pipe. **Where the proof is:** the tests of `walk`, `ls` and `read_file`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};

/// What an entry is. Links are never looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Dir,
    File,
    Link,
    Other,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Dir => "dir",
            Kind::File => "file",
            Kind::Link => "link",
            Kind::Other => "other",
        }
    }
}

/// One entry of a folder.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: OsString,
    pub(super) kind: Kind,
}

/// `O_NONBLOCK`: opening a pipe must not wait for its writer.
const SAFE: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_NOFOLLOW).union(OFlag::O_NONBLOCK).union(OFlag::O_NOCTTY).union(OFlag::O_CLOEXEC);

/// What a mode says the file is.
pub(super) fn kind_of(stat: &FileStat) -> Kind {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFDIR => Kind::Dir,
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFLNK => Kind::Link,
        _ => Kind::Other,
    }
}

/// Words for what is not a regular file.
pub(super) fn special_name(stat: &FileStat) -> &'static str {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFDIR => "a folder",
        SFlag::S_IFLNK => "a link",
        SFlag::S_IFIFO => "a pipe",
        SFlag::S_IFSOCK => "a socket",
        SFlag::S_IFCHR | SFlag::S_IFBLK => "a device",
        _ => "not a regular file",
    }
}

/// Entries of a folder, without `.` and `..`, in no order. At most `max`; the flag says that there are more.
pub(super) fn list(folder: &OwnedFd, max: usize) -> Result<(Vec<Item>, bool), Errno> {
    // A descriptor of its own: the stream position is shared by duplicates and would be left at the end.
    let own = openat(folder, ".", SAFE | OFlag::O_DIRECTORY, Mode::empty())?;
    let mut dir = Dir::from_fd(own)?;
    let mut items = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes();
        if bytes == b"." || bytes == b".." {
            continue;
        }
        if items.len() >= max {
            return Ok((items, true));
        }
        let name = OsStr::from_bytes(bytes).to_owned();
        let kind = match entry.file_type() {
            Some(Type::Directory) => Kind::Dir,
            Some(Type::File) => Kind::File,
            Some(Type::Symlink) => Kind::Link,
            Some(_) => Kind::Other,
            None => match stat_in(folder, &name) {
                Ok(stat) => kind_of(&stat),
                Err(_) => continue,
            },
        };
        items.push(Item { name, kind });
    }
    Ok((items, false))
}

/// Status of a name in a folder, of a link itself.
pub(super) fn stat_in(folder: &OwnedFd, name: &OsStr) -> Result<FileStat, Errno> {
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

/// A folder in a folder.
pub(super) fn open_dir(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(folder, name, SAFE | OFlag::O_DIRECTORY, Mode::empty())
}

/// A folder any number of levels below, one step at a time, through no link.
pub(super) fn open_dir_below(start: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let mut here = open_dir(start, OsStr::new("."))?;
    for part in path.components() {
        match part {
            Component::Normal(name) => here = open_dir(&here, name)?,
            Component::CurDir => {}
            _ => return Err(Errno::EINVAL),
        }
    }
    Ok(here)
}

/// A regular file in a folder, with its status. `EINVAL` for anything else.
pub(super) fn open_file(folder: &OwnedFd, name: &OsStr) -> Result<(File, FileStat), Errno> {
    let fd = openat(folder, name, SAFE, Mode::empty())?;
    let stat = fstat(&fd)?;
    if kind_of(&stat) == Kind::File { Ok((File::from(fd), stat)) } else { Err(Errno::EINVAL) }
}

/// Content of at most `max` bytes; `None` when there is more.
pub(super) fn read_bounded(file: &File, max: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    let mut source = file.take(max.saturating_add(1));
    source.read_to_end(&mut content)?;
    Ok((content.len() as u64 <= max).then_some(content))
}

/// Size as an unsigned number (the kernel never gives a negative one).
pub(super) fn bytes_of(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Time of the last change in nanoseconds since 1970.
pub(super) fn mtime_ns(stat: &FileStat) -> i64 {
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec)
}
