//! **What this room is for:** from a claim to a descriptor and the one true name of what it holds.
//! **Who may enter:** supervisor and tests. **Never done here:** opening for reading before the kind is known; opening by
//! a name that was checked before; trusting a name that a rename may have changed.
//! **Where the proof is:** `tests/path.rs` (races, links), `fuzz/properties/path_resolve.rs`.

use super::error::from_errno;
use super::lexical::{PathClaim, spell};
use super::root::{Root, beneath, fd_path};
use super::{ResolveError, Spelled, walk};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// How often a lookup starts again because what it found was replaced meanwhile (a save by rename, an exchange).
const TRIES: u32 = 64;

/// What kind of thing a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Kind {
    File,
    Dir,
    /// Only from [`resolve_entry`], which does not follow the last link.
    Link,
    Fifo,
    Socket,
    Device,
}

impl Kind {
    /// The kind in the mode of a stat.
    #[must_use]
    pub fn of_mode(mode: u32) -> Kind {
        match SFlag::from_bits_truncate(mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => Kind::File,
            SFlag::S_IFDIR => Kind::Dir,
            SFlag::S_IFLNK => Kind::Link,
            SFlag::S_IFIFO => Kind::Fifo,
            SFlag::S_IFSOCK => Kind::Socket,
            _ => Kind::Device,
        }
    }
}

/// What was true of an object when it was resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its kind.
    pub kind: Kind,
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Hard links.
    pub nlink: u64,
    /// Bytes.
    pub size: u64,
    /// Mode bits with the kind.
    pub mode: u32,
    /// Last change of the content, nanoseconds since 1970.
    pub mtime_ns: i128,
    /// Last change of content or metadata; no program can set it.
    pub ctime_ns: i128,
}

impl From<&FileStat> for Facts {
    fn from(stat: &FileStat) -> Self {
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Facts {
            kind: Kind::of_mode(stat.st_mode),
            dev: stat.st_dev,
            ino: stat.st_ino,
            nlink: widen(stat.st_nlink),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode,
            mtime_ns: ns(stat.st_mtime, stat.st_mtime_nsec),
            ctime_ns: ns(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// `nlink_t` has 32 bits on some machines.
fn widen(nlink: impl Into<u64>) -> u64 {
    nlink.into()
}

/// A claim that was earned: where it leads, proven by a descriptor.
#[derive(Debug)]
pub struct Resolved {
    /// The true name from the root, `/` between names, through all links; the root itself is `.`. For something missing:
    /// the name that it would have.
    pub rel: String,
    /// The spelling from the root with `..` taken away by text; may only add a no.
    pub spelled: String,
    /// What is there.
    pub target: Target,
}

/// What a resolved path leads to.
#[derive(Debug)]
pub enum Target {
    /// Something that is there.
    Exists {
        /// Path-only descriptor (`O_PATH`): nothing was opened for reading.
        fd: OwnedFd,
        /// What was true of it.
        facts: Facts,
    },
    /// Nothing yet, and it could be made.
    Missing {
        /// Path-only descriptor of the deepest folder that is there.
        parent: OwnedFd,
        /// True name of that folder from the root.
        parent_rel: String,
        /// Folders that would have to be made, the outermost first.
        missing: Vec<String>,
        /// The last name.
        name: String,
    },
}

impl Resolved {
    /// The facts of what is there; `None` when nothing is.
    #[must_use]
    pub fn facts(&self) -> Option<&Facts> {
        match &self.target {
            Target::Exists { facts, .. } => Some(facts),
            Target::Missing { .. } => None,
        }
    }

    /// Opens a regular file or a folder for reading, by its descriptor: what was resolved is what is opened. A pipe or a
    /// device is never opened, since the opening alone may block or have effects.
    ///
    /// # Errors
    /// `NotFound` when nothing is there, `InvalidInput` for other kinds, else what the kernel says.
    pub fn open_read(&self) -> io::Result<OwnedFd> {
        match &self.target {
            Target::Missing { .. } => Err(io::ErrorKind::NotFound.into()),
            Target::Exists { fd, facts } if matches!(facts.kind, Kind::File | Kind::Dir) => {
                // Through the magic link of our own descriptor; O_NONBLOCK and O_NOCTTY cost nothing and keep us from
                // waiting for leases of others.
                let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
                let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
                Ok(nix::fcntl::open(path.as_str(), flags, Mode::empty())?)
            }
            Target::Exists { .. } => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file or folder")),
        }
    }

    /// Path-only descriptor of the folder that holds this entry, with the entry's name: what a replace by rename needs.
    /// For something missing: the deepest folder that is there and the first name to make in it.
    ///
    /// # Errors
    /// `Busy` when the entry is no longer this object; `Outside` for the root, whose parent is nobody's business.
    pub fn open_parent(&self, root: &Root) -> Result<(OwnedFd, String), ResolveError> {
        match &self.target {
            Target::Missing { parent, missing, name, .. } => {
                let parent = parent.try_clone().map_err(|_| ResolveError::System(Errno::EMFILE))?;
                Ok((parent, missing.first().unwrap_or(name).clone()))
            }
            Target::Exists { .. } if self.rel == "." => Err(ResolveError::Outside),
            Target::Exists { facts, .. } => {
                let (folder, name) = self.rel.rsplit_once('/').unwrap_or((".", &self.rel));
                let parent = root
                    .beneath(OsStr::new(folder), OFlag::O_PATH | OFlag::O_DIRECTORY)
                    .map_err(|_| ResolveError::Busy)?;
                let now = fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).map_err(|_| ResolveError::Busy)?;
                if (now.st_dev, now.st_ino) != (facts.dev, facts.ino) {
                    return Err(ResolveError::Busy);
                }
                Ok((parent, name.to_owned()))
            }
        }
    }
}

/// Resolves a claim through all links.
///
/// # Errors
/// See [`ResolveError`]; a claim that leads out of the workspace is `Outside` whatever is there.
pub fn resolve(root: &Root, claim: &str) -> Result<Resolved, ResolveError> {
    resolve_with(root, claim, true)
}

/// Resolves a claim, but not the link that its last name may be: for what moves, removes or describes the entry itself.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_entry(root: &Root, claim: &str) -> Result<Resolved, ResolveError> {
    resolve_with(root, claim, false)
}

fn resolve_with(root: &Root, claim: &str, follow: bool) -> Result<Resolved, ResolveError> {
    let spelled = spell(PathClaim::new(claim)?, root.anchors())?;
    // A `/` at the end asks for what the link leads to, as everywhere in the system.
    let follow = follow || spelled.folder();
    let mut answer = Err(ResolveError::Busy);
    for _ in 0..TRIES {
        answer = attempt(root, &spelled, follow);
        if !matches!(answer, Err(ResolveError::Busy)) {
            break;
        }
    }
    answer
}

/// One lookup; `Busy` asks for another one.
fn attempt(root: &Root, spelled: &Spelled, follow: bool) -> Result<Resolved, ResolveError> {
    let rel = OsString::from(spelled.names().join("/"));
    let mut flags = OFlag::O_PATH;
    flags.set(OFlag::O_NOFOLLOW, !follow);
    flags.set(OFlag::O_DIRECTORY, spelled.folder());
    match root.beneath(&rel, flags) {
        // The road of nearly all calls: no link on the way, one system call.
        Ok(fd) => exists(root, spelled, fd),
        // A link on the way, something missing, or a race: the walker knows which.
        Err(Errno::ELOOP | Errno::ENOENT | Errno::ENOTDIR | Errno::EXDEV) => walk::walk(root, spelled, follow),
        Err(errno) => Err(from_errno(errno)),
    }
}

/// The answer for something that was opened.
pub(super) fn exists(root: &Root, spelled: &Spelled, fd: OwnedFd) -> Result<Resolved, ResolveError> {
    let stat = fstat(&fd).map_err(from_errno)?;
    let facts = Facts::from(&stat);
    if spelled.folder() && facts.kind != Kind::Dir {
        return Err(ResolveError::NotAFolder);
    }
    let rel = into_text(true_name(root, &fd, &facts)?)?;
    Ok(Resolved { rel, spelled: spelled.collapsed().to_owned(), target: Target::Exists { fd, facts } })
}

/// The name from the root that the kernel has for this object now; `.` for the root. Asked of the kernel after the
/// opening, so that a rename in between cannot lend a harmless name to another file.
pub(super) fn true_name(root: &Root, fd: &impl AsFd, facts: &Facts) -> Result<OsString, ResolveError> {
    let system = |error: io::Error| ResolveError::System(error.raw_os_error().map_or(Errno::EIO, Errno::from_raw));
    let base = fd_path(&root.fd()).map_err(system)?;
    let path = fd_path(fd).map_err(system)?;
    let rest = path.as_os_str().as_bytes().strip_prefix(base.as_os_str().as_bytes()).ok_or(ResolveError::Outside)?;
    let rel = match rest.split_first() {
        None => b".".as_slice(),
        Some((b'/', rel)) => rel,
        Some(_) => return Err(ResolveError::Outside),
    };
    let rel = OsStr::from_bytes(rel);
    if path.as_os_str().as_bytes().ends_with(b" (deleted)") && !names(root, rel, facts) {
        // Replaced or removed since: look again. A file may really be called so, hence the check.
        return Err(ResolveError::Busy);
    }
    Ok(rel.to_owned())
}

/// Whether `rel` is this object.
fn names(root: &Root, rel: &OsStr, facts: &Facts) -> bool {
    root.beneath(rel, OFlag::O_PATH | OFlag::O_NOFOLLOW)
        .and_then(fstat)
        .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (facts.dev, facts.ino))
}

/// A name as text. A lossy one would be another name, so it is an error.
pub(super) fn into_text(name: OsString) -> Result<String, ResolveError> {
    String::from_utf8(name.into_vec()).map_err(|_| ResolveError::NotUtf8)
}

/// Opens one name in a folder as what it is, a link as the link.
pub(super) fn entry(dir: &OwnedFd, name: &OsStr) -> nix::Result<OwnedFd> {
    beneath(dir.as_fd(), name, OFlag::O_PATH | OFlag::O_NOFOLLOW)
}
