//! **What this room is for:** `stockade call`: one tool call, its answer and its exit status. **Who may enter:** the
//! command line. **Never done here:** looking into arguments. **Where the proof is:** the tests below, `tests/cli.rs`.

use std::ffi::OsString;
use std::io::Read;

use super::{USAGE, args::Options, stop::Stop, text};
use crate::call::{RawArgs, Refusal, ToolCall, ToolResult};
use crate::mcp::{INPUT_BYTES, unread};
use crate::supervisor::{SessionKind, Supervisor};

/// Makes one call. With `--json` there is one result object on standard output, whatever the arguments were; bad usage
/// and a bad policy file leave standard output empty.
pub(super) fn call(options: Options, tool: OsString, arguments: OsString) -> u8 {
    let json = options.json;
    let read = match read_arguments(arguments) {
        Ok(read) => read,
        Err(message) => {
            text::complain(&message);
            return USAGE;
        }
    };
    super::block_on(async {
        // The policy is checked first, as for every other call.
        let supervisor = match Supervisor::start(options.settings(SessionKind::Call)).await {
            Ok(supervisor) => supervisor,
            Err(error) => return super::start_failed(&error, USAGE),
        };
        let text = match read {
            Ok(text) => text,
            Err(refusal) => {
                supervisor.shutdown().await;
                return answer(&unread("call-1", None, refusal), json);
            }
        };
        let Some(mut stop) = Stop::new() else { return USAGE };
        // A name that is no text is no tool's name; the answer says so.
        let call = ToolCall { tool: tool.to_string_lossy().into_owned(), args: RawArgs::Text(text), id: None };
        let status = tokio::select! {
            result = supervisor.call(call) => answer(&result, json),
            // Dropping the call ends its worker and everything below it.
            number = stop.wait() => 128 + number,
        };
        supervisor.shutdown().await;
        status
    })
}

/// The JSON text, or the refusal that stands in the result when it is no text at all.
fn read_arguments(arguments: OsString) -> Result<Result<String, Refusal>, String> {
    let bytes = if arguments == "-" {
        let mut bytes = Vec::new();
        let most = INPUT_BYTES as u64 + 1;
        std::io::stdin().lock().take(most).read_to_end(&mut bytes).map_err(|e| format!("standard input: {e}"))?;
        if bytes.len() > INPUT_BYTES {
            return Ok(Err(crate::mcp::oversized()));
        }
        bytes
    } else {
        arguments.into_encoded_bytes()
    };
    Ok(String::from_utf8(bytes).map_err(|_| crate::mcp::not_utf8()))
}

fn answer(result: &ToolResult, json: bool) -> u8 {
    if json {
        text::out(&text::json_line(result));
    } else {
        match &result.outcome.refusal {
            // A command that timed out has output as well, which the text holds.
            Some(refusal) => {
                if !result.outcome.text.starts_with(&refusal.message) {
                    text::out_text(&result.outcome.text);
                }
                super::run::refused(refusal);
            }
            None => text::out_text(&result.outcome.text),
        }
        for missing in &result.enforcement.degraded {
            text::complain(&format!("not enforced: {missing}"));
        }
    }
    result.exit_status()
}
