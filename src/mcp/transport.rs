//! **What this room is for:** JSON-RPC messages on standard input and output for `rmcp`: bounded, strict, and never broken
//! by what comes in. **Who may enter:** the server beside it. **Never done here:** answering a well-formed request.
//! **Where the proof is:** the tests below and `tests/cli.rs`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::sync::{Mutex, watch};

use super::stdio::{LineReader, Output, Read};
use super::strict;

/// Messages in both directions.
#[derive(Debug)]
pub(super) struct Lines<R> {
    lines: LineReader<R>,
    output: Arc<Mutex<Option<Output>>>,
    /// An answer of ours that is still to be written; kept here since `receive` may be cancelled at any time.
    answer: Option<TxJsonRpcMessage<RoleServer>>,
    /// The handshake is over. Until then anything but a request would end `rmcp`'s handshake and with it the server.
    opened: Arc<AtomicBool>,
    /// Becomes true at the end of input.
    ended: watch::Sender<bool>,
}

/// What to do with one line.
enum Step {
    Deliver(Box<RxJsonRpcMessage<RoleServer>>),
    Answer(Box<TxJsonRpcMessage<RoleServer>>),
    Ignore,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// `opened` is for the caller to set when the handshake is over.
    pub(super) fn new(input: R, output: Output, opened: Arc<AtomicBool>, ended: watch::Sender<bool>) -> Self {
        let output = Arc::new(Mutex::new(Some(output)));
        Lines { lines: LineReader::new(input), output, answer: None, opened, ended }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move { write(&output, &message).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answer) = self.answer.take() {
                // In a task of its own: a message must not be torn when this is cancelled.
                let output = Arc::clone(&self.output);
                tokio::spawn(async move { write(&output, &answer).await });
            }
            let step = match self.lines.next().await {
                Read::Line(line) => step(line, self.opened.load(Ordering::Relaxed)),
                Read::TooLong => error(None, ErrorCode::INVALID_REQUEST, &super::oversized().message),
                Read::End => {
                    self.ended.send_replace(true);
                    return None;
                }
            };
            match step {
                Step::Deliver(message) => return Some(*message),
                Step::Answer(message) => self.answer = Some(*message),
                Step::Ignore => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.output.lock().await.take();
        Ok(())
    }
}

async fn write(output: &Mutex<Option<Output>>, message: &TxJsonRpcMessage<RoleServer>) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    match output.lock().await.as_mut() {
        Some(output) => output.write_all(&line).await,
        None => Err(io::ErrorKind::NotConnected.into()),
    }
}

fn error(id: Option<RequestId>, code: ErrorCode, message: &str) -> Step {
    Step::Answer(Box::new(JsonRpcMessage::error(ErrorData::new(code, message.to_owned(), None), id)))
}

/// Judges the form of one line.
fn step(line: &[u8], opened: bool) -> Step {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let parsed = std::str::from_utf8(line).ok().and_then(|text| strict::parse(text).ok());
    // No JSON, so no id to answer to; answering anyway would loop with a peer that echoes.
    let Some(strict::Parsed { value, twice }) = parsed else { return Step::Ignore };
    let (id, method) = (request_id(&value), value.get("method").and_then(Value::as_str).map(str::to_owned));
    if twice.is_some() {
        return error(id, ErrorCode::INVALID_REQUEST, "a key occurs twice in one object");
    }
    match (serde_json::from_value(value), method) {
        // An object may look like several kinds at once, so the parsed kind decides.
        (Ok(message), _) if !opened && !matches!(message, JsonRpcMessage::Request(_)) => Step::Ignore,
        (Ok(message), _) => Step::Deliver(Box::new(message)),
        // A notification that we do not know, or an answer to nothing.
        (Err(_), method) if id.is_none() && method.is_some() => Step::Ignore,
        (Err(_), Some(_)) => error(id, ErrorCode::INVALID_PARAMS, "the parameters do not fit the method"),
        (Err(_), None) => error(id, ErrorCode::INVALID_REQUEST, "this is not a JSON-RPC request"),
    }
}

fn request_id(value: &Value) -> Option<RequestId> {
    serde_json::from_value(value.get("id")?.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_of(line: &str, opened: bool) -> Option<Value> {
        match step(line.as_bytes(), opened) {
            Step::Answer(message) => Some(serde_json::to_value(message).unwrap()),
            Step::Deliver(message) => panic!("{message:?}"),
            Step::Ignore => None,
        }
    }

    #[test]
    fn bad_requests_are_answered_with_their_id() {
        let doubled =
            r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"k":1,"k":2}}}"#;
        let answer = answer_of(doubled, true).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&"a".into(), &(-32600).into()), "{answer}");
        let bad_id = answer_of(r#"{"jsonrpc":"2.0","id":{},"method":5}"#, true).unwrap();
        assert_eq!(bad_id["error"]["code"], -32600, "{bad_id}");
        let batch = answer_of("[]", true).unwrap();
        assert_eq!((batch["jsonrpc"].as_str(), batch["error"]["code"].as_i64()), (Some("2.0"), Some(-32600)));
    }

    #[test]
    fn noise_is_ignored() {
        for line in ["", "this is not json", "{", "\u{fffd}", r#"{"jsonrpc":"2.0","method":"$/odd"}"#] {
            assert_eq!(answer_of(line, false), None, "{line}");
        }
        assert!(matches!(step(b"\xff\xfe{}", true), Step::Ignore));
        // Before the first request these would end the handshake.
        for line in
            [r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]
        {
            assert_eq!(answer_of(line, false), None, "{line}");
        }
    }

    #[test]
    fn requests_are_delivered_also_unknown_ones() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"no/such\"}\r",
        ] {
            assert!(matches!(step(line.as_bytes(), false), Step::Deliver(_)), "{line}");
        }
    }
}
