//! **What this room is for:** the one road of a call, step by step, from a name to a result.
//! **Who may enter:** the supervisor's public calls. **Never done here:** a second road; touching content.
//! **Where the proof is:** `tests/pipeline.rs`, `tests/escape.rs`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::sys::stat::fstat;
use serde_json::{Map, Value};

use super::spawn::Worker;
use super::{No, Supervisor, enforce};
use crate::access::{Access, Right};
use crate::call::{Code, Outcome, RawArgs, Refusal, ToolCall, ToolOptions, ToolResult};
use crate::confinement::Enforcement;
use crate::limits;
use crate::path::{self, Kind, Resolved, Target};
use crate::policy::{self, Request};
use crate::tools::{self, Entry, Need, Plan, args};
use crate::verdict::Decision;
use crate::wire::message::{Door, DoorPath, FromWorker, Open, Work};

/// How often a path that changed between the supervisor's look and the worker's is resolved again.
const TRIES: u32 = 5;
/// Wall time of a built-in tool that starts no program; searches bound themselves at thirty seconds.
const TOOL_TIME: Duration = Duration::from_secs(45);

/// Paths of a door, and the descriptors that go with it.
type Opened = (Vec<DoorPath>, Vec<OwnedFd>);

/// What a call has become on its way.
pub(super) struct Road {
    pub entry: &'static Entry,
    pub args: Map<String, Value>,
    pub plan: Plan,
    pub enforcement: Enforcement,
    /// Resolved path of the first planned path, for the tracker.
    pub subject: Option<String>,
}

impl Supervisor {
    /// One call, from its name to its result. Cancel-safe: dropping the future ends the worker and all it started.
    pub async fn call(&self, call: ToolCall) -> ToolResult {
        let call_id = self.next_call_id();
        let mut road = None;
        let (tool, outcome) = match tools::find(&call.tool) {
            None => self.elsewhere(&call).await,
            Some(entry) => {
                let served = self.serve(entry, call.args, &mut road).await;
                (Some(entry.spec.name.to_owned()), served.unwrap_or_else(No::into_outcome))
            }
        };
        let enforcement = road.map(|road: Road| road.enforcement).unwrap_or_default();
        ToolResult { call_id, id: call.id, tool, outcome: super::cap::outcome(outcome), enforcement }
    }

    pub(super) async fn serve(
        &self,
        entry: &'static Entry,
        raw: RawArgs,
        road: &mut Option<Road>,
    ) -> Result<Outcome, No> {
        let name = entry.spec.name;
        let given = match raw {
            RawArgs::Object(map) => map,
            RawArgs::Text(text) => match args::parse_object(&text) {
                Ok(map) => map,
                Err(refusal) if refusal.code == Code::InvalidJson => {
                    let start: String = text.chars().take(2000).collect();
                    return Err(No::from(refusal).detail("INVALID_JSON", start));
                }
                Err(refusal) => return Err(refusal.into()),
            },
        };
        let args = args::validate(name, given, entry.spec.args, &self.features())?;
        if let Some(reason) = self.unavailable(name) {
            return Err(Refusal::new(Code::Unavailable, reason).into());
        }
        let plan = (entry.plan)(&args)?;
        let enforcement = Enforcement { profile: entry.spec.profile.to_owned(), ..Enforcement::default() };
        let road = road.insert(Road { entry, args, plan, enforcement, subject: None });
        for _ in 0..TRIES {
            if let Some(outcome) = self.attempt(road).await? {
                return Ok(outcome);
            }
        }
        Err(Refusal::new(Code::Stale, "a path changed each time it was about to be opened")
            .hint("something else keeps renaming it; wait until that is done and call again")
            .into())
    }

    /// `None`: what was resolved is not what the worker's view shows; resolve again.
    async fn attempt(&self, road: &mut Road) -> Result<Option<Outcome>, No> {
        let resolved = self.resolve_all(&road.plan)?;
        road.subject = resolved.first().map(|(resolved, _)| resolved.rel.clone());
        self.judge(road, &resolved).await?;
        let Some((paths, descriptors)) = self.door(&resolved)? else { return Ok(None) };
        let command = road.plan.command.clone();
        if let Some(command) = &command {
            self.tracker().before_command(command)?;
        }
        let options = self.options_for(road);
        if let (Some(known), Some(path)) = (self.must_be_read(road, &options), &road.subject) {
            return Err(No::from(known).detail("path", path.clone()));
        }
        if road.background() {
            return Ok(Some(self.start_daemon(road, paths, descriptors, options).await?));
        }
        self.before_programs(road.entry.spec.profile).await?;
        let mut worker = self.enter(road).await?;
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut args = road.args.clone();
        if road.plan.command.is_some() {
            let time = u64::try_from(self.command_time(road).as_millis()).unwrap_or(limits::BASH_TIMEOUT_MS);
            args.insert("timeout_ms".to_owned(), Value::from(time));
        }
        let work =
            Work::Tool { tool: road.entry.spec.name.to_owned(), args, options: Box::new(options), background: false };
        let sent = async {
            worker.send(&Door { paths }, &borrowed).await?;
            worker.send(&work, &[]).await
        };
        // A worker that broke at its door says why; so its answer is read even when it did not take the letter.
        let _ = sent.await;
        let outcome = match self.answer(&mut worker, road).await? {
            Some(outcome) => outcome,
            None => return Ok(None),
        };
        Ok(Some(self.finish(road, outcome).await))
    }

    fn resolve_all(&self, plan: &Plan) -> Result<Vec<(Resolved, Need)>, Refusal> {
        plan.paths
            .iter()
            .map(|(claim, need)| {
                let resolved = path::resolve(&self.ground.root, claim).map_err(|error| error.to_refusal(claim))?;
                Ok((resolved, *need))
            })
            .collect()
    }

    async fn judge(&self, road: &Road, resolved: &[(Resolved, Need)]) -> Result<(), No> {
        let mut accesses: Vec<Access> = resolved.iter().map(|(resolved, need)| access(resolved, *need)).collect();
        accesses.extend(road.plan.command.clone().map(Access::Command));
        let spec = &road.entry.spec;
        let request = Request { tool: spec.name, class: spec.class, asks: spec.asks, accesses: &accesses };
        match policy::decide(&self.policy, &request) {
            Decision::Deny(refusal) => return Err(refusal.into()),
            Decision::Ask(reason) => return Err(super::approval_required(spec.name, &reason).into()),
            Decision::Allow(_) => {}
        }
        for (resolved, need) in resolved {
            self.same_file_as_a_denied_one(resolved).await?;
            check_kind(
                resolved,
                *need,
                &|rel, is_dir| self.ground.sets.deny.matched(rel, is_dir).is_some(),
                &self.ground.root,
            )?;
        }
        Ok(())
    }

    /// The supervisor's own descriptors and the description that the worker checks against its view.
    /// `None`: a file was replaced since it was resolved.
    fn door(&self, resolved: &[(Resolved, Need)]) -> Result<Option<Opened>, Refusal> {
        let mut descriptors = Vec::new();
        let mut paths = Vec::with_capacity(resolved.len());
        for (resolved, need) in resolved {
            let parent = match need {
                Need::WriteFile { .. } => match resolved.open_parent(&self.ground.root) {
                    Err(path::ResolveError::Busy) => return Ok(None),
                    other => Some(other.map_err(|error| error.to_refusal(&resolved.rel))?),
                },
                _ => None,
            };
            paths.push(self.door_path(resolved, *need, parent, &mut descriptors)?);
        }
        Ok(Some((paths, descriptors)))
    }

    fn door_path(
        &self,
        resolved: &Resolved,
        need: Need,
        parent: Option<(OwnedFd, String)>,
        descriptors: &mut Vec<OwnedFd>,
    ) -> Result<DoorPath, Refusal> {
        let absolute = if resolved.rel == "." {
            self.ground.root.real().to_path_buf()
        } else {
            self.ground.root.real().join(&resolved.rel)
        };
        let (dev, ino) = resolved.facts().map_or((0, 0), |facts| (facts.dev, facts.ino));
        let mut door = DoorPath {
            open: resolved.rel.clone(),
            what: match need {
                Need::ReadFile => Open::Given,
                Need::ListDir | Need::Search => Open::Read,
                Need::WriteFile { .. } => Open::WriteBelow,
                Need::Enter => Open::Enter,
            },
            dev,
            ino,
            descriptor: false,
            shown: resolved.rel.clone(),
            absolute,
            missing: Vec::new(),
            name: String::new(),
            old: None,
        };
        let no_access = |error: std::io::Error| {
            Refusal::new(Code::Unavailable, format!("{} cannot be opened: {error}", path::shown(&resolved.rel)))
                .hint("its mode and owner do not let this user read it")
        };
        if need == Need::ReadFile {
            descriptors.push(resolved.open_read().map_err(no_access)?);
            door.descriptor = true;
        }
        if let Some((parent, name)) = parent {
            let folder = fstat(&parent).map_err(|error| no_access(error.into()))?;
            (door.dev, door.ino) = (folder.st_dev, folder.st_ino);
            match &resolved.target {
                Target::Exists { facts, .. } => {
                    let folder = resolved.rel.rsplit_once('/').map_or(".", |(folder, _)| folder);
                    folder.clone_into(&mut door.open);
                    door.name = name;
                    door.old = Some((facts.dev, facts.ino));
                    descriptors.push(resolved.open_read().map_err(no_access)?);
                    door.descriptor = true;
                }
                Target::Missing { parent_rel, missing, name, .. } => {
                    door.open.clone_from(parent_rel);
                    door.missing.clone_from(missing);
                    door.name.clone_from(name);
                }
            }
        }
        Ok(door)
    }

    /// A worker behind its door, with the promise that holds for it.
    pub(super) async fn enter(&self, road: &mut Road) -> Result<Worker, Refusal> {
        let (worker, enforcement) = self.worker(road.entry.spec.profile).await?;
        road.enforcement = enforcement;
        Ok(worker)
    }

    pub(super) async fn worker(&self, profile: &str) -> Result<(Worker, Enforcement), Refusal> {
        let launcher = self.launcher(profile).await?;
        let refused = |why: String| enforce::cannot_enforce(&[why]);
        let mut worker = launcher.worker(profile).await.map_err(refused)?;
        let mut facts = worker.shut().await.map_err(refused)?;
        if profile == "shell" {
            facts.missing.extend(self.bound_processes(&mut worker));
        }
        let kind = enforce::Kind { profile, programs: profile == "shell" };
        let enforcement = enforce::judge(&facts, kind, &self.terms(&launcher.built))?;
        Ok((worker, enforcement))
    }

    /// `pid_max` of the pid namespace bounds a call, but not below 301; for less there is a cgroup, or `RLIMIT_NPROC` for
    /// an ordinary user (it does not bind root). Returns what is missing.
    fn bound_processes(&self, worker: &mut Worker) -> Option<String> {
        let pids = self.policy.limits().pids;
        let per_namespace = crate::sys::kernel_at_least(6, 14);
        if pids >= limits::PID_MAX_FLOOR && per_namespace {
            return None;
        }
        let caged = super::cage::Cage::make(&self.next_call_id(), pids).and_then(|cage| worker.confine_to(cage));
        match caged {
            Err(error) if nix::unistd::geteuid().is_root() => {
                let instead = if per_namespace { limits::PID_MAX_FLOOR.to_string() } else { "none".to_owned() };
                Some(format!("limit of processes: {instead} instead of {pids}; no cgroup: {error}"))
            }
            _ => None,
        }
    }

    async fn answer(&self, worker: &mut Worker, road: &Road) -> Result<Option<Outcome>, Refusal> {
        let wait = match road.entry.spec.profile {
            "shell" => self.command_time(road) + Duration::from_millis(limits::KILL_GRACE_MS) + Duration::from_secs(5),
            _ => TOOL_TIME,
        };
        let Ok(message) = tokio::time::timeout(wait, worker.next()).await else {
            return Err(Refusal::new(
                Code::TimedOut,
                format!("{} did not end in time and was killed", road.entry.spec.name),
            ));
        };
        match message {
            Some(FromWorker::Done(outcome)) => Ok(Some(*outcome)),
            Some(FromWorker::Disagrees { .. }) => Ok(None),
            Some(FromWorker::Broken { step, why }) => Err(enforce::cannot_enforce(&[format!("{step}: {why}")])),
            _ => {
                Err(Refusal::new(Code::LimitReached, "the confined worker was ended by the kernel before it answered")
                    .hint(
                        "it needed more memory than a call may have, or a system call that its profile does not allow",
                    ))
            }
        }
    }

    fn options_for(&self, road: &Road) -> ToolOptions {
        let mut options = self.options.clone();
        options.tracked = self.tracked;
        if let (true, Some(path)) = (self.tracked, &road.subject) {
            options.known_sha256 = self.tracker().known(path);
        }
        options
    }

    /// In a session an edit needs a read (or a write) of the file before it.
    fn must_be_read(&self, road: &Road, options: &ToolOptions) -> Option<Refusal> {
        let edits = road.plan.paths.iter().any(|(_, need)| *need == Need::WriteFile { must_exist: true });
        let vouched = road.args.contains_key("expected_sha256");
        (self.tracked && edits && !vouched && options.known_sha256.is_none()).then(|| {
            let path = road.subject.clone().unwrap_or_default();
            Refusal::new(Code::Stale, format!("{} has not been read in this session", path::shown(&path)))
                .hint("read it with read_file first, then edit what you have seen")
        })
    }

    pub(super) fn command_time(&self, road: &Road) -> Duration {
        let asked = road.args.get("timeout_ms").and_then(Value::as_u64).unwrap_or(limits::BASH_TIMEOUT_MS);
        Duration::from_millis(asked.min(self.policy.limits().bash_timeout_ms))
    }
}

impl Road {
    pub(super) fn background(&self) -> bool {
        self.args.get("background").and_then(Value::as_bool) == Some(true)
    }
}

fn access(resolved: &Resolved, need: Need) -> Access {
    Access::Path {
        resolved: resolved.rel.clone(),
        spelled: resolved.spelled.clone(),
        is_dir: resolved.facts().is_some_and(|facts| facts.kind == Kind::Dir),
        right: match need {
            Need::ReadFile => Right::Read,
            Need::ListDir => Right::List,
            Need::Search => Right::Search,
            Need::WriteFile { .. } => Right::Write,
            Need::Enter => Right::Enter,
        },
    }
}

fn check_kind(
    resolved: &Resolved,
    need: Need,
    hidden: &dyn Fn(&str, bool) -> bool,
    root: &path::Root,
) -> Result<(), No> {
    let shown = path::shown(&resolved.rel);
    let Some(facts) = resolved.facts() else {
        return match need {
            Need::WriteFile { must_exist: false } => Ok(()),
            _ => Err(not_found(resolved, hidden, root)),
        };
    };
    let wrong =
        |what: &str, hint: &str| Err(Refusal::new(Code::NotRegular, format!("{shown} is {what}")).hint(hint).into());
    match (need, facts.kind) {
        (Need::ReadFile | Need::WriteFile { .. }, Kind::File)
        | (Need::ListDir | Need::Enter | Need::Search, Kind::Dir)
        | (Need::Search, Kind::File) => Ok(()),
        (Need::ReadFile, Kind::Dir) => wrong("a folder, not a file", "list it with ls, or find files in it with glob"),
        (Need::WriteFile { .. }, Kind::Dir) => wrong("a folder, not a file", "name a file in it"),
        (Need::ListDir | Need::Enter, Kind::File) => wrong("a file, not a folder", "name the folder that holds it"),
        (_, Kind::Fifo) => wrong("a named pipe", "only regular files and folders are opened"),
        (_, Kind::Socket) => wrong("a socket", "only regular files and folders are opened"),
        (_, Kind::Device) => wrong("a device", "only regular files and folders are opened"),
        (_, Kind::Link) => wrong("a link", "name what it leads to"),
    }
}

fn not_found(resolved: &Resolved, hidden: &dyn Fn(&str, bool) -> bool, root: &path::Root) -> No {
    let shown = path::shown(&resolved.rel);
    let similar = path::similar(root, &resolved.rel, &|rel| hidden(rel, false) || hidden(rel, true));
    let refusal = Refusal::new(Code::NotFound, format!("{shown} is not there"));
    if similar.is_empty() {
        return refusal.hint("list the folder with ls, or find the name with glob").into();
    }
    let names: Vec<String> = similar.iter().map(|name| path::shown(name)).collect();
    No::from(refusal.hint(format!("similar names there: {}", names.join(", ")))).detail("similar", similar)
}
