//! Device nodes, the terminal, and what the kernel offers under `/proc/sys`, `/sys` and the cgroups.

use std::process::Command;

use serde_json::json;

use super::{Outside, Scene, answers, way, ways};
use crate::support::{shown, users};

ways! {
    make_device_nodes: way(&[
        "os.mknod('n1', 0o020666, os.makedev(1, 3))",
        "os.mknod('n2', 0o060666, os.makedev(7, 0))",
        "call(259, -100, b'n3', 0o020666, os.makedev(1, 3))",
        "call(133, b'n4', 0o060666, os.makedev(8, 0))",
        "os.mknod('/tmp/{name}', 0o020666, os.makedev(1, 1)); os.unlink('/tmp/{name}')",
    ], &["EPERM", "EACCES"]).outside(Outside::WorksAsRoot);
    open_devices_of_the_host: way(&["
names = ['mem', 'kmem', 'port', 'kmsg', 'kvm', 'fuse', 'vda', 'sda', 'loop0', 'loop-control', 'net/tun', 'vsock', 'vhost-vsock',
         'userfaultfd', 'input/event0', 'snd/seq', 'dri/card0', 'autofs', 'uinput', 'mapper/control', 'console', 'tty0', 'tty1']
need(any(os.path.lexists('/dev/' + name) for name in names))"], &["ENODATA"]);
    shared_memory_files_of_the_host: way(&["open('/dev/shm/{name}').read()"], &["ENOENT"])
        .host("open('/dev/shm/{name}', 'w'); os.chmod('/dev/shm/{name}', 0o644)", "os.unlink('/dev/shm/{name}')");
    terminals_of_the_host: way(&["os.close(os.open('/dev/pts/0', os.O_RDWR | os.O_NOCTTY))"], &["ENOENT", "EACCES"])
        .outside(Outside::NotTried("there may be no terminal"));
    settings_of_the_kernel: way(&[
        "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)",
        "os.open('/proc/sys/vm/overcommit_memory', os.O_WRONLY)",
        "os.open('/proc/sys/fs/file-max', os.O_WRONLY)",
        "os.open('/proc/sys/kernel/hostname', os.O_WRONLY)",
    ], &["EROFS", "EACCES", "EPERM", "ENOENT"]).outside(Outside::WorksAsRoot);
    settings_of_the_call: way(&[
        "os.close(os.open('/proc/sys/kernel/pid_max', os.O_WRONLY))",
        "open('/proc/self/oom_score_adj', 'w').write('0')",
        "open('/proc/self/comm', 'w').write('x')",
    ], &["EROFS", "EACCES", "EPERM"]).outside(Outside::WorksAsRoot);
    files_of_sys: way(&[
        "os.open('/sys/kernel/mm/transparent_hugepage/enabled', os.O_WRONLY)",
        "os.chmod('/sys/devices/system/cpu', 0o755)",
    ], &["EROFS", "EACCES", "EPERM", "ENOENT"]).outside(Outside::WorksAsRoot);
    debug_files_of_sys: way(&["need(any(os.path.exists('/sys/kernel/' + n) for n in ('debug', 'tracing', 'security', 'uevent_helper', 'slab')))"],
        &["ENODATA"]);
    cgroups: way(&["
made = False
for folder in ('/sys/fs/cgroup/{name}', '/sys/fs/cgroup/memory/{name}', '/sys/fs/cgroup/unified/{name}', '/sys/fs/cgroup/cpu/{name}'):
    try:
        os.mkdir(folder); os.rmdir(folder); made = True
    except OSError as error:
        last = error
if not made: raise last", "
last = None
for folder in ('/sys/fs/cgroup', '/sys/fs/cgroup/memory', '/sys/fs/cgroup/unified', '/sys/fs/cgroup/cpu'):
    try:
        os.close(os.open(folder + '/cgroup.procs', os.O_WRONLY)); last = None; break
    except OSError as error:
        last = error
if last: raise last"], &["EROFS", "EACCES", "EPERM", "ENOENT"]).outside(Outside::WorksAsRoot);
}

/// Runs a command on a fresh pseudo terminal that is its controlling one, and prints what came out.
const TERMINAL: &str = "
import os, pty, sys, termios
pid, fd = pty.fork()
if pid == 0:
    modes = termios.tcgetattr(0); modes[3] &= ~termios.ECHO; termios.tcsetattr(0, termios.TCSANOW, modes)
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    sys.stdout.buffer.write(data.replace(b'\\r\\n', b'\\n')); sys.stdout.flush()
os.waitpid(pid, 0)
";

fn on_a_terminal(command: &Command) -> Command {
    crate::support::wrapped(command, &["/usr/bin/python3", "-c", TERMINAL])
}

#[test]
fn typing_into_the_terminal() {
    for user in users() {
        let scene = Scene::new(user, "");
        // TIOCSTI, TIOCLINUX, TIOCSETD and TIOCCONS; the kernel looks at 32 bits of the number only (CVE-2019-10063).
        let attempts = [
            "call(16, 0, 0x5412, b'x')",
            "call(16, 0, 0x5412 | 1 << 32, b'x')",
            "call(16, 1, 0x5412 | 7 << 40, b'x')",
            "call(16, 0, 0x541c, b'\\x02')",
            "call(16, 0, 0x541c | 1 << 32, b'\\x02')",
            "call(16, 0, 0x5423, struct.pack('i', 0))",
            "call(16, 0, 0x541d, 0)",
            "call(16, 0, 0x541d | 1 << 33, 0)",
        ];
        // Outside only the harmless half: a console that is redirected to a terminal stays so when the test is gone.
        scene.put_attempts(&attempts[..3]);
        let mut outside = super::as_user(user);
        outside.args(["/usr/bin/python3", "t.py", "t.json"]).current_dir(scene.bay.work(""));
        let control = answers(&on_a_terminal(&outside).output().unwrap());
        let legacy = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").is_ok_and(|text| text.trim() == "1");
        if legacy {
            assert_eq!(control, ["OK", "OK", "OK"], "{user:?}: outside it works: {control:?}");
        }
        scene.put_attempts(&attempts);
        let mut inside = scene.bay.command("run");
        inside.args(["--", "/usr/bin/python3", "t.py", "t.json"]);
        let output = on_a_terminal(&inside).output().unwrap();
        let seen = answers(&output);
        assert_eq!(seen.len(), attempts.len(), "{user:?}: {}", shown(&output));
        assert!(seen.iter().all(|answer| answer == "ERR EPERM"), "{user:?}: {}", shown(&output));
    }
}

#[test]
fn a_command_of_a_tool_has_no_terminal() {
    for user in users() {
        let scene = Scene::new(user, "");
        let mut inside = scene.bay.command("call");
        let command = "[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || exec 3<>/dev/tty || echo NONE";
        inside.args(["bash", &json!({ "command": format!("bash -c '{command}'") }).to_string()]);
        let output = on_a_terminal(&inside).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("NONE"), "{user:?}: {}", shown(&output));
    }
}
