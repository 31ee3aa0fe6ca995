//! `write_file`, `edit_file` and `bash`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::{Bay, Fake, checked, options};
use crate::call::Code;
use crate::confine::Confined;
use crate::tools::args::parse_object;
use crate::tools::{Given, Need, find, text};

#[test]
fn write_file_makes_replaces_and_refuses() {
    let mut bay = Bay::new();
    let made = bay.good("write_file", json!({"path": "new/deep/ünï.txt", "content": "žluť\n"}));
    assert_eq!((made.text.as_str(), &made.details["created"]), ("Created new/deep/ünï.txt (7 bytes).", &json!(true)));
    assert_eq!(bay.text("new/deep/ünï.txt"), "žluť\n");
    let there = bay.call("write_file", json!({"path": "src/a.txt", "content": "x"})).refusal.unwrap();
    let hint = there.hint.unwrap();
    assert!(there.code == Code::Exists && hint.contains("edit_file") && hint.contains("overwrite"));
    let path = bay.put("tool.sh", "#!/bin/sh\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    let updated =
        bay.good("write_file", json!({"path": "tool.sh", "content": "#!/bin/sh\nexit 0\n", "overwrite": true}));
    assert!(updated.text.starts_with("Updated tool.sh (17 bytes).") && updated.details["previous_bytes"] == 10);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
    let same = bay.good("write_file", json!({"path": "src/a.txt", "content": "plain\n", "overwrite": true}));
    assert_eq!(same.text, "Unchanged src/a.txt.");
    assert_eq!(bay.code("write_file", json!({"path": "src", "content": "x", "overwrite": true})), Code::NotRegular);
    assert_eq!(bay.code("write_file", json!({"path": "x", "content": "a", "append": true})), Code::InvalidArguments);
    bay.options.overwrite = "never".to_owned();
    assert_eq!(bay.code("write_file", json!({"path": "src/a.txt", "content": "x", "overwrite": true})), Code::Exists);
    bay.options.overwrite = "always".to_owned();
    bay.good("write_file", json!({"path": "src/a.txt", "content": "x"}));
}

#[test]
fn write_file_calls_out_a_loss_and_a_change_of_others() {
    let mut bay = Bay::new();
    bay.put("long", "word\n".repeat(200));
    let args = |n: usize, allow: bool| json!({"path": "long", "content": "word\n".repeat(n), "overwrite": true, "allow_shrink": allow});
    bay.options.strict = true;
    assert_eq!(bay.code("write_file", args(20, false)), Code::InvalidArguments);
    bay.options.strict = false;
    assert!(bay.good("write_file", args(90, false)).text.contains("shrink"));
    bay.put("long", "word\n".repeat(200));
    assert!(!bay.good("write_file", args(1, true)).text.contains("shrink"));
    bay.options.known_sha256 = Some(text::sha256(b"something else"));
    let stale = bay.call("write_file", args(2, false));
    assert!(stale.refusal.unwrap().code == Code::Stale && stale.details["path"] == "long");
    assert_eq!(bay.text("long"), "word\n");
}

#[test]
fn edit_file_is_exact() {
    let mut bay = Bay::new();
    bay.put("e.txt", "one\ntwo\nthree\n");
    let edit = |bay: &Bay, path: &str, old: &str, new: &str| {
        bay.call("edit_file", json!({"path": path, "oldText": old, "new_string": new}))
    };
    let outcome = edit(&bay, "e.txt", "two", "2");
    assert!(outcome.ok && bay.text("e.txt") == "one\n2\nthree\n");
    let diff = outcome.details["diff"].as_str().unwrap();
    assert!(diff.contains("-two\n+2\n") && diff.contains("@@") && outcome.details["replacements"] == 1);
    bay.put("t", "tick tock tick tock tick\n");
    let many = edit(&bay, "t", "tick", "x");
    assert!(many.refusal.as_ref().unwrap().message.contains('3') && many.details["matches"] == 3);
    assert_eq!(edit(&bay, "t", "tack", "x").refusal.unwrap().code, Code::NoMatch);
    bay.put("latin", b"caf\xe9\n");
    assert_eq!(edit(&bay, "latin", "caf", "x").refusal.unwrap().code, Code::NotRegular);
    assert_eq!(edit(&bay, "gone", "a", "b").refusal.unwrap().code, Code::NotFound);
    assert_eq!(edit(&bay, "t", "tick", "tick").refusal.unwrap().code, Code::InvalidArguments);
    assert_eq!(edit(&bay, "t", "", "x").refusal.unwrap().code, Code::InvalidArguments);
    let read_only = bay.put("ro", "one\n");
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(edit(&bay, "ro", "one", "two").ok);
    assert_eq!(fs::metadata(&read_only).unwrap().permissions().mode() & 0o777, 0o444);
    bay.options.tracked = true;
    assert_eq!(edit(&bay, "src/a.txt", "plain", "x").refusal.unwrap().code, Code::Stale);
    let vouched = |sum: &[u8]| json!({"path": "src/a.txt", "old_string": "plain", "new_string": "x", "expected_sha256": text::sha256(sum)});
    assert_eq!(bay.code("edit_file", vouched(b"other")), Code::Stale);
    bay.good("edit_file", vouched(b"plain\n"));
    bay.options.known_sha256 = Some(text::sha256(b"x\n"));
    assert!(edit(&bay, "src/a.txt", "x", "y").ok);
    let left: Vec<_> = fs::read_dir(bay.root()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{left:?}");
}

#[test]
fn multi_edit_is_all_or_none() {
    let bay = Bay::new();
    bay.put("m.txt", "a b c\n");
    let bad = json!({"path": "m.txt", "edits": [{"old_string": "a", "new_string": "x"}, {"old_string": "q", "new_string": "y"}]});
    let refusal = bay.call("multiedit", bad).refusal.unwrap();
    assert!(refusal.code == Code::NoMatch && refusal.message.contains('2'));
    assert_eq!(bay.text("m.txt"), "a b c\n");
    let good = bay.good(
        "multi_edit",
        json!({"path": "m.txt", "edits": [{"old_string": "a", "new_string": "x y"},
        {"oldString": "y b", "newString": "z"}, {"old_string": "z", "new_string": "Z", "replace_all": true}]}),
    );
    assert_eq!((bay.text("m.txt").as_str(), &good.details["replacements"]), ("x Z c\n", &json!(3)));
    for edits in [json!([]), json!([{"old_string": "a"}]), json!([{"old_string": "a", "new_string": "b", "count": 1}])]
    {
        assert_eq!(bay.code("multi_edit", json!({"path": "m.txt", "edits": edits})), Code::InvalidArguments);
    }
    assert_eq!(
        bay.code("edit_file", json!({"path": "no/such/file", "old_string": "a", "new_string": "b"})),
        Code::NotFound
    );
    assert!(!bay.root().join("no").exists(), "an edit makes no folders");
}

#[test]
fn two_writers_never_lose_an_edit() {
    let bay = Bay::new();
    bay.put("many", (0..40).map(|n| format!("line{n:02}\n")).collect::<String>());
    let edits = |start: usize| {
        for n in (start..40).step_by(2) {
            let args =
                json!({"path": "many", "old_string": format!("line{n:02}\n"), "new_string": format!("done{n:02}\n")});
            while !bay.call("edit_file", args.clone()).ok {}
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| edits(0));
        scope.spawn(|| edits(1));
    });
    assert_eq!(bay.text("many"), (0..40).map(|n| format!("done{n:02}\n")).collect::<String>());
}

#[test]
fn bash_plans_its_command_and_falls_back_to_sh() {
    let bay = Bay::new();
    let entry = find("terminal.run").unwrap();
    let args = checked(entry, parse_object(r#"{"command":"-x","timeout":400}"#).unwrap()).unwrap();
    let plan = (entry.plan)(&args).unwrap();
    assert_eq!((plan.command.as_deref(), plan.paths[0].1), (Some("-x"), Need::Enter));
    let given = Given { paths: vec![bay.open(".", Need::Enter)], options: options() };
    let mut fake = Fake { missing: vec!["bash"], ..Fake::default() };
    let outcome = (entry.run)(&Confined::for_tests(), args, given, &mut fake);
    assert_eq!(outcome.details["stdout"], "/bin/sh|-c| -x");
    assert_eq!((fake.seen[1].timeout_ms, fake.seen[1].stdin.as_deref()), (Some(400), None));
    assert!(!outcome.text.contains("[Exit code") && outcome.details["denials"] == json!([]));
    for bad in [
        json!({"command": ""}),
        json!({"command": "true", "outside_sandbox": true}),
        json!({"command": "true", "background": true}),
        json!({"command": ["true"]}),
        json!({"command": "true", "timeout_ms": 600_001}),
        json!({"command": "x".repeat(200_000)}),
    ] {
        assert_eq!(bay.code("bash", bad), Code::InvalidArguments);
    }
}
