//! **What this room is for:** the words of a request: who asks for which right on which object, and how risky the tool is.
//! **Who may enter:** everybody; plain data. **Never done here:** judging. **Where the proof is:** `tests/policy.rs`.

use serde::{Deserialize, Serialize};

/// Risk class of a tool. Wire names as in the contract; `safe` and `caution` are accepted as aliases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names are the contract's and say it all")]
pub enum RiskClass {
    ReadOnlyLocal,
    WorkspaceWrite,
    ReadOnlyNetwork,
    SharedStateMutation,
    ExternalSideEffect,
    CredentialAccess,
    DestructiveLocal,
    SpendMoney,
    SandboxEscape,
    SessionState,
}

/// When a tool needs a question answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// Never a question.
    No,
    /// A question in mode `ask` unless a rule or a grant allows it.
    Yes,
    /// A question in every mode, `open` too, unless a rule allows it.
    Always,
}

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// Read its bytes.
    Read,
    /// List it.
    List,
    /// Search it and everything below.
    Search,
    /// Create, replace or change it.
    Write,
    /// Stand in it (working folder of a command).
    Enter,
}

/// One thing that a call wants to touch, after path resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// A path of the workspace.
    Path {
        /// Root-relative, resolved through all links, `/`-separated, no leading slash; the root itself is `.`.
        resolved: String,
        /// The spelling before links were followed (root-relative); may only add denies.
        spelled: String,
        /// A folder, where it exists and is one.
        is_dir: bool,
        /// What is done to it.
        right: Right,
    },
    /// A shell command, the text as given.
    Command(String),
    /// Nothing outside the session itself.
    Nothing,
}
