//! **What this room is for:** the command line: parses it, starts a supervisor, prints, and turns the end into an exit
//! status. **Who may enter:** `main` alone, in the role of a person's or a program's command line. **Never done here:**
//! judging and confining; no option here can do what the supervisor would not. **Where the proof is:** `tests/cli.rs`.

use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, error::ErrorKind};

use crate::supervisor::StartError;
use args::{Command, Line};

mod args;
mod call;
mod doctor;
mod policy;
mod profile;
mod run;
mod session;
mod stop;
mod text;
mod tools;

/// Bad usage, bad arguments, bad policy file.
const USAGE: u8 = 2;
/// What `run` ends with when stockade could not do its own part, as in env(1) and timeout(1).
const RUN_FAILED: u8 = 125;
const NOT_BUILT: &str = "not built in this version";

/// Everything after the role switch of `main`. `args` begins with the program's name.
pub fn main<I>(args: I) -> ExitCode
where
    I: IntoIterator<Item = OsString>,
{
    let args: Vec<OsString> = args.into_iter().collect();
    // There is no option before the command, so the second word is the command even when the rest does not parse.
    let failed = if args.get(1).is_some_and(|word| word == "run") { RUN_FAILED } else { USAGE };
    log();
    let line = match Line::try_parse_from(args) {
        Ok(line) => line,
        Err(error) => return explain_usage(&error, failed),
    };
    if line.command.options().is_some_and(|options| options.audit.is_some()) {
        text::complain(&format!("--audit: {NOT_BUILT}"));
        return ExitCode::from(failed);
    }
    ExitCode::from(dispatch(line.command))
}

fn dispatch(command: Command) -> u8 {
    match command {
        Command::Run { options, argv } => run::run(options, argv),
        Command::Call { options, tool, arguments } => call::call(options, tool, arguments),
        Command::Session { options } => session::session(options),
        Command::Mcp { options, structured } => mcp(options, structured),
        Command::Tools { options, markdown } => tools::tools(options, markdown),
        Command::Policy(what) => policy::policy(what),
        Command::Profile(what) => profile::profile(what),
        Command::Doctor { options } => doctor::doctor(options),
        Command::Audit(_) => not_built("audit"),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Line::command(), "stockade", &mut script);
            text::out(&script);
            0
        }
        Command::Man => {
            let mut page = Vec::new();
            if clap_mangen::Man::new(Line::command()).render(&mut page).is_err() {
                return USAGE;
            }
            text::out(&page);
            0
        }
    }
}

fn mcp(options: args::Options, structured: bool) -> u8 {
    block_on(async {
        let Some(mut stop) = stop::Stop::new() else { return USAGE };
        let supervisor =
            match crate::supervisor::Supervisor::start(options.settings(crate::supervisor::SessionKind::Mcp)).await {
                Ok(supervisor) => supervisor,
                Err(error) => return start_failed(&error, USAGE),
            };
        match crate::mcp::serve(supervisor, structured, async move {
            let _ = stop.wait().await;
        })
        .await
        {
            Ok(()) => 0,
            Err(message) => {
                text::complain(&message);
                1
            }
        }
    })
}

/// Says what is wrong with a policy or an option, and gives the exit status.
fn start_failed(error: &StartError, status: u8) -> u8 {
    match error {
        // Rendered by the policy room: excerpts of the file are made harmless there, colour is for terminals alone.
        StartError::Policy(error) => policy_failed(error),
        StartError::Usage(message) => text::complain(message),
    }
    status
}

fn policy_failed(error: &crate::policy::PolicyError) {
    if text::colour(&std::io::stderr()) {
        text::err_raw(&error.render(true));
    } else {
        text::err_text(&error.render(false));
    }
}

fn not_built(what: &str) -> u8 {
    text::complain(&format!("{what}: {NOT_BUILT}"));
    USAGE
}

/// Help and version go to standard output and are no failure.
fn explain_usage(error: &clap::Error, failed: u8) -> ExitCode {
    let message = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            text::out_text(&message);
            ExitCode::SUCCESS
        }
        _ => {
            text::err_text(&message);
            ExitCode::from(failed)
        }
    }
}

/// Runs the async part on this thread. The runtime is not waited for at the end: a read of a terminal cannot be ended.
fn block_on<F: Future<Output = u8>>(future: F) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            text::complain(&format!("cannot start: {error}"));
            return RUN_FAILED;
        }
    };
    let status = runtime.block_on(future);
    runtime.shutdown_background();
    status
}

/// A log on standard error when `STOCKADE_LOG` is `error` `warn` `info` `debug` or `trace`; anything else is `warn`.
/// Read from the environment on purpose: it can only add lines to standard error.
fn log() {
    use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};
    let Some(level) = std::env::var_os("STOCKADE_LOG") else { return };
    let level = level.to_str().and_then(|l| l.parse::<tracing::Level>().ok()).unwrap_or(tracing::Level::WARN);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    // Our own lines alone: libraries would log the content of messages.
    let ours = Targets::new().with_target("stockade", level);
    let _ = tracing_subscriber::registry().with(lines).with(ours).try_init();
}
