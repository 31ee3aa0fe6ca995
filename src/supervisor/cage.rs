//! **What this room is for:** a cgroup for one call, where a policy asks for fewer processes than `pid_max` can say.
//! **Who may enter:** `supervisor::pipeline`. **Never done here:** other controllers (memory is watched by the worker).
//! **Where the proof is:** `tests/programs.rs`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// A cgroup with a bound on processes; removed when it is dropped and empty.
#[derive(Debug)]
pub(super) struct Cage(PathBuf);

impl Cage {
    /// Makes one below the cgroup of this process: in the `pids` hierarchy of version 1, or where version 2 has the
    /// controller enabled for children.
    ///
    /// # Errors
    /// There is no such hierarchy, or this user may not write it.
    pub(super) fn make(name: &str, pids: u32) -> io::Result<Cage> {
        let place = hierarchy().ok_or(io::ErrorKind::NotFound)?.join(format!("stockade-{name}"));
        std::fs::create_dir(&place)?;
        let cage = Cage(place);
        std::fs::write(cage.0.join("pids.max"), pids.to_string())?;
        Ok(cage)
    }

    /// Puts the process that a pidfd names in; what it starts is in it too.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn admit(&self, pidfd: BorrowedFd<'_>) -> io::Result<()> {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
        let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim);
        let pid = pid.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())).ok_or(io::ErrorKind::NotFound)?;
        std::fs::write(self.0.join("cgroup.procs"), pid)
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        // What was in it has been killed a moment ago; the kernel may still be taking it down.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// The folder of this process's own cgroup in the hierarchy that counts processes.
fn hierarchy() -> Option<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (filesystem, options) = (kind.next()?, kind.nth(1)?);
        let mut fields = place.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let counts = match filesystem {
            "cgroup" => options.split(',').any(|option| option == "pids"),
            "cgroup2" => true,
            _ => false,
        };
        let below = own.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let ours = if filesystem == "cgroup" {
                controllers.split(',').any(|name| name == "pids")
            } else {
                controllers.is_empty()
            };
            ours.then(|| path.strip_prefix(root).unwrap_or(path).trim_start_matches('/').to_owned())
        })?;
        let folder = Path::new(at).join(below);
        let enabled =
            || std::fs::read_to_string(folder.join("cgroup.subtree_control")).is_ok_and(|text| text.contains("pids"));
        (counts && (filesystem == "cgroup" || enabled())).then_some(folder)
    })
}
