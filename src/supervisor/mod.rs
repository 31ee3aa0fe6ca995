//! **What this room is for:** the trusted side: it judges, resolves, opens, asks the launcher for workers, and says what
//! happened. **Who may enter:** `cli`, `mcp`, programs that use the library. **Never done here:** handling a tool's content,
//! a second road beside the pipeline. **Where the proof is:** `tests/pipeline.rs`, `tests/escape.rs`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::call::{Code, Outcome, Refusal, ToolCall, ToolOptions};
use crate::confinement::NetworkMode;
use crate::path::{Bases, PatternSet, Root, ScanSets};
use crate::policy::{self, Policy, PolicyError, Sources};
use crate::tools::{self, Entry, Spec, args};
use crate::verdict::Reason;

mod after;
mod cage;
mod cap;
mod daemons;
mod denials;
mod doctor;
mod enforce;
mod ground;
mod link;
mod masks;
mod names;
mod pipeline;
mod run;
mod spawn;
mod tracker;
mod watch;

use ground::Ground;

pub use doctor::{Mechanism, Proof, Report, doctor};
pub use run::RunEnd;

/// The admin's policy.
const ADMIN_POLICY: &str = "/etc/stockade/policy.toml";

/// The reader of profiles needs little; the memory of a session is counted.
const READER_STACK: usize = 512 * 1024;

/// What a session is started with: the operator's words, never the agent's.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The workspace.
    pub root: PathBuf,
    /// `--policy` files, in order.
    pub policies: Vec<PathBuf>,
    /// `--profile`.
    pub profile: Option<String>,
    /// `--mode`.
    pub mode: Option<String>,
    /// `--allow-degraded`.
    pub allow_degraded: bool,
    /// What kind of session.
    pub kind: SessionKind,
    /// `--audit`. Not built in this version: the command line refuses it.
    pub audit: Option<PathBuf>,
}

/// What kind of session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// One tool call.
    Call,
    /// Lines on standard input; keeps a read tracker.
    Session,
    /// MCP; keeps a read tracker.
    Mcp,
    /// One program with our standard streams.
    Run,
}

/// Why a session does not start. Missing enforcement is not among them: calls answer `cannot_enforce` then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The workspace or an option cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The policy cannot be used.
    #[error("{0}")]
    Policy(Box<PolicyError>),
}

/// A session.
#[derive(Debug)]
pub struct Supervisor {
    settings: Settings,
    policy: Policy,
    ground: Arc<Ground>,
    tracked: bool,
    options: ToolOptions,
    started: Mutex<Option<std::io::Result<spawn::Started>>>,
    watch: OnceCell<watch::Watch>,
    tracker: Mutex<tracker::Tracker>,
    daemons: daemons::Daemons,
    calls: AtomicU64,
    session: String,
}

/// A tool as this session offers it.
#[derive(Debug)]
pub struct Offer {
    /// What it is.
    pub spec: &'static Spec,
    /// JSON Schema of its arguments in this session.
    pub schema: Value,
    /// Can it be called?
    pub available: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// A typed "no" with details.
#[derive(Debug)]
struct No(Box<(Refusal, Map<String, Value>)>);

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        No(Box::new((refusal, Map::new())))
    }
}

impl No {
    fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.1.insert(key.to_owned(), value.into());
        self
    }

    fn into_outcome(self) -> Outcome {
        let (refusal, details) = *self.0;
        Outcome { details, ..Outcome::from(refusal) }
    }
}

impl Supervisor {
    /// Starts a session: the launcher's program at once, its building when the first call needs it.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(settings: Settings) -> Result<Supervisor, StartError> {
        // First, so that its exec overlaps with everything below.
        let started = spawn::start_launcher();
        // Beside the policy, which is read here. Nobody waits for it: who needs a file first reads it or waits for that file.
        let _ = std::thread::Builder::new().stack_size(READER_STACK).spawn(crate::profile::read_ahead);
        let root = Root::open(&settings.root).map_err(|error| StartError::Usage(error.to_string()))?;
        let home = ground::home();
        let sources = Sources {
            root: root.real().to_path_buf(),
            home: Some(home.clone()),
            admin: PathBuf::from(ADMIN_POLICY),
            config_home: std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from),
            files: settings.policies.clone(),
            profile: settings.profile.clone(),
            mode: settings.mode.clone(),
        };
        let policy = policy::load(&sources).map_err(|error| StartError::Policy(Box::new(error)))?;
        let bases = Bases { home: Some(&home), root: Some(root.real()) };
        let set = |rules: &mut dyn Iterator<Item = &policy::PathRule>| {
            let patterns: Vec<&str> = rules.map(|rule| rule.pattern.text()).collect();
            PatternSet::with_bases(&patterns, bases).map_err(|error| StartError::Usage(error.to_string()))
        };
        let sets = ScanSets {
            deny: set(&mut policy.deny_patterns().iter())?,
            protect: set(&mut policy.protect_patterns().iter().filter(|rule| !rule.file_only))?,
            protect_files: set(&mut policy.protect_patterns().iter().filter(|rule| rule.file_only))?,
            watch: set(&mut policy.watch_patterns().iter())?,
        };
        let options = policy.tool_options();
        let tracked = matches!(settings.kind, SessionKind::Session | SessionKind::Mcp);
        Ok(Supervisor {
            settings,
            ground: Arc::new(Ground::new(root, home, sets, policy.allow_write())),
            policy,
            tracked,
            options,
            started: Mutex::new(Some(started)),
            watch: OnceCell::new(),
            tracker: Mutex::default(),
            daemons: daemons::Daemons::default(),
            calls: AtomicU64::new(0),
            session: ground::random_name(),
        })
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Every tool of this version with its schema in this session, sorted by name.
    #[must_use]
    pub fn offered(&self) -> Vec<Offer> {
        let specs = tools::TOOLS.iter().map(|entry: &Entry| &entry.spec).chain([&daemons::PROCESS]);
        let mut offers: Vec<Offer> = specs
            .map(|spec| {
                let reason = self.unavailable(spec.name);
                Offer { spec, schema: args::schema(spec.args, &self.features()), available: reason.is_none(), reason }
            })
            .collect();
        offers.sort_by_key(|offer| offer.spec.name);
        offers
    }

    /// Ends the session and everything in it.
    pub async fn shutdown(self) {
        self.daemons.end_all().await;
    }

    fn unavailable(&self, name: &str) -> Option<String> {
        if let Some(place) = self.policy.disabled(name) {
            return Some(format!("{name} is switched off by the policy ([tools] disable, {place})"));
        }
        if name == daemons::PROCESS.name {
            if self.policy.daemons().is_none() {
                return Some(
                    "background processes are off; an operator turns them on with [daemons] enabled = true".to_owned(),
                );
            }
            if !self.tracked {
                return Some("background processes live in sessions and MCP, not in single calls".to_owned());
            }
        }
        None
    }

    fn features(&self) -> args::Features {
        args::Features { daemons: self.policy.daemons().is_some() && self.tracked, strict: self.policy.is_strict() }
    }

    /// Tools that live in the supervisor, and names that are no tool.
    async fn elsewhere(&self, call: &ToolCall) -> (Option<String>, Outcome) {
        if let Some((spec, action)) = daemons::named(&call.tool) {
            let outcome = self.process(spec, action, call.args.clone()).await;
            return (Some(spec.name.to_owned()), outcome.unwrap_or_else(No::into_outcome));
        }
        let name: String = call.tool.chars().take(crate::limits::NAME_CHARS).collect();
        let shown = crate::path::shown(&name);
        let refusal = Refusal::new(Code::UnknownTool, format!("there is no tool {shown}"))
            .hint("`stockade tools` and tools/list name all of them");
        (Some(name), refusal.into())
    }

    fn next_call_id(&self) -> String {
        format!("{}-{}", self.session, self.calls.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn tracker(&self) -> MutexGuard<'_, tracker::Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn terms(&self, built: &spawn::Built) -> enforce::Terms {
        enforce::Terms {
            strict: self.policy.is_strict(),
            allow_degraded: self.settings.allow_degraded,
            network_off: self.policy.network() == NetworkMode::None,
            required: self.policy.required(),
            missing: built.missing.clone(),
        }
    }
}

/// Nobody here can answer a question.
fn approval_required(tool: &str, reason: &Reason) -> Refusal {
    let place = reason.place.as_deref().map(|place| format!(" ({place})")).unwrap_or_default();
    Refusal::new(Code::ApprovalRequired, format!("{tool} needs a person's yes, and nobody can be asked here"))
        .rule(format!("{}{place}", reason.rule), reason.layer.name())
        .hint(format!("an operator can allow it with a rule: [[rule]] tool = \"{tool}\", verdict = \"allow\", or choose another mode"))
}
