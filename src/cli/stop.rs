//! **What this room is for:** the wish to stop: SIGINT, SIGTERM and SIGHUP. **Who may enter:** the commands.
//! **Never done here:** forwarding signals to confined programs. **Where the proof is:** `tests/cli.rs`.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for the first of the three.
#[derive(Debug)]
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stop {
    /// Needs a running runtime. `None` when handlers cannot be set, which is said on standard error.
    pub(super) fn new() -> Option<Stop> {
        let all = || -> std::io::Result<Stop> {
            Ok(Stop {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
            })
        };
        match all() {
            Ok(stop) => Some(stop),
            Err(error) => {
                super::text::complain(&format!("cannot wait for signals: {error}"));
                None
            }
        }
    }

    /// The number of the signal that came. Safe to drop and to call again.
    pub(super) async fn wait(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}
