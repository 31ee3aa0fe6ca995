//! The command line from outside: exit statuses, one answer a line, nothing raw on a terminal.

use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Bay, User, assert_sealed, fed, shown, users};

fn status(bay: &Bay, args: &[&str]) -> (i32, String, String) {
    let output = bay.bare().args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn usage_errors_are_2_and_125_for_run_and_leave_standard_output_empty() {
    let bay = Bay::new(User::Me);
    for (args, expected) in [
        (&["call"][..], 2),
        (&["call", "--nonsense", "ls", "{}"], 2),
        (&["nonsense"], 2),
        (&[], 2),
        (&["run"], 125),
        (&["run", "true"], 125),
        (&["run", "--nonsense", "--", "true"], 125),
        (&["run", "--root", "/no/such/folder", "--", "true"], 125),
        (&["run", "--audit", "x", "--", "true"], 125),
        (&["call", "--root", "/no/such/folder", "ls", "{}"], 2),
        (&["call", "--policy", "/no/such/policy", "ls", "{}"], 2),
        (&["call", "--mode", "nonsense", "ls", "{}"], 2),
        (&["call", "--audit", "x", "ls", "{}"], 2),
        (&["session", "--profile", "nonsense"], 2),
        (&["audit", "verify", "x"], 2),
        (&["policy", "test"], 2),
        (&["profile", "show", "nonsense"], 2),
    ] {
        let (code, out, err) = status(&bay, args);
        assert_eq!(code, expected, "{args:?}: {err}");
        assert!(out.is_empty() && !err.is_empty(), "{args:?}: {out:?} {err:?}");
    }
}

#[test]
fn a_bad_policy_file_is_named_and_nothing_runs() {
    let mut bay = Bay::new(User::Me);
    bay.with_policy("open", "[colours]\nred = true\n");
    let output = bay.command("call").args(["--json", "bash", r#"{"command":"touch ran"}"#]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
    assert!(
        output.stdout.is_empty() && String::from_utf8_lossy(&output.stderr).contains("p.toml"),
        "{}",
        shown(&output)
    );
    let output = bay.run("touch ran");
    assert_eq!(output.status.code(), Some(125), "{}", shown(&output));
    assert!(!bay.work("ran").exists());
    let policy = bay.base().join("p.toml");
    assert_eq!(status(&bay, &["policy", "check", policy.to_str().unwrap()]).0, 2);
}

#[test]
fn help_version_completions_and_the_manual_are_there() {
    let bay = Bay::new(User::Me);
    for args in
        [&["--help"][..], &["run", "--help"], &["policy", "--help"], &["--version"], &["completions", "bash"], &["man"]]
    {
        let (code, out, err) = status(&bay, args);
        assert!(code == 0 && out.contains("stockade") && err.is_empty(), "{args:?}: {code} {err}");
    }
}

#[test]
fn call_tells_ok_failed_bad_and_refused_apart() {
    for user in users() {
        let bay = Bay::new(user);
        for (tool, args, code, expected) in [
            ("read_file", json!({ "path": "src/a.txt" }), None, 0),
            ("read_file", json!({ "path": "src/none.txt" }), Some("not_found"), 1),
            ("read_file", json!({ "path": ".env" }), Some("denied_path"), 3),
            ("read_file", json!({ "path": "../outer/note.txt" }), Some("outside_workspace"), 3),
            ("read_file", json!({ "pfad": "x" }), Some("invalid_arguments"), 2),
            ("no_such_tool", json!({}), Some("unknown_tool"), 2),
            ("bash", json!({ "command": "exit 3" }), None, 1),
        ] {
            let (result, exit) = bay.call(tool, &args);
            assert_eq!(result["refusal"]["code"].as_str(), code, "{user:?} {tool} {args}: {result}");
            assert_eq!(exit, expected, "{user:?} {tool} {args}: {result}");
            assert_eq!(result["ok"], expected == 0, "{user:?} {tool} {args}: {result}");
            assert_sealed(result.to_string().as_bytes());
        }
    }
}

#[test]
fn call_with_json_always_answers_with_one_object() {
    let bay = Bay::new(User::Me);
    for arguments in ["", "{", "[1]", "null", "{} {}", r#"{"path":"src/a.txt","path":".env"}"#, "-5", "\u{1b}"] {
        let output = bay.command("call").args(["--json", "read_file", arguments]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", shown(&output));
        assert_eq!(output.stdout.iter().filter(|b| **b == b'\n').count(), 1, "{}", shown(&output));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let code = result["refusal"]["code"].as_str().unwrap();
        assert!(["invalid_json", "invalid_arguments"].contains(&code), "{arguments:?}: {result}");
    }
    let mut command = bay.command("call");
    command.args(["--json", "read_file", "-"]);
    let output = fed(command, br#"{"path":"src/a.txt"}"#);
    assert!(output.status.success(), "{}", shown(&output));
}

#[test]
fn without_json_text_goes_out_and_refusals_go_to_standard_error() {
    let bay = Bay::new(User::Me);
    bay.put("work/odd.txt", "a\u{1b}]52;c;x\u{7}\u{9b}31mz\n");
    let plain = |args: &[&str]| {
        let output = bay.command("call").args(args).output().unwrap();
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = plain(&["read_file", r#"{"path":"odd.txt"}"#]);
    assert!(code == 0 && err.is_empty() && out.contains('z'), "{out:?} {err:?}");
    assert!(!out.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{out:?}");
    let (code, out, err) = plain(&["read_file", r#"{"path":".env"}"#]);
    assert!(code == 3 && out.is_empty() && err.contains(".env"), "{out:?} {err:?}");
}

#[test]
fn run_gives_the_status_of_the_command() {
    for user in users() {
        let bay = Bay::new(user);
        let exit = |argv: &[&str]| bay.command("run").arg("--").args(argv).output().unwrap().status.code();
        assert_eq!(exit(&["true"]), Some(0), "{user:?}");
        assert_eq!(exit(&["sh", "-c", "exit 7"]), Some(7), "{user:?}");
        assert_eq!(exit(&["sh", "-c", "kill -TERM $$"]), Some(143), "{user:?}");
        assert_eq!(exit(&["/no/such/program"]), Some(127), "{user:?}");
        assert_eq!(exit(&["src/a.txt"]), Some(126), "{user:?}");
        let output = bay.run("echo in; cat ../outer/note.txt .env vault/key; echo out >&2");
        assert_sealed(&output.stdout);
        assert_sealed(&output.stderr);
        assert!(output.stdout.starts_with(b"in\n"), "{user:?}: {}", shown(&output));
    }
}

#[test]
fn a_session_answers_each_line_in_order_and_goes_on_after_bad_ones() {
    for user in users() {
        let bay = Bay::new(user);
        let lines = [
            r#"{"tool":"read_file","args":{"path":"src/a.txt"},"id":"one"}"#,
            "this is no line",
            r#"{"tool":"read_file","args":"{\"path\":\".env\"}","id":[2]}"#,
            r#"{"tool":"read_file","args":{"path":"a","path":"b"},"id":3}"#,
            r#"{"control":"summary","id":4}"#,
            r#"{"control":"no such","id":5}"#,
            // No line feed at the end: still a line.
            r#"{"tool":"ls","args":{},"id":6}"#,
        ];
        let answers = bay.lines("session", &lines.join("\n"));
        assert_eq!(answers.len(), lines.len(), "{answers:?}");
        assert!(answers[0]["id"] == "one" && answers[0]["ok"] == true, "{}", answers[0]);
        assert!(answers[1]["tool"].is_null() && answers[1]["refusal"]["code"] == "invalid_json", "{}", answers[1]);
        assert!(answers[2]["id"] == json!([2]) && answers[2]["refusal"]["code"] == "denied_path", "{}", answers[2]);
        assert!(answers[3]["id"] == 3 && answers[3]["refusal"]["code"] == "invalid_json", "{}", answers[3]);
        let summary = &answers[4]["details"];
        assert!(summary["calls"] == 2 && summary["ok"] == 1 && summary["refused"] == 1, "{summary}");
        assert_eq!(summary["permission_denials"][0]["subject"], ".env", "{summary}");
        assert!(answers[5]["control"] == "no such" && answers[5]["ok"] == false, "{}", answers[5]);
        assert!(answers[6]["id"] == 6 && answers[6]["ok"] == true, "{}", answers[6]);
    }
}

#[test]
fn a_session_drops_a_line_that_is_too_long_and_ends_cleanly_on_a_signal() {
    let bay = Bay::new(User::Me);
    let mut input = vec![b'x'; 65 * 1024 * 1024];
    input.extend_from_slice(b"\n{\"tool\":\"ls\",\"args\":{},\"id\":1}\n");
    let output = fed(bay.command("session"), &input);
    let answers: Vec<Value> = output
        .stdout
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    assert_eq!(answers.len(), 2, "{}", shown(&output));
    assert!(answers[0]["refusal"]["code"] == "invalid_json" && answers[1]["ok"] == true, "{answers:?}");

    let mut child = bay.command("session").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"{\"tool\":\"ls\",\"args\":{}}\n").unwrap();
    // It answers: it is there.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn mcp(bay: &Bay, options: &[&str], requests: &[Value]) -> Vec<Value> {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    // What comes before the handshake and is no part of it must not end it.
    let early = [
        "noise",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":"early","method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":"odd","method":5,"result":[1]}"#,
        r#"{"jsonrpc":"2.0","method":""}"#,
    ];
    let mut input = format!("{}\n{hello}\n", early.join("\n"));
    for request in requests {
        input.push_str(&format!("{request}\n"));
    }
    let mut command = bay.command("mcp");
    command.args(options).env("STOCKADE_LOG", "trace").env("RUST_LOG", "trace");
    let output = fed(command, input.as_bytes());
    assert!(output.status.success(), "{}", shown(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(answers.iter().all(|a| a["jsonrpc"] == "2.0"), "{text}");
    answers
}

fn to(answers: &[Value], id: i64) -> &Value {
    answers.iter().find(|a| a["id"] == id).unwrap_or_else(|| panic!("no answer to {id}: {answers:?}"))
}

fn tool_call(id: i64, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

#[test]
fn mcp_lists_sorted_closed_tools_and_gives_the_result_object() {
    for user in users() {
        let bay = Bay::new(user);
        let answers = mcp(
            &bay,
            &[],
            &[
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
                tool_call(2, "read_file", json!({"path": "src/a.txt"})),
                tool_call(3, "read_file", json!({"path": ".env"})),
                tool_call(4, "no_such_tool", json!({})),
                tool_call(5, "bash", json!({"command": "echo '{\"jsonrpc\":\"2.0\"}'; cat; echo err >&2"})),
                json!({"jsonrpc": "2.0", "id": 6, "method": "no/such"}),
                tool_call(7, "read_file", json!("text")),
            ],
        );
        let tools = to(&answers, 1)["result"]["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
        assert!(names.is_sorted() && names.contains(&"read_file") && names.contains(&"bash"), "{names:?}");
        for tool in tools {
            assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
            assert!(tool.get("outputSchema").is_none() && tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
        }
        for (id, ok) in [(2, true), (3, false), (4, false), (5, true)] {
            let result = &to(&answers, id)["result"];
            assert_eq!(result["isError"], !ok, "{user:?}: {result}");
            assert_eq!(result["_meta"]["stockade/result"]["ok"], ok, "{user:?}: {result}");
            assert_eq!(result["content"][0]["text"], result["_meta"]["stockade/result"]["text"], "{result}");
            assert!(result.get("structuredContent").is_none());
        }
        assert_eq!(to(&answers, 6)["error"]["code"], -32601);
        assert_eq!(to(&answers, 7)["error"]["code"], -32602);
        assert_sealed(format!("{answers:?}").as_bytes());
    }
}

#[test]
fn mcp_structured_adds_schemas_and_content() {
    let bay = Bay::new(User::Me);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let answers = mcp(&bay, &["--structured"], &[list, tool_call(2, "ls", json!({}))]);
    assert_eq!(to(&answers, 1)["result"]["tools"][0]["outputSchema"]["type"], "object");
    let result = &to(&answers, 2)["result"];
    assert_eq!(result["structuredContent"], result["_meta"]["stockade/result"]);
}

#[test]
fn lists_and_reports_are_json_where_asked() {
    let bay = Bay::new(User::Me);
    let object = |args: &[&str]| -> Value {
        let (code, out, err) = status(&bay, args);
        assert_eq!(code, 0, "{args:?}: {err}");
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out:.200}"))
    };
    let tools = object(&["tools", "--json"]);
    let tools = tools["tools"].as_array().unwrap();
    assert!(
        tools.iter().any(|t| t["name"] == "read_file" && t["class"] == "read-only-local" && t["available"] == true)
    );
    assert!(object(&["doctor", "--json"])["guarantees"].is_array());
    assert!(object(&["policy", "show", "--json"]).is_object());
    assert!(object(&["policy", "schema"]).is_object());
    assert!(object(&["profile", "list", "--json"])["profiles"].is_array());
    for args in [
        &["tools"][..],
        &["tools", "--markdown"],
        &["doctor"],
        &["policy", "show"],
        &["policy", "init"],
        &["profile", "list"],
    ] {
        let (code, out, err) = status(&bay, args);
        assert!(code == 0 && !out.trim().is_empty() && !out.contains('\u{1b}'), "{args:?}: {err}");
    }
}
