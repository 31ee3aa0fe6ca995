//! **What this room is for:** `stockade run`. **Who may enter:** the command line. **Never done here:** touching the
//! command's streams; signals are the supervisor's. **Where the proof is:** `tests/cli.rs`.

use std::ffi::OsString;

use super::{RUN_FAILED, args::Options, text};
use crate::call::Refusal;
use crate::supervisor::{RunEnd, SessionKind, Supervisor};

/// Runs one command and gives its exit status, or 124 to 127 as in env(1) and timeout(1).
pub(super) fn run(options: Options, argv: Vec<OsString>) -> u8 {
    super::block_on(async {
        let supervisor = match Supervisor::start(options.settings(SessionKind::Run)).await {
            Ok(supervisor) => supervisor,
            Err(error) => return super::start_failed(&error, RUN_FAILED),
        };
        let end = supervisor.run(argv).await;
        supervisor.shutdown().await;
        status(end)
    })
}

fn status(end: RunEnd) -> u8 {
    match end {
        // A status is eight bits; what the kernel gave us fits.
        RunEnd::Exited(code) => u8::try_from(code & 0xff).unwrap_or(RUN_FAILED),
        RunEnd::Signalled(number) => u8::try_from((number & 0x7f) + 128).unwrap_or(RUN_FAILED),
        RunEnd::TimedOut => {
            text::complain("the command was ended at its time limit");
            124
        }
        RunEnd::NotFound(message) => {
            text::complain(&message);
            127
        }
        RunEnd::NotExecutable(message) => {
            text::complain(&message);
            126
        }
        RunEnd::Refused(refusal) => {
            refused(&refusal);
            RUN_FAILED
        }
    }
}

/// Message, hint and rule of a refusal on standard error.
pub(super) fn refused(refusal: &Refusal) {
    text::complain(&refusal.message);
    if let Some(hint) = &refusal.hint {
        text::err_text(hint);
    }
    if let Some(rule) = &refusal.rule {
        text::err_text(&format!("rule: {rule} ({})", refusal.layer.as_deref().unwrap_or("built-in")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Code;

    #[test]
    fn exit_statuses_are_those_of_the_contract() {
        for (end, expected) in [
            (RunEnd::Exited(0), 0),
            (RunEnd::Exited(255), 255),
            (RunEnd::Signalled(9), 137),
            (RunEnd::Signalled(64), 192),
            (RunEnd::TimedOut, 124),
            (RunEnd::NotFound("x".into()), 127),
            (RunEnd::NotExecutable("x".into()), 126),
            (RunEnd::Refused(Refusal::new(Code::CannotEnforce, "x")), 125),
        ] {
            assert_eq!(status(end), expected);
        }
    }
}
