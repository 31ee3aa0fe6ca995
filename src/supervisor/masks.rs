//! **What this room is for:** from denied and protected names to masks of the view. **Who may enter:** `supervisor::ground`.
//! **Never done here:** mounting; deciding what is denied. **Where the proof is:** `tests/escape.rs`.

use std::collections::HashSet;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::confinement::{Mask, MaskKind};
use crate::limits::{MASKS, SCAN_ENTRIES};
use crate::path::{Bases, Found, PatternSet, Root, Scan, ScanSets};
use crate::policy::Policy;

/// Folders deep that a system pattern with wildcards is expanded.
const DEPTH: usize = 8;

/// Masks for what a scan found. A link is covered like a file: the new mount calls can stand on a link itself, so its name
/// can neither be read, replaced nor moved.
pub(super) fn of_found<'a>(
    root: &Root,
    denied: impl Iterator<Item = &'a Found>,
    protected: impl Iterator<Item = &'a Found>,
) -> Vec<Mask> {
    let mask = |found: &Found, kind| Mask { at: root.real().join(&found.rel), dir: found.is_dir, kind };
    let mut masks: Vec<Mask> = denied.map(|found| mask(found, MaskKind::Hidden)).collect();
    for found in protected {
        masks.push(mask(found, MaskKind::ReadOnly));
        masks.extend(pin(root, found));
    }
    masks
}

/// The folder of settings (`.git`) that a protected name stands in.
fn pin(root: &Root, found: &Found) -> Option<Mask> {
    let folder = found.rel.parent()?;
    let dotted = folder.file_name()?.as_encoded_bytes().starts_with(b".");
    dotted.then(|| Mask { at: root.real().join(folder), dir: true, kind: MaskKind::Pinned })
}

/// Masks for socket files that were there before the session: the programs behind them are outside, and before Landlock
/// ABI 9 nothing but hiding the file stops a connection.
pub(super) fn of_sockets(root: &Root, sockets: &[PathBuf]) -> Vec<Mask> {
    let mask = |rel: &PathBuf| Mask { at: root.real().join(rel), dir: false, kind: MaskKind::Hidden };
    sockets.iter().map(mask).collect()
}

/// Masks for what system patterns (`/etc/shadow*`, `~/…`) name on this host.
pub(super) fn of_system<'a>(patterns: impl Iterator<Item = &'a str>, home: &Path) -> Vec<Mask> {
    let mut masks = Vec::new();
    for pattern in patterns.filter(|pattern| pattern.starts_with(['/', '~'])) {
        let text = match pattern.strip_prefix("~/") {
            Some(below) => format!("{}/{below}", home.display()),
            None => pattern.to_owned(),
        };
        let Ok(set) = PatternSet::with_bases(&[&text], Bases::default()) else { continue };
        let fixed_text =
            text.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])).collect::<Vec<_>>().join("/");
        let start = PathBuf::from(if fixed_text.is_empty() { "/" } else { &fixed_text });
        // A name of the pattern is a folder deep; only `**` goes on from there.
        let names = |path: &str| path.split('/').count();
        let below = names(&text).saturating_sub(names(&fixed_text));
        expand(&start, &set, if text.contains("**") { DEPTH } else { below.min(DEPTH) }, &mut masks);
    }
    masks
}

fn expand(path: &Path, set: &PatternSet, depth: usize, masks: &mut Vec<Mask>) {
    let Ok(found) = std::fs::symlink_metadata(path) else { return };
    if set.matched_absolute_os(path, found.is_dir()).is_some() {
        if !found.is_symlink() && masks.len() < MASKS {
            masks.push(Mask { at: path.to_path_buf(), dir: found.is_dir(), kind: MaskKind::Hidden });
        }
        return;
    }
    if depth == 0 || !found.is_dir() {
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = entry.path();
        if is_dir && depth > 1 || set.matched_absolute_os(&path, is_dir).is_some() {
            expand(&path, set, depth - 1, masks);
        }
    }
}

/// Masks inside further trees: the patterns that mean a name at any depth hold there too, by the absolute name (the folder
/// `.git` of another checkout is such a tree, and its hooks are hooks).
pub(super) fn of_trees(trees: &[PathBuf], policy: &Policy, root: &Path) -> Vec<Mask> {
    let mut masks = Vec::new();
    for tree in trees.iter().filter(|tree| !tree.starts_with(root)) {
        let Ok(opened) = Root::open(tree) else { continue };
        let Ok(scan) = Scan::new(&opened, &ScanSets::default(), SCAN_ENTRIES) else { continue };
        for folder in scan.folders() {
            let Ok(entries) = std::fs::read_dir(tree.join(folder)) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                let dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
                let kind = if socket || policy.denies_outside(&path, dir).is_some() {
                    MaskKind::Hidden
                } else if policy.protects_outside(&path, dir).is_some() {
                    MaskKind::ReadOnly
                } else {
                    continue;
                };
                masks.push(Mask { at: path, dir, kind });
            }
        }
    }
    masks
}

/// Takes the protection off one exact path: its own mask goes, and a folder that is covered as a whole is covered name by
/// name instead, all but this one. (New names in it are the name guard's to refuse.)
pub(super) fn lift(masks: &mut Vec<Mask>, path: &Path) {
    masks.retain(|mask| mask.kind != MaskKind::ReadOnly || mask.at != path);
    while let Some(at) = masks.iter().position(|mask| mask.kind == MaskKind::ReadOnly && path.starts_with(&mask.at)) {
        let Some(folder) = masks.get_mut(at) else { return };
        folder.kind = MaskKind::Pinned;
        let Ok(entries) = std::fs::read_dir(&folder.at) else { continue };
        let one = |entry: std::fs::DirEntry| {
            let dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            (entry.path() != path).then(|| Mask { at: entry.path(), dir, kind: MaskKind::ReadOnly })
        };
        masks.extend(entries.flatten().filter_map(one).take(MASKS));
    }
}

/// One mask a name, the strictest; outer before inner, and none below a hidden folder.
pub(super) fn tidy(masks: &mut Vec<Mask>) {
    let looseness = |kind| match kind {
        MaskKind::Hidden => 0,
        MaskKind::ReadOnly => 1,
        MaskKind::Pinned => 2,
    };
    masks.sort_by(|a, b| a.at.cmp(&b.at).then(looseness(a.kind).cmp(&looseness(b.kind))));
    masks.dedup_by(|later, earlier| later.at == earlier.at);
    let hidden: HashSet<PathBuf> =
        masks.iter().filter(|mask| mask.dir && mask.kind == MaskKind::Hidden).map(|mask| mask.at.clone()).collect();
    masks.retain(|mask| !mask.at.ancestors().skip(1).any(|above| hidden.contains(above)));
}
