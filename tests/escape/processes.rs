//! Other processes: looking into them, signalling them, inheriting from them; and shared names of ipc.

use super::{Outside, Scene, answers, way, ways};
use crate::support::{assert_sealed, shown, users, wrapped};

/// There is no such process in the pid namespace of the call, or the call is refused.
const NONE: &[&str] = &["ESRCH", "ENOENT", "EPERM", "EACCES"];

ways! {
    look_into_an_outside_process: way(&[
        "open('/proc/{victim}/environ').read()",
        "open('/proc/{victim}/mem', 'rb')",
        "os.readlink('/proc/{victim}/root')",
        "os.listdir('/proc/{victim}/fd')",
        "open('/proc/{victim}/cmdline').read()",
        "os.stat('/proc/{victim}')",
    ], NONE);
    find_outside_processes: way(&["
found = []
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        line = open('/proc/%s/cmdline' % pid).read()
    except OSError: continue
    if line.split(chr(0))[:2] == ['sleep', '120']: found.append(pid)
need(found)"], &["ENODATA"]);
    read_memory_of_outside_processes: way(&["
b = ctypes.create_string_buffer(8)
maps = open('/proc/{victim}/maps').readline(); at = int(maps.split('-')[0], 16)
local = struct.pack('QQ', ctypes.addressof(b), 8); remote = struct.pack('QQ', at, 8)
call(310, {victim}, local, 1, remote, 1, 0)"], NONE);
    trace_outside_processes: way(&["call(101, 0x4206, {victim}, 0, 0)"], NONE); // PTRACE_SEIZE
    take_descriptors_of_outside_processes: way(&["call(438, os.pidfd_open({victim}), 0, 0)"], NONE);
    compare_with_outside_processes: way(&["call(312, {victim}, os.getpid(), 1, 0, 0)"], NONE);
    kill_outside_processes: way(&["os.kill({victim}, 0)", "os.kill({victim}, 19)", "os.kill({victim}, 18)",
        "signal.pidfd_send_signal(os.pidfd_open({victim}), 0)", "call(129, {victim}, 0, bytes(128)) if False else call(234, {victim}, {victim}, 0)"], NONE);
    renice_outside_processes: way(&["os.setpriority(0, {victim}, 5)", "os.sched_setaffinity({victim}, os.sched_getaffinity({victim}))",
        "os.sched_setscheduler({victim}, os.SCHED_BATCH, os.sched_param(0))"], NONE);
    limits_of_outside_processes: way(&["import resource; resource.prlimit({victim}, resource.RLIMIT_CORE, (0, 0))"], NONE);
    signal_everything: way(&["
call(62, -1, 0)
os.kill({victim}, 0)"], NONE);
    take_descriptors_of_own_children: way(&["
call(438, os.pidfd_open(os.getpid()), 0, 0)"], &["EPERM"]);
    look_into_the_worker: way(&[
        "open('/proc/1/environ').read()",
        "open('/proc/1/mem', 'rb')",
        "os.readlink('/proc/1/fd/0')",
        "os.readlink('/proc/1/root')",
        "os.readlink('/proc/1/exe')",
        "os.listdir('/proc/1/root/')",
        "open('/proc/1/maps').read()",
        "os.listdir('/proc/1/map_files')",
        "os.open('/proc/1/task/1/fd/0', os.O_RDWR)",
        "open('/proc/1/stack').read()",
    ], &["EACCES", "EPERM", "ENOENT"]).outside(Outside::NotTried("outside it is the host's init"));
    tamper_with_the_worker: way(&[
        "open('/proc/1/oom_score_adj', 'w')",
        "open('/proc/1/comm', 'w')",
    ], &["EACCES", "EPERM", "EROFS", "ENOENT"]).outside(Outside::NotTried("outside it is the host's init"));
    write_to_files_of_running_programs: way(&[
        "os.open('/proc/self/exe', os.O_WRONLY)",
        "os.open('/proc/1/exe', os.O_WRONLY)",
        "os.open('/proc/1/exe', os.O_RDONLY)",
    ], &["EACCES", "ETXTBSY", "EROFS", "EPERM", "ENOENT"]).outside(Outside::NotTried("a running program cannot be written at all"));
    shared_memory_of_the_host: way(&["call(29, {victim} + 77000000, 0, 0)"], &["ENOENT"])
        .host("call(29, {victim} + 77000000, 4096, 0o1666)", "call(31, call(29, {victim} + 77000000, 0, 0), 0, 0)");
    semaphores_of_the_host: way(&["call(64, {victim} + 77000000, 0, 0)"], &["ENOENT"])
        .host("call(64, {victim} + 77000000, 1, 0o1666)", "call(66, call(64, {victim} + 77000000, 0, 0), 0, 0, 0)");
    message_queues_of_the_host: way(&["call(68, {victim} + 77000000, 0)"], &["ENOENT"])
        .host("call(68, {victim} + 77000000, 0o1666)", "call(71, call(68, {victim} + 77000000, 0), 0, 0)");
    posix_message_queues_of_the_host: way(&["call(240, b'{name}', 0, 0, 0)"], &["ENOENT"])
        .host("os.umask(0); call(240, b'{name}', 0o102, 0o666, 0)", "call(241, b'{name}')");
    inherited_environment: way(&["need([v for k, v in os.environ.items() if 'petrel' in v or k in ('AWS_SECRET_ACCESS_KEY', 'STOCKADE_TEST_TOKEN')])"],
        &["ENODATA"]).outside(Outside::NotTried("the supervisor's environment is set for the attempt inside alone"));
    environment_that_loads_code: way(&["need([k for k in os.environ if k.startswith(('LD_', 'PYTHON', 'GIT_CONFIG', 'BASH_ENV'))])"], &["ENODATA"])
        .outside(Outside::NotTried("as above"));
}

/// Descriptors that whoever starts stockade has left open: a file, a folder, the write end of a pipe, a high number.
#[test]
fn inherited_descriptors() {
    for user in users() {
        let scene = Scene::new(user, "");
        let outer = super::text(&scene.bay.base().join("outer"));
        let open = format!(
            "ulimit -n 4096; exec 7</etc/passwd 8<{outer}/note.txt 9<{outer}; exec 200<{outer}/note.txt 250>>{outer}/note.txt; exec \"$@\""
        );
        let attempts = [
            "need([n for n in map(int, os.listdir('/proc/self/fd')) if n > 2 and os.path.exists('/proc/self/fd/%d' % n) and not os.readlink('/proc/self/fd/%d' % n).startswith('/proc')])",
            "os.read(8, 100)",
            "os.open('note.txt', os.O_RDONLY, dir_fd=9)",
            "os.fchdir(9)",
            "os.read(200, 100)",
            "os.write(250, b'x')",
        ];
        scene.put_attempts(&attempts);
        let mut outside = super::as_user(user);
        outside.args(["/usr/bin/python3", "t.py", "t.json"]).current_dir(scene.bay.work(""));
        let with = |command: &std::process::Command| wrapped(command, &["bash", "-c", &open, "bash"]).output().unwrap();
        assert_eq!(answers(&with(&outside)), ["OK"; 6], "{user:?}: outside they are there");
        for what in ["run", "call"] {
            let mut inside = scene.bay.command(what);
            if what == "run" {
                inside.args(["--", "/usr/bin/python3", "t.py", "t.json"]);
            } else {
                inside.args(["bash", r#"{"command":"/usr/bin/python3 t.py t.json"}"#]);
            }
            let output = with(&inside);
            let seen = answers(&output);
            assert_eq!(seen.len(), 6, "{user:?}: {}", shown(&output));
            assert!(
                seen[0] == "ERR ENODATA" && seen[1..].iter().all(|a| a == "ERR EBADF"),
                "{user:?} {what}: {}",
                shown(&output)
            );
            assert_sealed(&output.stdout);
        }
    }
}

/// Only the call's own processes are there: the worker, the program, its children.
#[test]
fn the_process_list_is_the_calls_own() {
    for user in users() {
        let scene = Scene::new(user, "");
        let output = scene.bay.run("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done; echo self $$");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!text.contains("sleep 120") && !text.contains("cargo"), "{user:?}: {text}");
        assert!(text.lines().count() <= 6, "{user:?}: {text}");
        assert_sealed(&output.stdout);
    }
}
