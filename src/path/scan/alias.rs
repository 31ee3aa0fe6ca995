//! **What this room is for:** the other ways to a denied file: links that are named like one, and hard links to it.
//! **Who may enter:** `path::scan`. **Never done here:** a second walk when no file has a second name.
//! **Where the proof is:** `tests/path.rs`.

use super::walk::{join, link_target, names, open_folder};
use super::{Found, Scan, ScanError, Shared};
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

/// Adds to `scan` what its denied links lead to, and the other names of its denied and protected files.
pub(super) fn add(root: &Root, scan: &mut Scan) -> Result<(), ScanError> {
    let mut more = Vec::new();
    for link in scan.denied.iter().filter(|found| found.is_link) {
        if let Some((found, facts)) = target(root, link) {
            if facts.nlink > 1 && !found.is_dir {
                let shared = Shared { rel: found.rel.clone(), pattern: found.pattern, deny: true, nlink: facts.nlink };
                scan.shared.insert((facts.dev, facts.ino), shared);
            }
            more.push(found);
        }
    }
    scan.denied.append(&mut more);
    if scan.shared.is_empty() { Ok(()) } else { hard_links(root, scan) }
}

/// What a denied link leads to, as a denied name of its own: the name says that it is a secret, a program follows it.
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
