//! Sketch of the policy room's API, only to type-check this branch.
#![allow(missing_docs)]
use std::path::PathBuf;
#[derive(Debug, Clone)]
pub struct Sources {
    pub root: PathBuf,
    pub home: Option<PathBuf>,
    pub admin: PathBuf,
    pub config_home: Option<PathBuf>,
    pub files: Vec<PathBuf>,
    pub profile: Option<String>,
    pub mode: Option<String>,
}
impl Sources {
    /// Fills in HOME, XDG_CONFIG_HOME and the admin's place from this process.
    pub fn of_process(root: PathBuf, files: Vec<PathBuf>, profile: Option<String>, mode: Option<String>) -> Sources {
        Sources { root, home: None, admin: PathBuf::new(), config_home: None, files, profile, mode }
    }
}
#[derive(Debug)]
pub struct Policy {}
#[derive(Debug)]
pub struct PolicyError {}
impl PolicyError {
    pub fn render(&self, _color: bool) -> String {
        String::new()
    }
}
impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sketch")
    }
}
pub fn load(_: &Sources) -> Result<Policy, PolicyError> {
    Ok(Policy {})
}
/// Text and JSON of the effective policy.
pub fn show(_: &Policy) -> serde_json::Value {
    serde_json::json!({})
}
pub fn show_text(_: &Policy) -> String {
    String::new()
}
#[derive(Debug, serde::Serialize)]
pub struct Explanation {
    pub verdict: String,
    pub text: String,
}
pub fn explain(_: &Policy, _tool: &str, _subject: &str) -> Explanation {
    Explanation { verdict: String::new(), text: String::new() }
}
pub fn schema() -> &'static str {
    "{}"
}
pub fn init() -> &'static str {
    ""
}
