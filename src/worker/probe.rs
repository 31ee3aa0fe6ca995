//! **What this room is for:** `doctor`'s own attempts to get out, made from inside a worker that may start programs.
//! **Who may enter:** the worker. **Never done here:** assuming: every line is the kernel's answer to a real attempt, and
//! the things outside exist and are open to this user, so that a refusal means confinement and not absence.
//! **Where the proof is:** `tests/cli.rs`.

use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use nix::sched::{CloneFlags, unshare};

use crate::confine::seccomp;
use crate::wire::message::ProbeTargets;

/// Name of the guarantee, does it hold, the attempt and its answer.
type Seen = (String, bool, String);

/// Tries every escape. A line whose guarantee begins with `works.` is a control: it must succeed.
#[must_use]
pub fn run(targets: &ProbeTargets) -> Vec<Seen> {
    let own = targets.workspace.join("probe");
    let beside = targets.file.with_file_name("made-by-a-probe");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, targets.port));
    let mut seen = vec![
        works("works.write", "write in the workspace", fs::write(&own, "x")),
        works("works.read", "read it again", fs::read(&own)),
        refused("fs.read", "read a file outside", fs::read(&targets.file)),
        refused("fs.read", "read a denied file of the workspace", fs::read(&targets.denied)),
        refused("fs.read", "read /etc/shadow", fs::read("/etc/shadow")),
        refused("fs.write", "write a file outside", fs::OpenOptions::new().append(true).open(&targets.file)),
        refused("fs.write", "make a file outside", fs::write(beside, "x")),
        refused("fs.write", "make a file in /etc", fs::write("/etc/made-by-a-probe", "x")),
        refused("fs.meta", "change the mode of a file outside", mode(&targets.file)),
        refused("fs.meta", "change the mode of /etc/passwd", mode(Path::new("/etc/passwd"))),
        refused("fs.meta", "change the mode of /usr", mode(Path::new("/usr"))),
        refused("net.none", "connect to 127.0.0.1", TcpStream::connect_timeout(&address, Duration::from_millis(500))),
        refused("net.none", "send a datagram to the network", datagram()),
        refused("net.none", "connect to a socket file of the host", UnixStream::connect(&targets.socket)),
        refused("sys.namespaces", "make a user namespace", unshare(CloneFlags::CLONE_NEWUSER).map_err(io::Error::from)),
    ];
    let filtered = seccomp::canary();
    let answer =
        if filtered { "the canary call was answered by our filter" } else { "the canary call reached the kernel" };
    seen.push(("sys.filter".to_owned(), filtered, answer.to_owned()));
    let first = nix::unistd::getpid().as_raw() == 1;
    let answer =
        if first { "this worker is process 1 of its own pid namespace" } else { "no pid namespace of its own" };
    seen.push(("kill.tree".to_owned(), first, answer.to_owned()));
    let _ = fs::remove_file(own);
    seen
}

fn mode(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

fn datagram() -> io::Result<usize> {
    // An address of the range for documentation (RFC 5737): nobody is there, and without a route nothing is sent.
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.send_to(b"x", (Ipv4Addr::new(192, 0, 2, 1), 9))
}

fn refused<T>(guarantee: &str, attempt: &str, result: io::Result<T>) -> Seen {
    match result {
        Ok(_) => (guarantee.to_owned(), false, format!("{attempt}: it worked")),
        Err(error) => (guarantee.to_owned(), true, format!("{attempt}: {error}")),
    }
}

fn works<T>(control: &str, attempt: &str, result: io::Result<T>) -> Seen {
    match result {
        Ok(_) => (control.to_owned(), true, format!("{attempt}: it works")),
        Err(error) => (control.to_owned(), false, format!("{attempt}: {error}")),
    }
}
