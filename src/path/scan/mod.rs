//! **What this room is for:** which names in the workspace a policy speaks of, at the start of a session and before calls.
//! **Who may enter:** the supervisor. **Never done here:** opening files; following links; deciding what to mask.
//! **Where the proof is:** `tests/path.rs`.

mod alias;
mod refresh;
mod through;
mod walk;

use super::{PatternSet, Root};
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;

pub use refresh::{Changes, StartupChange, StartupKind};

/// What a scan looks for.
#[derive(Debug, Clone, Default)]
pub struct ScanSets {
    /// Neither seen nor touched.
    pub deny: PatternSet,
    /// Readable, never written.
    pub protect: PatternSet,
    /// The same for names that are protected as files alone: a linked worktree's `.git`, while the folder `.git` is not.
    pub protect_files: PatternSet,
    /// Files whose changes are reported (with those of `protect`): they run later, outside.
    pub watch: PatternSet,
}

/// One name that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// From the root.
    pub rel: PathBuf,
    /// A folder: it stands for everything below.
    pub is_dir: bool,
    /// A link: no mount can cover it. What it leads to, inside, is reported as well when the link's name is denied.
    pub is_link: bool,
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Index of the pattern in its set.
    pub pattern: usize,
    /// Another name of this file, or a link to it, is the one that the pattern matched.
    pub alias_of: Option<PathBuf>,
}

/// What is known of a folder: enough to see that its names changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folder {
    dev: u64,
    ino: u64,
    ctime_ns: i128,
    /// Inside a folder that is protected as a whole; the index of its pattern.
    protected: Option<usize>,
    /// Inside a folder whose files are watched.
    watched: bool,
    /// Read so soon after its last change that a later change could carry the same time: read it again.
    fresh: bool,
}

/// What is known of a watched file: enough to see that it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    ino: u64,
    size: u64,
    mtime_ns: i128,
    ctime_ns: i128,
}

/// The result of a scan, and the memory that makes the next one cheap.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Denied names that are there, in order of name.
    pub denied: Vec<Found>,
    /// Protected names that are there, in order of name; one entry for a folder that is protected as a whole.
    pub protected: Vec<Found>,
    /// Socket files that were there at the first look, so made outside: who listens on them is outside as well.
    pub sockets: Vec<PathBuf>,
    /// Folders that could not be read, so nothing is known of the names in them.
    pub unreadable: Vec<PathBuf>,
    /// Names looked at.
    pub entries: u64,
    folders: BTreeMap<OsString, Folder>,
    watched: HashMap<OsString, Stamp>,
    /// Files of denied and protected names that have more than one name: (device, inode) to what they are.
    shared: HashMap<(u64, u64), Shared>,
    /// Links whose name begins what a pattern says.
    links: BTreeSet<PathBuf>,
    max_entries: u64,
}

/// A file with several names, one of which a pattern speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shared {
    rel: PathBuf,
    pattern: usize,
    deny: bool,
    nlink: u64,
}

/// Why a scan has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The workspace has more entries than may be looked at, so the denied names in it are not all known.
    #[error("the workspace has more than {max} entries; not all of its names can be checked")]
    TooMany {
        /// The number that was allowed.
        max: u64,
    },
    /// The workspace itself could not be read.
    #[error("the workspace cannot be read: {0}")]
    Root(Errno),
}

/// Looks at all names beneath the root once.
///
/// # Errors
/// See [`ScanError`]; a folder that cannot be read is no error but an entry of `unreadable`.
pub fn scan(root: &Root, sets: &ScanSets, max_entries: u64) -> Result<Scan, ScanError> {
    let mut scan = Scan { max_entries, ..Scan::default() };
    let mut walk = walk::Walk::new(root, sets, max_entries);
    walk.run(OsString::new(), None, false)?;
    scan.take(&mut walk);
    scan.sockets = std::mem::take(&mut walk.sockets);
    alias::add(root, sets, &mut scan)?;
    scan.sort();
    Ok(scan)
}

impl Scan {
    /// Looks at all names beneath the root once; the same as [`scan`].
    ///
    /// # Errors
    /// As [`scan`].
    pub fn new(root: &Root, sets: &ScanSets, max_entries: u64) -> Result<Scan, ScanError> {
        scan(root, sets, max_entries)
    }

    /// The denied name that this very file or folder has: an answer that no spelling, letter case or second name evades.
    #[must_use]
    pub fn denied_identity(&self, dev: u64, ino: u64) -> Option<&Found> {
        self.denied.iter().find(|found| !found.is_link && (found.dev, found.ino) == (dev, ino))
    }

    /// The folders that were read, from the root (`""`), in order of name.
    pub fn folders(&self) -> impl Iterator<Item = &std::path::Path> {
        self.folders.keys().map(std::path::Path::new)
    }

    /// How many folders were read.
    #[must_use]
    pub fn folder_count(&self) -> usize {
        self.folders.len()
    }

    /// Takes what a walk found.
    fn take(&mut self, walk: &mut walk::Walk<'_>) {
        self.entries += walk.entries;
        self.denied.append(&mut walk.denied);
        self.protected.append(&mut walk.protected);
        self.unreadable.append(&mut walk.unreadable);
        self.folders.append(&mut walk.folders);
        self.watched.extend(walk.watched.drain());
        self.shared.extend(walk.shared.drain());
        self.links.append(&mut walk.links);
    }

    fn sort(&mut self) {
        for list in [&mut self.denied, &mut self.protected] {
            list.sort_by(|a, b| a.rel.cmp(&b.rel).then(a.alias_of.cmp(&b.alias_of)));
            list.dedup_by(|a, b| a.rel == b.rel);
        }
        self.unreadable.sort();
        self.unreadable.dedup();
    }
}
