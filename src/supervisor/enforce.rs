//! **What this room is for:** from facts to promises: which guarantees hold for a call, and may it run?
//! **Who may enter:** `supervisor`. **Never done here:** I/O; a third way beside "holds" and "refused or reported".
//! **Where the proof is:** the tests below, `tests/ladder.rs`.

use crate::call::{Code, Refusal};
use crate::confinement::{Enforcement, Facts, Guarantee};

/// What the session is like.
#[derive(Debug, Clone)]
pub struct Terms {
    /// The strict profile: everything that is missing is a refusal.
    pub strict: bool,
    /// The operator accepts what is missing.
    pub allow_degraded: bool,
    /// The policy wants the network off.
    pub network_off: bool,
    /// What the policy requires by name.
    pub required: Vec<Guarantee>,
    /// What the launcher could not build.
    pub missing: Vec<String>,
}

/// The kind of worker.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    /// Name of its sandbox profile.
    pub profile: &'a str,
    /// It starts programs.
    pub programs: bool,
}

/// Which guarantees hold, from what the kernel was seen to do.
#[must_use]
pub fn holding(facts: &Facts, kind: Kind<'_>, network_off: bool) -> Vec<Guarantee> {
    let fences = facts.landlock_abi > 0 && facts.seccomp && facts.no_new_privs && facts.capabilities_empty;
    let namespace = |name: &str| facts.namespaces.iter().any(|made| made == name);
    // Programs need the view: denied names inside an allowed tree are masks of it, and metadata writes outside are
    // stopped by nothing else. Tools that are handed their file, judged by device and inode, hold without it; one that walks
    // a tree does not: another name (hard link) of a denied file is hidden by a mask alone.
    let files = fences && (facts.view || matches!(kind.profile, "read" | "write"));
    let metadata = fences && (facts.view || matches!(kind.profile, "read" | "search"));
    let network = network_off && fences && (namespace("net") || !kind.programs);
    let tree = fences && (namespace("pid") && facts.view || !kind.programs);
    Guarantee::ALL
        .into_iter()
        .filter(|guarantee| match guarantee {
            Guarantee::FsRead | Guarantee::FsWrite => files,
            Guarantee::FsMeta => metadata,
            Guarantee::NetNone => network,
            Guarantee::KillTree => tree,
            Guarantee::ExecConfined => fences && !kind.programs,
        })
        .collect()
}

/// What the result will say, or the refusal.
///
/// # Errors
/// `cannot_enforce`, naming every missing piece.
pub fn judge(facts: &Facts, kind: Kind<'_>, terms: &Terms) -> Result<Enforcement, Refusal> {
    let holds = holding(facts, kind, terms.network_off);
    let mut needed = vec![Guarantee::FsRead, Guarantee::FsWrite, Guarantee::KillTree];
    if kind.programs || terms.strict {
        needed.push(Guarantee::FsMeta);
    }
    if terms.network_off {
        needed.push(Guarantee::NetNone);
    }
    needed.extend(terms.required.iter().copied());
    needed.sort_unstable();
    needed.dedup();
    let lacking: Vec<Guarantee> = needed.into_iter().filter(|guarantee| !holds.contains(guarantee)).collect();
    let mut degraded: Vec<String> = terms.missing.iter().chain(&facts.missing).cloned().collect();
    degraded
        .extend(lacking.iter().map(|guarantee| format!("guarantee {}: does not hold for this call", guarantee.name())));
    degraded.dedup();
    if !terms.allow_degraded && (!lacking.is_empty() || terms.strict && !degraded.is_empty()) {
        return Err(cannot_enforce(&degraded));
    }
    Ok(Enforcement {
        profile: kind.profile.to_owned(),
        landlock_abi: facts.landlock_abi,
        seccomp: facts.seccomp,
        no_new_privs: facts.no_new_privs,
        capabilities: if facts.capabilities_empty { "none" } else { "kept" }.to_owned(),
        namespaces: facts.namespaces.clone(),
        guarantees: holds.iter().map(|guarantee| guarantee.name().to_owned()).collect(),
        degraded,
    })
}

/// What a policy can require and no call that starts programs can have.
#[must_use]
pub fn never_for_programs(required: &[Guarantee]) -> Option<Refusal> {
    required.contains(&Guarantee::ExecConfined).then(|| {
        let why = "guarantee exec.confined: loaders, interpreters and memory files run code with the right to read alone; \
                   no mechanism of this kernel stops that for programs";
        cannot_enforce(&[why.to_owned()])
    })
}

/// The refusal for these missing pieces.
#[must_use]
pub fn cannot_enforce(missing: &[String]) -> Refusal {
    let pieces = if missing.is_empty() { "a mechanism is missing".to_owned() } else { missing.join("; ") };
    Refusal::new(Code::CannotEnforce, format!("what the policy needs cannot be enforced here: {pieces}"))
        .hint("`stockade doctor` shows what this host offers; an operator can accept the gap with --allow-degraded")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            landlock_abi: 7,
            seccomp: true,
            no_new_privs: true,
            capabilities_empty: true,
            namespaces: ["user", "mnt", "ipc", "uts", "net", "pid"].map(str::to_owned).to_vec(),
            view: true,
            missing: Vec::new(),
        }
    }

    fn terms() -> Terms {
        Terms { strict: false, allow_degraded: false, network_off: true, required: Vec::new(), missing: Vec::new() }
    }

    const SHELL: Kind<'static> = Kind { profile: "shell", programs: true };
    const READ: Kind<'static> = Kind { profile: "read", programs: false };

    #[test]
    fn a_whole_host_holds_everything_but_exec_for_programs() {
        let names = judge(&facts(), SHELL, &terms()).expect("runs").guarantees;
        assert_eq!(names, ["fs.read", "fs.write", "fs.meta", "net.none", "kill.tree"]);
    }

    #[test]
    fn without_namespaces_programs_are_refused_and_reads_go_on_and_say_so() {
        let bare = Facts { namespaces: Vec::new(), view: false, ..facts() };
        let terms = Terms { missing: vec!["namespace user: EPERM".to_owned()], ..terms() };
        let refusal = judge(&bare, SHELL, &terms).expect_err("refused");
        assert_eq!(refusal.code, Code::CannotEnforce);
        assert!(refusal.message.contains("namespace user"), "{}", refusal.message);
        assert_eq!(judge(&bare, READ, &terms).expect("runs").degraded, ["namespace user: EPERM"]);
        let strict = Terms { strict: true, ..terms.clone() };
        assert!(judge(&bare, READ, &strict).is_err(), "strict refuses whatever is missing");
        let search = Kind { profile: "search", programs: false };
        assert!(judge(&bare, search, &terms).is_err(), "a walk without masks meets other names of denied files");
        let accepted = Terms { allow_degraded: true, ..terms };
        assert!(judge(&bare, SHELL, &accepted).expect("runs").degraded.len() > 1);
    }

    #[test]
    fn each_fence_counts() {
        for broken in [
            Facts { landlock_abi: 0, ..facts() },
            Facts { seccomp: false, ..facts() },
            Facts { no_new_privs: false, ..facts() },
            Facts { capabilities_empty: false, ..facts() },
        ] {
            assert!(judge(&broken, SHELL, &terms()).is_err(), "{broken:?}");
            assert!(judge(&broken, READ, &terms()).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn exec_confined_is_never_promised_to_programs() {
        let terms = Terms { required: vec![Guarantee::ExecConfined], ..terms() };
        assert!(judge(&facts(), SHELL, &terms).is_err());
        assert!(judge(&facts(), READ, &terms).is_ok());
    }
}
