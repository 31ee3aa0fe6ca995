//! Calls that make namespaces, mounts, keys, programs in the kernel; and calls past the filter. Numbers are x86-64's.

use super::{Outside, Scene, answers, as_user, way, ways};
use crate::support::{shown, users};

const EPERM: &[&str] = &["EPERM"];
const ENOSYS: &[&str] = &["ENOSYS"];
const DAMAGE: Outside = Outside::NotTried("it would change the host");

ways! {
    io_uring: way(&["call(425, 4, ctypes.create_string_buffer(120))"], ENOSYS);
    io_uring_enter_and_register: way(&["call(426, -1, 0, 0, 0, 0, 0)", "call(427, -1, 0, 0, 0)"], ENOSYS)
        .outside(Outside::NotTried("without a ring they cannot work"));
    clone3: way(&["
args = struct.pack('11Q', 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
pid = call(435, args, 88)
if pid == 0: os._exit(0)
os.waitpid(pid, 0)"], ENOSYS);
    clone3_namespaces: way(&["
args = struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
pid = call(435, args, 88)
if pid == 0: os._exit(0)
os.waitpid(pid, 0)"], ENOSYS);
    user_namespace: way(&["
pid = os.fork()
if pid == 0:
    try: call(272, 0x10000000); os._exit(0)
    except OSError as error: os._exit(error.errno)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if status: raise OSError(status, 'unshare')"], EPERM);
    user_namespace_by_clone: way(&["
pid = call(56, 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
os.waitpid(pid, 0)", "
pid = call(56, 0x10000000 | 17 | 1 << 32, 0, 0, 0, 0)
if pid == 0: os._exit(0)
os.waitpid(pid, 0)"], EPERM);
    other_namespaces: way(&["
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000):
    pid = os.fork()
    if pid == 0:
        try: call(272, flag); os._exit(0)
        except OSError as error: os._exit(error.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == 0: need(True); break
else: raise OSError(status, 'unshare')", "
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000):
    try:
        pid = call(56, flag | 17, 0, 0, 0, 0)
        if pid == 0: os._exit(0)
        os.waitpid(pid, 0); break
    except OSError as error: last = error
else: raise last"], EPERM).outside(Outside::WorksAsRoot);
    join_namespaces: way(&[
        "call(308, os.open('/proc/self/ns/net', os.O_RDONLY), 0)",
        "call(308, os.pidfd_open(os.getpid()), 0x40000000)",
    ], EPERM).outside(Outside::WorksAsRoot);
    mounts: way(&[
        "os.mkdir('m1'); call(165, b'none', b'm1', b'tmpfs', 0, 0); call(166, b'm1', 2)",
        "os.mkdir('m2'); call(165, b'/etc', b'm2', 0, 0x1000, 0); call(166, b'm2', 2)",
    ], EPERM).outside(Outside::WorksAsRoot);
    take_masks_off: way(&[
        "call(166, b'.env', 2)",
        "call(166, b'vault', 2)",
        "call(165, 0, b'.', 0, 0x20 | 0x1000, 0)",
        "call(442, -100, b'/etc', 0, struct.pack('4Q', 0, 1, 0, 0), 32)", // mount_setattr clears read-only
        "call(165, 0, b'/', 0, 0x1020, 0)",
        "call(165, 0, b'/', 0, 0x40000, 0)",
    ], EPERM).outside(DAMAGE);
    mount_by_the_new_calls: way(&[
        "call(428, -100, b'/etc', 1)",      // open_tree(CLONE)
        "call(430, b'tmpfs', 0)",           // fsopen
        "call(433, -100, b'/', 0)",         // fspick
    ], EPERM).outside(Outside::WorksAsRoot);
    mount_by_the_other_new_calls: way(&[
        "call(428, -100, b'/', 0)",
        "call(429, -1, b'', -100, b'/', 4)",
        "call(431, -1, 0, 0, 0, 0)",
        "call(432, -1, 0, 0)",
        "call(442, -100, b'/', 0, bytes(32), 32)",
        "call(467, -100, b'/', 1, bytes(32), 32)",
        "call(457, bytes(24), bytes(512), 512, 0)",
        "call(458, bytes(24), bytes(512), 64, 0)",
    ], &["EPERM", "ENOSYS"]).outside(Outside::NotTried("older kernels lack some"));
    change_the_root: way(&["
pid = os.fork()
if pid == 0:
    try: call(161, b'/usr'); os._exit(0)
    except OSError as error: os._exit(error.errno)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if status: raise OSError(status, 'chroot')"], EPERM).outside(Outside::WorksAsRoot);
    pivot_the_root: way(&["call(155, b'.', b'.')"], EPERM).outside(DAMAGE);
    keys: way(&[
        "call(248, b'user', b'stockade', b'x', 1, -2)",
        "call(250, 0, -4, 1)",
        "call(250, 11, call(248, b'user', b'stockade', b'x', 1, -3), ctypes.create_string_buffer(8), 8)",
    ], EPERM);
    keys_by_request_and_to_the_parent: way(&["call(249, b'user', b'stockade-none', 0, 0)", "call(250, 18)", "call(250, 1, b'x')"], EPERM)
        .outside(Outside::NotTried("there is no such key"));
    bpf: way(&["call(321, 0, struct.pack('IIII', 2, 4, 4, 1) + bytes(112), 128)"], EPERM).outside(Outside::WorksAsRoot);
    performance_events: way(&["call(298, struct.pack('IIQ', 1, 128, 0) + bytes(112), 0, -1, -1, 0)"], EPERM)
        .outside(Outside::WorksAsRoot);
    user_faults: way(&["call(323, 0)", "call(323, 1)"], EPERM).outside(Outside::WorksAsRoot);
    modules: way(&["call(175, b'', 0, b'')", "call(313, 0, b'', 0)", "call(176, b'none', 0)"], EPERM).outside(DAMAGE);
    root_powers: way(&[
        "call(169, 0, 0, 0, 0)",                // reboot with wrong magic
        "call(246, 0, 0, 0, 0)",                // kexec_load
        "call(320, -1, -1, 0, b'', 0)",
        "call(167, b'none', 0)",                // swapon
        "call(163, b'none')",                   // acct
        "call(170, b'x', 1)",                   // sethostname
        "call(171, b'x', 1)",
        "call(227, 0, bytes(16))",              // clock_settime
        "call(164, bytes(16), 0)",
        "call(172, 3)", "call(173, 0, 0, 0)",   // iopl, ioperm
        "call(103, 10, 0, 0)",                  // syslog
        "call(153)",                            // vhangup
        "call(179, 0, b'', 0, 0)",              // quotactl
        "call(154, 0, bytes(16), 16)",          // modify_ldt
    ], EPERM).outside(DAMAGE);
    handles: way(&["call(304, -100, struct.pack('Ii', 8, 1) + bytes(8), 0)"], EPERM).outside(Outside::NotTried("the handle is made up"));
    fanotify: way(&["os.close(call(300, 0, 0))", "call(301, -1, 0, 0, -100, 0)"], EPERM).outside(Outside::NotTried("the kernel may lack it"));
    secret_memory: way(&["call(447, 0)"], ENOSYS).outside(Outside::NotTried("the kernel may have it off"));
    personality: way(&["call(135, 0x0040000)", "call(135, 0x0400000)"], EPERM);
    take_capabilities_back: way(&[
        "need(any(int(l.split()[1], 16) for l in open('/proc/self/status') if l.startswith('Cap')), 'no capability is left')",
        "need('NoNewPrivs:\\t0' in open('/proc/self/status').read())",
    ], &["ENODATA"]).outside(Outside::WorksAsRoot);
    become_somebody_else: way(&["
pid = os.fork()
if pid == 0:
    try: os.setresuid(1, 1, 1); os._exit(0)
    except OSError as error: os._exit(error.errno)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if status: raise OSError(status, 'setresuid')", "
pid = os.fork()
if pid == 0:
    try: os.setgroups([0]); os._exit(0)
    except OSError as error: os._exit(error.errno)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if status: raise OSError(status, 'setgroups')"], &["EPERM", "EINVAL"]).outside(Outside::WorksAsRoot);
    become_root_by_a_set_uid_program: way(&["
import shutil
shutil.copy('/usr/bin/id', 'id'); os.chmod('id', 0o4755)
need(os.getuid() != 0 and b'euid=0' in __import__('subprocess').check_output(['./id']))"], &["ENODATA"])
        .outside(Outside::NotTried("only root could make it outside"));
    raise_limits: way(&["call(302, 0, 7, struct.pack('QQ', 1 << 24, 1 << 24), 0)",
        "call(302, 0, 4, struct.pack('QQ', 1 << 20, 1 << 20), 0)", "os.nice(-5)"], &["EPERM", "EACCES", "ENODATA"])
        .outside(Outside::NotTried("limits of the host differ"));
}

#[test]
fn int_80_ends_the_process_and_x32_is_no_call() {
    for user in users() {
        let scene = Scene::new(user, "");
        // mov eax, 20; int 0x80; ret: getpid of i386. Outside it works where IA-32 is on.
        scene.put_attempts(&["need(machine_code('b814000000cd80c3') > 0)"]);
        let mut outside = as_user(user);
        outside.args(["/usr/bin/python3", "t.py", "t.json"]).current_dir(scene.bay.work(""));
        let control = outside.output().unwrap();
        for bash in [false, true] {
            let output = scene.inside(bash, &["need(machine_code('b814000000cd80c3') > 0)"]);
            assert!(answers(&output).is_empty(), "{user:?}: it went on: {}", shown(&output));
            if answers(&control) == ["OK"] && !bash {
                assert_eq!(output.status.code(), Some(128 + 31), "{user:?}: SIGSYS: {}", shown(&output));
            }
            // mov eax, 39 | 1 << 30; syscall; ret: getpid of x32.
            let attempts = [
                "value = machine_code('b8270000400f05c3'); need(value == -38)",
                "call(39 | 1 << 30)",
                "call(41 | 1 << 30, 40, 1, 0)",
                "call(0x7fffffff)",
            ];
            let output = scene.inside(bash, &attempts);
            assert_eq!(
                answers(&output),
                ["OK", "ERR ENOSYS", "ERR ENOSYS", "ERR ENOSYS"],
                "{user:?}: {}",
                shown(&output)
            );
        }
    }
}

/// What is documented as running: the right to read is the right to run, through a loader or a memory file. So the
/// guarantee `exec.confined` is refused for programs at the start.
#[test]
fn memory_files_and_loaders_run_and_exec_confined_is_never_promised() {
    for user in users() {
        let mut scene = Scene::new(user, "");
        let memory = "
f = os.memfd_create('m'); os.write(f, open('/bin/true', 'rb').read())
pid = os.fork()
if pid == 0: os.execve(f, ['true'], {})
need(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0)";
        let loader = "
import glob, shutil, subprocess
shutil.copy('/bin/true', 'plain'); os.chmod('plain', 0o644)
need(subprocess.run([glob.glob('/lib64/ld-linux-*')[0], './plain']).returncode == 0)";
        let output = scene.inside(false, &[memory, loader]);
        assert_eq!(answers(&output), ["OK", "OK"], "{user:?}: {}", shown(&output));
        scene.bay.with_policy("open", "[require]\nguarantees = [\"exec.confined\"]\n");
        let output = scene.inside(false, &[memory]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{user:?}: {}", shown(&output));
        assert!(said.contains("exec.confined") && answers(&output).is_empty(), "{user:?}: {said}");
        let (result, exit) = scene.bay.call("bash", &serde_json::json!({"command": "touch ran"}));
        assert_eq!((exit, result["refusal"]["code"].as_str()), (4, Some("cannot_enforce")), "{user:?}: {result}");
        assert!(result["refusal"]["message"].as_str().unwrap().contains("exec.confined"), "{result}");
        assert!(!scene.bay.work("ran").exists());
        assert_eq!(scene.bay.call("read_file", &serde_json::json!({"path": "src/a.txt"})).1, 0, "{user:?}");
    }
}
