//! temporary
#![allow(missing_docs, clippy::all)]
use crate::access::*;
use crate::confinement::*;
use crate::limits::Limits;
use crate::verdict::*;
use std::path::PathBuf;
pub const ADMIN: &str = "/etc/stockade/policy.toml";
#[derive(Debug)]
pub struct Policy {
    deny: Vec<String>,
    protect: Vec<String>,
    set: Vec<(String, String)>,
    net: NetworkMode,
}
#[derive(Debug)]
pub struct PolicyError(String);
impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for PolicyError {}
impl PolicyError {
    pub fn render(&self, _c: bool) -> String {
        self.0.clone()
    }
}
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
    pub fn of_process(root: PathBuf, files: Vec<PathBuf>, profile: Option<String>, mode: Option<String>) -> Self {
        Sources { root, home: None, admin: PathBuf::new(), config_home: None, files, profile, mode }
    }
}
pub fn load(_s: &Sources) -> Result<Policy, PolicyError> {
    let net = if std::env::var_os("XNET").is_some() { NetworkMode::Open } else { NetworkMode::None };
    Ok(Policy {
        net,
        deny: vec!["**/.env".into(), "vault/**".into(), "/etc/shadow*".into()],
        protect: vec![
            "**/.git/hooks/**".into(),
            "**/.git/config".into(),
            ".stockade/**".into(),
            ".bashrc".into(),
            ".zshrc".into(),
        ],
        set: vec![],
    })
}
pub struct Request<'a> {
    pub tool: &'a str,
    pub class: RiskClass,
    pub asks: Asks,
    pub accesses: &'a [Access],
}
pub fn decide(_p: &Policy, _r: &Request<'_>) -> Decision {
    Decision::Allow(Reason { rule: "x".into(), layer: Layer::BuiltIn, place: None })
}
impl Policy {
    pub fn deny_texts(&self) -> Vec<String> {
        self.deny.clone()
    }
    pub fn protect_texts(&self) -> Vec<String> {
        self.protect.clone()
    }
    pub fn watch_texts(&self) -> Vec<String> {
        vec![".github/workflows/**".into()]
    }
    pub fn is_strict(&self) -> bool {
        false
    }
    pub fn network(&self) -> NetworkMode {
        self.net
    }
    pub fn required(&self) -> &[Guarantee] {
        &[]
    }
    pub fn limits(&self) -> Limits {
        crate::limits::BUILT_IN
    }
    pub fn is_disabled(&self, _n: &str) -> bool {
        false
    }
    pub fn daemons_enabled(&self) -> bool {
        true
    }
    pub fn daemons_max(&self) -> usize {
        16
    }
    pub fn read_trees(&self) -> &[String] {
        &[]
    }
    pub fn write_trees(&self) -> &[String] {
        &[]
    }
    pub fn env_pass(&self) -> &[String] {
        &[]
    }
    pub fn env_set(&self) -> &[(String, String)] {
        &self.set
    }
    pub fn lifted(&self) -> &[String] {
        &[]
    }
    pub fn overwrite(&self) -> &str {
        "flag"
    }
    pub fn shrink(&self) -> &str {
        "warn"
    }
    pub fn exclude_generated(&self) -> bool {
        false
    }
    pub fn secret_globs(&self) -> &[String] {
        &[]
    }
    pub fn deny_origin(&self, _p: &str) -> (Layer, String) {
        (Layer::BuiltIn, String::new())
    }
}
#[derive(serde::Serialize)]
pub struct Ex {
    pub text: String,
}
pub fn show(_p: &Policy) -> serde_json::Value {
    serde_json::Value::Null
}
pub fn show_text(_p: &Policy) -> String {
    String::new()
}
pub fn explain(_p: &Policy, _t: &str, _s: &str) -> Ex {
    Ex { text: String::new() }
}
pub fn schema() -> &'static str {
    ""
}
pub fn init() -> &'static str {
    ""
}
