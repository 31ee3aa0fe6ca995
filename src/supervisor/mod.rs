//! Sketch of the supervisor's API, only to type-check this branch.
#![allow(missing_docs)]
use crate::call::{Code, Outcome, Refusal, ToolCall, ToolResult};
use std::{ffi::OsString, path::PathBuf};
#[derive(Debug)]
pub struct Settings {
    pub root: PathBuf,
    pub policies: Vec<PathBuf>,
    pub profile: Option<String>,
    pub mode: Option<String>,
    pub allow_degraded: bool,
    pub kind: SessionKind,
    pub audit: Option<PathBuf>,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    Call,
    Session,
    Mcp,
    Run,
}
#[derive(Debug)]
pub enum StartError {
    Usage(String),
    Policy(Box<crate::policy::PolicyError>),
}
impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartError::Usage(text) => f.write_str(text),
            StartError::Policy(error) => write!(f, "{error}"),
        }
    }
}
#[derive(Debug)]
pub struct Supervisor {
    count: std::sync::atomic::AtomicU64,
}
#[derive(Debug)]
pub struct Offer {
    pub spec: &'static crate::tools::Spec,
    pub schema: serde_json::Value,
    pub available: bool,
    pub reason: Option<String>,
}
#[derive(Debug)]
pub enum RunEnd {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    NotFound(String),
    NotExecutable(String),
    Refused(Refusal),
}
#[derive(Debug, serde::Serialize)]
pub struct Mechanism {
    pub name: String,
    pub available: bool,
    pub detail: String,
}
#[derive(Debug, serde::Serialize)]
pub struct Proof {
    pub guarantee: String,
    pub holds: bool,
    pub rests_on: String,
    pub proof: String,
}
#[derive(Debug, serde::Serialize)]
pub struct Report {
    pub kernel: String,
    pub landlock_abi: u32,
    pub mechanisms: Vec<Mechanism>,
    pub guarantees: Vec<Proof>,
    pub degraded: Vec<String>,
}
impl Supervisor {
    pub async fn start(_settings: Settings) -> Result<Supervisor, StartError> {
        Ok(Supervisor { count: std::sync::atomic::AtomicU64::new(0) })
    }
    pub async fn call(&self, call: ToolCall) -> ToolResult {
        if call.tool == "sleep" {
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        }
        let n = self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let ok = call.tool == "echo";
        let outcome = if ok {
            Outcome::ok(format!("{:?}", call.args))
        } else {
            Refusal::new(Code::UnknownTool, format!("there is no tool {:.64}", call.tool)).into()
        };
        ToolResult {
            call_id: format!("sketch-{n}"),
            id: call.id,
            tool: Some(call.tool.chars().take(64).collect()),
            outcome,
            enforcement: crate::confinement::Enforcement::default(),
        }
    }
    pub fn offered(&self) -> Vec<Offer> {
        Vec::new()
    }
    pub async fn run(&self, _argv: Vec<OsString>) -> RunEnd {
        RunEnd::Refused(Refusal::new(Code::CannotEnforce, "sketch"))
    }
    pub async fn shutdown(self) {}
}
pub async fn doctor(_settings: Settings) -> Report {
    Report {
        kernel: "sketch".into(),
        landlock_abi: 0,
        mechanisms: Vec::new(),
        guarantees: Vec::new(),
        degraded: Vec::new(),
    }
}
