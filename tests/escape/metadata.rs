//! Mode, owner, times and attributes of what is outside: Landlock mediates none of them.

use super::{Outside, way, ways};

const READABLE: &str = "[filesystem]\nread = [\"{outer}\"]\n";
const NO: &[&str] = &["EROFS", "EACCES", "EPERM"];

ways! {
    change_modes: way(&[
        "os.chmod('{outer}/note.txt', 0o777)",
        "os.chmod('{outer}', 0o777)",
        "os.fchmod(os.open('{outer}/note.txt', os.O_RDONLY), 0o777)",
        "call(452, -100, b'{outer}/note.txt', 0o777, 0)", // fchmodat2
        "call(452, os.open('{outer}/note.txt', os.O_PATH), b'', 0o777, 0x1000)",
        "os.chmod('/proc/self/fd/%d' % os.open('{outer}/note.txt', os.O_PATH), 0o777)",
        "os.chmod('/proc/self/fd/%d' % os.open('{outer}', os.O_PATH), 0o777)",
        "os.symlink('{outer}/note.txt', 'l'); os.chmod('l', 0o777)",
        "os.chmod('/proc/self/root{outer}/note.txt', 0o777)",
    ], NO).policy(READABLE);
    change_owners: way(&[
        "os.chown('{outer}/note.txt', os.getuid(), os.getgid())",
        "os.lchown('{outer}/note.txt', -1, os.getgid())",
        "os.fchown(os.open('{outer}/note.txt', os.O_RDONLY), os.getuid(), -1)",
        "call(260, os.open('{outer}/note.txt', os.O_PATH), b'', os.getuid(), os.getgid(), 0x1000)", // fchownat AT_EMPTY_PATH
        "os.chown('/proc/self/fd/%d' % os.open('{outer}', os.O_PATH), os.getuid(), -1)",
    ], NO).policy(READABLE);
    change_times: way(&[
        "os.utime('{outer}/note.txt', (1, 1))",
        "os.utime('{outer}', (1, 1))",
        "os.utime(os.open('{outer}/note.txt', os.O_RDONLY), (1, 1))",
        "call(280, -100, b'{outer}/note.txt', None, 0)", // utimensat
        "os.utime('/proc/self/fd/%d' % os.open('{outer}/note.txt', os.O_PATH), (1, 1))",
    ], NO).policy(READABLE);
    change_attributes: way(&[
        "os.setxattr('{outer}/note.txt', 'user.k', b'1')",
        "os.setxattr('{outer}', 'user.k', b'1')",
        "os.setxattr(os.open('{outer}/note.txt', os.O_RDONLY), 'user.k2', b'1')",
        "os.setxattr('/proc/self/fd/%d' % os.open('{outer}/note.txt', os.O_PATH), 'user.k3', b'1')",
    ], NO).policy(READABLE);
    remove_attributes: way(&[
        "os.removexattr('{outer}/note.txt', 'user.old')",
        "os.removexattr(os.open('{outer}', os.O_RDONLY), 'user.old')",
    ], NO).policy(READABLE).host("
os.setxattr('{outer}/note.txt', 'user.old', b'1')
os.setxattr('{outer}', 'user.old', b'1')", "");
    attributes_by_their_new_call: way(&[
        "call(463, -100, b'{outer}/note.txt', 0, b'user.k', struct.pack('QII', 0, 0, 0), 16)", // setxattrat
        "call(466, -100, b'{outer}/note.txt', 0, b'user.k')",
    ], &["EROFS", "EACCES", "EPERM", "ENOSYS"]).policy(READABLE).outside(Outside::NotTried("Linux 6.13 brought the call"));
    file_flags: way(&["fcntl.ioctl(os.open('{outer}/note.txt', os.O_RDONLY), 0x40086602, struct.pack('l', 0x80))"],
        &["EROFS", "EACCES", "EPERM", "ENOTTY", "EOPNOTSUPP"]).policy(READABLE)
        .outside(Outside::NotTried("FS_IOC_SETFLAGS; a file system may lack it"));
    system_files: way(&[
        "os.chmod('/etc/passwd', os.stat('/etc/passwd').st_mode)",
        "os.chmod('/usr', os.stat('/usr').st_mode)",
        "os.utime('/usr/bin/env', ns=(os.stat('/usr/bin/env').st_atime_ns, os.stat('/usr/bin/env').st_mtime_ns))",
        "os.chown('/etc', 0, 0)",
    ], NO).outside(Outside::WorksAsRoot);
    system_files_through_descriptors: way(&[
        "os.fchmod(os.open('/etc/passwd', os.O_RDONLY), 0o644)",
        "os.chmod('/proc/self/fd/%d' % os.open('/etc', os.O_PATH), 0o755)",
        "os.chmod('/proc/self/exe', 0o755)",
    ], NO).outside(Outside::WorksAsRoot);
    devices: way(&["os.chmod('/dev/null', 0o666)", "os.utime('/dev/zero')", "os.chown('/dev/null', 0, 0)"], NO)
        .outside(Outside::WorksAsRoot);
    denied_files_of_the_workspace: way(&[
        "os.chmod('.env', 0o644)",
        "os.utime('.env', (1, 1))",
        "os.setxattr('.env', 'user.k', b'1')",
        "os.chmod('vault', 0o755)",
        "os.chown('vault', os.getuid(), -1)",
    ], NO);
    protected_files_of_the_workspace: way(&[
        "os.chmod('.git/hooks/pre-commit', 0o755)",
        "os.utime('.git/config', (1, 1))",
        "os.chmod('.git/hooks', 0o777)",
    ], NO).host("
import subprocess
subprocess.run(['git', 'init', '-q', '{work}'], check=True)
open('{work}/.git/hooks/pre-commit', 'w').write('#!/bin/sh\\n')
os.system('chown -R --reference={work} {work}/.git')", "");
}
