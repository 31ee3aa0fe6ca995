//! **What this room is for:** the session's namespaces and the ladder where the host forbids some.
//! **Who may enter:** the launcher, before it builds anything. **Never done here:** accepting a missing one silently:
//! what is not made is named. **Where the proof is:** `tests/ladder.rs`.

use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, getegid, geteuid};

use crate::confinement::NetworkMode;
use crate::sys::{self, Forked};

/// What was made.
#[derive(Debug, Default)]
pub struct Made {
    /// Names as in the contract: `user mnt pid net ipc uts`.
    pub names: Vec<String>,
    /// What was not, and why.
    pub missing: Vec<String>,
}

impl Made {
    /// Was this one made?
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|made| made == name)
    }
}

fn wanted(network: NetworkMode) -> Vec<(&'static str, CloneFlags)> {
    let mut wanted =
        vec![("mnt", CloneFlags::CLONE_NEWNS), ("ipc", CloneFlags::CLONE_NEWIPC), ("uts", CloneFlags::CLONE_NEWUTS)];
    if network == NetworkMode::None {
        wanted.push(("net", CloneFlags::CLONE_NEWNET));
    }
    wanted
}

/// Leaves the host's namespaces, all but the pid namespace (see [`into_pid_namespace`]).
///
/// A user namespace is made as root too: it keeps the powers of the real root out even if a later step were wrong. Where
/// the host forbids it, root goes on without (the capabilities are dropped in each worker all the same), and an ordinary
/// user gets no namespaces at all.
#[must_use]
pub fn leave(network: NetworkMode) -> Made {
    let mut made = Made::default();
    let (uid, gid) = (geteuid(), getegid());
    let wanted = wanted(network);
    let together = wanted.iter().fold(CloneFlags::CLONE_NEWUSER, |flags, (_, flag)| flags | *flag);
    if unshare(together).is_ok() {
        match map_ids(uid, gid) {
            Ok(()) => {
                made.names.push("user".to_owned());
                made.names.extend(wanted.iter().map(|(name, _)| (*name).to_owned()));
            }
            Err(error) => made.missing.push(format!("namespace user: identity map: {error}")),
        }
        return made;
    }
    match unshare(CloneFlags::CLONE_NEWUSER).map_err(io::Error::from).and_then(|()| map_ids(uid, gid)) {
        Ok(()) => made.names.push("user".to_owned()),
        Err(error) => made.missing.push(format!("namespace user: {error}")),
    }
    for (name, flag) in wanted {
        match unshare(flag) {
            Ok(()) => made.names.push(name.to_owned()),
            Err(error) => made.missing.push(format!("namespace {name}: {error}")),
        }
    }
    made
}

/// Maps the own user and group alone: every other identity of the host is nobody inside.
fn map_ids(uid: Uid, gid: Gid) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Goes on as the first process of a new pid namespace; the calling process stays outside, waits and ends with it. When
/// the first process of a pid namespace ends, the kernel ends all others in it.
///
/// # Errors
/// The kernel's, when there is no pid namespace to be had: then this process simply goes on.
pub fn into_pid_namespace() -> io::Result<()> {
    match sys::fork_into(libc::CLONE_NEWPID)? {
        Forked::Child => {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            Ok(())
        }
        Forked::Parent(child) => {
            let _ = sys::close_all_but(&[]);
            loop {
                match nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None) {
                    Err(nix::Error::EINTR) => {}
                    _ => sys::exit_now(0),
                }
            }
        }
    }
}
