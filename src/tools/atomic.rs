//! **What this room is for:** putting whole files in place, or nothing. **Who may enter:** the writing tools, behind the
//! door. **Never done here:** following a link, writing into a file that is there, leaving a half-written one.
//! **Where the proof is:** the tests below.
//!
//! A new file is written beside its place under a random name and moved there. `O_TMPFILE` would leave nothing behind on a
//! crash, but linking it needs `/proc` or a capability (before Linux 6.10), and a worker has neither.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, linkat, unlinkat};
use rustix::fs::{FlockOperation, RenameFlags};

use crate::call::{Code, Refusal};
use crate::limits::{READ_FILE_BYTES, WRITE_LOCK_MS, XATTR_BYTES};
use crate::tools::text::{escaped, hex, sha256};
use crate::tools::{GivenPath, folder};

/// Mode of a new file and of a new folder, whatever the worker's mask.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;
/// Permission bits that a rewrite keeps. Not set-user-ID and its kin: new content must not inherit that power.
const KEPT_MODE: u32 = 0o777;

/// A place for a file: its folder (held, locked against other sessions) and its name.
#[derive(Debug)]
pub(super) struct Place {
    folder: OwnedFd,
    name: String,
    shown: String,
    given: Option<File>,
}

/// What stands at a place.
#[derive(Debug)]
pub(super) struct Old {
    file: File,
    stat: FileStat,
    /// Its content; `None` beyond the largest size that reads and edits take.
    pub(super) content: Option<Vec<u8>>,
    /// SHA-256 of the content, in hex; empty without content.
    pub(super) sha256: String,
}

impl Old {
    pub(super) fn bytes(&self) -> u64 {
        self.content.as_ref().map_or_else(|| folder::bytes_of(&self.stat), |content| content.len() as u64)
    }
}

impl Place {
    /// The place of a given path. Missing folders are made, each inside the one before, through no link.
    pub(super) fn take(given: GivenPath) -> Result<Place, Refusal> {
        let shown = given.shown;
        let parent = given.parent.ok_or_else(|| failed("find the folder of", &shown, Errno::ENOENT))?;
        // A descriptor of our own: the one given may be of a kind (`O_PATH`) that cannot be locked.
        let mut here =
            folder::open_dir(&parent, OsStr::new(".")).map_err(|e| failed("open the folder of", &shown, e))?;
        for name in &given.missing {
            here = make_folder(&here, name).map_err(|e| failed("make the folders of", &shown, e))?;
        }
        lock(&here, &shown)?;
        Ok(Place { folder: here, name: given.name, shown, given: given.file.map(File::from) })
    }

    /// What stands there now: `None` when nothing does.
    pub(super) fn old(&self) -> Result<Option<Old>, Refusal> {
        let opened = match folder::open_file(&self.folder, OsStr::new(&self.name)) {
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::EINVAL | Errno::ELOOP | Errno::ENXIO) => return Err(self.not_regular()),
            // A file of another owner, in a session of root: inside there are no powers of root, but the supervisor has
            // opened it for this call.
            Err(Errno::EACCES) => self.as_given(),
            opened => opened,
        };
        let (file, stat) = opened.map_err(|e| failed("read", &self.shown, e))?;
        let content = if folder::bytes_of(&stat) > READ_FILE_BYTES {
            None
        } else {
            folder::read_bounded(&file, READ_FILE_BYTES)
                .map_err(|e| failed("read", &self.shown, Errno::from_raw(e.raw_os_error().unwrap_or(0))))?
        };
        let sha256 = content.as_deref().map(sha256).unwrap_or_default();
        Ok(Some(Old { file, stat, content, sha256 }))
    }

    /// The descriptor that came with the call, when it still is what stands there.
    fn as_given(&self) -> Result<(File, FileStat), Errno> {
        let mut file = self.given.as_ref().and_then(|file| file.try_clone().ok()).ok_or(Errno::EACCES)?;
        let there = folder::stat_in(&self.folder, OsStr::new(&self.name))?;
        let stat = fstat(&file)?;
        if (there.st_dev, there.st_ino) != (stat.st_dev, stat.st_ino) {
            return Err(Errno::EACCES);
        }
        file.rewind().map_err(|e| raw(&e))?;
        Ok((file, stat))
    }

    fn not_regular(&self) -> Refusal {
        let what = folder::stat_in(&self.folder, OsStr::new(&self.name))
            .map_or("not a regular file", |s| folder::special_name(&s));
        Refusal::new(Code::NotRegular, format!("`{}` is {what}.", escaped(&self.shown)))
            .hint("Only regular files are written.")
    }

    /// Puts a new file there. Never replaces one.
    pub(super) fn create(&self, content: &[u8]) -> Result<(), Refusal> {
        let temporary = self.temporary(content)?;
        fchmod(&temporary.file, Mode::from_bits_truncate(FILE_MODE)).map_err(|e| failed("write", &self.shown, e))?;
        temporary.file.sync_all().map_err(|e| failed("write", &self.shown, raw(&e)))?;
        match temporary.move_to(&self.name, RenameFlags::NOREPLACE) {
            Err(Errno::EEXIST) => {
                Err(Refusal::new(Code::Exists, format!("`{}` has appeared meanwhile.", escaped(&self.shown)))
                    .hint("Read it, then use edit_file, or write_file with overwrite."))
            }
            moved => moved.map_err(|e| failed("write", &self.shown, e)),
        }
    }

    /// Puts new content in the place of `old`; mode, owner and attributes stay. What could not be kept is returned in words.
    /// A second name (hard link) of the old file keeps the old content.
    pub(super) fn replace(&self, content: &[u8], old: &Old) -> Result<Vec<&'static str>, Refusal> {
        let temporary = self.temporary(content)?;
        let notes = dress(&temporary.file, old).map_err(|e| failed("write", &self.shown, e))?;
        temporary.file.sync_all().map_err(|e| failed("write", &self.shown, raw(&e)))?;
        // The lock keeps other sessions out, not editors: look once more, at the last moment.
        let now = self.old()?.ok_or_else(|| stale(&self.shown))?;
        let same = match (&now.content, &old.content) {
            (Some(now), Some(before)) => now == before,
            (None, None) => identity(&now.stat) == identity(&old.stat),
            _ => false,
        };
        if !same {
            return Err(stale(&self.shown));
        }
        temporary.move_to(&self.name, RenameFlags::empty()).map_err(|e| failed("write", &self.shown, e))?;
        Ok(notes)
    }

    fn temporary(&self, content: &[u8]) -> Result<Temporary<'_>, Refusal> {
        let mut temporary = Temporary::new(&self.folder).map_err(|e| failed("write", &self.shown, e))?;
        temporary.file.write_all(content).map_err(|e| failed("write", &self.shown, raw(&e)))?;
        Ok(temporary)
    }
}

/// `stale`: the file is not what it was.
pub(super) fn stale(shown: &str) -> Refusal {
    Refusal::new(Code::Stale, format!("`{}` has changed since it was read.", escaped(shown)))
        .hint("Read it again with read_file, then repeat the change.")
}

fn raw(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

fn failed(verb: &str, shown: &str, errno: Errno) -> Refusal {
    let name = escaped(shown);
    let (code, hint) = match errno {
        Errno::ENOTDIR | Errno::ELOOP | Errno::EISDIR => {
            (Code::NotRegular, "A part of the path is not a folder; check it with ls.")
        }
        Errno::ENOENT => (Code::NotFound, "Check the path with ls."),
        Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => (Code::LimitReached, "Make room first."),
        Errno::ENAMETOOLONG => (Code::InvalidArguments, "Give a shorter name."),
        _ => (Code::Unavailable, "The place cannot be written in this sandbox; write elsewhere."),
    };
    Refusal::new(code, format!("Could not {verb} `{name}`: {}.", errno.desc())).hint(hint)
}

fn identity(stat: &FileStat) -> (u64, u64, i64, i64, i64, i64, i64) {
    (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
}

fn make_folder(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let made = match mkdirat(parent, name, Mode::from_bits_truncate(FOLDER_MODE)) {
        Ok(()) => true,
        Err(Errno::EEXIST) => false,
        Err(errno) => return Err(errno),
    };
    let folder = folder::open_dir(parent, OsStr::new(name))?;
    if made {
        fchmod(&folder, Mode::from_bits_truncate(FOLDER_MODE))?;
    }
    Ok(folder)
}

/// One writer in a folder at a time, among sessions of ours: check and move are then one step.
fn lock(folder: &OwnedFd, shown: &str) -> Result<(), Refusal> {
    let end = Instant::now() + Duration::from_millis(WRITE_LOCK_MS);
    loop {
        match rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                return Err(Refusal::new(
                    Code::TimedOut,
                    format!("The folder of `{}` is locked by another program.", escaped(shown)),
                )
                .hint("Try again later."));
            }
            // A file system without locks: the check before the move is all there is.
            Err(_) => return Ok(()),
        }
    }
}

/// A file under a random name that is removed unless it is moved to its place.
struct Temporary<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    moved: bool,
}

impl<'a> Temporary<'a> {
    fn new(folder: &'a OwnedFd) -> Result<Self, Errno> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut last = Errno::EEXIST;
        for _ in 0..8 {
            let mut random = [0_u8; 12];
            rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
                .map_err(|e| Errno::from_raw(e.raw_os_error()))?;
            let name = format!(".stockade-{}.tmp", hex(&random));
            match openat(folder, name.as_str(), flags, Mode::from_bits_truncate(0o600)) {
                Ok(fd) => return Ok(Temporary { folder, name, file: File::from(fd), moved: false }),
                Err(Errno::EEXIST) => last = Errno::EEXIST,
                Err(errno) => return Err(errno),
            }
        }
        Err(last)
    }

    fn move_to(mut self, name: &str, flags: RenameFlags) -> Result<(), Errno> {
        match rustix::fs::renameat_with(self.folder, self.name.as_str(), self.folder, name, flags) {
            Ok(()) => {
                self.moved = true;
                Ok(())
            }
            // A file system without the flag: a link never replaces either; the temporary name goes with the drop.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if flags == RenameFlags::NOREPLACE => {
                linkat(self.folder, self.name.as_str(), self.folder, name, AtFlags::empty())
            }
            Err(errno) => Err(Errno::from_raw(errno.raw_os_error())),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.moved {
            let _ = unlinkat(self.folder, self.name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Owner, attributes and mode of the old file, in this order: changing an owner clears mode bits.
fn dress(file: &File, old: &Old) -> Result<Vec<&'static str>, Errno> {
    let mut notes = Vec::new();
    let own = fstat(file)?;
    let (uid, gid) = (old.stat.st_uid, old.stat.st_gid);
    if (own.st_uid, own.st_gid) != (uid, gid)
        && fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).is_err()
    {
        // The group alone is often ours to give.
        let _ = fchown(file, None, Some(Gid::from_raw(gid)));
        notes.push("The owner changed: the old one cannot be kept here.");
    }
    if !copy_attributes(&old.file, file) {
        notes.push("Extended attributes (xattr) could not all be kept.");
    }
    fchmod(file, Mode::from_bits_truncate(old.stat.st_mode & KEPT_MODE))?;
    Ok(notes)
}

/// Copies extended attributes; false when one was lost. Never the kernel's own security attributes: a file capability
/// must not pass to new content.
fn copy_attributes(from: &File, to: &File) -> bool {
    let mut names = vec![0_u8; XATTR_BYTES];
    let Ok(length) = rustix::fs::flistxattr(from, names.as_mut_slice()) else {
        return true; // none to copy, or a file system without any
    };
    let mut kept = true;
    let mut value = vec![0_u8; XATTR_BYTES];
    for name in names.get(..length).unwrap_or_default().split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if name.starts_with(b"security.") {
            kept &= name != b"security.capability";
            continue;
        }
        let copied = rustix::fs::fgetxattr(from, name, value.as_mut_slice()).and_then(|n| {
            rustix::fs::fsetxattr(to, name, value.get(..n).unwrap_or_default(), rustix::fs::XattrFlags::empty())
        });
        kept &= copied.is_ok();
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::Path;

    use super::*;

    fn place(root: &Path, missing: &[&str], name: &str) -> Result<Place, Refusal> {
        Place::take(GivenPath {
            shown: name.to_owned(),
            absolute: root.join(name),
            file: None,
            parent: Some(File::open(root).unwrap().into()),
            missing: missing.iter().map(|m| (*m).to_owned()).collect(),
            name: name.to_owned(),
        })
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_and_its_folders() {
        let dir = tempfile::tempdir().unwrap();
        place(dir.path(), &["a", "b"], "f").unwrap().create(b"x").unwrap();
        let meta = std::fs::metadata(dir.path().join("a/b/f")).unwrap();
        assert_eq!(meta.permissions().mode() & 0o7777, 0o644);
        assert_eq!(std::fs::metadata(dir.path().join("a/b")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(names(&dir.path().join("a/b")), ["f"]);
        let there = place(&dir.path().join("a/b"), &[], "f").unwrap().create(b"y").unwrap_err();
        assert_eq!(there.code, Code::Exists);
        assert_eq!(names(&dir.path().join("a/b")), ["f"], "nothing is left behind");
    }

    #[test]
    fn no_folder_is_made_through_a_link() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(outside.path(), dir.path().join("way")).unwrap();
        assert!(place(dir.path(), &["way", "deep"], "f").is_err());
        assert!(names(outside.path()).is_empty());
    }

    #[test]
    fn a_rewrite_keeps_mode_and_attributes_and_leaves_twins_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4750)).unwrap();
        let has_attributes = rustix::fs::setxattr(&path, "user.k", b"7", rustix::fs::XattrFlags::empty()).is_ok();
        std::fs::hard_link(&path, dir.path().join("twin")).unwrap();
        let place = place(dir.path(), &[], "f").unwrap();
        let old = place.old().unwrap().unwrap();
        assert_eq!(place.replace(b"new", &old).unwrap(), Vec::<&str>::new());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(dir.path().join("twin")).unwrap(), "old");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o750, "set-user-ID is gone, the rest stays");
        if has_attributes {
            let mut value = [0_u8; 4];
            assert_eq!(rustix::fs::getxattr(&path, "user.k", &mut value[..]).unwrap(), 1);
        }
        assert_eq!(names(dir.path()), ["f", "twin"]);
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_stale_and_links_are_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "old").unwrap();
        let place_f = place(dir.path(), &[], "f").unwrap();
        let old = place_f.old().unwrap().unwrap();
        std::fs::write(&path, "odd").unwrap();
        assert_eq!(place_f.replace(b"new", &old).unwrap_err().code, Code::Stale);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "odd");
        drop(place_f);
        std::fs::remove_file(&path).unwrap();
        symlink("elsewhere", &path).unwrap();
        assert_eq!(place(dir.path(), &[], "f").unwrap().old().unwrap_err().code, Code::NotRegular);
        assert_eq!(names(dir.path()), ["f"]);
    }
}
