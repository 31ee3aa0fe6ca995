//! Hosts that lack something, or lie: the product below a filter that makes system calls fail or do nothing. It refuses and
//! names the missing piece, or everything that it claims holds.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Bay, User, assert_sealed, shown, users, wrapped};

const OUTER: &str = include_str!("support/outer_seccomp.py");
const NAMESPACES: &str = "unshare,clone:NEWUSER,clone:NEWNS,clone:NEWPID,clone:NEWNET,clone:NEWIPC,clone:NEWUTS";
const MOUNTS: &str = "open_tree,move_mount,fsopen,fsconfig,fsmount,mount_setattr";

/// What is missing, what its answer is, and a word that the refusal must have.
const LADDER: &[(&str, &str, &str)] = &[
    ("landlock_create_ruleset", "ENOSYS", "landlock"),
    ("landlock_create_ruleset", "EPERM", "landlock"),
    ("landlock_restrict_self", "EPERM", "landlock"),
    ("landlock_restrict_self", "0", "landlock"),
    ("seccomp", "ENOSYS", "seccomp"),
    ("seccomp", "EPERM", "seccomp"),
    ("seccomp", "0", "seccomp"),
    (NAMESPACES, "EPERM", "namespace"),
    (NAMESPACES, "ENOSYS", "namespace"),
    (MOUNTS, "ENOSYS", "view"),
    (MOUNTS, "EPERM", "view"),
    ("mount_setattr", "ENOSYS", "view"),
    ("open_tree", "EPERM", "view"),
    ("pivot_root", "EPERM", "view"),
];

fn below(command: &Command, calls: &str, answer: &str) -> Output {
    wrapped(command, &["/usr/bin/python3", "-c", OUTER, answer, calls, "--"]).output().unwrap()
}

fn call(bay: &Bay, options: &[&str], (calls, answer): (&str, &str), tool: &str, args: &Value) -> (Value, i32) {
    let mut command = bay.command("call");
    command.args(options).arg("--json").arg(tool).arg(args.to_string());
    let output = below(&command, calls, answer);
    let result = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{calls} {answer}: {error}: {}", shown(&output)));
    (result, output.status.code().unwrap())
}

fn each(test: impl Fn(&Bay, User, (&str, &str), &str)) {
    for user in users() {
        for (calls, answer, word) in LADDER {
            test(&Bay::new(user), user, (calls, answer), word);
        }
    }
}

#[test]
fn without_an_outer_filter_everything_holds() {
    for user in users() {
        let (result, exit) = call(&Bay::new(user), &[], ("setns", "EPERM"), "bash", &json!({"command": "true"}));
        assert!(exit == 0 && result["enforcement"]["degraded"] == json!([]), "{user:?}: {result}");
    }
}

#[test]
fn programs_are_refused_and_the_missing_piece_is_named() {
    each(|bay, user, missing, word| {
        let (result, exit) = call(bay, &[], missing, "bash", &json!({"command": "touch ran"}));
        let refusal = &result["refusal"];
        assert!(exit == 4 && refusal["code"] == "cannot_enforce", "{user:?} {missing:?}: {exit} {result}");
        assert!(refusal["message"].as_str().unwrap().contains(word), "{user:?} {missing:?}: {result}");
        let mut run = bay.command("run");
        run.args(["--", "touch", "ran"]);
        let output = below(&run, missing.0, missing.1);
        assert_eq!(output.status.code(), Some(125), "{user:?} {missing:?}: {}", shown(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{user:?} {missing:?}: {}", shown(&output));
        assert!(!bay.work("ran").exists(), "{user:?} {missing:?}: it ran");
    });
}

#[test]
fn strict_refuses_every_tool() {
    each(|bay, user, missing, _| {
        for (tool, args) in
            [("bash", json!({"command": "touch ran"})), ("read_file", json!({"path": "src/a.txt"})), ("ls", json!({}))]
        {
            let (result, exit) = call(bay, &["--profile", "strict"], missing, tool, &args);
            assert!(
                exit == 4 && result["refusal"]["code"] == "cannot_enforce",
                "{user:?} {missing:?} {tool}: {result}"
            );
            assert_sealed(result.to_string().as_bytes());
        }
        assert!(!bay.work("ran").exists());
    });
}

#[test]
fn an_operator_can_accept_and_then_each_result_lists_it() {
    each(|bay, user, missing, word| {
        let (result, exit) = call(bay, &["--allow-degraded"], missing, "bash", &json!({"command": "echo ran"}));
        let listed = result["enforcement"]["degraded"].to_string();
        // Half a view is none: there nothing can run at all, and that is said.
        let refused = exit == 4 && result["refusal"]["message"].as_str().is_some_and(|message| message.contains(word));
        assert!(refused || exit == 0 && listed.contains(word), "{user:?} {missing:?}: {exit} {result}");
    });
}

#[test]
fn reading_goes_on_without_namespaces_and_says_so() {
    for user in users() {
        let bay = Bay::new(user);
        let missing = (NAMESPACES, "EPERM");
        let (result, exit) = call(&bay, &[], missing, "read_file", &json!({"path": "src/a.txt"}));
        assert!(exit == 0 && result["text"].as_str().unwrap().contains("plain"), "{user:?}: {result}");
        assert!(result["enforcement"]["degraded"].to_string().contains("namespace"), "{user:?}: {result}");
        for path in [".env", "vault/key", "../outer/note.txt", "src/../.env"] {
            let (result, exit) = call(&bay, &[], missing, "read_file", &json!({ "path": path }));
            assert_eq!(exit, 3, "{user:?} {path}: {result}");
            assert_sealed(result.to_string().as_bytes());
        }
        let (result, _) = call(&bay, &[], missing, "grep", &json!({"pattern": ".", "include_hidden": true}));
        assert_sealed(result["details"].to_string().as_bytes());
    }
}

/// What a claim says must be so: a program makes the attempts that the claims are about.
#[test]
fn no_claim_is_a_lie() {
    each(|bay, user, missing, _| {
        let outer = bay.base().join("outer");
        let command = format!(
            "cat .env vault/key; cat {0}/note.txt; chmod 777 {0}/note.txt && echo META; echo x > {0}/new && echo WROTE; unshare -Ur true && echo NS",
            outer.display()
        );
        let (result, _) = call(bay, &["--allow-degraded"], missing, "bash", &json!({ "command": command }));
        let claims = result["enforcement"]["guarantees"].to_string();
        let text = result["details"].to_string();
        for (claim, signs) in
            [("fs.read", &["otter42", "walrus77", "petrel31"][..]), ("fs.write", &["WROTE"]), ("fs.meta", &["META"])]
        {
            let broken = signs.iter().any(|sign| text.contains(sign));
            assert!(!(claims.contains(claim) && broken), "{user:?} {missing:?}: claims {claim}: {result}");
        }
    });
}

/// Root where the host forbids user namespaces alone: the others are made with root's own powers, which are dropped after.
#[test]
fn root_without_user_namespaces_holds_everything() {
    if !nix::unistd::geteuid().is_root() {
        return crate::support::skip("needs root");
    }
    let bay = Bay::new(User::Me);
    let missing = ("unshare:NEWUSER,clone:NEWUSER", "EPERM");
    let command = "cat .env; cat ../outer/note.txt; chmod 777 /etc && echo META; touch /usr/x && echo WROTE; mknod n c 1 3 && echo NODE; \
                   mount -t tmpfs none /tmp && echo MOUNTED; umount .env && echo MOUNTED; cat /etc/shadow; grep Cap /proc/self/status; id -u";
    let (result, exit) = call(&bay, &[], missing, "bash", &json!({ "command": command }));
    let text = result["text"].as_str().unwrap();
    assert_eq!(exit, 0, "{result}");
    for word in ["META", "WROTE", "NODE", "MOUNTED", "root:"] {
        assert!(!text.contains(word), "{word}: {result}");
    }
    assert!(text.contains("CapBnd:\t0000000000000000") && text.contains("CapEff:\t0000000000000000"), "{result}");
    assert_sealed(text.as_bytes());
    let degraded: Vec<&str> =
        result["enforcement"]["degraded"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(!degraded.is_empty() && degraded.iter().all(|row| row.starts_with("namespace user")), "{result}");
}

/// Older container runtimes answer clone3 with EPERM, which nobody falls back from.
#[test]
fn clone3_that_is_refused_with_eperm_is_a_refusal_with_its_reason() {
    // The C library starts no program below such a filter (it goes on to clone after ENOSYS alone), so neither do we.
    for user in users() {
        let (result, exit) = call(&Bay::new(user), &[], ("clone3", "EPERM"), "bash", &json!({"command": "true"}));
        let why = result["refusal"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(exit == 4 && why.contains("launcher"), "{user:?}: {result}");
    }
}

#[test]
fn doctor_notices_each() {
    for (calls, answer, _) in LADDER {
        let bay = Bay::new(User::Me);
        let mut command = bay.bare();
        command.args(["doctor", "--json"]);
        let output = below(&command, calls, answer);
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{calls}: {e}: {}", shown(&output)));
        // exec.confined is promised nowhere.
        let promised =
            report["guarantees"].as_array().unwrap().iter().filter(|row| row["guarantee"] != "exec.confined");
        let all = promised.into_iter().all(|row| row["holds"] == true);
        assert!(!all, "{calls} {answer}: doctor says that all is well: {report}");
    }
}
