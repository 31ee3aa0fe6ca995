//! **What this room is for:** confinement as data: what the launcher builds, what the door of a worker enforces, and what
//! the kernel says it really took. **Who may enter:** everybody; plain data. **Never done here:** system calls, judging.
//! **Where the proof is:** `tests/escape.rs` (does it hold), `tests/profiles.rs` (is the data right).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A promise a policy can require, whatever mechanism keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Guarantee {
    /// Nothing is read but the workspace, the system view and what the policy adds; denied paths stay unreadable.
    #[serde(rename = "fs.read")]
    FsRead,
    /// Nothing is written but the workspace, private folders and what the policy adds; protected paths stay unwritten.
    #[serde(rename = "fs.write")]
    FsWrite,
    /// Modes, owners, times and attributes outside the writable set cannot change.
    #[serde(rename = "fs.meta")]
    FsMeta,
    /// No packet, name lookup or socket of the host, by any family.
    #[serde(rename = "net.none")]
    NetNone,
    /// When a call is over, every process it started is gone.
    #[serde(rename = "kill.tree")]
    KillTree,
    /// No code runs that is not an executable file of the view. Never offered for programs: loaders, interpreters and
    /// memory files run code with the right to read alone (measured; Landlock does not mediate it).
    #[serde(rename = "exec.confined")]
    ExecConfined,
}

impl Guarantee {
    /// All of them, in the order in which they are printed.
    pub const ALL: [Guarantee; 6] = [
        Guarantee::FsRead,
        Guarantee::FsWrite,
        Guarantee::FsMeta,
        Guarantee::NetNone,
        Guarantee::KillTree,
        Guarantee::ExecConfined,
    ];

    /// The wire name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Guarantee::FsRead => "fs.read",
            Guarantee::FsWrite => "fs.write",
            Guarantee::FsMeta => "fs.meta",
            Guarantee::NetNone => "net.none",
            Guarantee::KillTree => "kill.tree",
            Guarantee::ExecConfined => "exec.confined",
        }
    }
}

/// Landlock access on one tree or file, in words. The room `confine` turns them into access rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rights {
    /// Read files, list folders.
    Read,
    /// Read and execute.
    ReadExec,
    /// Everything but making device nodes.
    All,
    /// Read, write and ioctl of a device that is there; nothing is made or removed.
    Device,
}

/// One path-beneath rule. The path is one of the view (inside the session's root), absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRule {
    /// Absolute path in the view. Missing paths are skipped when `optional`, else an error.
    pub path: PathBuf,
    /// What may be done below it.
    pub rights: Rights,
    /// Not an error when it is not there.
    pub optional: bool,
}

/// What a system call answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// It runs.
    Allow,
    /// It fails with this errno and has no effect.
    Errno(i32),
    /// The process is killed.
    Kill,
}

/// One comparison of a system call argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArgTest {
    /// Argument number, from 0.
    pub index: u8,
    /// Compare 64 bits; else the low 32 (ioctl numbers: CVE-2019-10063).
    pub wide: bool,
    /// How.
    pub op: ArgOp,
    /// Against what.
    pub value: u64,
}

/// The comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "comparison names")]
pub enum ArgOp {
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
    /// `arg & mask == value`
    Masked(u64),
}

/// What happens on one system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRule {
    /// The system call's number on this machine.
    pub number: i64,
    /// The answer when `when` matches.
    pub action: Action,
    /// Alternatives, each a conjunction; empty means always.
    pub when: Vec<Vec<ArgTest>>,
}

/// A whole filter: what is not named gets `default`. The order of strictness of stacked rules is the kernel's:
/// kill, errno, allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterPlan {
    /// Answer for calls without a matching rule.
    pub default: Action,
    /// The rules.
    pub rules: Vec<CallRule>,
}

/// One sandbox profile, filled in for this session: everything a worker of this kind is confined by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Name of the sandbox profile (`read`, `write`, `search`, `shell`).
    pub profile: String,
    /// May it start programs? Then it gets its own pid namespace and `/proc`.
    pub programs: bool,
    /// The Landlock rules. Empty: no file can be opened at all (files come as descriptors).
    pub paths: Vec<PathRule>,
    /// Landlock handles TCP bind and connect and allows none. Off for programs when loopback is to work: there the
    /// network namespace is the boundary.
    pub deny_tcp: bool,
    /// The seccomp filter.
    pub filter: FilterPlan,
    /// `RLIMIT_*` by name (`nofile`, `fsize`, `core`, `as`, `nproc`, `cpu`) and value.
    pub rlimits: Vec<(String, u64)>,
}

/// A place of the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// A folder or file of the host, at `at` in the view.
    Bind {
        /// On the host.
        from: PathBuf,
        /// In the view.
        at: PathBuf,
        /// Writable.
        write: bool,
        /// Not an error when it is not there.
        optional: bool,
    },
    /// A symbolic link in the view (`/bin` → `usr/bin`).
    Link {
        /// Where it stands.
        at: PathBuf,
        /// Where it points.
        to: PathBuf,
    },
    /// A private, empty, writable folder.
    Private {
        /// Where it stands.
        at: PathBuf,
        /// Mode bits.
        mode: u32,
    },
}

/// A name that is covered in the view. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mask {
    /// Where.
    pub at: PathBuf,
    /// A folder (else a file).
    pub dir: bool,
    /// `Hidden`: cannot be read or listed. `ReadOnly`: can be read, not changed.
    pub kind: MaskKind,
}

/// How a name is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MaskKind {
    /// A read-only mode-000 file or folder stands in its place. (Never `/dev/null`: it would swallow writes.)
    Hidden,
    /// Bound over itself, read-only.
    ReadOnly,
    /// Bound over itself, writable: its content is free, its name can be neither moved nor removed. A protected name in it
    /// would else go away with it and could be made anew.
    Pinned,
}

/// Which network a session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// An own network namespace with loopback alone.
    None,
    /// Named hosts only. Not built yet: refused when the policy is loaded.
    Allowlist,
    /// The host's network.
    Open,
}

/// Everything the launcher needs to build a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionPlan {
    /// The workspace, absolute and real.
    pub root: PathBuf,
    /// The private home in the view.
    pub home: PathBuf,
    /// The view, in the order in which it is built; later ones stand on earlier ones.
    pub view: Vec<Place>,
    /// What is covered.
    pub masks: Vec<Mask>,
    /// The network.
    pub network: NetworkMode,
    /// The environment of programs.
    pub env: Vec<(String, String)>,
    /// The kinds of worker this session uses.
    pub confinements: Vec<Confinement>,
    /// No namespaces and no view: the first attempt showed that this host does not let them be built.
    pub bare: bool,
    /// The operator accepts missing guarantees (`--allow-degraded`): go on where a mechanism is missing.
    pub allow_degraded: bool,
    /// Bytes that private folders may hold together.
    pub private_bytes: u64,
    /// Processes and threads that one call may have.
    pub pids: u32,
    /// Resident memory that one call may have, in bytes.
    pub memory_bytes: u64,
    /// Names that programs may not make.
    pub guard: GuardPlan,
}

/// Names that programs may neither make nor move: masks cover what exists, this covers what does not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuardPlan {
    /// The user's home on the host: what `~` in a pattern means.
    pub home: PathBuf,
    /// Further trees that may be written, absolute and real.
    pub trees: Vec<PathBuf>,
    /// Denied patterns.
    pub deny: Vec<String>,
    /// Protected patterns, without those that mean files alone.
    pub protect: Vec<String>,
    /// Root-relative paths that may be written although a pattern protects them.
    pub lifted: Vec<String>,
    /// Folders `.git` that were there when the session began, absolute. In one that programs make themselves, they may make
    /// its `hooks` and `config` too, or there would be no `git init`.
    pub pinned: Vec<PathBuf>,
    /// Opening an existing file is looked at as well: a denied file that the host has just replaced is not masked for a
    /// moment.
    pub all_opens: bool,
}

/// What really holds in a worker, read back from the kernel or proved by a canary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Landlock ABI of the kernel; 0 when it is off or its canary got through.
    pub landlock_abi: u32,
    /// The seccomp canary was stopped.
    pub seccomp: bool,
    /// `PR_GET_NO_NEW_PRIVS` says 1.
    pub no_new_privs: bool,
    /// All five capability sets are empty.
    pub capabilities_empty: bool,
    /// Namespaces made: `user mnt pid net ipc uts`.
    pub namespaces: Vec<String>,
    /// The private view with its masks is in place.
    pub view: bool,
    /// What could not be done: mechanism and why, one line each.
    pub missing: Vec<String>,
}

/// What a result says about its confinement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// Sandbox profile of the call; empty when no worker ran.
    pub profile: String,
    /// Landlock ABI that was enforced; 0 is none.
    pub landlock_abi: u32,
    /// A filter was enforced.
    pub seccomp: bool,
    /// No new privileges.
    pub no_new_privs: bool,
    /// `none`, or `kept` when they could not be dropped.
    pub capabilities: String,
    /// Namespaces of the call.
    pub namespaces: Vec<String>,
    /// What holds.
    pub guarantees: Vec<String>,
    /// What is missing, one line each.
    pub degraded: Vec<String>,
}
