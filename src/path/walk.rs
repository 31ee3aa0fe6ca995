//! **What this room is for:** the slow road of resolution: name by name, links followed by us and not by the kernel.
//! **Who may enter:** `path::resolve`. **Never done here:** letting a link lead where the root's descriptor does not
//! reach; saying whether a target outside exists. **Where the proof is:** `tests/path.rs`, `fuzz/properties/path_resolve.rs`.

use super::error::from_errno;
use super::resolve::{Facts, Kind, Resolved, Target, entry, exists, into_text, true_name};
use super::root::{Root, fd_path};
use super::{ResolveError, Spelled};
use crate::limits::LINKS_FOLLOWED;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::fstat;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One name still to go.
struct Step {
    name: OsString,
    /// It came out of a link, not out of the claim.
    from_link: bool,
}

/// Where the walk stands. One descriptor at a time: a claim of two thousand names must not use two thousand descriptors.
struct Walk<'a> {
    root: &'a Root,
    spelled: &'a Spelled,
    /// Names from the root to `here`; none of them was a link when it was passed.
    names: Vec<OsString>,
    here: OwnedFd,
    steps: VecDeque<Step>,
    links: u32,
}

/// Walks a claim name by name. `Busy` when a race made the walk pointless.
pub(super) fn walk(root: &Root, spelled: &Spelled, follow: bool) -> Result<Resolved, ResolveError> {
    let here = folder(root, OsStr::new("."))?;
    let steps = spelled.names().iter().map(|name| Step { name: name.into(), from_link: false }).collect();
    let mut walk = Walk { root, spelled, names: Vec::new(), here, steps, links: 0 };
    while let Some(step) = walk.steps.pop_front() {
        if step.name.as_bytes() == b".." {
            walk.up(step)?;
            continue;
        }
        let fd = match entry(&walk.here, &step.name) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return walk.missing(step.name),
            Err(Errno::ELOOP | Errno::EXDEV | Errno::ENOTDIR) => return Err(ResolveError::Busy),
            Err(errno) => return Err(from_errno(errno)),
        };
        let last = walk.steps.is_empty();
        match Kind::of_mode(fstat(&fd).map_err(from_errno)?.st_mode) {
            Kind::Dir => {
                walk.names.push(step.name);
                walk.here = fd;
            }
            Kind::Link if !last || follow => walk.link(&fd)?,
            _ if last => return exists(root, spelled, fd),
            _ => return Err(ResolveError::NotAFolder),
        }
    }
    exists(root, spelled, walk.here)
}

impl Walk<'_> {
    /// `..`: back by the names that were passed. The folder above `here` may be another one by now; the way back from the
    /// root never leaves it.
    fn up(&mut self, step: Step) -> Result<(), ResolveError> {
        if self.names.pop().is_some() {
            let names = std::mem::take(&mut self.names);
            return self.go_to(names);
        }
        if !step.from_link {
            return Err(ResolveError::Outside);
        }
        // A link may leave by the root and come back in (`../work/src`): the host follows the rest of it.
        let mut path = step.name;
        while self.steps.front().is_some_and(|next| next.from_link) {
            if let Some(next) = self.steps.pop_front() {
                path.push("/");
                path.push(next.name);
            }
        }
        self.through_host(&path)
    }

    /// Follows a link.
    fn link(&mut self, fd: &OwnedFd) -> Result<(), ResolveError> {
        self.links += 1;
        if self.links > LINKS_FOLLOWED {
            return Err(ResolveError::LinkLoop);
        }
        let target = readlinkat(fd, "").map_err(from_errno)?;
        if !target.as_bytes().starts_with(b"/") {
            self.push(&target);
            return Ok(());
        }
        let inside = self.root.anchors().iter().find_map(|anchor| below(&target, anchor));
        match inside {
            Some(rest) => {
                self.push(&rest);
                self.go_to(Vec::new())
            }
            None => self.through_host(&target),
        }
    }

    /// Lets the host follow a target that is not spelled inside, and accepts what lies in the root after all. Anything
    /// else, there or not, is the same `Outside`.
    fn through_host(&mut self, target: &OsStr) -> Result<(), ResolveError> {
        let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let fd = openat2(self.root.fd(), target, how).map_err(|_| ResolveError::Outside)?;
        let base = fd_path(&self.root.fd()).map_err(|_| ResolveError::Outside)?;
        let path = fd_path(&fd).map_err(|_| ResolveError::Outside)?;
        let rest = below(path.as_os_str(), &base).ok_or(ResolveError::Outside)?;
        self.push(&rest);
        self.go_to(Vec::new())
    }

    /// Puts the names of a link's target before the rest.
    fn push(&mut self, target: &OsStr) {
        let names = target.as_bytes().split(|b| *b == b'/').filter(|name| !matches!(*name, b"" | b"."));
        for name in names.rev() {
            self.steps.push_front(Step { name: OsStr::from_bytes(name).to_owned(), from_link: true });
        }
    }

    fn go_to(&mut self, names: Vec<OsString>) -> Result<(), ResolveError> {
        self.here = folder(self.root, &names.join(OsStr::new("/")))?;
        self.names = names;
        Ok(())
    }

    /// The answer when `first` is not in `here`.
    fn missing(self, first: OsString) -> Result<Resolved, ResolveError> {
        // `none/..` is nothing for the kernel either; and only a folder may be meant by `none/`.
        if self.spelled.folder() || self.steps.iter().any(|step| step.name.as_bytes() == b"..") {
            return Err(ResolveError::NotFound);
        }
        let facts = Facts::from(&fstat(&self.here).map_err(from_errno)?);
        let parent_rel = into_text(true_name(self.root, &self.here, &facts)?)?;
        let mut missing = vec![into_text(first)?];
        for step in self.steps {
            missing.push(into_text(step.name)?);
        }
        if missing.iter().any(|name| name.len() > crate::limits::NAME_BYTES) {
            return Err(ResolveError::NameTooLong);
        }
        let below = missing.join("/");
        let rel = if parent_rel == "." { below } else { format!("{parent_rel}/{below}") };
        let name = missing.pop().unwrap_or_default();
        let target = Target::Missing { parent: self.here, parent_rel, missing, name };
        Ok(Resolved { rel, spelled: self.spelled.collapsed().to_owned(), target })
    }
}

/// A folder beneath the root that was just passed; when it cannot be opened now, something was renamed.
fn folder(root: &Root, rel: &OsStr) -> Result<OwnedFd, ResolveError> {
    root.beneath(rel, OFlag::O_PATH | OFlag::O_DIRECTORY).map_err(|errno| match errno {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV => ResolveError::Busy,
        errno => from_errno(errno),
    })
}

/// What comes after all names of `anchor` in an absolute path; `..` right behind it is kept for the walk.
fn below(path: &OsStr, anchor: &Path) -> Option<OsString> {
    let mut parts = path.as_bytes().split(|b| *b == b'/').filter(|part| !matches!(*part, b"" | b"."));
    for name in anchor.as_os_str().as_bytes().split(|b| *b == b'/').filter(|name| !name.is_empty()) {
        if parts.next()? != name {
            return None;
        }
    }
    Some(OsStr::from_bytes(&parts.collect::<Vec<_>>().join(&b'/')).to_owned())
}
