//! Sandbox profiles: the data is what it says, and every call of every filter is made behind that filter.
//!
//! A filter cannot be taken off again, so each profile is tried in a process of its own: this test binary, started again
//! with [`CHILD`] set. What a call must answer is worked out from the plan by [`expected`], a second, plain reading of
//! what rules mean; the lists by hand below name what must hold whatever the data says.
#![allow(clippy::unwrap_used, reason = "what is not there fails the test")]
#![allow(unsafe_code, reason = "a filter is tried by making the calls, and no safe crate makes refused ones")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use stockade::confine::seccomp;
use stockade::confinement::{Action, ArgOp, ArgTest, FilterPlan, NetworkMode};
use stockade::limits::BUILT_IN;
use stockade::profile::{NAMES, SessionFacts, confinement, file};
use stockade::sysnum;

/// Set in the child: which profile, and what to try.
const CHILD: &str = "STOCKADE_PROFILE_CHILD";

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENOSYS: i32 = 38;
const EPROTONOSUPPORT: i32 = 93;
const EAFNOSUPPORT: i32 = 97;

fn facts() -> SessionFacts {
    SessionFacts {
        root: "/w".into(),
        home: "/home/u".into(),
        system: vec!["/usr".into()],
        toolchains: vec![],
        extra_read: vec![],
        extra_write: vec![],
        network: NetworkMode::None,
        strict: false,
        limits: BUILT_IN,
        degraded_network: false,
        debug: false,
    }
}

fn filter_of(name: &str) -> FilterPlan {
    let (profile, facts) = match name {
        "strict" => ("shell", SessionFacts { strict: true, ..facts() }),
        "debug" => ("shell", SessionFacts { debug: true, ..facts() }),
        "degraded" => ("shell", SessionFacts { degraded_network: true, ..facts() }),
        _ => (name, facts()),
    };
    confinement(profile, &facts).unwrap().filter
}

// ── the data ─────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn numbers_agree_with_the_c_library() {
    for (name, is) in [
        ("read", libc::SYS_read),
        ("clone", libc::SYS_clone),
        ("clone3", libc::SYS_clone3),
        ("keyctl", libc::SYS_keyctl),
        ("mount", libc::SYS_mount),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("seccomp", libc::SYS_seccomp),
        ("newfstatat", libc::SYS_newfstatat),
        ("personality", libc::SYS_personality),
        ("fchmodat2", libc::SYS_fchmodat2),
        ("ptrace", libc::SYS_ptrace),
        ("exit_group", libc::SYS_exit_group),
        ("memfd_secret", libc::SYS_memfd_secret),
        ("mseal", libc::SYS_mseal),
    ] {
        assert_eq!(sysnum::number(name), Some(is), "{name}");
    }
}

#[test]
fn every_file_loads_and_fits_the_schema() {
    let schema: Value = serde_json::from_str(include_str!("../sandbox-profiles/profile.schema.json")).unwrap();
    for name in ["syscalls", "base", "read", "search", "write", "shell"] {
        let text = file::text(name).unwrap();
        assert_eq!(text, std::fs::read_to_string(format!("sandbox-profiles/{name}.toml")).unwrap(), "{name}");
        let value: Value = toml::from_str(text).unwrap();
        assert!(fits(&schema, &schema, &value), "{name}.toml does not fit profile.schema.json");
    }
    let mut here: Vec<_> = std::fs::read_dir("sandbox-profiles").unwrap().map(|e| e.unwrap().file_name()).collect();
    here.sort();
    let known =
        ["README.md", "base.toml", "profile.schema.json", "read.toml", "search.toml", "shell.toml", "syscalls.toml"];
    assert_eq!(here, known.iter().chain(&["write.toml"]).map(std::ffi::OsString::from).collect::<Vec<_>>());
    let lines = include_str!("../sandbox-profiles/README.md").lines().count();
    assert!(lines <= 60, "a door-plate has at most 60 lines, not {lines}");
}

/// Lines of every kind of table, spoiled in each of these ways, is refused by parser and schema alike.
#[test]
fn schema_and_parser_refuse_the_same() {
    let schema: Value = serde_json::from_str(include_str!("../sandbox-profiles/profile.schema.json")).unwrap();
    for name in ["syscalls", "base", "read", "shell"] {
        let text = file::text(name).unwrap();
        let parses = |text: &str| match name {
            "syscalls" => file::parse_syscalls(text).is_ok(),
            "base" => file::parse_base(text).is_ok(),
            _ => file::parse_profile(name, text).is_ok(),
        };
        let mut seen: Vec<&str> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let key = line.split(" = ").next().unwrap_or_default();
            // Lines are many and alike, tables are few: three of each key reach every kind of table but the last ones,
            // and the last ones follow from the end.
            seen.push(key);
            let (before, after) = (seen.iter().filter(|k| **k == key).count(), text.lines().skip(index + 1));
            let left = after.filter(|line| line.split(" = ").next() == Some(key)).count();
            if before > 3 && left >= 3 && before % 16 != 0 {
                continue;
            }
            let changed: &[&str] = match key {
                "reason" => &["", "reason = \"\"", "reason = \"  \"", "reason = 1"],
                "calls" | "names" | "paths" if line.ends_with(']') => &["", "KEY = []", "KEY = \"read\""],
                "action" | "default" => &["", "action = 5"],
                "at" | "kind" | "rights" | "only_if" | "unless" => &["KEY = \"moon\"", "KEY = true"],
                "programs" | "deny_tcp" | "about" | "version" => &["", "KEY = []"],
                _ => continue,
            };
            for change in changed {
                let change = change.replace("KEY", key);
                let spoiled: Vec<&str> =
                    text.lines().enumerate().map(|(at, old)| if at == index { change.as_str() } else { old }).collect();
                let spoiled = spoiled.join("\n");
                let fits = toml::from_str::<Value>(&spoiled).is_ok_and(|value| fits(&schema, &schema, &value));
                assert_eq!((parses(&spoiled), fits), (false, false), "{name}.toml line {}: {change:?}", index + 1);
            }
        }
        let extra = format!("extra = 1\n{text}");
        assert!(!parses(&extra) && !fits(&schema, &schema, &toml::from_str(&extra).unwrap()), "{name}: unknown key");
    }
}

/// As much of JSON Schema as the schema uses.
fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let Value::Object(schema) = schema else { panic!("not a schema: {schema}") };
    schema.iter().all(|(word, rule)| match word.as_str() {
        "$schema" | "title" | "description" | "$defs" => true,
        "$ref" => fits(root, root.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap(), value),
        "oneOf" => rule.as_array().unwrap().iter().filter(|one| fits(root, one, value)).count() == 1,
        "const" => rule == value,
        "enum" => rule.as_array().unwrap().contains(value),
        "type" => match rule.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            other => panic!("type {other}"),
        },
        "required" => rule.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
        "additionalProperties" => {
            let known = schema["properties"].as_object().unwrap();
            value.as_object().is_none_or(|object| object.keys().all(|key| known.contains_key(key)))
        }
        "properties" => rule.as_object().unwrap().iter().all(|(k, s)| value.get(k).is_none_or(|v| fits(root, s, v))),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(root, rule, item))),
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
        "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap()),
        "pattern" => value.as_str().is_none_or(|text| pattern(rule.as_str().unwrap()).is_match(text)),
        other => panic!("the schema uses {other}, this test does not know it"),
    })
}

/// A pattern, compiled once: an unoptimised build compiles slowly, and the schema asks often.
fn pattern(text: &str) -> regex::Regex {
    static KNOWN: std::sync::Mutex<Vec<(String, regex::Regex)>> = std::sync::Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap();
    if let Some((_, regex)) = known.iter().find(|(name, _)| name == text) {
        return regex.clone();
    }
    let regex = regex::Regex::new(text).unwrap();
    known.push((text.to_owned(), regex.clone()));
    regex
}

// ── the filters, from inside ─────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn every_call_of_every_filter_answers_as_planned() {
    for name in NAMES.into_iter().chain(["strict", "debug", "degraded"]) {
        passed(&in_child(name, "plan"));
    }
}

#[test]
fn what_must_be_refused_is_refused_and_what_must_work_works() {
    for name in ["shell", "strict", "debug"] {
        passed(&in_child(name, "shell"));
    }
    passed(&in_child("degraded", "degraded"));
    for name in ["read", "search", "write"] {
        passed(&in_child(name, "worker"));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_through_the_32_bit_gate_kills() {
    use std::os::unix::process::ExitStatusExt;
    for name in NAMES {
        let output = in_child(name, "gate");
        assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{name}: {output:?}");
    }
}

#[test]
fn the_canary_tells_with_from_without() {
    assert!(!seccomp::canary(), "no filter here, and yet the canary says so");
}

fn in_child(profile: &str, what: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["profiles::child", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, format!("{profile} {what}")).env_remove("RUST_BACKTRACE").output().unwrap()
}

fn passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("TRIED"), "{:?}\n{text}", output.status);
}

/// The other side of [`in_child`]; alone it does nothing.
#[test]
#[allow(clippy::exit, reason = "behind an allow-list the harness has calls to make that are refused")]
fn child() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let (name, what) = order.split_once(' ').unwrap();
    let plan = filter_of(name);
    let folder = tempfile::tempdir().unwrap();
    let filters = seccomp::compile(&plan).unwrap();
    assert!(filters.instructions() < 2000, "{filters:?}");
    filters.install().unwrap();
    let mut wrong = Vec::new();
    if !seccomp::canary() {
        wrong.push("the canary is not answered".to_owned());
    }
    match what {
        "plan" => try_plan(&plan, &mut wrong),
        "shell" => try_shell(folder.path(), name, &mut wrong),
        "degraded" => try_degraded(&mut wrong),
        "worker" => try_worker(&mut wrong),
        #[cfg(target_arch = "x86_64")]
        "gate" => wrong.push(format!("int 0x80 returned {}", gate())),
        other => wrong.push(format!("nothing called {other}")),
    }
    println!("TRIED {name} {what}\n{}", wrong.join("\n"));
    std::process::exit(i32::from(!wrong.is_empty()));
}

/// The errno of a call, 0 when it worked.
fn call(number: i64, args: [u64; 6]) -> i32 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: none is promised to the kernel: pointers are invalid (-1) or null, descriptors -1. Calls that could hurt
    // this process with such arguments are in `NOT_MADE`.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if answer == -1 { std::io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}

fn named(name: &str, args: &[u64]) -> i32 {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    call(sysnum::number(name).unwrap(), all)
}

/// Not tried: no test comes back from these. `uretprobe` and `uprobe` are trampolines of the kernel's own: since Linux 6.14
/// no filter sees them, and a call from anywhere else ends in SIGILL.
const NOT_MADE: [&str; 5] = ["exit", "exit_group", "rt_sigreturn", "uprobe", "uretprobe"];

/// A plain reading of a plan: what must this call answer?
fn expected(plan: &FilterPlan, number: i64, args: [u64; 6]) -> Action {
    let hit = |rule: &&stockade::confinement::CallRule| {
        rule.number == number
            && (rule.when.is_empty() || rule.when.iter().any(|tests| tests.iter().all(|test| holds(test, args))))
    };
    if let Some(rule) = plan.rules.iter().filter(hit).find(|rule| rule.action != Action::Allow) {
        return rule.action;
    }
    let allowed = plan.rules.iter().filter(hit).any(|rule| rule.action == Action::Allow);
    if allowed { Action::Allow } else { plan.default }
}

fn holds(test: &ArgTest, args: [u64; 6]) -> bool {
    let arg = args[usize::from(test.index)] & if test.wide { u64::MAX } else { 0xffff_ffff };
    match test.op {
        ArgOp::Eq => arg == test.value,
        ArgOp::Ne => arg != test.value,
        ArgOp::Ge => arg >= test.value,
        ArgOp::Gt => arg > test.value,
        ArgOp::Le => arg <= test.value,
        ArgOp::Lt => arg < test.value,
        ArgOp::Masked(mask) => arg & mask == test.value,
    }
}

/// Arguments at, beside and above (bit 32) every value that a rule of this call compares with.
fn trials(plan: &FilterPlan, number: i64) -> Vec<[u64; 6]> {
    let mut trials = vec![[u64::MAX; 6]];
    let alternatives = plan.rules.iter().filter(|rule| rule.number == number).flat_map(|rule| &rule.when);
    for tests in alternatives {
        let mut base = [u64::MAX; 6];
        for test in tests {
            base[usize::from(test.index)] = if test.op == ArgOp::Ne { 40 } else { test.value };
        }
        trials.push(base);
        for test in tests {
            let value = test.value;
            for other in [value, value | 1 << 32, value + 1, value.wrapping_sub(1), value | 0x80, 0, u64::MAX] {
                let mut args = base;
                args[usize::from(test.index)] = other;
                trials.push(args);
            }
        }
    }
    trials
}

fn try_plan(plan: &FilterPlan, wrong: &mut Vec<String>) {
    let open = plan.default == Action::Allow;
    let mut made = 0;
    for (name, number) in sysnum::all().filter(|(name, _)| !NOT_MADE.contains(name)) {
        for args in trials(plan, number) {
            let (ok, answer) = match expected(plan, number, args) {
                // Behind an open filter these reach the kernel; the lists by hand try the harmless ones.
                Action::Allow if open => continue,
                Action::Allow => {
                    let answer = call(number, args);
                    (plan.default != Action::Errno(answer), answer)
                }
                Action::Errno(errno) => {
                    let answer = call(number, args);
                    (answer == errno, answer)
                }
                Action::Kill => panic!("no profile kills by a rule"),
            };
            made += 1;
            if !ok {
                wrong.push(format!("{name} {args:x?} answered {answer}, expected {:?}", expected(plan, number, args)));
            }
        }
    }
    if made < 80 {
        wrong.push(format!("only {made} calls made"));
    }
    x32(wrong);
}

#[cfg(target_arch = "x86_64")]
fn x32(wrong: &mut Vec<String>) {
    for number in [39, 0, 101, 520, 0x3fff_ffff, 0xbfff_ffff] {
        let answer = call(0x4000_0000 + number, [0; 6]);
        if answer != ENOSYS {
            wrong.push(format!("x32 call {number} answered {answer}"));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn x32(_: &mut Vec<String>) {}

#[cfg(target_arch = "x86_64")]
fn gate() -> i64 {
    let answer: i64;
    // SAFETY: getpid by its 32-bit number takes nothing and touches no memory; the registers that the gate may change are
    // named. Behind the filter it does not return.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_i64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    answer
}

const BAD: u64 = u64::MAX;

/// What threats are made of, by hand: call, arguments, the only right answer.
const REFUSED: &[(&str, &[u64], i32)] = &[
    ("io_uring_setup", &[4, BAD], ENOSYS),
    ("io_uring_enter", &[BAD], ENOSYS),
    ("io_uring_register", &[BAD], ENOSYS),
    ("clone3", &[BAD, 88], ENOSYS),
    ("memfd_secret", &[0], ENOSYS),
    ("unshare", &[0x1000_0000], EPERM),
    ("unshare", &[0], EPERM),
    ("setns", &[BAD, 0], EPERM),
    ("clone", &[0x1000_0000 | 17], EPERM),
    ("clone", &[0x4000_0000 | 17], EPERM),
    ("clone", &[1 << 32 | 0x0002_0000 | 17], EPERM),
    ("mount", &[BAD, BAD, BAD], EPERM),
    ("umount2", &[BAD], EPERM),
    ("pivot_root", &[BAD, BAD], EPERM),
    ("mount_setattr", &[BAD, BAD], EPERM),
    ("open_tree", &[BAD, BAD], EPERM),
    ("open_tree_attr", &[BAD, BAD], EPERM),
    ("move_mount", &[BAD, BAD], EPERM),
    ("fsopen", &[BAD], EPERM),
    ("fsconfig", &[BAD], EPERM),
    ("fsmount", &[BAD], EPERM),
    ("fspick", &[BAD], EPERM),
    ("chroot", &[BAD], EPERM),
    ("bpf", &[0, BAD, 0], EPERM),
    ("perf_event_open", &[BAD], EPERM),
    ("userfaultfd", &[BAD], EPERM),
    ("keyctl", &[0, 0xffff_fffd], EPERM),
    ("add_key", &[BAD, BAD], EPERM),
    ("request_key", &[BAD, BAD], EPERM),
    ("open_by_handle_at", &[BAD, BAD], EPERM),
    ("init_module", &[BAD], EPERM),
    ("kexec_load", &[BAD], EPERM),
    ("reboot", &[0], EPERM),
    ("sethostname", &[BAD, 1], EPERM),
    ("settimeofday", &[BAD, BAD], EPERM),
    ("iopl", &[BAD], EPERM),
    ("socket", &[17, 3, 0], EAFNOSUPPORT),
    ("socket", &[40, 1, 0], EAFNOSUPPORT),
    ("socket", &[38, 5, 0], EAFNOSUPPORT),
    ("socket", &[43, 1, 0], EAFNOSUPPORT),
    ("socket", &[1 << 32 | 40, 1, 0], EAFNOSUPPORT),
    ("socket", &[16, 3, 9], EAFNOSUPPORT),
    ("socket", &[2, 10, 0x300], EAFNOSUPPORT),
    ("socketpair", &[30, 1, 0, BAD], EAFNOSUPPORT),
    ("socket", &[2, 3, 1], EPERM),
    ("socket", &[10, 0o2_000_003, 58], EPERM),
    ("socket", &[2, 1, 262], EPROTONOSUPPORT),
    ("socket", &[10, 0o2_000_001, 262], EPROTONOSUPPORT),
    ("socket", &[2, 1, 132], EPROTONOSUPPORT),
    ("socket", &[2, 5, 0], EPROTONOSUPPORT),
    ("socket", &[2, 2, 136], EPROTONOSUPPORT),
    ("socket", &[2, 1, 256], EPROTONOSUPPORT),
    ("socket", &[2, 6, 33], EPROTONOSUPPORT),
    ("sendto", &[BAD, BAD, 0, 0x2000_0000], EPERM),
    ("sendto", &[BAD, BAD, 0, 1 << 32 | 0x2000_4000], EPERM),
    ("sendmsg", &[BAD, BAD, 0x2000_0000], EPERM),
    ("sendmmsg", &[BAD, BAD, 0, 0x2000_0000], EPERM),
    ("ioctl", &[BAD, 0x5412], EPERM),
    ("ioctl", &[BAD, 1 << 32 | 0x5412], EPERM),
    ("ioctl", &[BAD, 0x541c], EPERM),
    ("ioctl", &[BAD, 0x5423], EPERM),
    ("ioctl", &[BAD, 0x541d], EPERM),
    ("ioctl", &[BAD, 0x89f1], EPERM),
    ("mknodat", &[BAD, BAD, 0o020_666, 0x103], EPERM),
    ("mknodat", &[BAD, BAD, 0o060_600, 0x800], EPERM),
    ("personality", &[0x0040_0000], EPERM),
    ("personality", &[0x0004_0000], EPERM),
    ("process_madvise", &[BAD], EPERM),
    ("pidfd_getfd", &[BAD, BAD], EPERM),
    ("kcmp", &[BAD, BAD, BAD], EPERM),
];

/// Refused, but for sessions that debug.
const TRACING: &[(&str, &[u64], i32)] =
    &[("ptrace", &[BAD, BAD], EPERM), ("process_vm_readv", &[BAD], EPERM), ("process_vm_writev", &[BAD], EPERM)];

/// Harmless forms of what programs need, and what the kernel itself says to them.
const WORKS: &[(&str, &[u64], i32)] = &[
    ("getpid", &[], 0),
    ("seccomp", &[BAD, BAD, BAD], libc::EINVAL),
    ("prlimit64", &[0, 7, 0, 0], 0),
    ("flock", &[BAD, 8], libc::EBADF),
    ("personality", &[0xffff_ffff], 0),
    ("socket", &[1, 1, 0], 0),
    ("socket", &[2, 0o2_000_001, 0], 0),
    ("socket", &[2, 2, 17], 0),
    ("socket", &[16, 0o2_000_003, 0], 0),
    ("socketpair", &[1, 1, 0, BAD], libc::EFAULT),
    ("sendto", &[BAD, 0, 0, 0x4000], libc::EBADF),
    ("sendmsg", &[BAD, BAD, 0], libc::EBADF),
    ("ioctl", &[BAD, 0x5413], libc::EBADF),
    ("mknodat", &[BAD, BAD, 0o010_600, 0], libc::EFAULT),
    ("fchmodat", &[BAD, BAD, 0o600], libc::EFAULT),
    ("fchownat", &[BAD, BAD, 0, 0, 0], libc::EFAULT),
    ("linkat", &[BAD, BAD, BAD, BAD, 0], libc::EFAULT),
    ("statx", &[BAD, BAD, 0, 0, BAD], libc::EFAULT),
    ("faccessat2", &[BAD, BAD, 0, 0], libc::EFAULT),
    ("copy_file_range", &[BAD, 0, BAD, 0, 1, 0], libc::EBADF),
    ("name_to_handle_at", &[BAD, BAD, BAD, BAD, 0], libc::EFAULT),
    ("close_range", &[5, 4, 0], libc::EINVAL),
    ("memfd_create", &[BAD, 0], libc::EFAULT),
    ("inotify_init1", &[BAD], libc::EINVAL),
    ("setpgid", &[0, BAD], libc::EINVAL),
];

fn check(list: &[(&str, &[u64], i32)], wrong: &mut Vec<String>) {
    for (name, args, right) in list {
        let answer = named(name, args);
        if answer != *right {
            wrong.push(format!("{name} {args:x?} answered {answer}, expected {right}"));
        }
    }
}

fn try_shell(folder: &Path, name: &str, wrong: &mut Vec<String>) {
    check(REFUSED, wrong);
    check(WORKS, wrong);
    if name == "debug" {
        let answer = named("process_vm_readv", &[BAD]);
        if answer == EPERM {
            wrong.push(format!("debug: process_vm_readv answered {answer}"));
        }
    } else {
        check(TRACING, wrong);
    }
    if name == "strict" {
        check(&[("mbind", &[BAD, BAD], EPERM), ("set_mempolicy", &[BAD], EPERM)], wrong);
    }
    // A kernel with Landlock gives its version (a number, so no errno); one without says so itself.
    let version = named("landlock_create_ruleset", &[0, 0, 1]);
    if ![0, ENOSYS, libc::EOPNOTSUPP].contains(&version) {
        wrong.push(format!("landlock_create_ruleset answered {version}"));
    }
    if std::thread::spawn(|| 7).join().unwrap() != 7 {
        wrong.push("threads do not work".to_owned());
    }
    let fifo = folder.join("fifo");
    let made = Command::new("sh").args(["-c", "mkfifo \"$1\" && echo made | cat", "sh"]).arg(&fifo).output();
    match made {
        Ok(output) if output.stdout == b"made\n" && fifo.exists() => {}
        other => wrong.push(format!("mkfifo and a pipe in a shell: {other:?}")),
    }
    let node = nix::sys::stat::mknod(
        &folder.join("null"),
        nix::sys::stat::SFlag::S_IFCHR,
        nix::sys::stat::Mode::S_IRUSR,
        nix::sys::stat::makedev(1, 3),
    );
    if node != Err(nix::errno::Errno::EPERM) {
        wrong.push(format!("a device node: {node:?}"));
    }
}

fn try_degraded(wrong: &mut Vec<String>) {
    for family in [1, 2, 10, 16, 17, 40] {
        let answer = named("socket", &[family, 1, 0]);
        if answer != EACCES {
            wrong.push(format!("a socket of family {family} answered {answer}"));
        }
    }
    check(&[("socketpair", &[1, 1, 0, BAD], libc::EFAULT)], wrong);
}

/// A worker's own life behind its filter: big buffers, a caught panic, time, random seeds, and no program.
fn try_worker(wrong: &mut Vec<String>) {
    let mut big = vec![1_u8; 64 << 20];
    big.resize(96 << 20, 2);
    let sum: u64 = big.iter().step_by(4096).map(|byte| u64::from(*byte)).sum();
    drop(big);
    let map: std::collections::HashMap<u64, u64> = (0..1000).map(|n| (n, sum)).collect();
    let caught = std::panic::catch_unwind(|| assert!(map.is_empty(), "a panic that is caught"));
    if caught.is_ok() || std::time::Instant::now().elapsed().as_secs() > 5 {
        wrong.push("panic or clock".to_owned());
    }
    std::thread::sleep(std::time::Duration::from_millis(1));
    let refused: &[(&str, &[u64], i32)] = &[
        ("execve", &[BAD, BAD, BAD], EPERM),
        ("execveat", &[BAD, BAD, BAD, BAD, 0], EPERM),
        ("clone", &[17], EPERM),
        ("socket", &[1, 1, 0], EPERM),
        ("connect", &[BAD, BAD, 0], EPERM),
        ("kill", &[0, 0], EPERM),
        ("mmap", &[0, 4096, 7, 0x22, BAD, 0], EPERM),
        ("mprotect", &[0, 4096, 5], EPERM),
        ("prctl", &[22, 0], EPERM),
        ("fcntl", &[BAD, 8, 1], EPERM),
        ("ioctl", &[BAD, 0x5412], EPERM),
        ("prlimit64", &[0, 7, BAD, 0], EPERM),
        ("memfd_create", &[BAD, 0], EPERM),
        ("io_uring_setup", &[4, BAD], EPERM),
        ("keyctl", &[0, 0xffff_fffd], EPERM),
    ];
    check(refused, wrong);
    if std::process::Command::new("/bin/true").status().is_ok() {
        wrong.push("a program was started".to_owned());
    }
}
