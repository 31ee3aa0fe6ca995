//! **What this room is for:** the private view of the file system: a new root that holds only what the plan names, and
//! the masks over denied and protected names. **Who may enter:** the launcher. **Never done here:** deciding what is in it;
//! making or changing anything on the host. **Where the proof is:** `tests/escape.rs`.
//!
//! Hiding by not mounting is stronger than refusing: what is not in the view has no name at all, so neither `stat` nor a
//! socket file nor a metadata write reaches it (Landlock mediates none of these before ABI 9).

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{fchdir, pivot_root};

use crate::confine::CANARY;
use crate::confinement::{Mask, MaskKind, Place, SessionPlan};
use crate::sys::{self, attr};

/// What stands in for hidden folders and files: mode 000, in the read-only root.
const HIDDEN_DIR: &str = "/.hidden-dir";
const HIDDEN_FILE: &str = "/.hidden-file";

/// A step that did not work.
#[derive(Debug, thiserror::Error)]
#[error("view: {what}: {source}")]
pub struct ViewError {
    what: String,
    source: io::Error,
}

fn at(what: impl Into<String>) -> impl FnOnce(io::Error) -> ViewError {
    move |source| ViewError { what: what.into(), source }
}

/// Builds the view and makes it this process's root.
///
/// # Errors
/// The step and the path.
pub fn build(plan: &SessionPlan) -> Result<(), ViewError> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(io::Error::from)
        .map_err(at("/"))?;
    let stand = stand()?;
    let taken = take(plan, stand)?;
    // A new proc is only granted while the host's own is in sight, so it is made before the host's tree goes.
    let proc = sys::new_filesystem(c"proc", &[], attr::NOSUID | attr::NODEV | attr::NOEXEC | attr::RDONLY)
        .map_err(at("/proc"))?;
    enter_new_root(stand)?;
    furnish()?;
    attach(&proc, Path::new("/proc"))?;
    device_folder()?;
    for (number, place) in plan.view.iter().enumerate() {
        put(place, taken.get(number).and_then(Option::as_ref))?;
    }
    for mask in &plan.masks {
        match cover(mask) {
            // Not in the view at all (a name in the real home, which is not there), or gone since it was found.
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    // Masks that come later must reach the workers' own mount namespaces: those are slaves of this one.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SHARED, None::<&str>)
        .map_err(io::Error::from)
        .map_err(at("propagation"))?;
    let root =
        nix::fcntl::open("/", nix::fcntl::OFlag::O_PATH | nix::fcntl::OFlag::O_CLOEXEC, nix::sys::stat::Mode::empty())
            .map_err(io::Error::from)
            .map_err(at("/"))?;
    sys::set_tree_attr(root.as_fd(), attr::RDONLY | attr::NOSUID | attr::NODEV, false).map_err(at("/"))
}

/// Takes copies of all host trees while the host is in sight, then of the private folders. Those are made in a store
/// that stands over a folder of the host's tree and goes with it: taking it off by itself would be one more wait for the
/// whole kernel.
fn take(plan: &SessionPlan, stand: &Path) -> Result<Vec<Option<OwnedFd>>, ViewError> {
    let mut taken = Vec::with_capacity(plan.view.len());
    for place in &plan.view {
        let Place::Bind { from, write, optional, .. } = place else {
            taken.push(None);
            continue;
        };
        let tree = match sys::clone_tree(from) {
            Ok(tree) => tree,
            Err(error) if *optional && error.kind() == io::ErrorKind::NotFound => {
                taken.push(None);
                continue;
            }
            Err(error) => return Err(at(from.display().to_string())(error)),
        };
        let device = from.starts_with("/dev");
        let attributes = attr::NOSUID
            | if device { attr::NOEXEC } else { attr::NODEV }
            | if *write && !device { 0 } else { attr::RDONLY }; // A node on a read-only mount still takes data, not a mode.
        sys::set_tree_attr(tree.as_fd(), attributes, true).map_err(at(from.display().to_string()))?;
        taken.push(Some(tree));
    }
    private_store(plan.private_bytes, stand)?;
    for (number, (place, taken)) in plan.view.iter().zip(&mut taken).enumerate() {
        if let Place::Private { at: target, mode } = place {
            let fault = || at(target.display().to_string());
            let made = stand.join(number.to_string());
            fs::DirBuilder::new().mode(*mode).create(&made).map_err(fault())?;
            fs::set_permissions(&made, fs::Permissions::from_mode(*mode)).map_err(fault())?;
            *taken = Some(sys::clone_tree(&made).map_err(fault())?);
        }
    }
    Ok(taken)
}

/// A folder of the host's tree to stand on for a moment, in this mount namespace alone.
fn stand() -> Result<&'static Path, ViewError> {
    ["/tmp", "/run", "/mnt", "/var", "/usr", "/proc"]
        .into_iter()
        .map(Path::new)
        .find(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()))
        .ok_or_else(|| at("root")(io::ErrorKind::NotFound.into()))
}

fn enter_new_root(stand: &Path) -> Result<(), ViewError> {
    let root =
        sys::new_filesystem(c"tmpfs", &[(c"mode", c"755"), (c"size", c"1m")], attr::NOSUID).map_err(at("root"))?;
    sys::attach_tree(root.as_fd(), stand).map_err(at("root"))?;
    fchdir(root.as_fd()).map_err(io::Error::from).map_err(at("root"))?;
    pivot_root(".", ".").map_err(io::Error::from).map_err(at("pivot_root"))?;
    // The old root lies on top of the new one now; taking it off leaves the new one.
    umount2(".", MntFlags::MNT_DETACH).map_err(io::Error::from).map_err(at("old root"))?;
    std::env::set_current_dir("/").map_err(at("/"))
}

fn furnish() -> Result<(), ViewError> {
    for (path, mode) in [(HIDDEN_FILE, 0o000), (CANARY, 0o444)] {
        fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(at(path))?;
    }
    for (path, mode) in [("/proc", 0o555), ("/dev", 0o755), (HIDDEN_DIR, 0o755)] {
        fs::DirBuilder::new().mode(mode).create(path).map_err(at(path))?;
    }
    fs::set_permissions(HIDDEN_DIR, fs::Permissions::from_mode(0o000)).map_err(at(HIDDEN_DIR))
}

fn device_folder() -> Result<(), ViewError> {
    for (name, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
        ("/dev/ptmx", "pts/ptmx"),
    ] {
        symlink(target, name).map_err(at(name))?;
    }
    fs::create_dir("/dev/pts").map_err(at("/dev/pts"))?;
    let options = [(c"newinstance", c""), (c"ptmxmode", c"0666"), (c"mode", c"0620")];
    // A kernel without devpts in user namespaces loses pseudo terminals inside, nothing else.
    if let Ok(pts) = sys::new_filesystem(c"devpts", &options, attr::NOSUID | attr::NOEXEC) {
        attach(&pts, Path::new("/dev/pts"))?;
    }
    Ok(())
}

fn private_store(bytes: u64, stand: &Path) -> Result<(), ViewError> {
    let size = std::ffi::CString::new(bytes.to_string()).map_err(|error| at("size")(io::Error::other(error)))?;
    let options = [(c"mode", c"755"), (c"size", size.as_c_str()), (c"nr_inodes", c"1m")];
    let store = sys::new_filesystem(c"tmpfs", &options, attr::NOSUID | attr::NODEV).map_err(at("private folders"))?;
    attach(&store, stand)
}

fn put(place: &Place, tree: Option<&OwnedFd>) -> Result<(), ViewError> {
    match place {
        Place::Link { at: link, to } => {
            make_parents(link)?;
            match symlink(to, link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                other => other.map_err(at(link.display().to_string())),
            }
        }
        Place::Private { at: target, .. } => {
            let tree = tree.ok_or_else(|| at(target.display().to_string())(io::ErrorKind::NotFound.into()))?;
            make_folder(target)?;
            attach(tree, target)
        }
        Place::Bind { from, at: target, .. } => {
            let Some(tree) = tree else { return Ok(()) };
            let folder = nix::sys::stat::fstat(tree.as_fd())
                .map(|found| found.st_mode & libc::S_IFMT == libc::S_IFDIR)
                .map_err(io::Error::from)
                .map_err(at(from.display().to_string()))?;
            if folder {
                make_folder(target)?
            } else {
                make_file(target)?
            }
            attach(tree, target)
        }
    }
}

fn attach(tree: &OwnedFd, target: &Path) -> Result<(), ViewError> {
    sys::attach_tree(tree.as_fd(), target).map_err(at(target.display().to_string()))
}

fn make_parents(path: &Path) -> Result<(), ViewError> {
    path.parent().map_or(Ok(()), make_folder)
}

fn make_folder(path: &Path) -> Result<(), ViewError> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(at(path.display().to_string()))
}

fn make_file(path: &Path) -> Result<(), ViewError> {
    make_parents(path)?;
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop).map_err(at(path.display().to_string())),
    }
}

/// Covers one name of the view, for this process, its children and (by propagation) every worker that runs.
///
/// # Errors
/// The kernel's. A name that is gone, or is a link now, is an error too: the caller decides what that means.
pub fn cover(mask: &Mask) -> Result<(), ViewError> {
    let name = || mask.at.display().to_string();
    let source = match (mask.kind, mask.dir) {
        (MaskKind::ReadOnly | MaskKind::Pinned, _) => mask.at.as_path(),
        (MaskKind::Hidden, true) => Path::new(HIDDEN_DIR),
        (MaskKind::Hidden, false) => Path::new(HIDDEN_FILE),
    };
    let tree = sys::clone_tree(source).map_err(at(name()))?;
    let attributes = attr::NOSUID
        | attr::NODEV
        | match mask.kind {
            MaskKind::Hidden => attr::RDONLY | attr::NOEXEC,
            MaskKind::ReadOnly => attr::RDONLY,
            MaskKind::Pinned => 0,
        };
    sys::set_tree_attr(tree.as_fd(), attributes, true).map_err(at(name()))?;
    sys::attach_tree(tree.as_fd(), &mask.at).map_err(at(name()))
}
