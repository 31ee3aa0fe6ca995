//! **What this room is for:** the answer of the policy and its reason. **Who may enter:** everybody; plain data.
//! **Never done here:** deciding. **Where the proof is:** `tests/policy.rs`.

use serde::{Deserialize, Serialize};

/// Where a value or a rule came from. Later layers may only tighten earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Layer {
    /// Shipped with stockade.
    #[serde(rename = "built-in")]
    BuiltIn,
    /// `/etc/stockade/policy.toml`.
    #[serde(rename = "admin")]
    Admin,
    /// `~/.config/stockade/policy.toml`.
    #[serde(rename = "user")]
    User,
    /// A `--policy` file or a command-line option.
    #[serde(rename = "file")]
    File,
    /// `.stockade/policy.toml` of the workspace.
    #[serde(rename = "project")]
    Project,
}

impl Layer {
    /// The wire name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layer::BuiltIn => "built-in",
            Layer::Admin => "admin",
            Layer::User => "user",
            Layer::File => "file",
            Layer::Project => "project",
        }
    }
}

/// What the policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Go on; the reason says which rule or mode allowed it.
    Allow(Reason),
    /// A person must say yes first; only this one can be turned by a grant.
    Ask(Reason),
    /// No, whatever anybody says. Carries the finished refusal (`denied_path`, `protected_path`, `hard_block`, `denied_rule`, `plan_mode`…).
    Deny(crate::call::Refusal),
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The rule's text (`bash(git *)`, `mode open`, `read-only tool`).
    pub rule: String,
    /// The layer it came from.
    pub layer: Layer,
    /// File and line, where the rule stands in a file (`p.toml:12`).
    pub place: Option<String>,
}
