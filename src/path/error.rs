//! **What this room is for:** why a path was not resolved, and the refusal that says so.
//! **Who may enter:** the rest of `path`; callers see the enum. **Never done here:** telling whether something outside
//! of the workspace exists. **Where the proof is:** `tests/path.rs` (same answer for present and absent files outside).

use crate::call::{Code, Refusal};
use nix::errno::Errno;

/// Characters of a claimed path that come back in a message.
const SHOWN_CHARS: usize = 200;

/// Why a claim did not become a fact: one variant per step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The claim has no characters.
    #[error("the path is empty")]
    Empty,
    /// The claim holds a NUL, which no path can.
    #[error("the path holds a NUL")]
    Nul,
    /// The claim is longer than the kernel takes.
    #[error("the path is {bytes} bytes long, more than the 4096 that a path may have")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// One name of the claim (or of a link on the way) is longer than the kernel takes.
    #[error("a name in the path is longer than 255 bytes")]
    NameTooLong,
    /// The claim, or a link on its way, leads out of the workspace; whether anything is there was not looked at.
    #[error("the path leads out of the workspace")]
    Outside,
    /// Something on the way is not there, and creating the rest could not help.
    #[error("nothing is there")]
    NotFound,
    /// A name on the way, or the whole path with a `/` at its end, is not a folder.
    #[error("a part of the path is not a folder")]
    NotAFolder,
    /// More than forty links, or a circle of them.
    #[error("its links go in a circle")]
    LinkLoop,
    /// A link leads to a name that is not UTF-8, so no argument and no rule can spell it.
    #[error("it leads to a name that is not UTF-8")]
    NotUtf8,
    /// The system says that this user may not pass.
    #[error("the system does not let this user pass")]
    NoAccess,
    /// Renames kept changing the path while it was resolved.
    #[error("the path kept changing while it was looked up")]
    Busy,
    /// Another answer of the kernel.
    #[error("the system answered: {0}")]
    System(Errno),
}

impl ResolveError {
    /// The refusal for this error; `claim` is the path as the caller gave it, and comes back cut and made printable.
    #[must_use]
    pub fn to_refusal(&self, claim: &str) -> Refusal {
        let code = match self {
            ResolveError::Empty | ResolveError::Nul | ResolveError::TooLong { .. } | ResolveError::NameTooLong => {
                Code::InvalidArguments
            }
            ResolveError::Outside => Code::OutsideWorkspace,
            ResolveError::NotFound | ResolveError::NotAFolder | ResolveError::LinkLoop | ResolveError::NotUtf8 => {
                Code::NotFound
            }
            // Only an outer filter says this to openat2, without which no path can be held beneath the root.
            ResolveError::System(Errno::ENOSYS | Errno::EPERM) => Code::CannotEnforce,
            ResolveError::NoAccess | ResolveError::Busy | ResolveError::System(_) => Code::Unavailable,
        };
        let hint = match self {
            ResolveError::Empty => "Give a path relative to the workspace; `.` is the workspace itself.",
            ResolveError::Nul => "Give the path without control characters.",
            ResolveError::TooLong { .. } | ResolveError::NameTooLong => {
                "Give a shorter path, relative to the workspace."
            }
            ResolveError::Outside => {
                "Use a path inside the workspace, relative to its root. Nothing outside can be reached."
            }
            ResolveError::NotFound => "Look with `ls` or `glob` for what is there.",
            ResolveError::NotAFolder => "Look with `ls` at the folder above; a file holds no further files.",
            ResolveError::LinkLoop => "Name the file itself, not the link.",
            ResolveError::NotUtf8 => "Rename the target of the link, or use `bash` to reach it.",
            ResolveError::NoAccess => "Ask for the permissions of the folders on the way to be changed.",
            ResolveError::Busy => "Try again when nothing renames folders on the way.",
            ResolveError::System(_) => "Try again; if it stays, look at the file system of the workspace.",
        };
        Refusal::new(code, format!("`{}`: {self}.", shown(claim))).hint(hint)
    }
}

/// A claim made fit for a message: at most 200 characters, control characters and those that change the direction or
/// hide text (a message may reach a terminal) as escapes.
#[must_use]
pub fn shown(claim: &str) -> String {
    let mut text = String::new();
    let mut chars = claim.chars();
    for c in chars.by_ref().take(SHOWN_CHARS) {
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        if c.is_control() || hides {
            text.extend(c.escape_unicode());
        } else {
            text.push(c);
        }
    }
    if chars.next().is_some() {
        text.push('…');
    }
    text
}

/// What the kernel said when it opened something beneath the root.
pub(super) fn from_errno(errno: Errno) -> ResolveError {
    match errno {
        Errno::ENOENT => ResolveError::NotFound,
        Errno::ENOTDIR => ResolveError::NotAFolder,
        Errno::EXDEV => ResolveError::Outside,
        Errno::ELOOP => ResolveError::LinkLoop,
        Errno::EACCES => ResolveError::NoAccess,
        Errno::ENAMETOOLONG => ResolveError::NameTooLong,
        Errno::EAGAIN => ResolveError::Busy,
        other => ResolveError::System(other),
    }
}

#[cfg(test)]
mod tests {
    use super::{ResolveError, shown};
    use crate::call::Code;

    #[test]
    fn a_claim_comes_back_short_and_printable() {
        let long = "x".repeat(10_000);
        assert_eq!(shown(&long).chars().count(), 201);
        assert_eq!(shown("a\u{1b}[31m\n\u{202e}b"), "a\\u{1b}[31m\\u{a}\\u{202e}b");
        let refusal = ResolveError::Outside.to_refusal(&long);
        assert!(refusal.message.len() < 400);
        assert_eq!(refusal.code, Code::OutsideWorkspace);
        assert!(refusal.hint.is_some());
    }
}
