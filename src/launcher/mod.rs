//! **What this room is for:** the launcher: one small process a session that builds the namespaces and the view once and
//! then forks a worker for each call. **Who may enter:** `main`, by its role switch. **Never done here:** threads, tokio,
//! tool arguments, file content. **Where the proof is:** `tests/escape.rs`, `tests/ladder.rs`.
//!
//! Fork without exec is sound here because the process has one thread from its exec on and never holds content or
//! secrets. When the supervisor ends, by whatever signal, its end of our socket closes; then this process ends, and being
//! the first of the session's pid namespace it takes everything with it. (`PR_SET_PDEATHSIG` towards the supervisor would
//! fire when a mere thread of it ends, so the socket is the tie.)

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::confine::{self, Prepared};
use crate::confinement::{Action, CallRule, SessionPlan};
use crate::sys::{self, Forked};
use crate::wire::{self, message::FromLauncher, message::ToLauncher};
use crate::worker::{self, guard};

pub mod namespaces;
pub mod view;

/// The word in `argv[1]` that makes this program a launcher. Nothing is gained by using it: without a supervisor's
/// socket on standard input it ends at once.
pub const ROLE: &str = "--launcher";

/// Runs the launcher; never returns to the caller's code.
pub fn main() -> ! {
    let status = match start() {
        Ok(()) => 0,
        Err(_) => 1, // The supervisor sees the end of the socket; there is nobody else to tell.
    };
    sys::exit_now(status)
}

fn start() -> io::Result<()> {
    sys::close_all_but(&[])?;
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    // Its own session: a Ctrl-C at the terminal is the supervisor's to answer, not ours to die of.
    nix::unistd::setsid()?;
    // A process that is not dumpable cannot write its own uid_map (an unreadable image makes it so).
    let _ = prctl::set_dumpable(true); // Without it the map cannot be written, which is then said to be missing.
    let socket = UnixStream::from(socket);
    let Some((ToLauncher::Build(plan), _)) = wire::receive::<ToLauncher>(&socket)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if nix::unistd::geteuid().is_root() {
        match nix::unistd::setgroups(&[]) {
            // Root of a user namespace that may not set groups: not the real root, whose groups these lines are about.
            Ok(()) => {}
            Err(nix::Error::EPERM) if std::fs::read_to_string("/proc/self/setgroups")?.trim() == "deny" => {}
            Err(error) => return Err(error.into()),
        }
    }
    let session = Session::build(*plan)?;
    session.answer_built(&socket)?;
    session.serve(&socket)
}

struct Session {
    plan: SessionPlan,
    names: Result<guard::Rules, String>,
    made: namespaces::Made,
    view: bool,
    missing: Vec<String>,
    prepared: HashMap<String, Result<Prepared, String>>,
}

impl Session {
    fn build(plan: SessionPlan) -> io::Result<Session> {
        let mut made = if plan.bare { namespaces::Made::default() } else { namespaces::leave(plan.network) };
        if plan.bare {
            made.missing.push("namespaces: none, one of them or the view could not be built".to_owned());
        } else if made.has("mnt") {
            match namespaces::into_pid_namespace() {
                Ok(()) => made.names.push("pid".to_owned()),
                Err(error) => made.missing.push(format!("namespace pid: {error}")),
            }
        } else {
            made.missing.push("namespace pid: not tried without the others".to_owned());
        }
        let mut missing = std::mem::take(&mut made.missing);
        if made.has("net")
            && let Err(error) = sys::loopback_up()
        {
            missing.push(format!("loopback: {error}"));
        }
        let view = made.has("mnt") && made.has("pid");
        if view && let Err(error) = view::build(&plan) {
            // Half a view is none: nothing may run in it.
            return Session::answer_broken(error.to_string(), plan, made);
        }
        if !view {
            missing.push("view: no private view of the file system without a mount namespace".to_owned());
        }
        let prepared = plan
            .confinements
            .iter()
            .map(|kind| {
                let mut kind = kind.clone();
                if !view && kind.programs {
                    kind.filter.rules.extend(no_tracing());
                }
                let prepared = confine::prepare(kind.clone(), view, plan.allow_degraded);
                let prepared = prepared.map(|prepared| prepared.guarded(plan.guard.all_opens));
                (kind.profile.clone(), prepared.map_err(|broken| broken.to_string()))
            })
            .collect();
        let names = guard::Rules::new(&plan.root, &plan.guard).map_err(|error| error.to_string());
        Ok(Session { plan, names, made, view, missing, prepared })
    }

    fn answer_broken(why: String, plan: SessionPlan, made: namespaces::Made) -> io::Result<Session> {
        let refused = plan.confinements.iter().map(|kind| (kind.profile.clone(), Err(why.clone()))).collect();
        Ok(Session { plan, names: Err(why.clone()), made, view: false, missing: vec![why], prepared: refused })
    }

    fn answer_built(&self, socket: &UnixStream) -> io::Result<()> {
        let built =
            FromLauncher::Built { namespaces: self.made.names.clone(), view: self.view, missing: self.missing.clone() };
        wire::send(socket, &built, &[])
    }

    fn serve(&self, socket: &UnixStream) -> io::Result<()> {
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        children.thread_block()?;
        let ended = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let mut held = Vec::new();
        loop {
            let mut ready =
                [PollFd::new(socket.as_fd(), PollFlags::POLLIN), PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, PollTimeout::NONE) {
                Err(nix::Error::EINTR) => continue,
                other => other?,
            };
            let [asked, died] = ready.map(|one| one.revents().unwrap_or(PollFlags::empty()));
            if died.contains(PollFlags::POLLIN) {
                while ended.read_signal()?.is_some() {}
                reap();
            }
            if !asked.is_empty() {
                match wire::receive::<ToLauncher>(socket)? {
                    None => return Ok(()),
                    Some((ToLauncher::Hold, descriptors)) => held.extend(descriptors),
                    // What is held is for no worker.
                    Some((ToLauncher::Spawn { ticket, .. }, _)) if !held.is_empty() => {
                        let why = "the session is at its end".to_owned();
                        wire::send(socket, &FromLauncher::Failed { ticket, why }, &[])?;
                    }
                    Some((request, _)) => self.answer(socket, &ended, request)?,
                }
            }
        }
    }

    fn answer(&self, socket: &UnixStream, ended: &SignalFd, request: ToLauncher) -> io::Result<()> {
        match request {
            ToLauncher::Build(_) | ToLauncher::Hold => Err(io::ErrorKind::InvalidData.into()),
            ToLauncher::Spawn { ticket, profile } => {
                match self.spawn(&profile, &[socket.as_raw_fd(), ended.as_fd().as_raw_fd()]) {
                    Ok((worker, pidfd)) => {
                        let descriptors = std::iter::once(worker.as_fd()).chain(pidfd.as_ref().map(AsFd::as_fd));
                        let descriptors: Vec<_> = descriptors.collect();
                        wire::send(socket, &FromLauncher::Worker { ticket }, &descriptors)
                    }
                    Err(why) => wire::send(socket, &FromLauncher::Failed { ticket, why }, &[]),
                }
            }
            ToLauncher::Cover { ticket, masks } => {
                let failed = if self.view {
                    masks.iter().filter_map(|mask| view::cover(mask).err().map(|error| error.to_string())).collect()
                } else {
                    vec!["there is no private view to cover anything in".to_owned()]
                };
                wire::send(socket, &FromLauncher::Covered { ticket, failed }, &[])
            }
        }
    }

    fn spawn(&self, profile: &str, not_for_workers: &[i32]) -> Result<(UnixStream, Option<OwnedFd>), String> {
        let prepared = match self.prepared.get(profile) {
            Some(Ok(prepared)) => prepared,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err(format!("no such profile in this session: {profile}")),
        };
        let programs = prepared.confinement.programs;
        let namespaces = if programs && self.view { libc::CLONE_NEWPID | libc::CLONE_NEWNS } else { 0 };
        let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        let (namespaces, forked) = match sys::fork_into(namespaces) {
            Err(_) if namespaces != 0 && self.plan.allow_degraded => (0, sys::fork_into(0)),
            forked => (namespaces, forked),
        };
        match forked.map_err(|error| format!("fork: {error}"))? {
            Forked::Child => {
                let _ = (
                    not_for_workers.iter().try_for_each(|fd| nix::unistd::close(*fd)),
                    nix::unistd::close(ours.as_raw_fd()),
                );
                let seat = worker::Seat {
                    socket: theirs,
                    prepared,
                    names: &self.names,
                    plan: &self.plan,
                    namespaces: self.made.names.clone(),
                    view: self.view,
                    own_pid_namespace: namespaces != 0,
                };
                worker::main(seat)
            }
            Forked::Parent(pid) => {
                // Without it (an outer filter) the end of its socket ends a worker that starts programs.
                Ok((ours, sys::pidfd_open(pid).ok()))
            }
        }
    }
}

/// Without a pid namespace of its own a call could trace whatever of its user runs outside.
fn no_tracing() -> impl Iterator<Item = CallRule> {
    let names = ["ptrace", "process_vm_readv", "process_vm_writev"];
    names.into_iter().filter_map(crate::sysnum::number).map(|number| CallRule {
        number,
        action: Action::Errno(libc::EPERM),
        when: Vec::new(),
    })
}

/// Collects every child that has ended: workers, and as the first process of the namespace whatever was left to us.
fn reap() {
    while let Ok(status) = waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}
