//! **What this room is for:** a claimed path as names below the root, without a look at the disk.
//! **Who may enter:** `path::resolve`, policy tests and fuzzers. **Never done here:** opening anything, following links,
//! decoding (`%2e` and `~` are plain characters). **Where the proof is:** `fuzz/properties/path_lexical.rs`.

use super::ResolveError;
use crate::limits::{NAME_BYTES, PATH_BYTES};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path as somebody claims it: not empty, no NUL, no longer than the kernel takes. Nothing else is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathClaim<'a>(&'a str);

impl<'a> PathClaim<'a> {
    /// Takes a claim.
    ///
    /// # Errors
    /// `Empty`, `Nul`, `TooLong`, `NameTooLong`.
    pub fn new(text: &'a str) -> Result<Self, ResolveError> {
        if text.is_empty() {
            return Err(ResolveError::Empty);
        }
        if text.contains('\0') {
            return Err(ResolveError::Nul);
        }
        // The kernel counts the final NUL in PATH_MAX.
        if text.len() >= PATH_BYTES {
            return Err(ResolveError::TooLong { bytes: text.len() });
        }
        if text.split('/').any(|name| name.len() > NAME_BYTES) {
            return Err(ResolveError::NameTooLong);
        }
        Ok(PathClaim(text))
    }

    /// The text as given.
    #[must_use]
    pub fn text(self) -> &'a str {
        self.0
    }
}

/// A claim spelled from the root: its names in order, `..` kept, since `link/..` is the parent of where the link leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spelled {
    names: Vec<String>,
    collapsed: String,
    folder: bool,
}

impl Spelled {
    /// The names from the root on; `.` and empty ones are gone, `..` is kept.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The spelling with `..` taken away by text alone, `.` for the root. Only good for rules that add a no: with links
    /// on the way it may name another file than the one that is opened.
    #[must_use]
    pub fn collapsed(&self) -> &str {
        &self.collapsed
    }

    /// The claim ends in `/` or `/.`: it can only mean a folder.
    #[must_use]
    pub fn folder(&self) -> bool {
        self.folder
    }
}

/// Spells a claim from the root. `anchors` are the absolute paths that mean the root (its real path, and the one it was
/// given by); an absolute claim is inside when it begins with all names of one of them. Names are compared whole, so
/// `/x/work-evil` does not begin with `/x/work` (CVE-2025-53110).
///
/// # Errors
/// `Outside` when the claim is absolute and begins with no anchor, or when a `..` of it climbs above the root.
pub fn spell(claim: PathClaim<'_>, anchors: &[PathBuf]) -> Result<Spelled, ResolveError> {
    let text = claim.text();
    let mut names: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if text.starts_with('/') {
        let inside = anchors.iter().find_map(|anchor| after(&names, anchor)).ok_or(ResolveError::Outside)?;
        names = inside.to_vec();
    }
    let mut left: Vec<&str> = Vec::new();
    for name in &names {
        if *name != ".." {
            left.push(name);
        } else if left.pop().is_none() {
            return Err(ResolveError::Outside);
        }
    }
    let collapsed = if left.is_empty() { ".".to_owned() } else { left.join("/") };
    let folder = matches!(text.rsplit('/').next(), Some("" | "." | ".."));
    Ok(Spelled { names: names.into_iter().map(str::to_owned).collect(), collapsed, folder })
}

/// The names that come after all names of `anchor`.
fn after<'n, 'a>(names: &'n [&'a str], anchor: &Path) -> Option<&'n [&'a str]> {
    let mut rest = names;
    for part in anchor.as_os_str().as_bytes().split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        let (first, others) = rest.split_first()?;
        if first.as_bytes() != part {
            return None;
        }
        rest = others;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::{PathClaim, spell};
    use crate::path::ResolveError;
    use std::path::PathBuf;

    fn at(text: &str) -> Result<(String, String, bool), ResolveError> {
        let anchors = [PathBuf::from("/x/work"), PathBuf::from("/alias")];
        let spelled = spell(PathClaim::new(text)?, &anchors)?;
        Ok((spelled.names().join("/"), spelled.collapsed().to_owned(), spelled.folder()))
    }

    fn ok(names: &str, collapsed: &str, folder: bool) -> Result<(String, String, bool), ResolveError> {
        Ok((names.to_owned(), collapsed.to_owned(), folder))
    }

    #[test]
    fn names_are_compared_whole_and_dots_are_kept() {
        assert_eq!(at("./a//b/../c"), ok("a/b/../c", "a/c", false));
        assert_eq!(at("/x//./work/a/"), ok("a", "a", true));
        assert_eq!(at("/alias"), ok("", ".", false));
        assert_eq!(at("%2e%2e/~/x"), ok("%2e%2e/~/x", "%2e%2e/~/x", false));
        assert_eq!(at("a/.."), ok("a/..", ".", true));
        for outside in
            ["/x/work-evil", "/x", "/", "..", "a/../..", "../work/a", "/x/work/../work/a", "/aliases/a", "//"]
        {
            assert_eq!(at(outside), Err(ResolveError::Outside), "{outside}");
        }
    }

    #[test]
    fn what_no_path_can_be_is_an_input_error() {
        assert_eq!(at(""), Err(ResolveError::Empty));
        assert_eq!(at("a\0b"), Err(ResolveError::Nul));
        assert_eq!(at(&"a/".repeat(3000)), Err(ResolveError::TooLong { bytes: 6000 }));
        assert_eq!(at(&"n".repeat(256)), Err(ResolveError::NameTooLong));
        assert!(at(&"n".repeat(255)).is_ok());
    }
}
