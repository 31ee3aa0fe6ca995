//! **What this room is for:** the workspace, opened once; everything else is reached beneath its descriptor.
//! **Who may enter:** whoever starts a session. **Never done here:** trusting the text of a path after the opening.
//! **Where the proof is:** `tests/path.rs`.

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::{Mode, fstat};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// How often an open is tried again when a rename on the way made the kernel unsure (`EAGAIN` of openat2).
const TRIES: u32 = 64;
/// Bytes of a path handed to the kernel in one piece; longer ones go in several.
const PIECE_BYTES: usize = 3_800;

/// The workspace. Holds a path-only descriptor (`O_PATH`), so that renames of the folder do not change what it means.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    real: PathBuf,
    given: PathBuf,
    anchors: Vec<PathBuf>,
    dev: u64,
    ino: u64,
}

/// Why a folder cannot be the workspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// It could not be opened.
    #[error("the workspace {} cannot be opened: {source}", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// What the kernel said.
        source: Errno,
    },
    /// It is there, and is not a folder.
    #[error("the workspace {} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// It is `/`: a workspace that is the whole system confines nothing.
    #[error("the workspace cannot be `/`; name a folder with --root")]
    WholeSystem,
    /// The current folder, which a relative path starts from, could not be found.
    #[error("the current folder cannot be found: {0}")]
    Current(std::io::Error),
    /// The kernel cannot say where it is (`/proc` is missing, or the folder is out of reach).
    #[error("the real path of the workspace {} cannot be read from /proc: {source}", path.display())]
    Real {
        /// The path as given.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl Root {
    /// Opens the workspace. `path` may be relative to the current folder and may go through links; both its real path and
    /// the spelling given here are understood in claims later.
    ///
    /// # Errors
    /// See [`RootError`].
    pub fn open(path: &Path) -> Result<Root, RootError> {
        let given = if path.is_absolute() {
            path.to_owned()
        } else {
            std::env::current_dir().map_err(RootError::Current)?.join(path)
        };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = open(&given, flags, Mode::empty()).map_err(|source| match source {
            Errno::ENOTDIR => RootError::NotAFolder(given.clone()),
            source => RootError::Open { path: given.clone(), source },
        })?;
        let stat = fstat(&fd).map_err(|source| RootError::Open { path: given.clone(), source })?;
        let real = fd_path(&fd).map_err(|source| RootError::Real { path: given.clone(), source })?;
        if real == Path::new("/") {
            return Err(RootError::WholeSystem);
        }
        if !real.is_absolute() {
            let source = std::io::Error::from(Errno::ENOENT);
            return Err(RootError::Real { path: given, source });
        }
        let mut root = Root { fd, real: real.clone(), given, anchors: vec![real], dev: stat.st_dev, ino: stat.st_ino };
        root.add_given();
        Ok(root)
    }

    /// Makes the given spelling an anchor. `..` in it is taken away by text, and the result counts only when it still
    /// names this very folder (`link/..` would not).
    fn add_given(&mut self) {
        let mut plain = PathBuf::from("/");
        for part in self.given.components() {
            match part {
                Component::Normal(name) => plain.push(name),
                Component::ParentDir => drop(plain.pop()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        let same = open(&plain, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
            .and_then(fstat)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.dev, self.ino));
        if same && plain != Path::new("/") {
            self.given.clone_from(&plain);
            if plain != self.real {
                self.anchors.push(plain);
            }
        }
    }

    /// The path-only descriptor.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its real path when it was opened, without links.
    #[must_use]
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// The absolute spelling it was given by; may go through links.
    #[must_use]
    pub fn given(&self) -> &Path {
        &self.given
    }

    /// The absolute paths that mean the workspace: the real one first.
    #[must_use]
    pub fn anchors(&self) -> &[PathBuf] {
        &self.anchors
    }

    /// Device and inode of the folder.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    /// Opens `rel` beneath the root without following any link; `""` and `.` are the root itself.
    pub(super) fn beneath(&self, rel: &OsStr, flags: OFlag) -> nix::Result<OwnedFd> {
        let bytes = rel.as_bytes();
        if bytes.len() <= PIECE_BYTES {
            return beneath(self.fd(), rel, flags);
        }
        // A tree may be deeper than PATH_MAX; such paths are opened piece by piece.
        let (mut here, mut rest) = (None, bytes);
        while rest.len() > PIECE_BYTES {
            let cut = rest.iter().take(PIECE_BYTES).rposition(|b| *b == b'/').ok_or(Errno::ENAMETOOLONG)?;
            let (piece, more) = rest.split_at(cut);
            let from = here.as_ref().map_or(self.fd(), OwnedFd::as_fd);
            let next = beneath(from, OsStr::from_bytes(piece), OFlag::O_PATH | OFlag::O_DIRECTORY)?;
            (here, rest) = (Some(next), more.get(1..).unwrap_or_default());
        }
        beneath(here.as_ref().map_or(self.fd(), OwnedFd::as_fd), OsStr::from_bytes(rest), flags)
    }
}

/// One openat2 (Linux 5.6) that stays beneath `dir` and follows no link at all; a race with a rename (`EAGAIN`) is tried
/// again a bounded number of times. `O_CLOEXEC` is always added. With `O_PATH` and `O_NOFOLLOW` a link at the end is opened
/// as the link that it is; otherwise it is `ELOOP`.
pub(super) fn beneath(dir: BorrowedFd<'_>, rel: &OsStr, flags: OFlag) -> nix::Result<OwnedFd> {
    let rel = if rel.is_empty() { OsStr::new(".") } else { rel };
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_SYMLINKS);
    let mut tried = 0;
    loop {
        match openat2(dir, rel, how) {
            Err(Errno::EAGAIN | Errno::EINTR) if tried < TRIES => tried += 1,
            answer => return answer,
        }
    }
}

/// Where the kernel says that this descriptor's object is now.
pub(super) fn fd_path(fd: &impl AsFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}
