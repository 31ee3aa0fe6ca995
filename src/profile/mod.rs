//! **What this room is for:** sandbox profiles: the files of `sandbox-profiles/`, read into the [`Confinement`] of a kind
//! of worker, the view of a session and the environment of its programs. **Who may enter:** the supervisor, the command
//! line. **Never done here:** looking at the disk or the environment (callers say what is there), system calls, verdicts.
//! **Where the proof is:** `tests/profiles.rs` runs every call of every filter.
//!
//! [`Confinement`]: crate::confinement::Confinement

pub mod environment;
pub mod file;
pub mod plan;
pub mod show;
pub mod syscalls;
pub mod view;

pub use environment::{EnvironmentFacts, environment};
pub use plan::{SessionFacts, confinement};
pub use show::{Shown, list, show};
pub use view::{HostKind, View, ViewFacts, places};

/// Reads the files that every session needs, so that a later need finds them read. What is wrong with one is said then.
pub fn read_ahead() {
    let _ = (file::base(), file::sets());
}

/// The loadable profiles, strictest first.
pub const NAMES: [&str; 4] = ["read", "search", "write", "shell"];

/// Why a profile cannot be used. The files are part of the program, so for a user all but `Unknown` are faults of a
/// build; tests read every file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is no profile of this name. `base` and the sets are included only.
    #[error("there is no sandbox profile {0:?}; there are read, search, write and shell")]
    Unknown(String),
    /// The file does not parse: bad TOML, an unknown key, a missing or empty reason, a bad word.
    #[error("sandbox-profiles/{file}.toml: {why}")]
    Parse {
        /// Which file.
        file: String,
        /// What is wrong, with its line.
        why: String,
    },
    /// The file is of another version.
    #[error("sandbox-profiles/{file}.toml has version {version}, this program reads 1")]
    Version {
        /// Which file.
        file: String,
        /// What it says.
        version: u32,
    },
    /// Only `base` can be included.
    #[error("sandbox-profiles/{file}.toml includes {include:?}; only base can be included")]
    Include {
        /// Which file.
        file: String,
        /// What it names.
        include: String,
    },
    /// A name that is no system call of any architecture and no set.
    #[error("{0:?} is no system call and no set")]
    UnknownCall(String),
    /// Sets that name each other in a ring.
    #[error("the set {0:?} contains itself")]
    SetRing(String),
    /// An argument test that is not of the form `[wide] argN [& MASK] OP VALUE`.
    #[error("{0:?} is no argument test; the form is: [wide] argN [& MASK] OP VALUE, joined by and")]
    ArgTest(String),
    /// A word for an answer that is neither allow, kill nor a known errno.
    #[error("{0:?} is no answer; allow, kill and the names of errors in src/profile/syscalls.rs are")]
    Action(String),
    /// A path that must be absolute is not.
    #[error("{0} is not absolute")]
    Relative(std::path::PathBuf),
}
