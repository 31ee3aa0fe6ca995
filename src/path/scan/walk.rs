//! **What this room is for:** reads folders and sorts their names. **Who may enter:** `path::scan`.
//! **Never done here:** a stat for a name that no pattern could mean (the folder says kind and inode); a way through a link.
//! **Where the proof is:** `tests/path.rs`.

use super::{Folder, Found, ScanError, ScanSets, Shared, Stamp};
use crate::path::Root;
use crate::path::resolve::{Facts, Kind, true_name};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{fstat, fstatat};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A folder changed this shortly before it was read is read again next time: two changes within one tick of a file
/// system's clock (two seconds on the coarsest) carry the same time.
const FRESH_NS: i128 = 2_000_000_000;

/// A folder still to read.
struct Task {
    rel: OsString,
    protected: Option<usize>,
    watched: bool,
    /// Inside a folder that is denied as a whole: only files with a second name elsewhere are of interest.
    denied: Option<usize>,
}

/// A name of a folder that needs a closer look.
struct Entry {
    name: OsString,
    kind: Option<Type>,
}

/// A walk under way, and what it found.
pub(super) struct Walk<'a> {
    root: &'a Root,
    sets: &'a ScanSets,
    max_entries: u64,
    fresh_since: i128,
    tasks: Vec<Task>,
    /// Folders that need no reading, since they were compared already.
    known: Option<&'a BTreeMap<OsString, Folder>>,
    pub(super) entries: u64,
    pub(super) denied: Vec<Found>,
    pub(super) protected: Vec<Found>,
    pub(super) sockets: Vec<PathBuf>,
    pub(super) unreadable: Vec<PathBuf>,
    pub(super) folders: BTreeMap<OsString, Folder>,
    pub(super) watched: HashMap<OsString, Stamp>,
    pub(super) shared: HashMap<(u64, u64), Shared>,
    pub(super) links: BTreeSet<PathBuf>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(root: &'a Root, sets: &'a ScanSets, max_entries: u64) -> Walk<'a> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        Walk {
            root,
            sets,
            max_entries,
            fresh_since: i128::try_from(now).unwrap_or(0) - FRESH_NS,
            tasks: Vec::new(),
            known: None,
            entries: 0,
            denied: Vec::new(),
            protected: Vec::new(),
            sockets: Vec::new(),
            unreadable: Vec::new(),
            folders: BTreeMap::new(),
            watched: HashMap::new(),
            shared: HashMap::new(),
            links: BTreeSet::new(),
        }
    }

    /// Does not go down into these folders.
    pub(super) fn knowing(mut self, known: &'a BTreeMap<OsString, Folder>) -> Walk<'a> {
        self.known = Some(known);
        self
    }

    /// Reads a folder (`""` is the root) and all that are new below it.
    pub(super) fn run(&mut self, rel: OsString, protected: Option<usize>, watched: bool) -> Result<(), ScanError> {
        if rel.is_empty()
            && let Some(pattern) = self.sets.deny.matched(".", true)
        {
            let (dev, ino) = self.root.identity();
            let rel = PathBuf::from(".");
            self.denied.push(Found { rel, is_dir: true, is_link: false, dev, ino, pattern, alias_of: None });
            return Ok(());
        }
        self.tasks.push(Task { rel, protected, watched, denied: None });
        while let Some(task) = self.tasks.pop() {
            self.folder(&task)?;
        }
        Ok(())
    }

    fn folder(&mut self, task: &Task) -> Result<(), ScanError> {
        let opened = match open_folder(self.root, &task.rel) {
            Ok(opened) => opened,
            Err(errno) if task.rel.is_empty() => return Err(ScanError::Root(errno)),
            // Gone or replaced since its name was read: then the folder above has changed and is read again.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(()),
            Err(_) => {
                self.unreadable.push(PathBuf::from(&task.rel));
                return Ok(());
            }
        };
        let (mut dir, facts) = opened;
        if task.denied.is_none() {
            let fresh = facts.ctime_ns >= self.fresh_since;
            let Facts { dev, ino, ctime_ns, .. } = facts;
            let folder = Folder { dev, ino, ctime_ns, protected: task.protected, watched: task.watched, fresh };
            self.folders.insert(task.rel.clone(), folder);
        }
        let mut looks = Vec::new();
        let (sets, max, count, sockets) = (self.sets, self.max_entries, &mut self.entries, &mut self.sockets);
        let links = sets.deny.has_paths() || sets.protect.has_paths();
        let all = task.protected.is_some() || task.watched || task.denied.is_some();
        let whole = names(&mut dir, |entry, name| {
            *count += 1;
            if *count > max {
                return Err(ScanError::TooMany { max });
            }
            let kind = entry.file_type();
            if kind == Some(Type::Socket) {
                sockets.push(PathBuf::from(join(&task.rel, OsStr::from_bytes(name))));
            }
            let wanted = all
                || matches!(kind, Some(Type::Directory) | None)
                || (links && kind == Some(Type::Symlink))
                || sets.deny.could_match_name(name)
                || sets.protect.could_match_name(name)
                || sets.protect_files.could_match_name(name)
                || sets.watch.could_match_name(name);
            if wanted {
                looks.push(Entry { name: OsStr::from_bytes(name).to_owned(), kind });
            }
            Ok(())
        })?;
        if !whole {
            self.unreadable.push(PathBuf::from(&task.rel));
        }
        for mut look in looks {
            if look.kind.is_none() {
                look.kind = stat_kind(&dir, &look.name);
            }
            match task.denied {
                None => self.entry(task, &dir, &look),
                Some(pattern) => self.below_denied(task, &dir, &look, pattern),
            }
        }
        Ok(())
    }

    /// One name of an ordinary folder.
    fn entry(&mut self, task: &Task, dir: &Dir, look: &Entry) {
        let rel = join(&task.rel, &look.name);
        let path = Path::new(&rel);
        let is_dir = look.kind == Some(Type::Directory);
        let is_link = look.kind == Some(Type::Symlink);
        if let Some(pattern) = self.sets.deny.matched_entry(path, is_dir) {
            self.found(dir, look, &rel, pattern, true);
            if is_dir {
                self.tasks.push(Task { rel, protected: None, watched: false, denied: Some(pattern) });
            }
            return;
        }
        if is_link && self.link(task, dir, look, &rel) {
            return;
        }
        let file_only = || if is_dir { None } else { self.sets.protect_files.matched_entry(path, false) };
        let protects = task.protected.or_else(|| self.sets.protect.matched_entry(path, is_dir)).or_else(file_only);
        if let Some(pattern) = protects
            && task.protected.is_none()
        {
            self.found(dir, look, &rel, pattern, false);
        }
        let watches = task.watched || self.sets.watch.matched_entry(path, is_dir).is_some();
        if is_dir {
            let objects = look.name.as_bytes() == b"objects" && Path::new(&task.rel).ends_with(".git");
            let known = self.known.is_some_and(|known| known.contains_key(&rel));
            // Thousands of names that are hashes; no secret goes by such a name.
            if !objects && !known {
                self.tasks.push(Task { rel, protected: protects, watched: watches, denied: None });
            }
        } else if (protects.is_some() || watches)
            && let Ok(stat) = fstatat(dir.as_fd(), look.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
        {
            let facts = Facts::from(&stat);
            if let Some(pattern) = protects {
                self.share(&facts, &rel, pattern, false);
            }
            self.watched.insert(rel, Stamp::from(&facts));
        }
    }

    /// A link that a pattern for folders means, since it leads to one; or whose name begins what a pattern says. True when
    /// there is nothing more to ask of it.
    fn link(&mut self, task: &Task, dir: &Dir, look: &Entry, rel: &OsStr) -> bool {
        let path = Path::new(rel);
        let leads_to_folder = || link_target(self.root, rel).is_some_and(|(_, facts)| facts.kind == Kind::Dir);
        if let Some(pattern) = self.sets.deny.matched_entry(path, true)
            && leads_to_folder()
        {
            self.found(dir, look, rel, pattern, true);
            return true;
        }
        if !self.sets.deny.behind(path).is_empty() || !self.sets.protect.behind(path).is_empty() {
            self.links.insert(path.to_owned());
        }
        let plain = self.sets.protect.matched_entry(path, false);
        if let (None, None, Some(pattern)) = (task.protected, plain, self.sets.protect.matched_entry(path, true))
            && leads_to_folder()
        {
            self.found(dir, look, rel, pattern, false);
            return true;
        }
        false
    }

    /// One name below a denied folder.
    fn below_denied(&mut self, task: &Task, dir: &Dir, look: &Entry, pattern: usize) {
        let rel = join(&task.rel, &look.name);
        if look.kind == Some(Type::Directory) {
            self.tasks.push(Task { rel, protected: None, watched: false, denied: Some(pattern) });
        } else if let Ok(stat) = fstatat(dir.as_fd(), look.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            self.share(&Facts::from(&stat), &rel, pattern, true);
        }
    }

    /// Notes a name that a pattern means.
    fn found(&mut self, dir: &Dir, look: &Entry, rel: &OsStr, pattern: usize, deny: bool) {
        let Ok(stat) = fstatat(dir.as_fd(), look.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else { return };
        let facts = Facts::from(&stat);
        if deny {
            self.share(&facts, rel, pattern, true);
        }
        let found = Found {
            rel: PathBuf::from(rel),
            is_dir: facts.kind == Kind::Dir,
            is_link: facts.kind == Kind::Link,
            dev: facts.dev,
            ino: facts.ino,
            pattern,
            alias_of: None,
        };
        let list = if deny { &mut self.denied } else { &mut self.protected };
        list.push(found);
    }

    /// Notes a file with more than one name.
    fn share(&mut self, facts: &Facts, rel: &OsStr, pattern: usize, deny: bool) {
        if facts.nlink > 1 && !matches!(facts.kind, Kind::Dir | Kind::Link) {
            let shared = Shared { rel: PathBuf::from(rel), pattern, deny, nlink: facts.nlink };
            let entry = self.shared.entry((facts.dev, facts.ino)).or_insert_with(|| shared.clone());
            if deny && !entry.deny {
                *entry = shared;
            }
        }
    }
}

impl From<&Facts> for Stamp {
    fn from(facts: &Facts) -> Self {
        Stamp { ino: facts.ino, size: facts.size, mtime_ns: facts.mtime_ns, ctime_ns: facts.ctime_ns }
    }
}

/// Opens a folder beneath the root for its names, with its facts from before they are read.
pub(super) fn open_folder(root: &Root, rel: &OsStr) -> nix::Result<(Dir, Facts)> {
    let fd = root.beneath(rel, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK)?;
    let facts = Facts::from(&fstat(&fd)?);
    Ok((Dir::from_fd(fd)?, facts))
}

/// Calls `each` for all names but `.` and `..`; false when the reading broke off.
pub(super) fn names<E>(
    dir: &mut Dir,
    mut each: impl FnMut(&nix::dir::Entry, &[u8]) -> Result<(), E>,
) -> Result<bool, E> {
    for entry in dir.iter() {
        let Ok(entry) = entry else { return Ok(false) };
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            each(&entry, name)?;
        }
    }
    Ok(true)
}

/// What kind a name is, on file systems whose folders do not say.
pub(super) fn stat_kind(dir: &Dir, name: &OsStr) -> Option<Type> {
    let stat = fstatat(dir.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    match Kind::of_mode(stat.st_mode) {
        Kind::Dir => Some(Type::Directory),
        Kind::Link => Some(Type::Symlink),
        _ => Some(Type::File),
    }
}

/// A path from the root.
pub(super) fn join(folder: &OsStr, name: &OsStr) -> OsString {
    let mut rel = OsString::with_capacity(folder.len() + 1 + name.len());
    if !folder.is_empty() {
        rel.push(folder);
        rel.push("/");
    }
    rel.push(name);
    rel
}

/// Where a link leads, when that is inside: the true name and the facts. The host may follow it freely: nothing is told
/// of what is outside.
pub(super) fn link_target(root: &Root, rel: &OsStr) -> Option<(OsString, Facts)> {
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let fd = openat2(root.fd(), rel, how).ok()?;
    let facts = Facts::from(&fstat(&fd).ok()?);
    let target = true_name(root, &fd, &facts).ok()?;
    Some((target, facts))
}
