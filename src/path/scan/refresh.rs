//! **What this room is for:** what changed since the last look, at the cost of one stat for each known folder.
//! **Who may enter:** the supervisor, before calls and while they run. **Never done here:** reading a folder that has not
//! changed. **Where the proof is:** `tests/path.rs`.

use super::walk::Walk;
use super::{Found, Scan, ScanError, ScanSets, Stamp, alias};
use crate::path::Root;
use crate::path::resolve::{Facts, Kind};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{fstat, fstatat};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// What a refresh saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Denied names that are new, or are another file than before: masks to make.
    pub new_denied: Vec<Found>,
    /// Denied names that are gone.
    pub gone_denied: Vec<PathBuf>,
    /// Protected names that are new, or are another file than before.
    pub new_protected: Vec<Found>,
    /// Files that run later, outside, and were created or changed.
    pub startup: Vec<StartupChange>,
    /// Folders that were read again.
    pub read_again: usize,
}

/// One file that runs later, outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartupChange {
    /// From the root.
    pub rel: PathBuf,
    /// What happened to it.
    pub kind: StartupKind,
}

/// What happened to a startup file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum StartupKind {
    Created,
    Changed,
}

/// Folders by what a stat says of them.
#[derive(Default)]
struct Sorted {
    again: Vec<OsString>,
    gone: Vec<OsString>,
}

impl Scan {
    /// Brings the scan up to date: compares every known folder, reads those that changed, goes down into new ones.
    /// A change of names cannot hide: it sets the change time of the folder, which no program can set back.
    ///
    /// # Errors
    /// As for the first scan; then the scan is as it was.
    pub fn refresh(&mut self, root: &Root, sets: &ScanSets) -> Result<Changes, ScanError> {
        let mut changes = Changes::default();
        let mut next = None;
        let sorted = self.compare(root);
        if !sorted.again.is_empty() || !sorted.gone.is_empty() || self.shared_grew(root) {
            let scan = self.read_again(root, sets, &sorted)?;
            changes.read_again = sorted.again.len();
            changes.new_denied = added(&self.denied, &scan.denied);
            changes.new_protected = added(&self.protected, &scan.protected);
            let now: HashSet<&Path> = scan.denied.iter().map(|found| found.rel.as_path()).collect();
            let gone = self.denied.iter().filter(|found| !now.contains(found.rel.as_path()));
            changes.gone_denied = gone.map(|found| found.rel.clone()).collect();
            next = Some(scan);
        }
        let mut watched = next.as_ref().unwrap_or(self).watched.clone();
        watched.retain(|rel, stamp| {
            let now = stat(root, rel).map(|facts| Stamp::from(&facts));
            *stamp = now.unwrap_or(*stamp);
            now.is_ok()
        });
        changes.startup = startup(&self.watched, &watched);
        if let Some(scan) = next {
            *self = scan;
        }
        self.watched = watched;
        Ok(changes)
    }

    /// One stat for each known folder.
    fn compare(&self, root: &Root) -> Sorted {
        let mut sorted = Sorted::default();
        for (rel, folder) in &self.folders {
            match stat(root, rel) {
                Ok(facts) if facts.kind == Kind::Dir => {
                    let same = (facts.dev, facts.ino, facts.ctime_ns) == (folder.dev, folder.ino, folder.ctime_ns);
                    if !same || folder.fresh {
                        sorted.again.push(rel.clone());
                    }
                }
                _ => sorted.gone.push(rel.clone()),
            }
        }
        // What could not be read is tried again by way of the folder above, which knows what it inherits.
        for above in self.unreadable.iter().filter_map(|rel| rel.parent()) {
            let above = above.as_os_str().to_owned();
            if self.folders.contains_key(&above) && !sorted.again.contains(&above) && !sorted.gone.contains(&above) {
                sorted.again.push(above);
            }
        }
        sorted
    }

    /// A file that matters got a further name, somewhere.
    fn shared_grew(&self, root: &Root) -> bool {
        let files = self.denied.iter().filter(|found| !found.is_dir && !found.is_link);
        let grew = |found: &Found| {
            let before = self.shared.get(&(found.dev, found.ino)).map_or(1, |shared| shared.nlink);
            stat(root, found.rel.as_os_str()).is_ok_and(|facts| facts.nlink > before)
        };
        files.into_iter().any(grew)
    }

    /// The scan as it is now.
    fn read_again(&self, root: &Root, sets: &ScanSets, sorted: &Sorted) -> Result<Scan, ScanError> {
        let mut scan = self.clone();
        for rel in &sorted.gone {
            scan.forget(rel);
        }
        // All names from folders that are read again, and all that were found by way of others, are found anew.
        let again: HashSet<&Path> = sorted.again.iter().map(Path::new).collect();
        let keep = |rel: &Path| {
            let above = rel.parent().unwrap_or(Path::new(""));
            !again.contains(above) && (self.folders.is_empty() || scan.folders.contains_key(above.as_os_str()))
        };
        let mut denied = std::mem::take(&mut scan.denied);
        let mut protected = std::mem::take(&mut scan.protected);
        let mut watched = std::mem::take(&mut scan.watched);
        let mut shared = std::mem::take(&mut scan.shared);
        denied.retain(|found| found.alias_of.is_none() && keep(&found.rel));
        protected.retain(|found| found.alias_of.is_none() && keep(&found.rel));
        watched.retain(|rel, _| keep(Path::new(rel)));
        let mut links = std::mem::take(&mut scan.links);
        links.retain(|rel| keep(rel));
        shared.retain(|_, file| file.rel.ancestors().skip(1).all(|above| !again.contains(above)));
        (scan.denied, scan.protected, scan.watched, scan.shared) = (denied, protected, watched, shared);
        scan.links = links;
        scan.unreadable.clear();
        let known = scan.folders.clone();
        let mut walk = Walk::new(root, sets, self.max_entries).knowing(&known);
        for rel in &sorted.again {
            if let Some(folder) = known.get(rel) {
                walk.run(rel.clone(), folder.protected, folder.watched)?;
            }
        }
        scan.take(&mut walk);
        self.restat_denied(root, &mut scan);
        alias::add(root, sets, &mut scan)?;
        scan.sort();
        Ok(scan)
    }

    /// Notes denied files that were not read again but have a second name now.
    fn restat_denied(&self, root: &Root, scan: &mut Scan) {
        let files: Vec<Found> = scan.denied.iter().filter(|found| !found.is_dir && !found.is_link).cloned().collect();
        for found in files {
            if let Ok(facts) = stat(root, found.rel.as_os_str())
                && facts.nlink > 1
                && (facts.dev, facts.ino) == (found.dev, found.ino)
            {
                let shared = super::Shared { rel: found.rel, pattern: found.pattern, deny: true, nlink: facts.nlink };
                scan.shared.insert((facts.dev, facts.ino), shared);
            }
        }
    }

    /// Drops a folder and everything below it.
    fn forget(&mut self, rel: &OsStr) {
        self.folders.remove(rel);
        let (mut from, mut to) = (rel.to_owned(), rel.to_owned());
        from.push("/");
        to.push("0"); // the byte after the slash
        let below =
            self.folders.range::<OsStr, _>((Bound::Included(from.as_os_str()), Bound::Excluded(to.as_os_str())));
        let below: Vec<OsString> = below.map(|(rel, _)| rel.clone()).collect();
        for rel in below {
            self.folders.remove(&rel);
        }
    }
}

/// A stat beneath the root that opens nothing. It may go through a link that was put in place of a folder; then the folder
/// above has changed, and is read again without links.
fn stat(root: &Root, rel: &OsStr) -> nix::Result<Facts> {
    let name = if rel.is_empty() { OsStr::new(".") } else { rel };
    match fstatat(root.fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Facts::from(&stat)),
        Err(Errno::ENAMETOOLONG) => {
            let fd = root.beneath(rel, OFlag::O_PATH | OFlag::O_NOFOLLOW)?;
            Ok(Facts::from(&fstat(&fd)?))
        }
        Err(errno) => Err(errno),
    }
}

/// Names of `now` that were not there before, or were another file.
fn added(before: &[Found], now: &[Found]) -> Vec<Found> {
    let old: HashSet<(&Path, u64, u64)> =
        before.iter().map(|found| (found.rel.as_path(), found.dev, found.ino)).collect();
    now.iter().filter(|found| !old.contains(&(found.rel.as_path(), found.dev, found.ino))).cloned().collect()
}

fn startup(before: &HashMap<OsString, Stamp>, now: &HashMap<OsString, Stamp>) -> Vec<StartupChange> {
    let mut list = Vec::new();
    for (rel, stamp) in now {
        let kind = match before.get(rel) {
            None => StartupKind::Created,
            Some(old) if old != stamp => StartupKind::Changed,
            Some(_) => continue,
        };
        list.push(StartupChange { rel: PathBuf::from(rel), kind });
    }
    list.sort_by(|a, b| a.rel.cmp(&b.rel));
    list
}
