//! **What this room is for:** the one place that starts programs: inside the door, with an environment made from nothing,
//! and to the last descendant's end. **Who may enter:** the worker. **Never done here:** deciding which program may run.
//! **Where the proof is:** `tests/escape.rs` (what leaks), `tests/programs.rs` (how it ends).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{AccessFlags, Pid, access};

use super::guard::{self, Ready, Watch};
use super::keep::Keeper;
use crate::call::{Program, ProgramEnd};
use crate::limits::KILL_GRACE_MS;
use crate::wire::{self, message::Control, message::FromWorker};

/// How often the resident memory of a call is looked at.
const MEMORY_TICK: Duration = Duration::from_millis(200);

/// What programs of this worker run in.
#[derive(Debug)]
pub struct Ground<'a> {
    /// Their whole environment.
    pub env: &'a [(String, String)],
    /// The supervisor, for control and the output of daemons.
    pub socket: &'a UnixStream,
    /// This worker is the first process of its own pid namespace: all others in it are of this call.
    pub own_pid_namespace: bool,
    /// Resident bytes that the call may have.
    pub memory_bytes: u64,
    /// The name guard, where the kernel grants one.
    pub guard: Option<&'a Ready<'a>>,
}

/// What happens to the standard streams.
#[derive(Debug)]
pub enum Streams {
    /// Piped, bounded, returned at the end.
    Keep,
    /// Piped and sent on as it comes.
    Forward,
    /// These three.
    Through(OwnedFd, OwnedFd, OwnedFd),
}

/// Runs a program until it and all that it left are gone.
#[must_use]
pub fn run(ground: &Ground<'_>, program: &Program, streams: Streams) -> ProgramEnd {
    let begin = Instant::now();
    let end = Run::start(ground, program, streams).and_then(|mut run| {
        run.until_the_end(begin)?;
        Ok(run.finish())
    });
    let mut end = end.unwrap_or_else(|error| ProgramEnd {
        not_started: Some(error.raw_os_error().unwrap_or(libc::EIO)),
        ..ProgramEnd::default()
    });
    end.duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    end
}

struct Pipe {
    from: File,
    stream: u8,
    keeper: Option<Keeper>,
}

struct Run<'a> {
    ground: &'a Ground<'a>,
    main: Pid,
    pipes: Vec<Pipe>,
    finished: Vec<Pipe>,
    input: Option<(File, Vec<u8>)>,
    ended: SignalFd,
    status: Option<WaitStatus>,
    killed_by: Option<&'static str>,
    deadline: Option<Instant>,
    kill_at: Option<Instant>,
    supervisor_gone: bool,
    watch: Option<Watch<'a>>,
}

impl<'a> Run<'a> {
    fn start(ground: &'a Ground<'a>, program: &Program, streams: Streams) -> io::Result<Run<'a>> {
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        children.thread_block()?;
        let ended = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let name = program.argv.first().ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?;
        let mut command = Command::new(look_up(name, ground.env)?);
        command.arg0(name).args(program.argv.iter().skip(1)).env_clear().process_group(0);
        command.envs(ground.env.iter().map(|(key, value)| (key, value)));
        let mut pipes = Vec::new();
        let forward = matches!(streams, Streams::Forward);
        if let Streams::Through(input, output, errors) = streams {
            command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        } else {
            command.stdin(if program.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
            for stream in [1, 2] {
                if stream == 2 && program.interleave {
                    break;
                }
                let (from, to) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
                if stream == 1 && program.interleave {
                    command.stderr(Stdio::from(to.try_clone()?));
                }
                if stream == 1 {
                    command.stdout(Stdio::from(to))
                } else {
                    command.stderr(Stdio::from(to))
                };
                let keeper = (!forward).then(|| Keeper::new(program.keep_bytes));
                pipes.push(Pipe { from: non_blocking(from)?, stream, keeper });
            }
        }
        let (mut child, watch) = guard::start(&mut command, ground.guard)?;
        drop(command); // Its copies of the pipes' ends would keep them open.
        let input = match (child.stdin.take(), &program.stdin) {
            (Some(to), Some(text)) => Some((non_blocking(to.into())?, text.clone().into_bytes())),
            _ => None,
        };
        let main = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        if forward {
            wire::send(ground.socket, &FromWorker::Started { pid: main.as_raw() }, &[])?;
        }
        let deadline = program.timeout_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        Ok(Run {
            ground,
            main,
            pipes,
            finished: Vec::new(),
            input,
            ended,
            status: None,
            killed_by: None,
            deadline,
            kill_at: None,
            supervisor_gone: false,
            watch,
        })
    }

    fn until_the_end(&mut self, begin: Instant) -> io::Result<()> {
        let mut next_tick = begin + MEMORY_TICK;
        while self.status.is_none() {
            let now = Instant::now();
            self.look_at_the_clock(now);
            if now >= next_tick {
                next_tick = now + MEMORY_TICK;
                self.look_at_memory();
            }
            let wait = [self.deadline, self.kill_at, Some(next_tick)].into_iter().flatten().min().unwrap_or(next_tick);
            self.wait_for_something(wait.saturating_duration_since(now))?;
        }
        Ok(())
    }

    fn look_at_the_clock(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.deadline = None;
            self.end_politely("timeout");
        }
        if self.kill_at.is_some_and(|at| now >= at) {
            self.kill_at = None;
            self.signal_all(Signal::SIGKILL);
        }
    }

    fn end_politely(&mut self, why: &'static str) {
        if self.killed_by.is_none() {
            self.killed_by = Some(why);
            self.kill_at = Instant::now().checked_add(Duration::from_millis(KILL_GRACE_MS));
            self.signal_all(Signal::SIGTERM);
        }
    }

    fn look_at_memory(&mut self) {
        // Only where /proc shows this call alone; elsewhere the sum would be the host's.
        if self.ground.own_pid_namespace && resident_bytes() > self.ground.memory_bytes {
            self.killed_by.get_or_insert("memory");
            self.signal_all(Signal::SIGKILL);
        }
    }

    fn wait_for_something(&mut self, at_most: Duration) -> io::Result<()> {
        let mut watched = vec![PollFd::new(self.ended.as_fd(), PollFlags::POLLIN)];
        watched.push(PollFd::new(self.ground.socket.as_fd(), PollFlags::POLLIN));
        watched.extend(self.pipes.iter().map(|pipe| PollFd::new(pipe.from.as_fd(), PollFlags::POLLIN)));
        if let Some((to, _)) = &self.input {
            watched.push(PollFd::new(to.as_fd(), PollFlags::POLLOUT));
        }
        let others = watched.len();
        watched.extend(self.watch.as_ref().map(|watch| PollFd::new(watch.listener(), PollFlags::POLLIN)));
        // One millisecond more, so that a wait that ends early does not spin.
        let wait = PollTimeout::try_from(at_most + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut watched, wait) {
            Err(nix::Error::EINTR) => return Ok(()),
            other => other?,
        };
        let asked = watched.get(1).and_then(PollFd::revents).is_some_and(|events| !events.is_empty());
        let others = watched.iter().take(others).any(|one| one.revents().is_some_and(|events| !events.is_empty()));
        let alone = !others && watched.iter().any(|one| one.revents().is_some_and(|events| !events.is_empty()));
        drop(watched);
        if let Some(watch) = &mut self.watch {
            watch.serve();
        }
        if alone {
            return Ok(()); // The common case under guard: nothing else to see to.
        }
        self.drain(false)?;
        self.feed();
        if asked && !self.supervisor_gone {
            self.obey();
        }
        self.reap()
    }

    /// Reads what is there. `to_the_end`: nothing writes any more, so what is left is all.
    fn drain(&mut self, to_the_end: bool) -> io::Result<()> {
        let mut buffer = [0; 65536];
        let mut open = Vec::with_capacity(self.pipes.len());
        for mut pipe in std::mem::take(&mut self.pipes) {
            let mut turns = 0;
            let over = loop {
                match pipe.from.read(&mut buffer) {
                    Ok(0) => break true,
                    Ok(got) => self.deliver(&mut pipe, buffer.get(..got).unwrap_or_default())?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break to_the_end,
                }
                turns += 1;
                if turns >= 16 && !to_the_end {
                    break false; // The other stream, the clock and the supervisor want a turn too.
                }
            };
            if over { self.finished.push(pipe) } else { open.push(pipe) }
        }
        self.pipes = open;
        Ok(())
    }

    fn deliver(&self, pipe: &mut Pipe, bytes: &[u8]) -> io::Result<()> {
        match &mut pipe.keeper {
            Some(keeper) => {
                keeper.take(bytes);
                Ok(())
            }
            None => {
                let data = base64::engine::general_purpose::STANDARD.encode(bytes);
                wire::send(self.ground.socket, &FromWorker::Chunk { stream: pipe.stream, data }, &[])
            }
        }
    }

    fn feed(&mut self) {
        if let Some((to, left)) = &mut self.input {
            match to.write(left) {
                Ok(written) => drop(left.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => left.clear(), // Nobody reads it any more.
            }
            if left.is_empty() {
                self.input = None;
            }
        }
    }

    fn obey(&mut self) {
        match wire::receive::<Control>(self.ground.socket) {
            Ok(Some((Control::Signal(number), _))) => {
                if let Ok(signal) = Signal::try_from(number) {
                    let _ = killpg(self.main, signal);
                }
            }
            Ok(Some((Control::Cancel, _))) => self.end_politely("cancel"),
            Ok(None) | Err(_) => {
                self.supervisor_gone = true;
                self.killed_by.get_or_insert("cancel");
                self.signal_all(Signal::SIGKILL);
            }
        }
    }

    fn reap(&mut self) -> io::Result<()> {
        while self.ended.read_signal()?.is_some() {}
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(nix::Error::ECHILD) => return Ok(()),
                Ok(status) if status.pid() == Some(self.main) => self.status = Some(status),
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// To every process of the call but this one.
    fn signal_all(&self, signal: Signal) {
        if self.ground.own_pid_namespace && nix::unistd::getpid().as_raw() == 1 {
            let _ = kill(Pid::from_raw(-1), signal);
        } else {
            let _ = killpg(self.main, signal);
        }
    }

    /// The foreground has ended: whatever it left behind ends now, so that no pipe and no process outlives the call.
    fn finish(mut self) -> ProgramEnd {
        self.signal_all(Signal::SIGKILL);
        if self.ground.own_pid_namespace {
            while !matches!(waitpid(Pid::from_raw(-1), None), Err(nix::Error::ECHILD)) {}
        }
        let _ = self.drain(true);
        let refused_names = self.watch.take().map(Watch::finish).unwrap_or_default();
        let mut end =
            ProgramEnd { killed_by: self.killed_by.map(str::to_owned), refused_names, ..ProgramEnd::default() };
        match self.status {
            Some(WaitStatus::Exited(_, code)) => end.exit_code = Some(code),
            Some(WaitStatus::Signaled(_, signal, _)) => end.signal = Some(signal as i32),
            _ => {}
        }
        for pipe in self.finished.into_iter().chain(self.pipes) {
            let kept = pipe.keeper.map(Keeper::finish).unwrap_or_default();
            if pipe.stream == 1 { end.stdout = kept } else { end.stderr = kept }
        }
        end
    }
}

fn non_blocking(fd: OwnedFd) -> io::Result<File> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    fcntl(&fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(File::from(fd))
}

/// Where a program is, as `execvp` would look for it in the program's own `PATH`. `EACCES` when it is there and cannot be
/// executed, `ENOENT` when it is not there.
fn look_up(name: &str, env: &[(String, String)]) -> io::Result<PathBuf> {
    let error = io::Error::from_raw_os_error;
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = env.iter().find(|(key, _)| key == "PATH").map_or("", |(_, value)| value);
    let mut answer = libc::ENOENT;
    for folder in path.split(':').filter(|folder| !folder.is_empty()) {
        let candidate = Path::new(folder).join(name);
        if candidate.is_file() {
            if access(&candidate, AccessFlags::X_OK).is_ok() {
                return Ok(candidate);
            }
            answer = libc::EACCES;
        }
    }
    Err(error(answer))
}

/// Resident bytes of all processes that `/proc` shows. Pages that several of them share count several times: the error
/// is on the safe side.
fn resident_bytes() -> u64 {
    let page = 4096;
    let Ok(listed) = std::fs::read_dir("/proc") else { return 0 };
    let numeric = |name: &OsStr| name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
    listed
        .flatten()
        .filter(|entry| numeric(&entry.file_name()))
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("statm")).ok())
        .filter_map(|statm| statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()))
        .map(|pages| pages.saturating_mul(page))
        .sum()
}
