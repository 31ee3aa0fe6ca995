//! Programs from their start to their end: nothing is left behind, nothing grows without bound, the status is told.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bay, User, fed, shown, users};

/// Processes of the whole host whose command line has the marker.
fn alive(marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // The supervisor has the whole command in its own arguments.
        if line.contains(marker) && !line.contains("stockade") && !line.contains("setpriv") {
            found.push(line);
        }
    }
    found
}

fn gone_within(marker: &str, ms: u64) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let left = alive(marker);
        if left.is_empty() || begin.elapsed() > Duration::from_millis(ms) {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn until_alive(marker: &str, count: usize) {
    let begin = Instant::now();
    while alive(marker).len() < count {
        assert!(begin.elapsed() < Duration::from_secs(20), "{marker} did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A number of seconds that nobody else sleeps.
fn marker(user: User, what: u32) -> String {
    format!("{}.{}{what}", 3000 + std::process::id() % 1000, u8::from(user == User::Me) + 1)
}

/// A foreground process, a background one, one in a session of its own, one that nobody is the parent of.
fn family(seconds: &str) -> String {
    format!(
        "trap '' TERM HUP INT; sleep {seconds} & setsid sleep {seconds} & (setsid sh -c 'trap \"\" TERM; sleep {seconds} & sleep {seconds}' &) ; \
         nohup sleep {seconds} >/dev/null 2>&1 & "
    )
}

#[test]
fn a_time_limit_ends_the_whole_pipeline() {
    for user in users() {
        let bay = Bay::new(user);
        let seconds = marker(user, 1);
        let begin = Instant::now();
        let command = format!("{} echo before; sleep {seconds} | cat | sleep {seconds}", family(&seconds));
        let (result, exit) = bay.call("bash", &json!({"command": command, "timeout_ms": 1000}));
        assert!(begin.elapsed() < Duration::from_secs(15), "{user:?}: {:?}", begin.elapsed());
        assert_eq!((exit, result["refusal"]["code"].as_str()), (1, Some("timed_out")), "{user:?}: {result}");
        assert!(result["details"]["timed_out"] == true && result["details"]["killed_by"] == "timeout", "{result}");
        assert!(result["details"]["stdout"].as_str().unwrap().contains("before"), "{result}");
        assert_eq!(gone_within(&seconds, 500), Vec::<String>::new(), "{user:?}");
    }
}

#[test]
fn what_a_command_leaves_in_the_background_ends_with_the_call() {
    for user in users() {
        let bay = Bay::new(user);
        let seconds = marker(user, 2);
        let begin = Instant::now();
        let (result, exit) = bay.call("bash", &json!({"command": format!("{} echo done", family(&seconds))}));
        assert!(exit == 0 && result["details"]["stdout"] == "done\n", "{user:?}: {result}");
        assert!(begin.elapsed() < Duration::from_secs(15), "it waited for background jobs");
        assert_eq!(gone_within(&seconds, 500), Vec::<String>::new(), "{user:?}");
        assert!(bay.run(&format!("{} exit 0", family(&seconds))).status.success());
        assert_eq!(gone_within(&seconds, 500), Vec::<String>::new(), "{user:?}: run");
    }
}

#[test]
fn killing_the_supervisor_leaves_nothing() {
    for user in users() {
        for what in ["run", "session"] {
            let bay = Bay::new(user);
            let seconds = marker(user, if what == "run" { 3 } else { 4 });
            let script = format!("{} sleep {seconds}", family(&seconds));
            let mut command = bay.command(what);
            if what == "run" {
                command.args(["--", "sh", "-c", &script]);
            }
            let mut child: Child = command.stdin(Stdio::piped()).spawn().unwrap();
            if what == "session" {
                let line = json!({"tool": "bash", "args": {"command": script}});
                std::io::Write::write_all(child.stdin.as_mut().unwrap(), format!("{line}\n").as_bytes()).unwrap();
            }
            until_alive(&seconds, 4);
            child.kill().unwrap();
            let left = gone_within(&seconds, 500);
            let _ = child.wait();
            assert_eq!(left, Vec::<String>::new(), "{user:?} {what}: still there after 500 ms");
        }
    }
}

#[test]
fn standard_input_of_a_command_is_closed() {
    for user in users() {
        let bay = Bay::new(user);
        let (result, exit) = bay
            .call("bash", &json!({"command": "cat; read x; echo end; readlink /proc/self/fd/0", "timeout_ms": 8000}));
        assert!(exit == 0 && result["details"]["stdout"].as_str().unwrap().starts_with("end"), "{user:?}: {result}");
        let mut command = bay.command("run");
        command.args(["--", "cat"]);
        let output = fed(command, b"through");
        assert_eq!(output.stdout, b"through", "{user:?}: run passes it through: {}", shown(&output));
    }
}

#[test]
fn two_hundred_calls_leave_no_zombie_and_no_descriptor() {
    let bay = Bay::new(User::Me);
    let mut child = bay.command("session").stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut ask = |number: usize| {
        let (tool, args) = if number.is_multiple_of(4) {
            ("bash", json!({"command": "sleep 0.01 & true"}))
        } else {
            ("ls", json!({}))
        };
        std::io::Write::write_all(&mut input, format!("{}\n", json!({"tool": tool, "args": args})).as_bytes()).unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["ok"], true, "{number}: {answer}");
    };
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count();
    (0..8).for_each(&mut ask);
    let before = descriptors();
    (0..200).for_each(&mut ask);
    std::thread::sleep(Duration::from_millis(100));
    assert!(descriptors() <= before + 2, "descriptors: {before}, then {}", descriptors());
    let (mut family, mut zombies) = (vec![child.id()], Vec::new());
    loop {
        let known = family.len();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
            let pid: u32 = entry.file_name().to_str().unwrap().parse().unwrap_or(0);
            if family.contains(&fields[1].parse().unwrap()) && !family.contains(&pid) {
                family.push(pid);
                if fields[0] == "Z" {
                    zombies.push(stat.clone());
                }
            }
        }
        if family.len() == known {
            break;
        }
    }
    assert!(zombies.is_empty(), "{zombies:?}");
    // The supervisor, the launcher, the first of its pid namespace, workers that wait for a call.
    assert!(family.len() <= 8, "{family:?}");
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn output_is_bounded_and_what_was_left_out_is_counted() {
    for user in users() {
        let bay = Bay::new(user);
        let (result, exit) = bay
            .call("bash", &json!({"command": "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"}));
        let text = result["text"].as_str().unwrap();
        assert!(exit == 0 && text.chars().count() <= 100_000, "{user:?}: {} characters", text.len());
        assert!(text.contains("first") && text.contains("last"), "{user:?}: {text:.200}");
        assert!(
            result["details"]["stdout_omitted_bytes"].as_u64().unwrap() > 29_000_000,
            "{user:?}: {}",
            result["truncated"]
        );
        assert!(result.to_string().len() < 2_000_000, "{user:?}: {}", result.to_string().len());
        let output = bay.run("head -c 3000000 /dev/zero");
        assert_eq!(output.stdout.len(), 3_000_000, "{user:?}: run passes everything through");
    }
}

/// A blocked SIGCHLD makes a shell's `wait` hang; an ignored SIGPIPE makes pipelines run for ever.
#[test]
fn programs_start_with_no_signal_blocked_or_ignored() {
    for user in users() {
        let bay = Bay::new(user);
        let output = bay.command("run").args(["--", "cat", "/proc/self/status"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The two signals that the C library keeps for itself (32, 33) are whatever the host started us with.
        let clean = |name: &str| {
            let row = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(row.trim(), 16).unwrap() & 0x7fff_ffff == 0
        };
        assert!(clean("SigBlk:") && clean("SigIgn:"), "{user:?}: {}", shown(&output));
        let (result, exit) =
            bay.call("bash", &json!({"command": "sh -c 'true & wait'; sh -c 'yes | head -1'", "timeout_ms": 5000}));
        assert_eq!(exit, 0, "{user:?}: {result}");
    }
}

#[test]
fn run_tells_the_status() {
    for user in users() {
        let mut bay = Bay::new(user);
        bay.put("work/plain", "text");
        let status = |bay: &Bay, argv: &[&str]| bay.command("run").arg("--").args(argv).output().unwrap().status.code();
        for (argv, expected) in [
            (&["true"][..], 0),
            (&["sh", "-c", "exit 7"], 7),
            (&["sh", "-c", "exit 255"], 255),
            (&["sh", "-c", "kill -TERM $$"], 143),
            (&["sh", "-c", "kill -KILL $$"], 137),
            (&["./plain"], 126),
            (&["src"], 127),
            (&["/work/none"], 127),
            (&["no-such-program"], 127),
        ] {
            // A folder is named without a slash: it is looked for in PATH.
            assert_eq!(status(&bay, argv), Some(expected), "{user:?} {argv:?}");
        }
        bay.with_policy("open", "[limits]\nrun_timeout_ms = 700\n");
        let begin = Instant::now();
        assert_eq!(status(&bay, &["sh", "-c", "sleep 30 & sleep 30"]), Some(124), "{user:?}");
        assert!(begin.elapsed() < Duration::from_secs(15));
    }
}
