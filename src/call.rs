//! **What this room is for:** the words of one tool call: what came in, what came out, and the typed "no" between them.
//! **Who may enter:** everybody; plain data without I/O. **Never done here:** judging, opening, printing.
//! **Where the proof is:** the tests below and `tests/golden`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One tool call as a client asked for it.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Name or alias of the tool, exactly as received.
    pub tool: String,
    /// The arguments, not yet validated.
    pub args: RawArgs,
    /// The client's own name for this call; echoed, never interpreted.
    pub id: Option<Value>,
}

/// Arguments before validation.
#[derive(Debug, Clone)]
pub enum RawArgs {
    /// JSON text as a model produced it; a key that occurs twice is an error.
    Text(String),
    /// Already parsed.
    Object(Map<String, Value>),
}

/// The closed list of refusal codes of the contract. On the wire in snake_case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the contract's and say it all")]
pub enum Code {
    UnknownTool,
    InvalidArguments,
    InvalidJson,
    OutsideWorkspace,
    DeniedPath,
    ProtectedPath,
    HardBlock,
    DeniedRule,
    ApprovalRequired,
    ApprovalDenied,
    Hook,
    PlanMode,
    Taint,
    Canary,
    NotFound,
    Exists,
    NotRegular,
    Stale,
    Ambiguous,
    NoMatch,
    TooLarge,
    TimedOut,
    LimitReached,
    Unavailable,
    CannotEnforce,
}

impl Code {
    /// Exit status of `stockade call` for this code: 2 bad arguments, 3 policy, 4 cannot enforce, 1 the tool failed.
    #[must_use]
    pub fn exit_status(self) -> u8 {
        match self {
            Code::UnknownTool | Code::InvalidArguments | Code::InvalidJson => 2,
            Code::OutsideWorkspace
            | Code::DeniedPath
            | Code::ProtectedPath
            | Code::HardBlock
            | Code::DeniedRule
            | Code::ApprovalRequired
            | Code::ApprovalDenied
            | Code::Hook
            | Code::PlanMode
            | Code::Taint
            | Code::Canary => 3,
            Code::CannotEnforce => 4,
            Code::NotFound
            | Code::Exists
            | Code::NotRegular
            | Code::Stale
            | Code::Ambiguous
            | Code::NoMatch
            | Code::TooLarge
            | Code::TimedOut
            | Code::LimitReached
            | Code::Unavailable => 1,
        }
    }
}

/// A typed "no": which rule, which layer, what to do instead. Never a byte of what it protects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The closed code.
    pub code: Code,
    /// The rule that said no (a pattern, a match text), where one did.
    pub rule: Option<String>,
    /// `built-in` `admin` `user` `file` `project` or `grant`, where a policy layer said no.
    pub layer: Option<String>,
    /// One sentence: what was refused.
    pub message: String,
    /// One sentence: what to do instead.
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal without a rule.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Refusal { code, rule: None, layer: None, message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with the rule and the layer that decided.
    #[must_use]
    pub fn rule(mut self, rule: impl Into<String>, layer: impl Into<String>) -> Self {
        self.rule = Some(rule.into());
        self.layer = Some(layer.into());
        self
    }
}

/// What was left out of an answer, and how to get it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Bytes left out.
    pub omitted_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Lines left out.
    pub omitted_lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Rows left out (a lower bound where the tool stopped early).
    pub omitted_results: Option<u64>,
    /// `limit` `result_size` `line_length` `timeout` `outcome_cap`.
    pub reason: String,
    /// What to do to see the rest.
    pub hint: String,
}

/// What happened in the worker: the same shape for success, failure and refusal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// True when the tool did what it was asked.
    pub ok: bool,
    /// What the model reads.
    pub text: String,
    /// The typed "no", if there is one.
    pub refusal: Option<Refusal>,
    /// Machine-readable details of this tool.
    pub details: Map<String, Value>,
    /// What was left out.
    pub truncated: Option<Truncated>,
}

impl Outcome {
    /// Success with a text.
    #[must_use]
    pub fn ok(text: impl Into<String>) -> Self {
        Outcome { ok: true, text: text.into(), refusal: None, details: Map::new(), truncated: None }
    }

    /// The same with one more detail.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        let text = match &refusal.hint {
            Some(hint) => format!("{}\n{hint}", refusal.message),
            None => refusal.message.clone(),
        };
        Outcome { ok: false, text, refusal: Some(refusal), details: Map::new(), truncated: None }
    }
}

/// The result object of the contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolResult {
    /// Unique name of this call.
    pub call_id: String,
    /// The client's name for it, where it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// Canonical name of the tool; `null` for a line that could not be read.
    pub tool: Option<String>,
    /// The outcome's fields, flattened: `ok text refusal details truncated`.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What the kernel really enforced for this call.
    pub enforcement: crate::confinement::Enforcement,
}

impl ToolResult {
    /// Exit status of `stockade call` for this result.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match (&self.outcome.refusal, self.outcome.ok) {
            (Some(refusal), _) => refusal.code.exit_status(),
            (None, true) => 0,
            (None, false) => 1,
        }
    }
}

/// What of the policy a tool body needs to know: plain switches, no rules. Travels to the worker with its work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolOptions {
    /// The strict profile is on.
    pub strict: bool,
    /// `[write] overwrite`: `flag`, `never`, `always`.
    pub overwrite: String,
    /// `[write] shrink`: `warn`, `off`, `refuse`.
    pub shrink: String,
    /// `[search] exclude_generated`.
    pub exclude_generated: bool,
    /// gitignore-style patterns (relative to the root) of what must never be listed, read or counted: denied paths.
    pub hidden: Vec<String>,
    /// Further secret names that searches never show (`[search] secret_globs` and the built-in ones).
    pub secret_globs: Vec<String>,
    /// The session runs with a read tracker (sessions and MCP), so edits need a read before them.
    pub tracked: bool,
    /// SHA-256 (hex) of the content that this session last saw of the file, where it saw one.
    pub known_sha256: Option<String>,
}

/// One program that a worker starts inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Program {
    /// Program and arguments; the program is looked up in `PATH` when it has no slash.
    pub argv: Vec<String>,
    /// Standard input; `None` is end of file at once.
    pub stdin: Option<String>,
    /// Wall time in milliseconds after which TERM, and two seconds later KILL, go to every descendant.
    pub timeout_ms: Option<u64>,
    /// Standard error goes into standard output, in the order of writing.
    pub interleave: bool,
    /// Bytes of each stream that are kept: half from the start, half from the end.
    pub keep_bytes: usize,
}

/// How a program ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramEnd {
    /// Exit status, when it exited.
    pub exit_code: Option<i32>,
    /// Signal number, when a signal ended it.
    pub signal: Option<i32>,
    /// `timeout` `memory` `pids` `cancel`, when we ended it.
    pub killed_by: Option<String>,
    /// Could not be started at all: errno of the attempt.
    pub not_started: Option<i32>,
    /// Kept standard output.
    pub stdout: Kept,
    /// Kept standard error.
    pub stderr: Kept,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
    /// Names that it may not make, as far as they were kept.
    pub refused_names: Vec<RefusedName>,
}

/// A name that a program wanted to make or move, or in strict to open, and that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedName {
    /// From the root where it is in the workspace, else absolute.
    pub target: String,
    /// The pattern.
    pub rule: String,
}

/// Head and tail of a stream, cut at character borders, with the exact number of bytes between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes (empty when nothing was left out).
    pub tail: Vec<u8>,
    /// Bytes between the two.
    pub omitted: u64,
}

/// What a tool body may ask of the worker around it, apart from the files it was given.
pub trait Programs {
    /// Runs one program inside and waits for its end.
    fn run(&mut self, program: &Program) -> ProgramEnd;
}
