//! **What this room is for:** shutting the door of a worker: one ordered function, [`enter`], and what it leaves behind,
//! [`Confined`]. **Who may enter:** the launcher (to prepare) and the worker (to enter).
//! **Never done here:** deciding what is allowed; going on after a failed step. **Where the proof is:** `tests/escape.rs`.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use ::landlock::RulesetCreated;
use nix::fcntl::{OFlag, open};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::Mode;

use crate::confinement::{Confinement, Facts, Rights};
use crate::sys;

pub mod caps;
pub mod guard;
pub mod landlock;
pub mod seccomp;

/// Proof that the door is shut on this process. Holding one tells you: capabilities are gone, `no_new_privs` is set,
/// Landlock and seccomp are in force and their canaries were stopped (or the operator accepted what [`Facts`] says is
/// missing). Only [`enter`] makes one.
#[derive(Debug)]
pub struct Confined {
    narrowed_by_landlock: bool,
}

/// What is made once in the launcher for all workers of a kind: rules and filters are data of the kernel or ready to load.
#[derive(Debug)]
pub struct Prepared {
    /// What they were made from.
    pub confinement: Confinement,
    ruleset: Option<RulesetCreated>,
    filters: Option<seccomp::Filters>,
    guard: Option<Vec<sys::notify::Step>>,
    view: bool,
    missing: Vec<String>,
}

/// A step that did not work: nothing after it was done.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {why}")]
pub struct Broken {
    /// Which step.
    pub step: &'static str,
    /// The kernel's answer.
    pub why: String,
}

fn broken(step: &'static str) -> impl Fn(String) -> Broken {
    move |why| Broken { step, why }
}

/// Makes ruleset and filters. `view`: the private view is in place, with the canary file in its root.
///
/// # Errors
/// The first thing that this kernel cannot hold, unless `allow_degraded`; then it is listed in the workers' facts.
pub fn prepare(confinement: Confinement, view: bool, allow_degraded: bool) -> Result<Prepared, Broken> {
    let mut missing = Vec::new();
    let mut accept = |broken: Broken| {
        if allow_degraded {
            missing.push(broken.to_string());
            Ok(())
        } else {
            Err(broken)
        }
    };
    let abi = sys::landlock_abi();
    let ruleset = if abi < landlock::FLOOR {
        accept(Broken {
            step: "landlock",
            why: format!("this kernel offers ABI {abi}, at least {} is needed", landlock::FLOOR),
        })?;
        None
    } else if confinement.programs {
        None // Made by each worker: it has a `/proc` of its own, and a rule is tied to the inode that it finds.
    } else {
        match landlock::ruleset(&confinement, view) {
            Ok(ruleset) => Some(ruleset),
            Err(why) => {
                accept(Broken { step: "landlock", why })?;
                None
            }
        }
    };
    let filters = match seccomp::compile(&confinement.filter) {
        Ok(filters) => Some(filters),
        Err(error) => {
            accept(Broken { step: "seccomp", why: error.to_string() })?;
            None
        }
    };
    Ok(Prepared { confinement, ruleset, filters, guard: None, view, missing })
}

impl Prepared {
    /// With the name guard, where programs are started; tried out, so that a kernel or an outer sandbox which does not grant
    /// it is a line in the workers' facts. `all_opens`: opening an existing file asks too.
    #[must_use]
    pub fn guarded(mut self, all_opens: bool) -> Prepared {
        if !self.confinement.programs {
            return self;
        }
        let made = may_look_into_programs().and_then(|()| guard::program(all_opens).map_err(|error| error.to_string()));
        let tried = made.and_then(|program| {
            sys::notify::available(&program).map_err(|error| error.to_string())?;
            Ok(program)
        });
        match tried {
            Ok(program) => self.guard = Some(program),
            Err(why) => self.missing.push(format!("name guard: {why}")),
        }
        self
    }

    /// The filter that goes on programs.
    #[must_use]
    pub fn guard(&self) -> Option<&[sys::notify::Step]> {
        self.guard.as_deref()
    }
}

/// The guard reads names from its programs' memory. Yama's levels 2 and 3 forbid that to everybody without capabilities.
fn may_look_into_programs() -> Result<(), String> {
    let level = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match level.trim() {
        "2" | "3" => Err(format!("kernel.yama.ptrace_scope is {}: memory of programs cannot be read", level.trim())),
        _ => Ok(()),
    }
}

/// A file of the private view that every user may read and no ruleset allows.
pub const CANARY: &str = "/.canary";

/// Shuts the door. The order matters; each line is its own step and its own error.
///
/// # Errors
/// The step that failed. With `allow_degraded` a missing Landlock or seccomp is a fact instead; everything else stays an
/// error: it needs nothing that a kernel may lack.
pub fn enter(prepared: &Prepared, allow_degraded: bool) -> Result<(Confined, Facts), Broken> {
    let mut facts = Facts { missing: prepared.missing.clone(), ..Facts::default() };
    let own = if prepared.confinement.programs && sys::landlock_abi() >= landlock::FLOOR {
        match landlock::ruleset(&prepared.confinement, prepared.view) {
            Ok(ruleset) => Some(ruleset),
            Err(why) => {
                accept(Broken { step: "landlock", why }, allow_degraded, &mut facts)?;
                None
            }
        }
    } else {
        None
    };
    let ruleset = own.as_ref().or(prepared.ruleset.as_ref());
    set_limits(&prepared.confinement.rlimits)?;
    let dropped = caps::drop_all().map_err(broken("capabilities"));
    dropped.or_else(|broken| accept(broken, allow_degraded, &mut facts))?;
    let locked = prctl::set_no_new_privs().map_err(|error| broken("no_new_privs")(error.to_string()));
    locked.or_else(|broken| accept(broken, allow_degraded, &mut facts))?;
    if let Some(ruleset) = ruleset {
        let restricted = restrict(ruleset);
        restricted.or_else(|broken| accept(broken, allow_degraded, &mut facts))?;
        landlock_canary(prepared.view, &mut facts);
    }
    if let Some(filters) = &prepared.filters {
        let install = filters.install().map_err(|error| broken("seccomp")(error.to_string()));
        install.or_else(|broken| accept(broken, allow_degraded, &mut facts))?;
        seccomp_canary(&mut facts);
    }
    facts.no_new_privs = prctl::get_no_new_privs().unwrap_or(false);
    facts.capabilities_empty = caps::are_empty();
    if !allow_degraded && let Some(lie) = lie(&facts) {
        return Err(lie);
    }
    Ok((Confined { narrowed_by_landlock: facts.landlock_abi > 0 }, facts))
}

fn accept(broken: Broken, allow_degraded: bool, facts: &mut Facts) -> Result<(), Broken> {
    if allow_degraded {
        facts.missing.push(broken.to_string());
        return Ok(());
    }
    Err(broken)
}

fn restrict(ruleset: &RulesetCreated) -> Result<(), Broken> {
    let copy = ruleset.try_clone().map_err(|error| broken("landlock")(error.to_string()))?;
    let status = copy.restrict_self().map_err(|error| broken("landlock")(error.to_string()))?;
    if status.ruleset == ::landlock::RulesetStatus::NotEnforced {
        return Err(broken("landlock")("the kernel did not enforce the ruleset".to_owned()));
    }
    Ok(())
}

/// What holds is what a canary could not do, not what a call returned: an outer filter can make a call return 0 and do
/// nothing. This one comes before the filter, which may refuse to open anything by itself.
fn landlock_canary(view: bool, facts: &mut Facts) {
    let canary = Path::new(if view { CANARY } else { "/" });
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    if matches!(open(canary, flags, Mode::empty()), Err(nix::Error::EACCES)) {
        facts.landlock_abi = sys::landlock_abi();
    } else {
        facts
            .missing
            .push("landlock: the kernel took the ruleset and a canary outside of it could be opened".to_owned());
    }
}

fn seccomp_canary(facts: &mut Facts) {
    facts.seccomp = seccomp::canary();
    if !facts.seccomp {
        facts.missing.push("seccomp: the kernel took the filter and a canary call was not answered by it".to_owned());
    }
}

fn lie(facts: &Facts) -> Option<Broken> {
    let say = |step, why: &str| Some(Broken { step, why: why.to_owned() });
    if facts.landlock_abi == 0 {
        return say("landlock", "the ruleset was taken and has no effect: a canary outside of it could be opened");
    }
    if !facts.seccomp {
        return say("seccomp", "the filter was taken and has no effect: a canary call was not stopped");
    }
    if !facts.no_new_privs {
        return say("no_new_privs", "the flag does not read back");
    }
    if !facts.capabilities_empty {
        return say("capabilities", "a capability is left");
    }
    None
}

fn set_limits(limits: &[(String, u64)]) -> Result<(), Broken> {
    for (name, value) in limits {
        let resource = match name.as_str() {
            "nofile" => Resource::RLIMIT_NOFILE,
            "fsize" => Resource::RLIMIT_FSIZE,
            "core" => Resource::RLIMIT_CORE,
            "as" => Resource::RLIMIT_AS,
            "nproc" => Resource::RLIMIT_NPROC,
            "cpu" => Resource::RLIMIT_CPU,
            other => return Err(broken("rlimits")(format!("no such limit: {other}"))),
        };
        let (_, hard) =
            nix::sys::resource::getrlimit(resource).map_err(|error| broken("rlimits")(format!("{name}: {error}")))?;
        let value = (*value).min(hard);
        setrlimit(resource, value, value).map_err(|error| broken("rlimits")(format!("{name}: {error}")))?;
    }
    Ok(())
}

impl Confined {
    /// Takes everything away but what is below these descriptors: one more Landlock layer, for one call.
    ///
    /// # Errors
    /// The kernel's; the caller must not go on.
    pub fn narrow(&self, rules: &[(BorrowedFd<'_>, Rights)]) -> Result<(), Broken> {
        if !self.narrowed_by_landlock {
            return Ok(()); // Accepted as missing by the operator; the facts say so.
        }
        let rules: Vec<_> = rules.iter().map(|(fd, rights)| (fd.as_fd(), *rights)).collect();
        let layer = landlock::layer(&rules).map_err(broken("landlock layer"))?;
        restrict(&layer)
    }

    /// For unit tests of tool bodies alone; the shipped program has no other door than [`enter`].
    #[cfg(test)]
    #[must_use]
    pub fn for_tests() -> Self {
        Confined { narrowed_by_landlock: false }
    }
}
