//! **What this room is for:** the other ways to a denied file: links that are named like one, and hard links to it.
//! **Who may enter:** `path::scan`. **Never done here:** a second walk when no file has a second name.
//! **Where the proof is:** `tests/path.rs`.

use super::through::{Through, expand};
use super::walk::{join, link_target, names, open_folder};
use super::{Found, Scan, ScanError, ScanSets, Shared};
use crate::path::Root;
use crate::path::resolve::{Facts, Kind};
use nix::dir::Type;
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Adds to `scan` what its denied and protected links lead to, what its patterns mean behind other links, and the other
/// names of denied and protected files.
pub(super) fn add(root: &Root, sets: &ScanSets, scan: &mut Scan) -> Result<(), ScanError> {
    let mut budget = scan.max_entries;
    for deny in [true, false] {
        let list = if deny { &scan.denied } else { &scan.protected };
        let mut more: Vec<_> =
            list.iter().filter(|found| found.is_link).filter_map(|link| target(root, link)).collect();
        let set = if deny { &sets.deny } else { &sets.protect };
        for link in &scan.links {
            let through = Through { link: link.clone(), rests: set.behind(link) };
            let found = expand(root, &through, &mut budget);
            more.extend(found.map_err(|_| ScanError::TooMany { max: scan.max_entries })?);
        }
        for (found, facts) in more {
            if facts.nlink > 1 && !found.is_dir {
                let shared = Shared { rel: found.rel.clone(), pattern: found.pattern, deny, nlink: facts.nlink };
                let entry = scan.shared.entry((facts.dev, facts.ino)).or_insert_with(|| shared.clone());
                if deny {
                    *entry = shared;
                }
            }
            let list = if deny { &mut scan.denied } else { &mut scan.protected };
            list.push(found);
        }
    }
    if scan.shared.is_empty() { Ok(()) } else { hard_links(root, scan) }
}

/// What a link that a pattern means leads to, as a name of its own: programs follow it.
fn target(root: &Root, link: &Found) -> Option<(Found, Facts)> {
    let (rel, facts) = link_target(root, link.rel.as_os_str())?;
    let rel = PathBuf::from(rel);
    // A link up to a folder around itself would hide the workspace from everybody; whatever it shows has other names.
    if rel.as_os_str() == "." || link.rel.starts_with(&rel) {
        return None;
    }
    let found = Found {
        rel,
        is_dir: facts.kind == Kind::Dir,
        is_link: false,
        dev: facts.dev,
        ino: facts.ino,
        pattern: link.pattern,
        alias_of: Some(link.rel.clone()),
    };
    Some((found, facts))
}

/// Walks the tree again for names with the inode of a shared file.
fn hard_links(root: &Root, scan: &mut Scan) -> Result<(), ScanError> {
    let inodes: HashSet<u64> = scan.shared.keys().map(|(_, ino)| *ino).collect();
    let hidden: HashSet<PathBuf> = scan.denied.iter().map(|found| found.rel.clone()).collect();
    let kept: HashSet<PathBuf> = scan.protected.iter().map(|found| found.rel.clone()).collect();
    let (mut tasks, mut entries, max) = (vec![OsString::new()], 0_u64, scan.max_entries);
    while let Some(rel) = tasks.pop() {
        let Ok((mut dir, _)) = open_folder(root, &rel) else { continue };
        let mut looks = Vec::new();
        names(&mut dir, |entry, name| {
            entries += 1;
            if entries > max {
                return Err(ScanError::TooMany { max });
            }
            let kind = entry.file_type();
            if matches!(kind, Some(Type::Directory) | None) || inodes.contains(&entry.ino()) {
                looks.push((OsStr::from_bytes(name).to_owned(), kind));
            }
            Ok(())
        })?;
        for (name, kind) in looks {
            let path = join(&rel, &name);
            if hidden.contains(Path::new(&path)) {
                continue;
            }
            if kind == Some(Type::Directory) {
                tasks.push(path);
                continue;
            }
            let Ok(stat) = fstatat(dir.as_fd(), name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else { continue };
            let facts = Facts::from(&stat);
            if facts.kind == Kind::Dir {
                tasks.push(path);
            } else if let Some(shared) = meant(&scan.shared, &facts, Path::new(&path), &kept) {
                let found = Found {
                    rel: PathBuf::from(path),
                    is_dir: false,
                    is_link: false,
                    dev: facts.dev,
                    ino: facts.ino,
                    pattern: shared.pattern,
                    alias_of: Some(shared.rel.clone()),
                };
                let list = if shared.deny { &mut scan.denied } else { &mut scan.protected };
                list.push(found);
            }
        }
    }
    Ok(())
}

/// The shared file that this name is another name of, unless the name is covered as it is.
fn meant<'s>(
    shared: &'s HashMap<(u64, u64), Shared>,
    facts: &Facts,
    path: &Path,
    kept: &HashSet<PathBuf>,
) -> Option<&'s Shared> {
    let shared = shared.get(&(facts.dev, facts.ino))?;
    if !shared.deny && path.ancestors().any(|above| kept.contains(above)) {
        return None;
    }
    Some(shared)
}
