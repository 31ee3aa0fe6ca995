//! **What this room is for:** the Model Context Protocol on standard input and output, and the bounded, strict reading of
//! lines that all ways in share. **Who may enter:** the command line. **Never done here:** judging, confining, any byte on
//! standard output that is no message. **Where the proof is:** the tests of its files and `tests/cli.rs`.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rmcp::service::serve_server;
use tokio::sync::watch;

use crate::call::{Code, Outcome, Refusal, ToolResult};
use crate::confinement::Enforcement;
use crate::supervisor::Supervisor;

mod server;
mod stdio;
pub(crate) mod strict;
mod transport;

pub(crate) use stdio::{Input, LineReader, Output, Read};

/// Bytes of one message from outside: the largest content (10 MiB) may grow six-fold when JSON escapes it.
pub(crate) const INPUT_BYTES: usize = 64 * 1024 * 1024;

/// The result of something that could not be read, so that no call was made.
pub(crate) fn unread(call_id: &str, id: Option<serde_json::Value>, refusal: Refusal) -> ToolResult {
    let enforcement = Enforcement { capabilities: "none".to_owned(), ..Enforcement::default() };
    ToolResult { call_id: call_id.to_owned(), id, tool: None, outcome: Outcome::from(refusal), enforcement }
}

/// The refusal of a message that is longer than [`INPUT_BYTES`].
pub(crate) fn oversized() -> Refusal {
    Refusal::new(Code::InvalidJson, format!("the message is larger than {} MiB", INPUT_BYTES / (1024 * 1024)))
        .hint("send less in one message")
}

/// The refusal of bytes that are no text.
pub(crate) fn not_utf8() -> Refusal {
    Refusal::new(Code::InvalidJson, "the message is not UTF-8").hint("encode the JSON text as UTF-8")
}

/// Serves one client until it closes its end or `stop` is ready.
///
/// # Errors
/// A message for the operator, when the protocol could not be started.
pub async fn serve<F>(supervisor: Supervisor, structured: bool, stop: F) -> Result<(), String>
where
    F: Future<Output = ()>,
{
    let supervisor = Arc::new(supervisor);
    let (end, ended) = watch::channel(false);
    let handler = server::Server {
        supervisor: Arc::clone(&supervisor),
        structured,
        ended,
        running: Arc::new(AtomicUsize::new(0)),
    };
    let opened = Arc::new(AtomicBool::new(false));
    let transport = transport::Lines::new(Input::stdin(), Output::stdout(), Arc::clone(&opened), end);
    let serving = async {
        match serve_server(handler, transport).await {
            Ok(service) => {
                // Nothing is read between the end of the handshake and here.
                opened.store(true, Ordering::Relaxed);
                service.waiting().await.map(drop).map_err(|e| format!("the protocol ended: {e}"))
            }
            // A client that leaves before it says a word is no error.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(format!("the protocol could not start: {error}")),
        }
    };
    let done = tokio::select! {
        done = serving => done,
        () = stop => Ok(()),
    };
    // Calls hold it too; those are over or given up by now. The process ends next, and the launcher with it.
    if let Ok(supervisor) = Arc::try_unwrap(supervisor) {
        supervisor.shutdown().await;
    }
    done
}
