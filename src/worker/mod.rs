//! **What this room is for:** one call behind the door: enter, open what the door names, then read the letter and do it.
//! **Who may enter:** the launcher, right after it forked. **Never done here:** judging; a second call.
//! **Where the proof is:** `tests/escape.rs`, `tests/pipeline.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::{FileStat, Mode, fstat, umask};

use crate::call::{Program, ProgramEnd, Programs};
use crate::confine::{self, Broken, Confined, Prepared};
use crate::confinement::{Facts, Rights, SessionPlan};
use crate::sys;
use crate::tools::{self, Given, GivenPath};
use crate::wire::{
    self,
    message::{Door, DoorPath, FromWorker, Open, Work},
};

pub mod child;
pub mod guard;
pub mod keep;
pub mod probe;
pub mod proc;

/// What the launcher hands to a worker it has just forked.
#[derive(Debug)]
pub struct Seat<'a> {
    /// To the supervisor.
    pub socket: UnixStream,
    /// Rules and filters of this kind of worker.
    pub prepared: &'a Prepared,
    /// The names that its programs may not make, or why they could not be read.
    pub names: &'a Result<guard::Rules, String>,
    /// The session.
    pub plan: &'a SessionPlan,
    /// Namespaces of the session.
    pub namespaces: Vec<String>,
    /// The private view is in place.
    pub view: bool,
    /// This is the first process of a pid namespace of its own.
    pub own_pid_namespace: bool,
}

/// Serves one call and ends the process, whatever happens.
pub fn main(seat: Seat<'_>) -> ! {
    let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serve(&seat)));
    sys::exit_now(match served {
        Ok(Ok(())) => 0,
        Ok(Err(_)) => 1,
        Err(_) => 101,
    })
}

fn serve(seat: &Seat<'_>) -> io::Result<()> {
    let (confined, facts, root) = match shut(seat) {
        Ok(shut) => shut,
        Err(broken) => return tell_broken(seat, &broken),
    };
    wire::send(&seat.socket, &FromWorker::Shut(facts), &[])?;
    let ready = match (seat.prepared.guard(), seat.names) {
        (Some(_), Err(why)) => return tell_broken(seat, &Broken { step: "name guard", why: why.clone() }),
        (Some(filter), Ok(names)) => Some(guard::Ready::new(filter, names)),
        (None, _) => None,
    };
    let Some((door, descriptors)) = wire::receive::<Door>(&seat.socket)? else { return Ok(()) };
    let given = match open_all(&root, door, descriptors) {
        Ok(given) => given,
        Err(index) => return wire::send(&seat.socket, &FromWorker::Disagrees { index }, &[]),
    };
    if let Err(broken) = narrow(&confined, seat.prepared, &given) {
        return tell_broken(seat, &broken);
    }
    if let Some(stand) = given.iter().find(|(_, open)| *open == Open::Enter).and_then(|(path, _)| path.file.as_ref()) {
        nix::unistd::fchdir(stand)?;
    }
    let Some((work, descriptors)) = wire::receive::<Work>(&seat.socket)? else { return Ok(()) };
    let ground = child::Ground {
        env: &seat.plan.env,
        socket: &seat.socket,
        own_pid_namespace: seat.own_pid_namespace,
        memory_bytes: seat.plan.memory_bytes,
        guard: ready.as_ref(),
    };
    let answer = work_on(&ground, &confined, work, given.into_iter().map(|(path, _)| path).collect(), descriptors);
    wire::send(&seat.socket, &answer, &[])
}

fn tell_broken(seat: &Seat<'_>, broken: &Broken) -> io::Result<()> {
    wire::send(&seat.socket, &FromWorker::Broken { step: broken.step.to_owned(), why: broken.why.clone() }, &[])
}

/// The steps before and after `confine::enter` that need the process rather than the kernel's fences.
fn shut(seat: &Seat<'_>) -> Result<(Confined, Facts, OwnedFd), Broken> {
    let step = |step| move |error: nix::Error| Broken { step, why: error.to_string() };
    let mut missing = Vec::new();
    let tolerate = |missing: &mut Vec<String>, result: Result<(), Broken>| match result {
        Err(broken) if seat.plan.allow_degraded => {
            missing.push(broken.to_string());
            Ok(())
        }
        other => other,
    };
    let dies = prctl::set_pdeathsig(Signal::SIGKILL).map_err(step("die with the launcher"));
    tolerate(&mut missing, dies)?;
    nix::unistd::setsid().map_err(step("own session"))?;
    umask(Mode::from_bits_truncate(0o022));
    if seat.own_pid_namespace {
        let unbounded =
            proc::mount_own(seat.plan.pids).map_err(|error| Broken { step: "own /proc", why: error.to_string() })?;
        missing.extend(unbounded);
    }
    let without_own = seat.prepared.confinement.programs && !seat.own_pid_namespace;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(&seat.plan.root, flags, Mode::empty()).map_err(step("open the workspace"))?;
    nix::unistd::fchdir(&root).map_err(step("enter the workspace"))?;
    // Programs run under our user; without this they could read our memory and descriptors through /proc/1.
    tolerate(&mut missing, prctl::set_dumpable(false).map_err(step("not dumpable")))?;
    let (confined, mut facts) = confine::enter(seat.prepared, seat.plan.allow_degraded)?;
    facts.namespaces.clone_from(&seat.namespaces);
    if without_own {
        facts.namespaces.retain(|name| name != "pid");
        missing.push("namespace pid: none of its own for this call".to_owned());
    }
    facts.view = seat.view;
    facts.missing.extend(missing);
    Ok((confined, facts, root))
}

type Opened = Vec<(GivenPath, Open)>;

/// Opens the door's paths in this worker's own view, so that masks and the view count here too; and compares each with what
/// the supervisor resolved. Returns the index of the first that is another one.
fn open_all(root: &OwnedFd, door: Door, descriptors: Vec<OwnedFd>) -> Result<Opened, usize> {
    let mut descriptors = descriptors.into_iter();
    let mut given = Vec::with_capacity(door.paths.len());
    for (index, path) in door.paths.into_iter().enumerate() {
        let descriptor = if path.descriptor { Some(descriptors.next().ok_or(index)?) } else { None };
        given.push(open_one(root.as_fd(), path, descriptor).ok_or(index)?);
    }
    Ok(given)
}

fn open_one(root: BorrowedFd<'_>, path: DoorPath, descriptor: Option<OwnedFd>) -> Option<(GivenPath, Open)> {
    let how = match path.what {
        Open::Given | Open::Enter => OFlag::O_PATH,
        Open::Read => OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY,
        Open::WriteBelow => OFlag::O_RDONLY | OFlag::O_DIRECTORY,
    };
    let seen = open_beneath(root, &path.open, how)?;
    let is = |stat: &FileStat, (dev, ino): (u64, u64)| stat.st_dev == dev && stat.st_ino == ino;
    if !is(&fstat(&seen).ok()?, (path.dev, path.ino)) {
        return None;
    }
    let mut given = GivenPath {
        shown: path.shown,
        absolute: path.absolute,
        file: None,
        parent: None,
        missing: path.missing,
        name: path.name,
    };
    match path.what {
        Open::Given => {
            let descriptor = descriptor?;
            if !is(&fstat(&descriptor).ok()?, (path.dev, path.ino)) {
                return None;
            }
            given.file = Some(descriptor);
        }
        Open::Read | Open::Enter => given.file = Some(seen),
        Open::WriteBelow => {
            // The old file must be visible in the view as well: a mask over it would be another inode.
            if let Some(old) = path.old {
                let visible = open_beneath(seen.as_fd(), &given.name, OFlag::O_PATH)?;
                let descriptor = descriptor?;
                if !is(&fstat(&visible).ok()?, old) || !is(&fstat(&descriptor).ok()?, old) {
                    return None;
                }
                given.file = Some(descriptor);
            }
            given.parent = Some(seen);
        }
    }
    Some((given, path.what))
}

fn open_beneath(root: BorrowedFd<'_>, path: &str, flags: OFlag) -> Option<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    // EAGAIN: something was renamed meanwhile (openat2(2)); a few tries, then it is not what was resolved any more.
    (0..8).find_map(|_| match openat2(root, Path::new(path), how) {
        Err(nix::Error::EAGAIN) => None,
        other => Some(other.ok()),
    })?
}

fn narrow(confined: &Confined, prepared: &Prepared, given: &Opened) -> Result<(), Broken> {
    if prepared.confinement.programs || prepared.confinement.paths.is_empty() {
        return Ok(()); // Programs have their session-wide ruleset; without rules there is nothing to take away.
    }
    let mut rules: Vec<(BorrowedFd<'_>, Rights)> = Vec::new();
    for (path, open) in given {
        match open {
            Open::Read => rules.extend(path.file.as_ref().map(|fd| (fd.as_fd(), Rights::Read))),
            Open::WriteBelow => rules.extend(path.parent.as_ref().map(|fd| (fd.as_fd(), Rights::All))),
            Open::Given | Open::Enter => {}
        }
    }
    confined.narrow(&rules)
}

fn work_on(
    ground: &child::Ground<'_>,
    confined: &Confined,
    work: Work,
    paths: Vec<GivenPath>,
    descriptors: Vec<OwnedFd>,
) -> FromWorker {
    match work {
        Work::Tool { tool, args, options, background } => {
            let Some(entry) = tools::find(&tool) else {
                return FromWorker::Broken { step: "tool".to_owned(), why: "no such tool".to_owned() };
            };
            let mut inside = Inside { ground, background, last: None };
            let outcome = (entry.run)(confined, args, Given { paths, options: *options }, &mut inside);
            match inside.last.filter(|_| background) {
                Some(end) => ended(end),
                None => FromWorker::Done(Box::new(outcome)),
            }
        }
        Work::Run { argv, timeout_ms } => {
            let mut descriptors = descriptors.into_iter();
            let (Some(input), Some(output), Some(errors)) =
                (descriptors.next(), descriptors.next(), descriptors.next())
            else {
                return FromWorker::Broken { step: "run".to_owned(), why: "three streams are needed".to_owned() };
            };
            let program = Program { argv, stdin: None, timeout_ms, interleave: false, keep_bytes: 0 };
            ended(child::run(ground, &program, child::Streams::Through(input, output, errors)))
        }
        Work::Probe(targets) => FromWorker::Probed(probe::run(&targets)),
    }
}

fn ended(end: ProgramEnd) -> FromWorker {
    FromWorker::Ended {
        exit_code: end.exit_code,
        signal: end.signal,
        killed_by: end.killed_by,
        not_started: end.not_started,
    }
}

struct Inside<'a> {
    ground: &'a child::Ground<'a>,
    background: bool,
    last: Option<ProgramEnd>,
}

impl Programs for Inside<'_> {
    fn run(&mut self, program: &Program) -> ProgramEnd {
        let streams = if self.background { child::Streams::Forward } else { child::Streams::Keep };
        let end = child::run(self.ground, program, streams);
        self.last = Some(end.clone());
        end
    }
}
