//! Faults that were found once, each by its shape: what let something through, and that it does no more.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::pipeline::Session;
use crate::support::{Bay, User, shown, users};

/// Content of denied files, as in the bay.
const TOKEN: &str = "otter42";

/// What one shell text in a session of its own says on both streams.
fn said(bay: &Bay, text: &str) -> String {
    let mut command = bay.command("run");
    command.args(["--", "bash", "-c", text]);
    let output = command.output().unwrap();
    assert!(output.status.code().is_some(), "{}", shown(&output));
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A folder that can be entered and not listed was not scanned, so nothing in it was covered.
#[test]
fn what_cannot_be_listed_is_hidden_as_a_whole() {
    for user in users() {
        let bay = Bay::new(user);
        bay.put("work/sub/.env", TOKEN);
        assert!(!said(&bay, "chmod 0311 sub; echo RAN").contains(TOKEN));
        let heard = said(&bay, "cat sub/.env; echo RAN");
        assert!(heard.contains("RAN") && !heard.contains(TOKEN), "{user:?}: {heard}");
        fs::set_permissions(bay.work("sub"), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A denied place lost its denial when a folder above it was moved and the next session looked for it at the old place.
#[test]
fn folders_above_a_denied_place_cannot_be_moved() {
    for user in users() {
        let bay = Bay::new(user);
        bay.put("work/deep/er/secret", TOKEN);
        bay.put("policy2.toml", "version = 1\n[[deny_path]]\npattern = \"deep/er/secret\"\nreason = \"test\"\n");
        let second = bay.base().join("policy2.toml");
        let with = |text: &str| {
            let mut command = bay.command("run");
            command.arg("--policy").arg(&second).args(["--", "bash", "-c", text]);
            let output = command.output().unwrap();
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        };
        assert!(with("mv deep moved; mv deep/er deep/moved; echo RAN").contains("RAN"));
        assert!(bay.work("deep/er/secret").exists(), "{user:?}: a folder was moved");
        let heard = with("cat moved/er/secret deep/moved/secret deep/er/secret; echo RAN");
        assert!(heard.contains("RAN") && !heard.contains(TOKEN), "{user:?}: {heard}");
    }
}

/// A search in a call of its own walked past other names of denied files: there were no covers for one call.
#[test]
fn a_single_search_does_not_read_other_names_of_denied_files() {
    for user in users() {
        let bay = Bay::new(user);
        fs::hard_link(bay.work(".env"), bay.work("src/other-name")).unwrap();
        let mut command = bay.command("call");
        command.args(["--json", "grep", &json!({"pattern": "."}).to_string()]);
        let output = command.output().unwrap();
        let heard = String::from_utf8_lossy(&output.stdout);
        assert!(heard.contains("\"ok\":true") && !heard.contains(TOKEN), "{user:?}: {heard}");
    }
}

/// `.git/commondir` sends git to another folder's hooks and configuration.
#[test]
fn git_is_not_sent_elsewhere() {
    for user in users() {
        let bay = Bay::new(user);
        bay.put("work/.git/HEAD", "ref: refs/heads/main\n");
        bay.put("work/.git/config", "[core]\n");
        let heard = said(&bay, "echo ../evil > .git/commondir; mv .git g; echo RAN");
        assert!(heard.contains("RAN") && !bay.work(".git/commondir").exists(), "{user:?}: {heard}");
        assert!(bay.work(".git/config").exists(), "{user:?}: .git was moved");
    }
}

/// A session whose operator has a `~/.aws` did not start: its cover had no place in a view without the real home.
#[test]
fn names_of_the_real_home_need_no_cover() {
    let bay = Bay::new(User::Me);
    bay.put("home/.aws/credentials", TOKEN);
    let heard = said(&bay, "cat ~/.aws/credentials; echo RAN");
    assert!(heard.contains("RAN") && !heard.contains(TOKEN), "{heard}");
}

/// A look for another purpose (a read of a file with two names) took note of new names and nobody covered them.
#[test]
fn a_new_denied_name_is_covered_whoever_saw_it_first() {
    for user in users() {
        let bay = Bay::new(user);
        fs::hard_link(bay.work("src/a.txt"), bay.work("src/twin")).unwrap();
        let mut session = Session::new(&bay, "session");
        assert_eq!(session.ask("bash", &json!({"command": "true"}))["ok"], true);
        bay.put("work/src/.env", TOKEN);
        assert_eq!(session.ask("read_file", &json!({"path": "src/twin"}))["ok"], true);
        let seen = session.ask("bash", &json!({"command": "cat src/.env; echo RAN"})).to_string();
        assert!(seen.contains("RAN") && !seen.contains(TOKEN), "{user:?}: {seen}");
    }
}

/// The watch that runs beside a command swallowed what the result should have listed.
#[test]
fn startup_files_are_listed_although_the_watch_saw_them_first() {
    for user in users() {
        let bay = Bay::new(user);
        let mut session = Session::new(&bay, "session");
        let text = "mkdir -p .github/workflows; echo x > .github/workflows/x.yml; sleep 0.3; mkdir other; sleep 0.3";
        let seen = session.ask("bash", &json!({"command": text}));
        assert!(seen["details"]["startup_files"].to_string().contains("x.yml"), "{user:?}: {seen}");
    }
}
