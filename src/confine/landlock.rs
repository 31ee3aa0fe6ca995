//! **What this room is for:** rulesets: from words to access rights, made once in the launcher, enforced in each worker.
//! **Who may enter:** `confine`, the launcher. **Never done here:** deciding what is allowed.
//! **Where the proof is:** `tests/escape.rs`.
//!
//! The crate's default is best effort, which on an old kernel means less than was asked for and no word of it. Here the
//! rights of ABI 3 (Linux 6.2: everything that can change a file, truncation too) are a hard requirement, and only what
//! came later is taken as far as the kernel has it, since seccomp and the namespaces hold those doors as well.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, SFlag, fstat};

use crate::confinement::{Confinement, PathRule, Rights};

/// The ABI below which nothing is promised: without `TRUNCATE` (ABI 3) a file outside can be emptied.
pub const FLOOR: u32 = 3;

/// Makes the ruleset of a confinement. Paths are looked up in the calling process's own view.
///
/// # Errors
/// A text that names the path or the right that this kernel cannot hold.
pub fn ruleset(confinement: &Confinement, list_all: bool) -> Result<RulesetCreated, String> {
    let mut ruleset = handled(confinement.deny_tcp)?;
    if confinement.programs && list_all {
        // The private view holds nothing that may not be listed, and `ls /` is the first thing that people try.
        let root = open_path(Path::new("/")).map_err(|error| format!("/: {error}"))?;
        add(&mut ruleset, root.as_fd(), AccessFs::ReadDir.into())?;
    }
    for rule in &confinement.paths {
        add_path(&mut ruleset, rule)?;
    }
    Ok(ruleset)
}

/// Makes a layer that allows just what is below these descriptors; for the one call of a worker that is confined already.
///
/// # Errors
/// A text that names the step.
pub fn layer(rules: &[(BorrowedFd<'_>, Rights)]) -> Result<RulesetCreated, String> {
    let mut ruleset = handled(true)?;
    for (fd, rights) in rules {
        let access = narrowed(access(*rights), *fd)?;
        add(&mut ruleset, *fd, access)?;
    }
    Ok(ruleset)
}

fn handled(tcp: bool) -> Result<RulesetCreated, String> {
    let text = |error: landlock::RulesetError| error.to_string();
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V3))
        .map_err(text)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V10))
        .map_err(text)?
        .scope(Scope::from_all(ABI::V6))
        .map_err(text)?;
    if tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V10)).map_err(text)?;
    }
    ruleset.create().map_err(text)
}

fn add_path(ruleset: &mut RulesetCreated, rule: &PathRule) -> Result<(), String> {
    let fd = match open_path(&rule.path) {
        Ok(fd) => fd,
        Err(nix::Error::ENOENT) if rule.optional => return Ok(()),
        Err(error) => return Err(format!("{}: {error}", rule.path.display())),
    };
    let access = narrowed(access(rule.rights), fd.as_fd())?;
    add(ruleset, fd.as_fd(), access)
}

fn open_path(path: &Path) -> nix::Result<std::os::fd::OwnedFd> {
    open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
}

fn add(ruleset: &mut RulesetCreated, fd: BorrowedFd<'_>, access: BitFlags<AccessFs>) -> Result<(), String> {
    ruleset.add_rule(PathBeneath::new(fd, access)).map(drop).map_err(|error| error.to_string())
}

fn access(rights: Rights) -> BitFlags<AccessFs> {
    match rights {
        Rights::Read => AccessFs::ReadFile | AccessFs::ReadDir,
        Rights::ReadExec => AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute,
        // A device node made in a writable folder would be a door to the hardware for a root-run session.
        Rights::All => AccessFs::from_all(ABI::V10) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
        Rights::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
    }
}

/// Rights that only make sense on folders are taken off for anything else: the kernel refuses such a rule.
fn narrowed(access: BitFlags<AccessFs>, fd: BorrowedFd<'_>) -> Result<BitFlags<AccessFs>, String> {
    let mode = fstat(fd).map_err(|error| error.to_string())?.st_mode;
    let folder = SFlag::from_bits_truncate(mode) & SFlag::S_IFMT == SFlag::S_IFDIR;
    Ok(if folder { access } else { access & AccessFs::from_file(ABI::V10) })
}
