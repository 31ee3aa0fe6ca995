//! **What this room is for:** background commands of a session, and the tool `process` that looks after them. Each is a
//! confined worker like any other that simply lives longer. **Who may enter:** the pipeline.
//! **Never done here:** a second way to judge or start a command. **Where the proof is:** `tests/pipeline.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};

use super::pipeline::Road;
use super::spawn::Worker;
use super::{No, Supervisor, approval_required, enforce};
use crate::access::{Access, Asks, RiskClass};
use crate::call::{Code, Outcome, RawArgs, Refusal, ToolOptions};
use crate::policy::{self, Request};
use crate::tools::{
    self, Spec,
    args::{self, Arg, Kind},
};
use crate::verdict::Decision;
use crate::wire::message::{Control, Door, DoorPath, FromWorker, Work};

/// Bytes of each stream that are kept, the newest.
const KEPT: usize = 256 * 1024;
/// Ended ones that are remembered.
const REMEMBERED: usize = 64;

/// The tool's own description.
pub(super) static PROCESS: Spec = Spec {
    name: "process",
    aliases: &["process_manager", "process.start", "process.list", "process.logs", "process.stop"],
    class: RiskClass::WorkspaceWrite,
    asks: Asks::Yes,
    profile: "shell",
    summary: "Starts and looks after background commands of this session.",
    example: r#"{"action":"list"}"#,
    args: &[
        Arg::new("action", Kind::OneOf(&["start", "list", "status", "poll", "logs", "wait", "kill"]), "What to do.")
            .required(),
        Arg::new("id", Kind::Text { min: 1, max_bytes: 64 }, "Which one; all actions but start and list.").aliases(&[
            "daemonId",
            "daemon_id",
            "process_id",
        ]),
        Arg::new("command", Kind::Text { min: 1, max_bytes: 131_072 }, "start: the command for bash -c."),
        Arg::new("lines", Kind::Int { min: 1, max: 1000 }, "logs: the newest lines; 50 when left out."),
        Arg::new("tail_chars", Kind::Int { min: 1, max: 96_000 }, "logs: characters at most; 12000 when left out.")
            .aliases(&["tailChars"]),
        Arg::new("stream", Kind::OneOf(&["all", "stdout", "stderr"]), "Which stream; all when left out."),
        Arg::new("timeout_ms", Kind::Int { min: 1, max: 600_000 }, "wait: how long; 30000 when left out.")
            .aliases(&["timeoutMs"]),
    ],
};

/// `process`, by any of its names, and the action that an alias carries.
pub(super) fn named(name: &str) -> Option<(&'static Spec, Option<&'static str>)> {
    match name {
        "process" | "process_manager" => Some((&PROCESS, None)),
        "process.start" => Some((&PROCESS, Some("start"))),
        "process.list" => Some((&PROCESS, Some("list"))),
        "process.logs" => Some((&PROCESS, Some("logs"))),
        "process.stop" => Some((&PROCESS, Some("kill"))),
        _ => None,
    }
}

/// The newest bytes of a stream.
#[derive(Debug, Default)]
struct Ring {
    bytes: VecDeque<u8>,
    seen: u64,
    polled: u64,
}

impl Ring {
    fn take(&mut self, new: &[u8]) {
        self.seen += new.len() as u64;
        self.bytes.extend(new);
        let over = self.bytes.len().saturating_sub(KEPT);
        self.bytes.drain(..over);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.iter().copied().collect::<Vec<u8>>()).into_owned()
    }

    fn new_since_poll(&mut self) -> String {
        let fresh = usize::try_from(self.seen - self.polled).unwrap_or(usize::MAX).min(self.bytes.len());
        self.polled = self.seen;
        let start = self.bytes.len() - fresh;
        String::from_utf8_lossy(&self.bytes.iter().skip(start).copied().collect::<Vec<u8>>()).into_owned()
    }
}

#[derive(Debug, Default)]
struct State {
    stopping: bool,
    ended: Option<Instant>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    failed: bool,
    stdout: Ring,
    stderr: Ring,
    all: Ring,
}

#[derive(Debug)]
struct Daemon {
    id: String,
    order: u64,
    command: String,
    pid: i32,
    started: Instant,
    started_ms: u64,
    state: Mutex<State>,
    stop: mpsc::UnboundedSender<()>,
    over: watch::Receiver<bool>,
}

impl Daemon {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> &'static str {
        let state = self.state();
        match (state.ended.is_some(), state.stopping, state.failed) {
            (false, false, _) => "running",
            (false, true, _) => "stopping",
            (true, true, _) => "stopped",
            (true, false, true) => "failed",
            (true, false, false) => "exited",
        }
    }

    fn details(&self) -> Map<String, Value> {
        let status = self.status();
        let state = self.state();
        let uptime = state.ended.unwrap_or_else(Instant::now).duration_since(self.started).as_millis();
        let row = json!({"id": self.id, "command": self.command, "status": status, "pid": self.pid, "exit_code": state.exit_code,
            "signal": state.signal, "started_ms": self.started_ms, "uptime_ms": u64::try_from(uptime).unwrap_or(u64::MAX)});
        row.as_object().cloned().unwrap_or_default()
    }
}

/// All background commands of a session.
#[derive(Debug, Default)]
pub(super) struct Daemons {
    all: Mutex<BTreeMap<u64, Arc<Daemon>>>,
}

impl Daemons {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Daemon>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> usize {
        self.all().values().filter(|daemon| daemon.state().ended.is_none()).count()
    }

    fn find(&self, id: &str) -> Option<Arc<Daemon>> {
        self.all().values().find(|daemon| daemon.id == id).cloned()
    }

    fn add(&self, daemon: Arc<Daemon>) {
        let mut all = self.all();
        let ended: Vec<u64> =
            all.values().filter(|daemon| daemon.state().ended.is_some()).map(|daemon| daemon.order).collect();
        for order in ended.iter().take(ended.len().saturating_sub(REMEMBERED)) {
            all.remove(order);
        }
        all.insert(daemon.order, daemon);
    }

    /// Ends all of them; the session is over.
    pub(super) async fn end_all(&self) {
        for daemon in std::mem::take(&mut *self.all()).into_values() {
            let _ = daemon.stop.send(());
        }
    }
}

impl Supervisor {
    /// A background command: the road of `bash`, up to the door; then it is left running.
    pub(super) async fn start_daemon(
        &self,
        road: &mut Road,
        paths: Vec<DoorPath>,
        descriptors: Vec<OwnedFd>,
        options: ToolOptions,
    ) -> Result<Outcome, Refusal> {
        if self.daemons.live() as u64 >= self.policy.daemons().unwrap_or(0) {
            return Err(Refusal::new(
                Code::LimitReached,
                format!("{} background commands run already", self.daemons.live()),
            )
            .hint("end one with process (action kill) first"));
        }
        self.before_programs(road.entry.spec.profile).await?;
        let mut worker = self.enter(road).await?;
        let mut args = road.args.clone();
        args.remove("background");
        args.insert("timeout_ms".to_owned(), Value::from(crate::limits::BASH_TIMEOUT_MAX_MS));
        let work =
            Work::Tool { tool: road.entry.spec.name.to_owned(), args, options: Box::new(options), background: true };
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let gone = |_| enforce::cannot_enforce(&["the worker ended early".to_owned()]);
        worker.send(&Door { paths }, &borrowed).await.map_err(gone)?;
        worker.send(&work, &[]).await.map_err(gone)?;
        let pid = match worker.next().await {
            Some(FromWorker::Started { pid }) => pid,
            Some(FromWorker::Broken { step, why }) => return Err(enforce::cannot_enforce(&[format!("{step}: {why}")])),
            _ => return Err(Refusal::new(Code::Unavailable, "the background command could not be started")),
        };
        let command = road.plan.command.clone().unwrap_or_default();
        let daemon = self.keep(worker, pid, command);
        let mut outcome =
            Outcome::ok(format!("Started in the background as {}. Its output: process (action logs).", daemon.id));
        outcome.details = daemon.details();
        Ok(outcome)
    }

    fn keep(&self, worker: Worker, pid: i32, command: String) -> Arc<Daemon> {
        let (stop, stopped) = mpsc::unbounded_channel();
        let (ended, over) = watch::channel(false);
        let order = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let daemon = Arc::new(Daemon {
            id: format!("p{order}"),
            order,
            command,
            pid,
            started: Instant::now(),
            started_ms: u64::try_from(now).unwrap_or(u64::MAX),
            state: Mutex::default(),
            stop,
            over,
        });
        self.daemons.add(Arc::clone(&daemon));
        tokio::spawn(attend(worker, Arc::clone(&daemon), stopped, ended));
        daemon
    }

    /// The tool `process`.
    pub(super) async fn process(&self, spec: &'static Spec, action: Option<&str>, raw: RawArgs) -> Result<Outcome, No> {
        let mut given = match raw {
            RawArgs::Object(map) => map,
            RawArgs::Text(text) => args::parse_object(&text)?,
        };
        if let Some(action) = action {
            given.entry("action").or_insert_with(|| Value::from(action));
        }
        let args = args::validate(spec.name, given, spec.args, &self.features())?;
        if let Some(reason) = self.unavailable(spec.name) {
            return Err(Refusal::new(Code::Unavailable, reason).into());
        }
        let text = |key: &str| args.get(key).and_then(Value::as_str);
        let action = text("action").unwrap_or("list");
        if action == "start" {
            return self.start_by_process(text("command")).await;
        }
        self.judge_process(action)?;
        if action == "list" {
            return Ok(self.list_daemons());
        }
        let id = text("id")
            .ok_or_else(|| args::invalid(format!("id is required for {action}"), "action list names the ids"))?;
        let daemon = self.daemons.find(id).ok_or_else(|| {
            Refusal::new(Code::NotFound, format!("there is no background command {}", crate::path::shown(id)))
                .hint("action list names the ids of this session")
        })?;
        Ok(act(action, &daemon, &args).await)
    }

    async fn start_by_process(&self, command: Option<&str>) -> Result<Outcome, No> {
        let command = command
            .ok_or_else(|| args::invalid("command is required for start".to_owned(), "give the command for bash -c"))?;
        let mut given = Map::new();
        given.insert("command".to_owned(), Value::from(command));
        given.insert("background".to_owned(), Value::Bool(true));
        let bash = tools::find("bash").ok_or_else(|| Refusal::new(Code::Unavailable, "there is no bash"))?;
        Box::pin(self.serve(bash, RawArgs::Object(given), &mut None)).await
    }

    fn judge_process(&self, action: &str) -> Result<(), Refusal> {
        let asks = if action == "kill" { Asks::Yes } else { Asks::No };
        let class = if action == "kill" { RiskClass::WorkspaceWrite } else { RiskClass::ReadOnlyLocal };
        let request = Request { tool: PROCESS.name, class, asks, accesses: &[Access::Nothing] };
        match policy::decide(&self.policy, &request) {
            Decision::Allow(_) => Ok(()),
            Decision::Ask(reason) => Err(approval_required(PROCESS.name, &reason)),
            Decision::Deny(refusal) => Err(refusal),
        }
    }

    fn list_daemons(&self) -> Outcome {
        let rows: Vec<Value> =
            self.daemons.all().values().rev().map(|daemon| Value::Object(daemon.details())).collect();
        let line = |row: &Value| {
            format!(
                "{} {} {}",
                row["id"].as_str().unwrap_or(""),
                row["status"].as_str().unwrap_or(""),
                row["command"].as_str().unwrap_or("")
            )
        };
        let text = if rows.is_empty() {
            "No background commands.".to_owned()
        } else {
            rows.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        Outcome::ok(text).detail("total", rows.len()).detail("rows", rows)
    }
}

/// Reads what a daemon says until it has ended.
async fn attend(
    mut worker: Worker,
    daemon: Arc<Daemon>,
    mut stopped: mpsc::UnboundedReceiver<()>,
    ended: watch::Sender<bool>,
) {
    let (reader, writer) = worker.halves();
    'messages: loop {
        let mut next = pin!(reader.receive::<FromWorker>());
        let message = loop {
            tokio::select! {
                message = &mut next => break message,
                Some(()) = stopped.recv() => {
                    daemon.state().stopping = true;
                    let _ = writer.send(&Control::Cancel, &[]).await;
                }
            }
        };
        match message {
            Ok(Some((FromWorker::Chunk { stream, data }, _))) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
                let mut state = daemon.state();
                if stream == 1 {
                    state.stdout.take(&bytes)
                } else {
                    state.stderr.take(&bytes)
                }
                state.all.take(&bytes);
            }
            Ok(Some((FromWorker::Ended { exit_code, signal, .. }, _))) => {
                let mut state = daemon.state();
                state.exit_code = exit_code;
                state.signal = signal;
                break 'messages;
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                daemon.state().failed = true;
                break 'messages;
            }
        }
    }
    drop(worker); // Everything the daemon started ends with it.
    daemon.state().ended = Some(Instant::now());
    let _ = ended.send(true);
}

async fn act(action: &str, daemon: &Daemon, args: &Map<String, Value>) -> Outcome {
    let number = |key: &str, default: u64| args.get(key).and_then(Value::as_u64).unwrap_or(default);
    let stream = args.get("stream").and_then(Value::as_str).unwrap_or("all");
    match action {
        "wait" | "kill" => {
            let mut over = daemon.over.clone();
            let at_most = if action == "kill" {
                let _ = daemon.stop.send(());
                crate::limits::KILL_GRACE_MS + 3000
            } else {
                number("timeout_ms", 30_000)
            };
            let _ = tokio::time::timeout(Duration::from_millis(at_most), over.wait_for(|over| *over)).await;
            described(daemon, format!("{} is {}.", daemon.id, daemon.status()))
        }
        "poll" => {
            let (stdout, stderr, text) = {
                let mut state = daemon.state();
                (state.stdout.new_since_poll(), state.stderr.new_since_poll(), state.all.new_since_poll())
            };
            described(daemon, text).detail("stdout", stdout).detail("stderr", stderr)
        }
        "logs" => {
            let (lines, chars) = (number("lines", 50), number("tail_chars", 12_000));
            let cut = |text: String| newest(&text, lines, chars);
            let (stdout, stderr, all) = {
                let state = daemon.state();
                (cut(state.stdout.text()), cut(state.stderr.text()), cut(state.all.text()))
            };
            let text = match stream {
                "stdout" => stdout.clone(),
                "stderr" => stderr.clone(),
                _ => all,
            };
            described(daemon, text).detail("stdout", stdout).detail("stderr", stderr)
        }
        _ => described(daemon, format!("{} is {}.", daemon.id, daemon.status())),
    }
}

fn described(daemon: &Daemon, text: String) -> Outcome {
    let mut outcome = Outcome::ok(text);
    outcome.details = daemon.details();
    outcome
}

fn newest(text: &str, lines: u64, chars: u64) -> String {
    let (lines, chars) = (usize::try_from(lines).unwrap_or(usize::MAX), usize::try_from(chars).unwrap_or(usize::MAX));
    let kept: Vec<&str> = text.lines().rev().take(lines).collect();
    let text = kept.into_iter().rev().collect::<Vec<_>>().join("\n");
    let length = text.chars().count();
    text.chars().skip(length.saturating_sub(chars)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_the_newest_and_polls_each_byte_once() {
        let mut ring = Ring::default();
        ring.take(b"one");
        assert_eq!(ring.new_since_poll(), "one");
        ring.take(b"two");
        assert_eq!(ring.new_since_poll(), "two");
        ring.take(&vec![b'x'; KEPT * 2]);
        assert_eq!((ring.bytes.len(), ring.new_since_poll().len()), (KEPT, KEPT));
    }

    #[test]
    fn logs_are_cut_by_lines_and_characters() {
        assert_eq!(newest("a\nb\nc", 2, 100), "b\nc");
        assert_eq!(newest("é".repeat(10).as_str(), 5, 3), "ééé");
    }

    #[test]
    fn aliases_carry_their_action() {
        assert_eq!(named("process.stop").and_then(|(_, action)| action), Some("kill"));
        assert!(named("processes").is_none());
    }
}
