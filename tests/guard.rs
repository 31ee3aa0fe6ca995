//! The name guard: programs really try to make, move, alias and open the names that they may not, and ordinary work goes on.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Bay, User, assert_sealed, shown, users};

/// Made by a command that must leave nothing behind under these names.
#[track_caller]
fn makes_nothing(bay: &Bay, command: &str, names: &[&str]) {
    let output = bay.run(command);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("WROTE"), "{command}: {}", shown(&output));
    assert!(!output.status.success(), "{command}: {}", shown(&output));
    for name in names {
        assert!(fs::symlink_metadata(bay.work(name)).is_err(), "{command} made {name}: {}", shown(&output));
    }
    assert_sealed(&output.stdout);
    assert_sealed(&output.stderr);
}

#[track_caller]
fn works(bay: &Bay, command: &str) -> String {
    let output = bay.run(command);
    assert!(output.status.success(), "{command}: {}", shown(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A program of Python as a shell word.
fn python(text: &str) -> String {
    format!("python3 -c '{text}' && echo WROTE")
}

fn has(program: &str) -> bool {
    std::env::split_paths("/usr/local/bin:/usr/bin:/bin").any(|folder| folder.join(program).exists())
}

#[test]
fn denied_names_are_not_made() {
    for user in users() {
        let bay = Bay::new(user);
        bay.put("work/sub/plain", "x\n");
        for command in [
            "echo x >sub/.env && echo WROTE",
            "mkdir -p sub && echo x >>sub/.env && echo WROTE",
            "cd sub; >.env && echo WROTE",
            "mkdir sub/.env && echo WROTE",
            "mkfifo sub/.env && echo WROTE",
            "mv sub/plain sub/.env && echo WROTE",
            "mkdir d; mv d sub/.env && echo WROTE",
            "ln sub/plain sub/.env && echo WROTE",
            "ln -s plain sub/.env && echo WROTE",
            "ln -s .env sub/e; echo x >sub/e && echo WROTE",
            "ln -s ../sub far; ln -s far/../sub/.env f; echo x >f && echo WROTE",
            "ln -s /proc/self/cwd here; echo x >here/sub/.env && echo WROTE",
            "cd sub && echo x >/proc/self/cwd/.env && echo WROTE",
            "exec 7<sub && echo x >/proc/self/fd/7/.env && echo WROTE",
            "exec 7<sub && echo x >/dev/fd/7/.env && echo WROTE",
            "cp sub/plain sub/.env && echo WROTE",
            "dd if=/dev/null of=sub/.env 2>/dev/null && echo WROTE",
            "echo x >sub/../sub//./.env && echo WROTE",
            "echo x >\"$PWD/sub/.env\" && echo WROTE",
        ] {
            makes_nothing(&bay, command, &["sub/.env"]);
        }
        for command in
            ["mkdir -p a/vault && mv a/vault vault2; ln vault/key k && echo WROTE", "mv .env e && echo WROTE"]
        {
            makes_nothing(&bay, command, &["k", "e"]);
        }
        assert_eq!(fs::read_to_string(bay.work(".env")).unwrap(), "TOKEN=otter42\n");
    }
}

#[test]
fn denied_names_are_not_made_by_calls_of_their_own() {
    if !has("python3") {
        return;
    }
    for user in users() {
        let bay = Bay::new(user);
        bay.put("work/sub/plain", "x\n");
        bay.put(
            "work/raw.py",
            "import ctypes, os, struct, sys\n\
             libc = ctypes.CDLL(None, use_errno=True)\n\
             def call(*args):\n    r = libc.syscall(*args)\n    if r < 0: sys.exit(ctypes.get_errno())\n\
             sub = os.open('sub', os.O_RDONLY)\n\
             name = b'.env'\n\
             what = sys.argv[1]\n\
             if what == 'openat2': call(437, sub, name, struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o644, 0), 24)\n\
             if what == 'openat2-root': call(437, sub, b'/.env', struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o644, 0x10), 24)\n\
             if what == 'openat2-link':\n    os.symlink('/.env', 'sub/l')\n    call(437, sub, b'l', struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o644, 0x10), 24)\n\
             if what == 'dirfd': os.close(os.open('.env', os.O_CREAT | os.O_WRONLY, dir_fd=sub))\n\
             if what == 'tmpfile':\n    fd = os.open('sub', os.O_TMPFILE | os.O_WRONLY)\n    os.link(f'/proc/self/fd/{fd}', 'sub/.env', follow_symlinks=True)\n\
             if what == 'exchange': call(316, -100, b'sub/plain', -100, b'.env', 2)\n\
             if what == 'mknodat': call(259, sub, name, 0o100644, 0)\n\
             if what == 'renameat': os.rename('plain', '.env', src_dir_fd=sub, dst_dir_fd=sub)\n\
             if what == 'thread':\n    import threading\n    errors = []\n    def run():\n        try: open('sub/.env', 'w')\n        except OSError as e: errors.append(e.errno)\n    t = threading.Thread(target=run)\n    t.start(); t.join()\n    sys.exit(errors[0] if errors else 0)\n\
             if what == 'fault': call(257, -100, 8, os.O_CREAT | os.O_WRONLY, 0o644)\n",
        );
        let all = ["openat2", "openat2-root", "openat2-link", "dirfd", "tmpfile", "exchange", "mknodat", "renameat"];
        for what in all.iter().chain(&["thread", "fault"]) {
            makes_nothing(&bay, &format!("python3 raw.py {what} && echo WROTE"), &["sub/.env"]);
        }
        makes_nothing(
            &bay,
            &python("import os; os.close(os.open(\"sub/.env\", os.O_CREAT | os.O_RDWR))"),
            &["sub/.env"],
        );
        assert_eq!(fs::read_to_string(bay.work(".env")).unwrap(), "TOKEN=otter42\n");
        assert_eq!(fs::read_to_string(bay.work("sub/plain")).unwrap(), "x\n");
    }
}

#[test]
fn protected_names_are_not_made() {
    for user in users() {
        let bay = Bay::new(user);
        for (command, name) in [
            ("echo {} >.mcp.json && echo WROTE", ".mcp.json"),
            ("mkdir .stockade && echo x >.stockade/policy.toml && echo WROTE", ".stockade"),
            ("mkdir .vscode && echo WROTE", ".vscode"),
            ("mkdir v && echo {} >v/settings.json && mv v .vscode && echo WROTE", ".vscode"),
            ("mkdir -p src/.claude && echo WROTE", "src/.claude"),
            ("ln -s src .claude && echo WROTE", ".claude"),
            ("mkdir h && echo x >h/pre-commit && mv h .husky && echo WROTE", ".husky"),
            ("mkdir .husky && echo x >.husky/pre-push && echo WROTE", ".husky/pre-push"),
        ] {
            makes_nothing(&bay, command, &[name]);
        }
        works(&bay, "mkdir -p .husky/_ && echo x >.husky/_/husky.sh");
    }
}

#[test]
fn one_protected_name_can_be_lifted() {
    for user in users() {
        let mut bay = Bay::new(user);
        bay.with_policy("open", "[filesystem]\nallow_write = [\".vscode/settings.json\"]\n");
        let (result, _) = bay.call("bash", &json!({"command": "mkdir -p .vscode && echo {} >.vscode/settings.json"}));
        assert_eq!(result["ok"], true, "{result}");
        makes_nothing(&bay, "echo {} >.vscode/tasks.json && echo WROTE", &[".vscode/tasks.json"]);
    }
}

#[test]
fn refusals_are_in_the_denials() {
    for user in users() {
        let bay = Bay::new(user);
        let (result, _) =
            bay.call("bash", &json!({"command": "mkdir sub; echo x >sub/.env; mkdir .vscode 2>/dev/null"}));
        let rows = result["details"]["denials"].as_array().unwrap();
        let targets: Vec<_> = rows.iter().map(|row| (&row["target"], &row["by"], &row["rule"])).collect();
        let guard = json!("name guard");
        assert_eq!(
            targets,
            [(&json!("sub/.env"), &guard, &json!("**/.env")), (&json!(".vscode"), &guard, &json!("**/.vscode/**"))],
            "{result}"
        );
        assert_eq!(result["details"]["refused_names"], Value::Null);
        assert_eq!(result["enforcement"]["degraded"], json!([]));
    }
}

#[test]
fn the_guard_answers_as_the_kernel_does() {
    for user in users() {
        let bay = Bay::new(user);
        bay.put("work/sub/.vscode/settings.json", "{}\n");
        let text = works(
            &bay,
            "mkdir -p sub/.vscode; cat sub/.vscode/settings.json; echo a >none/x; mkdir sub; ln -s l l; echo x >l; echo e >/dev/stderr; \
             (echo o >/dev/stdout; echo n >/dev/null; echo p >/proc/self/fd/1) | cat; (set -C; echo x >src/a.txt); true",
        );
        assert_eq!(text, "{}\no\np\n");
        let output = bay.run("echo a >none/x; mkdir sub; ln -s m m; echo x >m; (set -C; echo x >src/a.txt)");
        let said = String::from_utf8(output.stderr).unwrap().to_lowercase();
        for word in ["nonexistent", "file exists"] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
}

#[test]
fn ordinary_work_goes_on() {
    for user in users() {
        let bay = Bay::new(user);
        works(&bay, "grep SigBlk /proc/self/status | grep -q ':.0*$'");
        works(&bay, "mkdir -p a/b && echo 1 >a/b/c && mv a/b a/d && ln a/d/c l && ln -s l s && echo 2 >s && cat a/d/c");
        works(
            &bay,
            "for i in $(seq 500); do echo $i >f$i; done; for i in $(seq 500); do mv f$i g$i; done; test $(cat g* | wc -l) = 500",
        );
        works(
            &bay,
            "(for i in 1 2 3 4 5 6 7 8; do (for j in $(seq 50); do echo x >p$i.$j; done) & done; wait); test $(ls p*.* | wc -l) = 400",
        );
        works(&bay, "echo x >/tmp/.env && mkdir /tmp/.vscode && echo y >~/.vimrc && test -s /tmp/.env");
        works(&bay, "mkdir t && echo x >t/y && tar cf t.tar t && rm -r t && tar xf t.tar && cat t/y");
        if has("python3") {
            works(&bay, "python3 -m venv --without-pip venv && venv/bin/python -c 'print(1)'");
        }
        if has("npm") {
            works(
                &bay,
                "mkdir n && cd n && echo '{\"name\":\"x\",\"version\":\"1.0.0\"}' >package.json && npm pack --silent",
            );
        }
    }
}

#[test]
fn repositories_can_be_made_and_old_ones_keep_their_hooks() {
    if !has("git") {
        return;
    }
    let git = "git -c user.name=n -c user.email=e";
    for user in users() {
        let bay = Bay::new(user);
        // In the bash tool: nothing covers new names there while the command runs.
        let work = format!(
            "git init -q fresh && cd fresh && echo 1 >a && {git} add a && {git} commit -qm m && git worktree add -q ../tree && \
             git clone -q . ../clone && cat ../tree/a ../clone/a"
        );
        let (result, _) = bay.call("bash", &json!({"command": work}));
        assert_eq!(result["ok"], true, "{result}");
        assert!(bay.work("fresh/.git/hooks").is_dir() || bay.work("fresh/.git/config").is_file());
        bay.put("work/old/.git/hooks/x.sample", "");
        bay.put("work/old/.git/config", "[core]\n");
        for (command, name) in [
            ("echo x >old/.git/hooks/pre-push && echo WROTE", "old/.git/hooks/pre-push"),
            ("mv old/.git old/g && echo WROTE", "old/g"),
            ("mv src/a.txt old/.git/config.worktree && echo WROTE", "old/.git/config.worktree"),
        ] {
            makes_nothing(&bay, command, &[name]);
        }
        works(&bay, "mv old other");
        makes_nothing(&bay, "echo x >other/.git/config.worktree && echo WROTE", &["other/.git/config.worktree"]);
        makes_nothing(&bay, "mkdir -p old && mv other/.git old/.git && echo WROTE", &["old/.git"]);
    }
}

/// The host replaces the file by rename; each time the mask is off for a moment.
fn replace(bay: &Bay, times: u32) {
    let owner = fs::metadata(bay.work("")).unwrap();
    for number in 0..times {
        let new = bay.base().join("new");
        fs::write(&new, format!("TOKEN=petrel31 {number}\n")).unwrap();
        std::os::unix::fs::chown(&new, Some(std::os::unix::fs::MetadataExt::uid(&owner)), None).unwrap();
        fs::rename(&new, bay.work(".env")).unwrap();
        std::thread::sleep(Duration::from_millis(3));
    }
    fs::write(bay.work("stop"), "").unwrap();
}

#[test]
fn strict_never_opens_a_replaced_secret() {
    for user in users() {
        let mut bay = Bay::new(user);
        bay.put("p.toml", "");
        bay.with_policy("open", "");
        let text = fs::read_to_string(bay.base().join("p.toml")).unwrap().replace("\"default\"", "\"strict\"");
        bay.put("p.toml", &text);
        let begin = Instant::now();
        let output: Output = std::thread::scope(|scope| {
            let host = scope.spawn(|| {
                // Before the program runs a replaced name stops the start, as it should.
                while !bay.work("started").exists() && begin.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                replace(&bay, 300);
            });
            let output = bay.run(
                "touch started; while ! test -e stop; do cat .env; cat ./src/../.env; cp .env x; cat x; done 2>/dev/null; echo DONE",
            );
            host.join().unwrap();
            output
        });
        assert!(String::from_utf8_lossy(&output.stdout).contains("DONE"), "{:?}: {}", begin.elapsed(), shown(&output));
        assert_sealed(&output.stdout);
        assert!(!Path::new(&bay.work("x")).exists(), "a copy was made");
    }
}

#[test]
fn a_guarded_program_has_no_listener() {
    let bay = Bay::new(User::Me);
    let text = works(&bay, "ls -l /proc/self/fd | grep -c seccomp; true");
    assert_eq!(text.trim(), "0");
}
