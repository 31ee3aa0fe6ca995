//! **What this room is for:** the one place that starts the launcher and asks it for workers.
//! **Who may enter:** `supervisor`. **Never done here:** starting any other program; judging.
//! **Where the proof is:** `tests/architecture.rs` (one spawn site), `tests/pipeline.rs`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use tokio::sync::oneshot;

use super::cage::Cage;
use super::link::{self, Reader, Writer};
use crate::confinement::{Facts, Mask, SessionPlan};
use crate::launcher;
use crate::sys;
use crate::wire::message::{FromLauncher, FromWorker, ToLauncher};

/// What the launcher says about the session it has built.
#[derive(Debug, Clone)]
pub struct Built {
    /// Namespaces that were made.
    pub namespaces: Vec<String>,
    /// The private view is in place.
    pub view: bool,
    /// What is missing, one line each.
    pub missing: Vec<String>,
}

/// A launcher that has been started and waits for its plan. Started early: its exec overlaps with reading the policy.
#[derive(Debug)]
pub struct Started {
    child: Child,
    socket: UnixStream,
}

/// Starts the launcher from this program's own pinned image: a file of the same name that is put in its place later is
/// never run.
///
/// # Errors
/// The kernel's.
pub fn start_launcher() -> io::Result<Started> {
    let image = open("/proc/self/exe", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(format!("/proc/self/fd/{}", image.as_raw_fd()))
        .arg0("stockade")
        .arg(launcher::ROLE)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Started { child, socket: ours })
}

/// A session's launcher.
#[derive(Debug)]
pub struct Launcher {
    child: Mutex<Child>,
    shared: Arc<Shared>,
    reader: tokio::task::JoinHandle<()>,
    /// What it built.
    pub built: Built,
}

#[derive(Debug)]
struct Shared {
    writer: tokio::sync::Mutex<Writer>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_ticket: u64,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    idle: HashMap<String, VecDeque<oneshot::Receiver<Answer>>>,
    gone: bool,
    /// Each idle worker that is taken is made again.
    keep_ready: bool,
    /// Kinds that are being made again just now.
    refilling: HashSet<String>,
}

#[derive(Debug)]
enum Answer {
    Worker { socket: UnixStream, pidfd: Option<OwnedFd> },
    Covered(Vec<String>),
    Failed(String),
}

/// How long after a worker was taken another is asked for: a call that needs a file read is over by then, and making
/// one does not take the processor from its answer.
const REFILL_AFTER: Duration = Duration::from_millis(1);

/// Idle workers of a kind. Searches and writes have one, from their first use on.
fn idle_count(profile: &str) -> usize {
    if profile == "read" { 2 } else { 1 }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, question: impl FnOnce(u64) -> ToLauncher) -> Option<oneshot::Receiver<Answer>> {
        let mut writer = self.writer.lock().await;
        let (sender, receiver) = oneshot::channel();
        let ticket = {
            let mut state = self.state();
            if state.gone {
                return None;
            }
            state.next_ticket += 1;
            let ticket = state.next_ticket;
            state.waiting.insert(ticket, sender);
            ticket
        };
        writer.send(&question(ticket), &[]).await.ok()?;
        Some(receiver)
    }

    async fn warm(&self, profile: &str) {
        while self.state().idle.get(profile).map_or(0, VecDeque::len) < idle_count(profile) {
            let spawn = |ticket| ToLauncher::Spawn { ticket, profile: profile.to_owned() };
            let Some(answer) = self.ask(spawn).await else { return };
            self.state().idle.entry(profile.to_owned()).or_default().push_back(answer);
        }
    }

    fn refill_soon(self: &Arc<Self>, profile: &str) {
        let mut state = self.state();
        if !state.keep_ready || !state.refilling.insert(profile.to_owned()) {
            return;
        }
        drop(state);
        let (shared, profile) = (Arc::clone(self), profile.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(REFILL_AFTER).await;
            shared.state().refilling.remove(&profile);
            shared.warm(&profile).await;
        });
    }
}

impl Started {
    /// Hands the plan over and waits until the session stands.
    ///
    /// # Errors
    /// The launcher ended or said something else: a text for a refusal `cannot_enforce`.
    pub async fn build(self, plan: SessionPlan) -> Result<Launcher, String> {
        let gone = |error: io::Error| format!("the launcher ended before the session stood ({error})");
        let (mut reader, mut writer) = link::open(self.socket).map_err(gone)?;
        writer.send(&ToLauncher::Build(Box::new(plan)), &[]).await.map_err(gone)?;
        let answer = reader.receive::<FromLauncher>().await.map_err(gone)?;
        let Some((FromLauncher::Built { namespaces, view, missing }, _)) = answer else {
            return Err(gone(io::ErrorKind::UnexpectedEof.into()));
        };
        let shared = Arc::new(Shared { writer: tokio::sync::Mutex::new(writer), state: Mutex::default() });
        let reader = tokio::spawn(route(reader, Arc::clone(&shared)));
        Ok(Launcher { child: Mutex::new(self.child), shared, reader, built: Built { namespaces, view, missing } })
    }
}

/// Brings each answer to who waits for it.
async fn route(mut reader: Reader, shared: Arc<Shared>) {
    while let Ok(Some((message, descriptors))) = reader.receive::<FromLauncher>().await {
        let (ticket, answer) = match message {
            FromLauncher::Built { .. } => continue,
            FromLauncher::Failed { ticket, why } => (ticket, Answer::Failed(why)),
            FromLauncher::Covered { ticket, failed } => (ticket, Answer::Covered(failed)),
            FromLauncher::Worker { ticket } => {
                let mut descriptors = descriptors.into_iter();
                match (descriptors.next(), descriptors.next()) {
                    (Some(socket), pidfd) => (ticket, Answer::Worker { socket: UnixStream::from(socket), pidfd }),
                    _ => (ticket, Answer::Failed("the launcher sent no descriptors".to_owned())),
                }
            }
        };
        let waiter = shared.state().waiting.remove(&ticket);
        if let Some(waiter) = waiter {
            let _ = waiter.send(answer); // Nobody waits any more: the worker's socket closes and it ends.
        }
    }
    let mut state = shared.state();
    state.gone = true;
    state.waiting.clear();
}

impl Launcher {
    /// Asks for idle workers of a kind ahead of need.
    pub async fn warm(&self, profile: &str) {
        self.shared.warm(profile).await;
    }

    /// From now on an idle worker that is taken is made again: for sessions of many calls.
    pub fn keep_ready(&self) {
        self.shared.state().keep_ready = true;
    }

    /// Gives the launcher a descriptor to hold until it ends. It makes no workers after that.
    pub async fn hand_over(&self, descriptor: BorrowedFd<'_>) {
        let _ = self.shared.writer.lock().await.send(&ToLauncher::Hold, &[descriptor]).await;
    }

    /// A worker of this kind: one that waits already, or a new one.
    ///
    /// # Errors
    /// A text: the launcher is gone, or could not make one.
    pub async fn worker(&self, profile: &str) -> Result<Worker, String> {
        let idle = self.shared.state().idle.get_mut(profile).and_then(VecDeque::pop_front);
        let answer = match idle {
            Some(answer) => Some(answer),
            None => self.shared.ask(|ticket| ToLauncher::Spawn { ticket, profile: profile.to_owned() }).await,
        };
        self.shared.refill_soon(profile);
        let gone = || "the launcher of this session has ended".to_owned();
        match answer.ok_or_else(gone)?.await.map_err(|_| gone())? {
            Answer::Worker { socket, pidfd } => {
                let (reader, writer) = link::open(socket).map_err(|error| error.to_string())?;
                Ok(Worker { reader, writer, pidfd, done: false, cage: None })
            }
            Answer::Failed(why) => Err(why),
            Answer::Covered(_) => Err("the launcher answered something else".to_owned()),
        }
    }

    /// Covers names in the view, for workers that run too. Returns what could not be covered.
    ///
    /// # Errors
    /// The launcher is gone.
    pub async fn cover(&self, masks: Vec<Mask>) -> Result<Vec<String>, String> {
        let gone = || "the launcher of this session has ended".to_owned();
        let answer = self.shared.ask(|ticket| ToLauncher::Cover { ticket, masks }).await.ok_or_else(gone)?;
        match answer.await.map_err(|_| gone())? {
            Answer::Covered(failed) => Ok(failed),
            Answer::Failed(why) => Err(why),
            Answer::Worker { .. } => Err("the launcher answered something else".to_owned()),
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.reader.abort();
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // The session's first process lives by our end of the socket and by this parent of it; with it goes all else.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A worker for one call. Dropping it ends it and everything it started.
#[derive(Debug)]
pub struct Worker {
    reader: Reader,
    writer: Writer,
    pidfd: Option<OwnedFd>,
    done: bool,
    cage: Option<Cage>,
}

impl Worker {
    /// The first message: is the door shut?
    ///
    /// # Errors
    /// The step that failed, in words.
    pub async fn shut(&mut self) -> Result<Facts, String> {
        match self.next().await {
            Some(FromWorker::Shut(facts)) => Ok(facts),
            Some(FromWorker::Broken { step, why }) => Err(format!("{step}: {why}")),
            _ => Err("the worker ended before its door was shut".to_owned()),
        }
    }

    /// Bounds the processes of this call by a cgroup; before the worker is told what to start.
    ///
    /// # Errors
    /// There is no cgroup to be had.
    pub fn confine_to(&mut self, cage: Cage) -> io::Result<()> {
        cage.admit(self.pidfd.as_ref().ok_or(io::ErrorKind::Unsupported)?.as_fd())?;
        self.cage = Some(cage);
        Ok(())
    }

    /// The next message; `None` when the worker has ended.
    pub async fn next(&mut self) -> Option<FromWorker> {
        let message = self.reader.receive::<FromWorker>().await.ok().flatten().map(|(message, _)| message);
        self.done |= message.is_none();
        message
    }

    /// Both ends, for who waits and talks at once.
    pub fn halves(&mut self) -> (&mut Reader, &mut Writer) {
        (&mut self.reader, &mut self.writer)
    }

    /// Sends a message with descriptors.
    ///
    /// # Errors
    /// The kernel's: the worker has ended.
    pub async fn send<M: serde::Serialize>(&mut self, message: &M, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.writer.send(message, descriptors).await
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let (Some(pidfd), true) = (&self.pidfd, !self.done || self.cage.is_some()) {
            let _ = sys::pidfd_signal(pidfd.as_fd(), libc::SIGKILL);
        }
    }
}
