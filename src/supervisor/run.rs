//! **What this room is for:** `stockade run`: one program with our own standard streams, confined like any command.
//! **Who may enter:** the command line. **Never done here:** looking at what passes through the streams.
//! **Where the proof is:** `tests/cli.rs`, `tests/escape.rs`.

use std::ffi::OsString;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::spawn::Worker;
use super::{Supervisor, enforce};
use crate::access::{Access, Asks, RiskClass};
use crate::call::Refusal;
use crate::path;
use crate::policy::{self, Request};
use crate::verdict::Decision;
use crate::wire::message::{Control, Door, DoorPath, FromWorker, Open, Work};

/// Signals that are passed on to the program.
const PASSED_ON: [i32; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

/// How a program of `run` ended.
#[derive(Debug)]
pub enum RunEnd {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// At the time limit.
    TimedOut,
    /// There is no such program.
    NotFound(String),
    /// It is there and cannot be executed.
    NotExecutable(String),
    /// It was not started.
    Refused(Refusal),
}

impl Supervisor {
    /// Runs one program until it and all that it left are gone.
    pub async fn run(&self, argv: Vec<OsString>) -> RunEnd {
        match self.try_run(argv).await {
            Ok(end) => end,
            Err(refusal) => RunEnd::Refused(refusal),
        }
    }

    async fn try_run(&self, argv: Vec<OsString>) -> Result<RunEnd, Refusal> {
        let argv: Vec<String> = argv
            .into_iter()
            .map(|word| {
                word.into_string().map_err(|_| enforce::cannot_enforce(&["an argument is not UTF-8".to_owned()]))
            })
            .collect::<Result<_, _>>()?;
        self.judge_run(&argv)?;
        let stand = self.standing_place();
        self.before_programs("shell").await?;
        let (mut worker, _) = self.worker("shell").await?;
        let gone = |error: std::io::Error| enforce::cannot_enforce(&[format!("the worker ended early: {error}")]);
        worker.send(&Door { paths: stand }, &[]).await.map_err(gone)?;
        let (input, output, errors) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let streams: [BorrowedFd<'_>; 3] = [input.as_fd(), output.as_fd(), errors.as_fd()];
        let work = Work::Run { argv: argv.clone(), timeout_ms: self.policy.limits().run_timeout_ms };
        worker.send(&work, &streams).await.map_err(gone)?;
        let answer = follow(&mut worker).await;
        if let (Some(watch), Some(Ok(launcher))) = (self.watch.get(), self.ground.launcher.get()) {
            watch.end(launcher).await;
        }
        let name = argv.into_iter().next().unwrap_or_default();
        Ok(match answer {
            Some(FromWorker::Ended { killed_by: Some(why), .. }) if why == "timeout" => RunEnd::TimedOut,
            Some(FromWorker::Ended { not_started: Some(libc::ENOENT | libc::ENOTDIR), .. }) => RunEnd::NotFound(name),
            Some(FromWorker::Ended { not_started: Some(_), .. }) => RunEnd::NotExecutable(name),
            Some(FromWorker::Ended { signal: Some(signal), .. }) => RunEnd::Signalled(signal),
            Some(FromWorker::Ended { exit_code: Some(code), .. }) => RunEnd::Exited(code),
            Some(FromWorker::Broken { step, why }) => {
                RunEnd::Refused(enforce::cannot_enforce(&[format!("{step}: {why}")]))
            }
            _ => RunEnd::Signalled(libc::SIGKILL),
        })
    }

    /// A person starts `run`, so nothing is asked; hard blocks and deny rules hold all the same.
    fn judge_run(&self, argv: &[String]) -> Result<(), Refusal> {
        let command = match argv {
            [shell, flag, text] if flag == "-c" && (shell.ends_with("sh")) => text.clone(),
            _ => argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        };
        let accesses = [Access::Command(command)];
        let request = Request { tool: "bash", class: RiskClass::WorkspaceWrite, asks: Asks::Yes, accesses: &accesses };
        match policy::decide(&self.policy, &request) {
            Decision::Deny(refusal) if refusal.code != crate::call::Code::PlanMode => Err(refusal),
            _ => Ok(()),
        }
    }

    /// The program stands where its caller stands, when that is in the workspace; else in the root.
    fn standing_place(&self) -> Vec<DoorPath> {
        let here = std::env::current_dir().ok().and_then(|here| here.into_os_string().into_string().ok());
        let resolved = here.and_then(|here| path::resolve(&self.ground.root, &here).ok());
        let Some((rel, facts)) = resolved.and_then(|found| found.facts().copied().map(|facts| (found.rel, facts)))
        else {
            return Vec::new();
        };
        vec![DoorPath {
            open: rel.clone(),
            what: Open::Enter,
            dev: facts.dev,
            ino: facts.ino,
            descriptor: false,
            absolute: self.ground.root.real().join(&rel),
            shown: rel,
            missing: Vec::new(),
            name: String::new(),
            old: None,
        }]
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Waits for the end and passes signals on meanwhile.
async fn follow(worker: &mut Worker) -> Option<FromWorker> {
    let mut signals: Vec<(i32, Signal)> =
        PASSED_ON.into_iter().filter_map(|number| Some((number, signal(SignalKind::from_raw(number)).ok()?))).collect();
    let (reader, writer) = worker.halves();
    let mut next = pin!(reader.receive::<FromWorker>());
    loop {
        tokio::select! {
            answer = &mut next => return answer.ok().flatten().map(|(message, _)| message),
            number = any_of(&mut signals) => {
                let _ = writer.send(&Control::Signal(number), &[]).await;
            }
        }
    }
}

async fn any_of(signals: &mut [(i32, Signal)]) -> i32 {
    std::future::poll_fn(|context| {
        for (number, signal) in signals.iter_mut() {
            if pin!(signal.recv()).poll(context).is_ready() {
                return std::task::Poll::Ready(*number);
            }
        }
        std::task::Poll::Pending
    })
    .await
}
