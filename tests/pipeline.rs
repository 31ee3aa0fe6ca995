//! The road of a call in a session: what it remembers, what it refuses, and that it goes on.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bay, User, assert_sealed, users};

/// A session that is asked line by line.
pub(crate) struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    pub(crate) fn new(bay: &Bay, what: &str) -> Session {
        let mut child = bay.command(what).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        Session { input: child.stdin.take(), output: BufReader::new(child.stdout.take().unwrap()), child }
    }

    fn send(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn ask(&mut self, tool: &str, args: &Value) -> Value {
        self.send(&json!({"tool": tool, "args": args}).to_string());
        self.answer()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        let begin = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begin.elapsed() > Duration::from_secs(10) {
                let _ = (self.child.kill(), self.child.wait());
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn code(result: &Value) -> Option<&str> {
    result["refusal"]["code"].as_str()
}

#[test]
fn an_edit_of_what_was_read_and_changed_since_is_stale() {
    for user in users() {
        let bay = Bay::new(user);
        let mut session = Session::new(&bay, "session");
        let edit = |old: &str, new: &str| json!({"path": "src/a.txt", "old_string": old, "new_string": new});
        assert_eq!(session.ask("read_file", &json!({"path": "src/a.txt"}))["ok"], true);
        assert_eq!(session.ask("edit_file", &edit("plain", "one"))["ok"], true, "{user:?}");
        assert_eq!(session.ask("edit_file", &edit("one", "two"))["ok"], true, "{user:?}: own changes are known");
        bay.put("work/src/a.txt", "two and more\n");
        let stale = session.ask("edit_file", &edit("two", "three"));
        assert_eq!(code(&stale), Some("stale"), "{user:?}: {stale}");
        assert_eq!(fs::read_to_string(bay.work("src/a.txt")).unwrap(), "two and more\n");
        session.ask("read_file", &json!({"path": "src/a.txt"}));
        assert_eq!(session.ask("edit_file", &edit("two", "three"))["ok"], true, "{user:?}");
    }
}

#[test]
fn the_same_range_twice_is_noted_as_unchanged() {
    let bay = Bay::new(User::Me);
    let mut session = Session::new(&bay, "session");
    let read = json!({"path": "src/a.txt"});
    assert!(session.ask("read_file", &read)["text"].as_str().unwrap().contains("plain"));
    let again = session.ask("read_file", &read);
    assert!(again["ok"] == true && again["details"]["unchanged"] == true, "{again}");
    bay.put("work/src/a.txt", "other\n");
    assert!(session.ask("read_file", &read)["text"].as_str().unwrap().contains("other"));
}

#[test]
fn sessions_that_edit_one_file_lose_nothing() {
    for user in users() {
        let bay = Bay::new(user);
        let (sessions, rounds) = (4, 6);
        let lines: String = (0..sessions * rounds).map(|n| format!("line {n:03} open\n")).collect();
        bay.put("work/shared.txt", &lines);
        std::thread::scope(|scope| {
            for own in 0..sessions {
                let bay = &bay;
                scope.spawn(move || {
                    let mut session = Session::new(bay, "session");
                    for round in 0..rounds {
                        let number = own * rounds + round;
                        let edit = json!({"path": "shared.txt", "old_string": format!("line {number:03} open"), "new_string": format!("line {number:03} done")});
                        let mut tries = 0;
                        loop {
                            session.ask("read_file", &json!({"path": "shared.txt"}));
                            let result = session.ask("edit_file", &edit);
                            if result["ok"] == true {
                                break;
                            }
                            assert_eq!(code(&result), Some("stale"), "{result}");
                            tries += 1;
                            assert!(tries < 200, "never got through: {result}");
                        }
                    }
                });
            }
        });
        let left = fs::read_to_string(bay.work("shared.txt")).unwrap();
        assert_eq!(
            left.matches("done").count(),
            sessions * rounds,
            "{user:?}: an edit that was said to be done is lost: {left}"
        );
        let names: Vec<String> =
            fs::read_dir(bay.work("")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        assert!(
            names.iter().all(|name| ["shared.txt", "src", ".env", "vault"].contains(&name.as_str())),
            "{user:?}: left behind: {names:?}"
        );
    }
}

#[test]
fn bad_calls_are_answered_and_change_nothing() {
    let bay = Bay::new(User::Me);
    let mut session = Session::new(&bay, "session");
    for (line, expected) in [
        (r#"{"tool":"no_such_tool","args":{}}"#, "unknown_tool"),
        (r#"{"tool":"","args":{}}"#, "unknown_tool"),
        ("{\"tool\":\"ls\u{0}\",\"args\":{}}", "invalid_json"),
        (r#"{"tool":"read_file","args":{"path":"src/a.txt","path":".env"}}"#, "invalid_json"),
        (r#"{"tool":"ls","tool":"bash","args":{}}"#, "invalid_json"),
        (r#"{"tool":"read_file","args":"{\"path\":\"src/a.txt\",\"path\":\".env\"}"}"#, "invalid_json"),
        (r#"{"tool":"read_file","args":"{"}"#, "invalid_json"),
        (r#"{"tool":"read_file","args":[1]}"#, "invalid_arguments"),
        (r#"{"tool":"read_file","args":{"path":5}}"#, "invalid_arguments"),
        (r#"{"tool":"read_file","args":{"path":"a\u0000b"}}"#, "invalid_arguments"),
        (r#"{"tool":"read_file","args":{"path":"src/a.txt","limit":0}}"#, "invalid_arguments"),
        (r#"{"tool":"read_file","args":{"path":"src/a.txt","nonsense":1}}"#, "invalid_arguments"),
        ("[]", "invalid_json"),
        ("nonsense", "invalid_json"),
        ("", ""),
        ("{\"tool\":\"ls\",\"args\":{}", "invalid_json"),
    ] {
        if expected.is_empty() {
            continue;
        }
        session.send(line);
        let result = session.answer();
        let seen = code(&result).unwrap_or("none");
        let fine = seen == expected
            || ["invalid_arguments", "invalid_json"].contains(&seen) && expected.starts_with("invalid");
        assert!(fine && result["ok"] == false, "{line:?}: {result}");
        assert_sealed(result.to_string().as_bytes());
    }
    assert_eq!(session.ask("ls", &json!({}))["ok"], true, "the session goes on");
    let deep = format!("{{\"tool\":\"ls\",\"args\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    session.send(&deep);
    assert_eq!(session.answer()["ok"], false);
    assert_eq!(session.ask("ls", &json!({}))["ok"], true, "and after a deep one");
}

#[test]
fn closing_the_input_ends_a_call_that_runs() {
    for user in users() {
        let bay = Bay::new(user);
        let mut session = Session::new(&bay, "session");
        session.send(&json!({"tool": "bash", "args": {"command": "touch started; sleep 3; touch late"}}).to_string());
        while !bay.work("started").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = session.child.kill();
        drop(session);
        std::thread::sleep(Duration::from_millis(3500));
        assert!(!bay.work("late").exists(), "{user:?}: the command went on without its session");
    }
}

#[test]
fn read_only_tools_answer_while_a_command_runs_over_mcp() {
    let bay = Bay::new(User::Me);
    let mut mcp = Session::new(&bay, "mcp");
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    mcp.send(&hello.to_string());
    mcp.answer();
    mcp.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let call = |id: u32, name: &str, args: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": args}})
            .to_string()
    };
    mcp.send(&call(1, "bash", json!({"command": "sleep 2"})));
    for id in 2..8 {
        mcp.send(&call(id, "read_file", json!({"path": "src/a.txt", "offset": 1})));
    }
    let order: Vec<u64> = (0..7).map(|_| mcp.answer()["id"].as_u64().unwrap()).collect();
    assert_eq!(order.last(), Some(&1), "reads waited for the command: {order:?}");
    assert_eq!(order.iter().collect::<HashSet<_>>().len(), 7);
}

#[test]
fn a_denied_name_that_the_host_makes_between_calls_is_covered() {
    for user in users() {
        let bay = Bay::new(user);
        let mut session = Session::new(&bay, "session");
        let run = |session: &mut Session, command: &str| session.ask("bash", &json!({ "command": command }));
        assert_eq!(run(&mut session, "true")["ok"], true);
        bay.put("work/src/deep/er/.env", "TOKEN=otter42\n");
        bay.put("work/src/.env", "TOKEN=otter42\n");
        bay.put("work/vault/more/key2", "walrus77\n");
        let result = run(
            &mut session,
            "cat src/deep/er/.env src/.env vault/more/key2; cat src/*/*/.env; grep -r otter . ; true",
        );
        assert_sealed(result["details"]["stdout"].to_string().as_bytes());
        // An editor saves by rename: the mask goes with the old file.
        bay.put("work/fresh", "TOKEN=otter42 again\n");
        fs::rename(bay.work("fresh"), bay.work(".env")).unwrap();
        let result = run(&mut session, "cat .env; cat ./.env; grep -r again .; true");
        assert_sealed(result["details"]["stdout"].to_string().as_bytes());
        let result = session.ask("read_file", &json!({"path": "src/deep/er/.env"}));
        assert_eq!(code(&result), Some("denied_path"), "{user:?}: {result}");
    }
}

#[test]
fn a_denied_file_that_the_host_replaces_during_a_call_is_covered_within_200_ms() {
    for user in users() {
        let bay = Bay::new(user);
        let mut session = Session::new(&bay, "session");
        let watch = "touch started; while [ ! -e go ]; do sleep 0.01; done; sleep 0.2; cat .env src/.env sub/new/.env; echo end";
        session.send(&json!({"tool": "bash", "args": {"command": watch}}).to_string());
        let begin = Instant::now();
        while !bay.work("started").exists() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        bay.put("work/fresh", "TOKEN=otter42 again\n");
        fs::rename(bay.work("fresh"), bay.work(".env")).unwrap();
        bay.put("work/src/.env", "TOKEN=otter42 new\n");
        bay.put("work/sub/new/.env", "TOKEN=otter42 deep\n");
        bay.put("work/go", "");
        let result = session.answer();
        let stdout = result["details"]["stdout"].as_str().unwrap();
        assert!(stdout.contains("end"), "{user:?}: {result}");
        assert_sealed(stdout.as_bytes());
    }
}
