//! **What this room is for:** names that may have been meant when a path was not found.
//! **Who may enter:** the supervisor, for the hint of a refusal. **Never done here:** naming what the caller hides; reading
//! files. **Where the proof is:** `tests/path.rs`.

use super::Root;
use nix::dir::Dir;
use nix::fcntl::OFlag;
use std::ffi::OsStr;

/// Names of a folder that are looked at.
const LOOKED_AT: usize = 1000;
/// Names that are offered.
const OFFERED: usize = 3;
/// Characters of a name beyond which it is not compared.
const COMPARED_CHARS: usize = 64;

/// At most three names beside `rel` that are close to it, as paths from the root, the closest first. `is_hidden` gets each
/// path from the root and says which must not be named. Empty when the folder cannot be read.
#[must_use]
pub fn similar(root: &Root, rel: &str, is_hidden: &dyn Fn(&str) -> bool) -> Vec<String> {
    let (folder, wanted) = rel.rsplit_once('/').unwrap_or((".", rel));
    if folder != "." && is_hidden(folder) {
        return Vec::new();
    }
    let opened = root.beneath(OsStr::new(folder), OFlag::O_RDONLY | OFlag::O_DIRECTORY);
    let Some(mut dir) = opened.ok().and_then(|fd| Dir::from_fd(fd).ok()) else { return Vec::new() };
    let wanted: Vec<char> = wanted.to_lowercase().chars().take(COMPARED_CHARS).collect();
    let mut close: Vec<(usize, String)> = Vec::new();
    for entry in dir.iter().take(LOOKED_AT).flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        if matches!(name, "." | "..") {
            continue;
        }
        let lower: Vec<char> = name.to_lowercase().chars().take(COMPARED_CHARS).collect();
        let Some(distance) = distance(&wanted, &lower) else { continue };
        let path = if folder == "." { name.to_owned() } else { format!("{folder}/{name}") };
        if !is_hidden(&path) {
            close.push((distance, path));
        }
    }
    close.sort();
    close.into_iter().take(OFFERED).map(|(_, path)| path).collect()
}

/// Edits between two names when there are few, a fixed larger number when one stands in the other.
fn distance(a: &[char], b: &[char]) -> Option<usize> {
    let most = 1 + a.len().min(b.len()) / 4;
    let holds = |long: &[char], short: &[char]| short.len() >= 3 && long.windows(short.len()).any(|part| part == short);
    if a.len().abs_diff(b.len()) <= most {
        let edits = edits(a, b);
        if edits <= most {
            return Some(edits);
        }
    }
    (holds(a, b) || holds(b, a)).then_some(COMPARED_CHARS)
}

/// Insertions, deletions and replacements from one name to the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, pair) in b.iter().zip(row.windows(2)) {
            let (corner, above) = (pair.first().copied().unwrap_or(0), pair.last().copied().unwrap_or(0));
            left = (corner + usize::from(x != y)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
