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
    sets: &ScanSets,
    denied: impl Iterator<Item = &'a Found>,
    protected: impl Iterator<Item = &'a Found>,
) -> Vec<Mask> {
    let mask = |found: &Found, kind| Mask { at: root.real().join(&found.rel), dir: found.is_dir, kind };
    let anchored = |set: &PatternSet, found: &Found| set.text(found.pattern).is_none_or(is_anchored);
    let mut masks = Vec::new();
    for found in denied {
        masks.push(mask(found, MaskKind::Hidden));
        if anchored(&sets.deny, found) {
            masks.extend(pins(root.real(), &found.rel));
        }
    }
    for found in protected {
        masks.push(mask(found, MaskKind::ReadOnly));
        masks.extend(pin(root, found));
        if anchored(&sets.protect, found) {
            masks.extend(pins(root.real(), &found.rel));
        }
    }
    masks
}

/// A pattern that means one place (`sub/secret`), not a name at any depth (`**/.env`): what it names loses its name when a
/// folder above is moved.
fn is_anchored(pattern: &str) -> bool {
    !pattern.starts_with("**/") && pattern.trim_end_matches('/').contains('/')
}

/// The folders between a base and a name in it: pinned, so that none of them can be moved away.
fn pins(base: &Path, rel: &Path) -> Vec<Mask> {
    let above = rel.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    above.map(|folder| Mask { at: base.join(folder), dir: true, kind: MaskKind::Pinned }).collect()
}

/// A folder whose names cannot be listed may hold denied ones under names that a program knows: it is hidden as a whole.
///
/// # Errors
/// The workspace itself cannot be listed.
pub(super) fn of_unreadable(root: &Root, folders: &[PathBuf]) -> Result<Vec<Mask>, String> {
    let mask = |folder: &PathBuf| {
        if folder.as_os_str().is_empty() {
            return Err("denied names: the workspace cannot be listed".to_owned());
        }
        Ok(Mask { at: root.real().join(folder), dir: true, kind: MaskKind::Hidden })
    };
    folders.iter().map(mask).collect()
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
                let denied = policy.denies_outside(&path, dir);
                if denied.is_some_and(|rule| is_anchored(rule.pattern.text()))
                    && let Ok(rel) = path.strip_prefix(tree)
                {
                    masks.extend(pins(tree, rel));
                }
                let kind = if socket || denied.is_some() {
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
