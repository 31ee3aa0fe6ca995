//! **What this room is for:** the `/proc` of a worker that starts programs: of its own pid namespace, read-only.
//! **Who may enter:** the worker, before its door is shut. **Never done here:** judging.
//! **Where the proof is:** `tests/escape.rs`.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::mount::{MsFlags, mount};

use crate::limits::PID_MAX_FLOOR;
use crate::sys::{self, attr};

/// Gives a worker that starts programs its own mount namespace's finish: a slave of the session's, with the `/proc` of
/// its own pid namespace, where `pid_max` bounds the processes of the call. Before Linux 6.14 that value is the host's, and
/// a session of root could write it: so it is left alone there, and said to be missing.
///
/// # Errors
/// The step that failed.
pub fn mount_own(pids: u32) -> io::Result<Option<String>> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)
        .map_err(io::Error::from)?;
    let proc = sys::new_filesystem(c"proc", &[], attr::NOSUID | attr::NODEV | attr::NOEXEC)?;
    sys::attach_tree(proc.as_fd(), Path::new("/proc"))?;
    let bounded = if sys::kernel_at_least(6, 14) {
        std::fs::write("/proc/sys/kernel/pid_max", pids.max(PID_MAX_FLOOR).to_string())
    } else {
        Ok(()) // The supervisor sees to another bound.
    };
    sys::set_tree_attr(proc.as_fd(), attr::RDONLY, false)?;
    Ok(bounded.err().map(|error| format!("limit of processes: pid_max of the pid namespace: {error}")))
}
