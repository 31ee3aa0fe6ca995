//! **What this room is for:** `stockade session`: one call a line on standard input, one answer a line on standard
//! output, in order. **Who may enter:** the command line. Whoever holds standard input is the host, not the agent.
//! **Never done here:** two calls at once; any other byte on standard output. **Where the proof is:** `tests/cli.rs`.

use serde_json::{Map, Value, json};

use super::{USAGE, args::Options, stop::Stop, text};
use crate::call::{Code, RawArgs, Refusal, ToolCall, ToolResult};
use crate::limits::NAME_CHARS;
use crate::mcp::{Input, LineReader, Output, Read, strict, unread};
use crate::supervisor::{SessionKind, Supervisor};

/// Denials that `summary` lists; more are only counted.
const DENIALS_LISTED: usize = 1000;
/// Characters of a subject that `summary` shows.
const SUBJECT_CHARS: usize = 200;
/// Where the subject of a call stands, in the order of the contract.
const SUBJECTS: [&str; 9] = ["command", "file_path", "filePath", "path", "url", "pattern", "query", "target", "argv"];

/// Serves lines until the input ends or a signal comes.
pub(super) fn session(options: Options) -> u8 {
    super::block_on(async {
        // First: a signal that comes while the session starts ends it as well.
        let Some(mut stop) = Stop::new() else { return USAGE };
        let supervisor = match Supervisor::start(options.settings(SessionKind::Session)).await {
            Ok(supervisor) => supervisor,
            Err(error) => return super::start_failed(&error, USAGE),
        };
        tokio::select! {
            () = serve(&supervisor) => {}
            // Dropping the running call ends its worker and everything below it.
            _ = stop.wait() => {}
        }
        supervisor.shutdown().await;
        0
    })
}

async fn serve(supervisor: &Supervisor) {
    let mut lines = LineReader::new(Input::stdin());
    let mut output = Output::stdout();
    let mut host = Host { supervisor, line: 0, counts: Counts::default() };
    loop {
        let answer = match lines.next().await {
            Read::End => return,
            Read::TooLong => {
                host.line += 1;
                host.refuse(None, crate::mcp::oversized())
            }
            Read::Line(line) => host.answer(line).await,
        };
        if output.write_all(&answer).await.is_err() {
            // Nobody reads answers any more.
            return;
        }
    }
}

/// One session as its host sees it.
struct Host<'a> {
    supervisor: &'a Supervisor,
    /// Number of the line, for lines that cannot be read.
    line: u64,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    calls: u64,
    ok: u64,
    failed: u64,
    refused: u64,
    denials: Vec<Value>,
}

impl Host<'_> {
    async fn answer(&mut self, line: &[u8]) -> Vec<u8> {
        self.line += 1;
        let Ok(line) = std::str::from_utf8(line) else { return self.refuse(None, crate::mcp::not_utf8()) };
        let mut object = match strict::parse(line) {
            Ok(strict::Parsed { value: Value::Object(object), twice: None }) => object,
            Ok(strict::Parsed { value: Value::Object(object), twice: Some(key) }) => {
                let id = object.get("id").cloned();
                return self.refuse(id, invalid(format!("the key {} occurs twice", quoted(&key))));
            }
            Ok(_) => return self.refuse(None, invalid("the line is not a JSON object")),
            Err(message) => return self.refuse(None, invalid(format!("the line is not JSON: {message}"))),
        };
        let id = object.get("id").cloned();
        if let Some(control) = object.remove("control") {
            return self.control(&control, id);
        }
        match request(object) {
            Ok(call) => {
                let subject = subject(&call.args);
                let result = self.supervisor.call(call).await;
                self.counts.add(&result, subject);
                text::json_line(&result)
            }
            Err(refusal) => self.refuse(id, refusal),
        }
    }

    fn refuse(&self, id: Option<Value>, refusal: Refusal) -> Vec<u8> {
        text::json_line(&unread(&format!("line-{}", self.line), id, refusal))
    }

    fn control(&self, control: &Value, id: Option<Value>) -> Vec<u8> {
        let (ok, details) = match control.as_str() {
            Some("summary") => (true, self.counts.summary()),
            Some("grants" | "revoke" | "changes" | "apply" | "discard" | "reset" | "mode") => {
                (false, json!({ "message": super::NOT_BUILT }))
            }
            _ => (false, json!({ "message": "there is no such control" })),
        };
        let mut answer = Map::new();
        let name: Option<String> = control.as_str().map(|name| name.chars().take(NAME_CHARS).collect());
        answer.insert("control".to_owned(), name.into());
        if let Some(id) = id {
            answer.insert("id".to_owned(), id);
        }
        answer.insert("ok".to_owned(), ok.into());
        answer.insert("details".to_owned(), details);
        text::json_line(&answer)
    }
}

/// Makes a call of a line that is an object.
fn request(mut object: Map<String, Value>) -> Result<ToolCall, Refusal> {
    let tool = match object.remove("tool") {
        Some(Value::String(tool)) => tool,
        Some(_) => return Err(invalid("\"tool\" is not a string")),
        None => return Err(invalid("the line has no \"tool\"")),
    };
    let args = match object.remove("args") {
        Some(Value::Object(args)) => RawArgs::Object(args),
        Some(Value::String(text)) => RawArgs::Text(text),
        None => RawArgs::Object(Map::new()),
        Some(_) => return Err(invalid("\"args\" is neither an object nor a string")),
    };
    let id = object.remove("id");
    if object.remove("approve").is_some() {
        return Err(invalid(format!("\"approve\": {}", super::NOT_BUILT)));
    }
    match object.keys().next() {
        Some(key) => Err(invalid(format!("the line has an unknown key {}", quoted(key)))),
        None => Ok(ToolCall { tool, args, id }),
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidJson, message)
        .hint("send one object a line: {\"tool\":\"ls\",\"args\":{\"path\":\".\"},\"id\":1}")
}

fn quoted(key: &str) -> String {
    Value::from(key.chars().take(NAME_CHARS).collect::<String>()).to_string()
}

/// What the call was about, for the list of denials.
fn subject(args: &RawArgs) -> Option<String> {
    let parsed;
    let object = match args {
        RawArgs::Object(object) => object,
        RawArgs::Text(text) => {
            parsed = serde_json::from_str::<Map<String, Value>>(text).ok()?;
            &parsed
        }
    };
    let value = SUBJECTS.iter().find_map(|name| object.get(*name))?;
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(shown.chars().take(SUBJECT_CHARS).collect())
}

impl Counts {
    fn add(&mut self, result: &ToolResult, subject: Option<String>) {
        self.calls += 1;
        let Some(refusal) = &result.outcome.refusal else {
            if result.outcome.ok {
                self.ok += 1;
            } else {
                self.failed += 1;
            }
            return;
        };
        // Exit status 3 is what the contract calls refused by policy.
        if refusal.code.exit_status() != 3 {
            self.failed += 1;
            return;
        }
        self.refused += 1;
        if self.denials.len() < DENIALS_LISTED {
            self.denials.push(json!({
                "call_id": result.call_id, "tool": result.tool, "code": refusal.code, "subject": subject,
            }));
        }
    }

    fn summary(&self) -> Value {
        json!({
            "calls": self.calls, "ok": self.ok, "failed": self.failed, "refused": self.refused,
            "permission_denials": self.denials,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_request_is_an_object_with_known_keys() {
        assert!(matches!(request(object(r#"{"tool":"ls"}"#)).unwrap().args, RawArgs::Object(_)));
        assert!(matches!(request(object(r#"{"tool":"ls","args":"{}","id":[1]}"#)).unwrap().args, RawArgs::Text(_)));
        for bad in [r"{}", r#"{"tool":1}"#, r#"{"tool":"ls","args":[]}"#, r#"{"tool":"ls","args":null}"#] {
            assert_eq!(request(object(bad)).unwrap_err().code, Code::InvalidJson, "{bad}");
        }
        assert!(request(object(r#"{"tool":"ls","arg":{}}"#)).unwrap_err().message.contains("\"arg\""));
    }

    #[test]
    fn the_subject_is_found_and_bounded() {
        let long = "p".repeat(10_000);
        let args = RawArgs::Object(object(&json!({ "x": 1, "path": long }).to_string()));
        assert_eq!(subject(&args).map(|s| s.len()), Some(SUBJECT_CHARS));
        assert_eq!(subject(&RawArgs::Text(r#"{"argv":["a"]}"#.to_owned())).as_deref(), Some("[\"a\"]"));
        assert_eq!(subject(&RawArgs::Text("{".to_owned())), None);
    }
}
