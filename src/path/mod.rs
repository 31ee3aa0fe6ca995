//! **What this room is for:** from a claimed path to a proven one: lexical rules, resolution by descriptors, patterns of
//! names, and the scan that finds the names a policy speaks of. **Who may enter:** policy, tools, worker, supervisor.
//! **Never done here:** judging; opening by a path that was checked earlier; reading what a file holds.
//! **Where the proof is:** `tests/path.rs`, `tests/properties.rs`, `fuzz/`.

mod error;
pub mod lexical;
pub mod pattern;
mod resolve;
mod root;
mod scan;
mod similar;
mod walk;

pub use error::{ResolveError, shown};
pub use lexical::{PathClaim, Spelled};
pub use pattern::{Bases, PatternError, PatternSet};
pub use resolve::{Facts, Kind, Resolved, Target, resolve, resolve_entry};
pub use root::{Root, RootError};
pub use scan::{Changes, Found, Scan, ScanError, ScanSets, StartupChange, StartupKind, scan};
pub use similar::similar;

/// The real name of a folder or file that an operator names: opened without being read, then asked of the kernel.
///
/// # Errors
/// The kernel's.
pub fn real(path: &std::path::Path) -> std::io::Result<std::path::PathBuf> {
    use std::os::fd::AsRawFd;
    let flags = nix::fcntl::OFlag::O_PATH | nix::fcntl::OFlag::O_CLOEXEC;
    let fd = nix::fcntl::open(path, flags, nix::sys::stat::Mode::empty())?;
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
