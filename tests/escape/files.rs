//! Reading and writing outside of the workspace.

use super::{Outside, way, ways};

/// The tree outside is readable, so that only the fence against writing is tried.
const READABLE: &str = "[filesystem]\nread = [\"{outer}\"]\n";
const ABSENT: &[&str] = &["ENOENT", "EACCES"];
const NO_WRITE: &[&str] = &["EROFS", "EACCES", "EPERM"];

ways! {
    read_a_file_outside: way(&[
        "open('{outer}/note.txt').read()",
        "open('../outer/note.txt').read()",
        "open('/proc/self/cwd/../outer/note.txt').read()",
        "open('/proc/self/root{outer}/note.txt').read()",
        "os.symlink('{outer}/note.txt', 'l'); open('l').read()",
        "os.chdir('..'); open('outer/note.txt').read()",
    ], ABSENT);
    list_a_folder_outside: way(&["os.listdir('{outer}')", "need('outer' in os.listdir('..'))", "list(os.scandir('{outer}'))"],
        &["ENOENT", "EACCES", "ENODATA"]);
    see_a_file_outside: way(&[
        "os.stat('{outer}/note.txt')",
        "os.open('{outer}/note.txt', os.O_PATH)",
        "need(os.access('{outer}/note.txt', os.F_OK))",
        "os.statvfs('{outer}')",
        "call(254, call(294, 0), b'{outer}', 0x100)", // inotify
        "os.getxattr('{outer}/note.txt', 'user.none') if not os.path.exists('{outer}/note.txt') else None",
    ], &["ENOENT", "EACCES", "ENODATA"]);
    keep_a_link_to_a_file_outside: way(&["os.link('{outer}/note.txt', 'kept')", "os.rename('{outer}/note.txt', 'moved')"],
        &["ENOENT", "EACCES", "EXDEV"]);
    read_by_file_handle: way(&["
handle = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128))
mount = ctypes.c_int()
call(303, -100, b'/etc/hostname', handle, ctypes.byref(mount), 0)
need(os.read(call(304, os.open('/etc', os.O_RDONLY), handle, 0), 10) is not None)"], &["EPERM"])
        .outside(Outside::WorksAsRoot);
    write_a_file_outside: way(&[
        "open('{outer}/note.txt', 'a').write('x')",
        "open('{outer}/note.txt', 'r+').write('x')",
        "os.truncate('{outer}/note.txt', 1)",
        "os.open('{outer}/note.txt', os.O_RDONLY | os.O_TRUNC)",
        "os.replace('src/a.txt', '{outer}/note.txt')",
    ], &["EROFS", "EACCES", "EXDEV"]).policy(READABLE);
    make_things_outside: way(&[
        "open('{outer}/new', 'w')",
        "os.mkdir('{outer}/d')",
        "os.mkfifo('{outer}/fifo')",
        "os.symlink('x', '{outer}/l')",
        "os.open('{outer}', os.O_TMPFILE | os.O_WRONLY)",
        "socket.socket(socket.AF_UNIX).bind('{outer}/made')",
        "os.mknod('{outer}/node', 0o100644)",
        "os.link('{outer}/note.txt', '{outer}/hard')",
        "os.rename('{outer}/note.txt', '{outer}/other')",
    ], NO_WRITE).policy(READABLE);
    remove_things_outside: way(&["os.unlink('{outer}/note.txt')", "os.unlink('{outer}/s.stream')"], NO_WRITE).policy(READABLE);
    remove_a_folder_outside: way(&["[os.unlink('{outer}/' + n) for n in os.listdir('{outer}')]; os.rmdir('{outer}')"], NO_WRITE)
        .policy(READABLE);
    remove_the_workspace: way(&["os.rename('{work}', '{base}/gone')"],
        &["EROFS", "EACCES", "EBUSY", "EXDEV"]);
    write_in_system_folders: way(&[
        "os.close(os.open('/etc/passwd', os.O_WRONLY))",
        "os.close(os.open('/usr/bin/env', os.O_WRONLY | os.O_APPEND))",
        "f = '/etc/stockade-probe'; os.mknod(f, 0o100600); os.unlink(f)",
        "f = '/usr/lib/stockade-probe'; os.mkdir(f); os.rmdir(f)",
        "f = '/opt/stockade-probe'; os.mkdir(f); os.rmdir(f)",
    ], NO_WRITE).outside(Outside::WorksAsRoot);
    write_in_the_roots_of_the_view: way(&[
        "open('/new', 'w'); os.unlink('/new')",
        "open('/dev/new', 'w'); os.unlink('/dev/new')",
        "os.chmod('/', os.stat('/').st_mode)",
    ], NO_WRITE).outside(Outside::WorksAsRoot);
    read_password_hashes_and_host_keys: way(&[
        "open('/etc/shadow').read()",
        "open('/etc/gshadow').read()",
        "open('/proc/self/root/etc/shadow').read()",
    ], &["EACCES", "ENOENT"]).outside(Outside::WorksAsRoot);
    read_a_private_key_of_the_host: way(&[
        "open('/etc/ssl/private/stockade-{name}.key').read()",
        "os.listdir('/etc/ssl/private')",
    ], &["EACCES", "ENOENT"])
        .host("os.makedirs('/etc/ssl/private', exist_ok=True); open('/etc/ssl/private/stockade-{name}.key', 'w').write('petrel31')",
            "os.unlink('/etc/ssl/private/stockade-{name}.key')")
        .outside(Outside::WorksAsRoot);
    read_keys_in_the_home_of_the_operator: way(&[
        "open('{base}/home/.ssh/id_ed25519').read()",
        "open('{base}/home/.aws/credentials').read()",
        "open('{base}/home/.config/stockade/policy.toml').read()",
        "open('{base}/home/.local/state/stockade/x').read()",
    ], ABSENT).host("
for name in ('.ssh/id_ed25519', '.aws/credentials', '.local/state/stockade/x'):
    path = '{base}/home/' + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'w').write('petrel31')
    os.chmod(path, 0o644)
os.makedirs('{base}/home/.config/stockade', exist_ok=True)
open('{base}/home/.config/stockade/policy.toml', 'w').write('version = 1\\n# petrel31\\n')", "");
    read_the_real_home_of_root: way(&["need(os.listdir('/root'))"], &["EACCES", "ENOENT", "ENODATA"]).outside(Outside::WorksAsRoot);
    use_temporary_files_of_the_host: way(&["open('/tmp/{name}').read()", "open('/var/tmp/{name}').read()", "open('/dev/shm/{name}').read()"], ABSENT)
        .host("
for d in ('/tmp/', '/var/tmp/', '/dev/shm/'):
    open(d + '{name}', 'w').write('petrel31'); os.chmod(d + '{name}', 0o644)",
            "[os.unlink(d + '{name}') for d in ('/tmp/', '/var/tmp/', '/dev/shm/')]");
    use_sockets_folders_of_the_host: way(&["os.stat('/run/{name}')", "os.stat('/var/run/{name}')"], &["ENOENT"])
        .host("open('/run/{name}', 'w')", "os.unlink('/run/{name}')");
    read_host_logs_and_spools: way(&["need(os.listdir('/var/log'))", "os.listdir('/var/lib/apt')", "os.listdir('/boot')", "os.listdir('/srv')"],
        &["ENOENT", "EACCES", "ENODATA"]);
}
