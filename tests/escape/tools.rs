//! Denied names and names outside, by every tool of this version.

use serde_json::{Value, json};

use super::Scene;
use crate::support::{assert_sealed, users};

/// A call of each tool on a path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        (
            "bash",
            json!({ "command": format!("cat '{path}' '{path}'/*; ls -la '{path}'; cp -r '{path}' /tmp/x; cat /tmp/x /tmp/x/*") }),
        ),
        ("edit_file", json!({"path": path, "old_string": "o", "new_string": "x"})),
        ("glob", json!({"pattern": "**", "path": path, "include_hidden": true, "include_ignored": true})),
        ("grep", json!({"pattern": ".", "path": path, "include_hidden": true, "include_ignored": true})),
        ("ls", json!({"path": path, "depth": 3})),
        ("multi_edit", json!({"path": path, "edits": [{"old_string": "o", "new_string": "x"}]})),
        ("read_file", json!({ "path": path })),
        ("search_text", json!({"query": "otter", "path": path})),
        ("write_file", json!({"path": path, "content": "x", "overwrite": true})),
    ]
}

#[test]
fn every_tool_is_in_the_table() {
    let scene = Scene::new(crate::support::User::Me, "");
    let output = scene.bay.bare().args(["tools", "--json"]).output().unwrap();
    let tools: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = tools["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned());
    // `process` starts what `bash` starts, by the same worker; it is tried below.
    let mut missing: Vec<String> =
        all.filter(|name| name != "process" && calls("x").iter().all(|(tool, _)| tool != name)).collect();
    missing.sort();
    assert!(missing.is_empty(), "tools without an attempt: {missing:?}");
}

#[test]
fn no_tool_gives_or_changes_a_denied_or_outside_file() {
    for user in users() {
        let scene = Scene::new(user, "");
        scene.host.python(&scene.fill(
            "os.link('{work}/.env', '{work}/src/alias'); os.symlink('../.env', '{work}/src/link'); os.symlink('{outer}', '{work}/out')
os.symlink('/proc/self/root{outer}', '{work}/magic'); os.symlink('vault', '{work}/folder')",
        ));
        let outer = super::text(&scene.bay.base().join("outer"));
        let work = super::text(&scene.bay.work(""));
        let before = super::state(&scene.bay.base().join("outer"));
        let mut lines = Vec::new();
        for path in [
            ".env",
            "./.env",
            "src/../.env",
            "src/./../.env",
            "vault",
            "vault/key",
            "vault/new",
            "src/alias",
            "src/link",
            "folder",
            "folder/key",
            "out",
            "out/note.txt",
            "magic/note.txt",
            "../outer/note.txt",
            "../outer",
            "src/../../outer/note.txt",
            "/etc/shadow",
            "/etc/passwd",
            "~/.ssh/id_rsa",
            "/proc/self/environ",
            "/proc/self/cwd/.env",
            "/dev/stdin",
            ".ENV/../.env",
            "%2e%2e/outer/note.txt",
            "..\\outer\\note.txt",
            ".env/",
            ".env/.",
            "src/a.txt/../../.env",
            "\u{2024}env",
            ".env\u{200b}",
            "file:///etc/shadow",
            &format!("{outer}/note.txt"),
            &format!("{work}.env"),
            &format!("{work}/vault/key"),
            &format!("/proc/self/root{outer}/note.txt"),
        ] {
            lines.extend(calls(path).into_iter().map(|(tool, args)| json!({"tool": tool, "args": args, "id": path})));
        }
        let input = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        let results = scene.bay.lines("session", &input);
        assert_eq!(results.len(), lines.len(), "{user:?}");
        for mut result in results {
            // The question may be repeated: a pattern is no secret.
            result["details"]["query"] = Value::Null;
            assert_sealed(result.to_string().as_bytes());
            let passwd = result["tool"] != "bash" && result.to_string().contains("root:x:0");
            assert!(!passwd, "{user:?}: {result}");
        }
        assert_eq!(super::state(&scene.bay.base().join("outer")), before, "{user:?}: something outside changed");
        assert_eq!(std::fs::read_to_string(scene.bay.work(".env")).unwrap(), "TOKEN=otter42\n", "{user:?}");
        assert_eq!(std::fs::read_to_string(scene.bay.work("vault/key")).unwrap(), "walrus77\n", "{user:?}");
        assert!(!scene.bay.work("vault/new").exists());
    }
}

#[test]
fn searches_over_the_whole_workspace_leave_denied_files_out() {
    for user in users() {
        let scene = Scene::new(user, "");
        for (tool, args) in [
            ("grep", json!({"pattern": "o", "include_hidden": true, "include_ignored": true})),
            ("grep", json!({"pattern": "", "output_mode": "files", "include_hidden": true, "include_ignored": true})),
            ("glob", json!({"pattern": "**/*", "include_hidden": true, "include_ignored": true})),
            ("glob", json!({"pattern": ".env", "include_hidden": true, "include_ignored": true})),
            ("glob", json!({"pattern": "vault/*", "include_hidden": true, "include_ignored": true})),
            ("ls", json!({"depth": 6})),
            ("search_text", json!({"query": "otter42 walrus77"})),
        ] {
            let (result, _) = scene.bay.call(tool, &args);
            let rows = result["details"]["rows"].to_string();
            assert!(!rows.contains(".env") && !rows.contains("vault/key"), "{user:?} {tool} {args}: {result}");
            assert!(!rows.contains("otter") && !rows.contains("walrus"), "{user:?} {tool} {args}: {result}");
        }
    }
}
