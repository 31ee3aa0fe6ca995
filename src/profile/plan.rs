//! **What this room is for:** a profile filled in for a session: [`SessionFacts`] to [`Confinement`]. **Who may enter:** the
//! supervisor. **Never done here:** looking at the disk; pure, same facts, same confinement. **Where the proof is:** tests
//! below, `tests/profiles.rs`, `tests/escape.rs`.

use std::path::{Path, PathBuf};

use super::ProfileError;
use super::file::{self, At, LimitEntry, LimitName, LimitValue, PlaceKind, Switch};
use super::syscalls;
use crate::confinement::{Confinement, NetworkMode, PathRule, Rights};
use crate::limits::Limits;

/// What a session is. All paths are absolute and of the view.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// The workspace.
    pub root: PathBuf,
    /// The private home.
    pub home: PathBuf,
    /// System places that are in the view ([`super::View::system`]).
    pub system: Vec<PathBuf>,
    /// Toolchains that are in the view ([`super::View::toolchains`]).
    pub toolchains: Vec<PathBuf>,
    /// Trees that the policy adds for reading.
    pub extra_read: Vec<PathBuf>,
    /// Trees that the policy adds for writing.
    pub extra_write: Vec<PathBuf>,
    /// The network.
    pub network: NetworkMode,
    /// The policy's profile is strict.
    pub strict: bool,
    /// The policy's limits.
    pub limits: Limits,
    /// There is no network namespace: where the network is to be off, sockets are refused by the filter instead.
    pub degraded_network: bool,
    /// Programs may trace each other inside the pid namespace of their call.
    pub debug: bool,
}

impl SessionFacts {
    fn switches(&self) -> Vec<Switch> {
        let closed = self.network != NetworkMode::Open;
        [
            (Switch::Strict, self.strict),
            (Switch::Debug, self.debug),
            (Switch::DegradedNetwork, closed && self.degraded_network),
            (Switch::OpenNetwork, !closed),
        ]
        .into_iter()
        .filter_map(|(switch, on)| on.then_some(switch))
        .collect()
    }
}

/// The confinement of workers of one profile in one session.
///
/// # Errors
/// No such profile; a path that is not absolute; a fault of the files (none in a tested build).
pub fn confinement(profile: &str, facts: &SessionFacts) -> Result<Confinement, ProfileError> {
    let file = file::profile(profile)?;
    let base = file::base()?;
    let on = facts.switches();
    let mut paths: Vec<PathRule> = Vec::new();
    for entry in &file.path {
        for path in stands_on(entry.at, facts, base) {
            if !path.is_absolute() {
                return Err(ProfileError::Relative(path));
            }
            add(&mut paths, PathRule { path, rights: entry.rights, optional: entry.at != At::Workspace });
        }
    }
    let limits = base.rlimit.iter().chain(&file.rlimit);
    Ok(Confinement {
        profile: profile.to_owned(),
        programs: file.programs,
        paths,
        deny_tcp: file.deny_tcp || on.contains(&Switch::DegradedNetwork),
        filter: syscalls::filter(&file.syscalls, file::sets()?, &on)?,
        rlimits: limits.map(|entry| limit(entry, &facts.limits)).collect(),
    })
}

/// Landlock unites the rules of one path, so a second rule that adds nothing is left out.
fn add(paths: &mut Vec<PathRule>, rule: PathRule) {
    let covers = |old: &PathRule| old.path == rule.path && (old.rights == rule.rights || old.rights == Rights::All);
    match paths.iter_mut().find(|old| covers(old)) {
        Some(old) => old.optional &= rule.optional,
        None => paths.push(rule),
    }
}

fn stands_on(at: At, facts: &SessionFacts, base: &file::BaseFile) -> Vec<PathBuf> {
    let of_kind = |kind: PlaceKind| {
        base.place
            .iter()
            .filter(move |place| place.kind == kind)
            .flat_map(|place| &place.paths)
            .filter(|path| *path != "~")
            .map(PathBuf::from)
            .collect()
    };
    match at {
        At::System => facts.system.clone(),
        At::Toolchain => facts.toolchains.clone(),
        At::Workspace => vec![facts.root.clone()],
        At::Home => vec![facts.home.clone()],
        At::Tmp => of_kind(PlaceKind::Private),
        At::Devices => of_kind(PlaceKind::Device),
        At::Proc => vec![Path::new("/proc").to_path_buf()],
        At::ExtraRead => facts.extra_read.clone(),
        At::ExtraWrite => facts.extra_write.clone(),
    }
}

fn limit(entry: &LimitEntry, limits: &Limits) -> (String, u64) {
    let name = match entry.name {
        LimitName::Nofile => "nofile",
        LimitName::Fsize => "fsize",
        LimitName::Core => "core",
        LimitName::As => "as",
    };
    let value = match entry.value {
        LimitValue::Zero => 0,
        LimitValue::OpenFiles => limits.open_files,
        LimitValue::FileBytes => limits.file_bytes,
        LimitValue::MemoryBytes => limits.memory_bytes,
    };
    (name.to_owned(), value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confinement::Action;
    use crate::sysnum::number;

    fn facts() -> SessionFacts {
        SessionFacts {
            root: "/w".into(),
            home: "/home/u".into(),
            system: vec!["/usr".into(), "/etc".into()],
            toolchains: vec!["/home/u/.rustup".into()],
            extra_read: vec!["/data".into()],
            extra_write: vec!["/cache".into()],
            network: NetworkMode::None,
            strict: false,
            limits: crate::limits::BUILT_IN,
            degraded_network: false,
            debug: false,
        }
    }

    fn rights(confinement: &Confinement, path: &str) -> Option<Rights> {
        confinement.paths.iter().find(|rule| rule.path == Path::new(path)).map(|rule| rule.rights)
    }

    fn denies(confinement: &Confinement, name: &str) -> bool {
        let always = |rule: &&crate::confinement::CallRule| Some(rule.number) == number(name) && rule.when.is_empty();
        confinement.filter.rules.iter().filter(always).any(|rule| rule.action != Action::Allow)
    }

    #[test]
    fn each_profile_opens_its_paths_and_no_more() {
        let read = confinement("read", &facts()).unwrap();
        assert!(read.paths.is_empty() && !read.programs && read.deny_tcp);
        let search = confinement("search", &facts()).unwrap();
        assert_eq!(rights(&search, "/w"), Some(Rights::Read));
        assert!(search.paths.iter().all(|rule| rule.rights == Rights::Read), "{:?}", search.paths);
        let write = confinement("write", &facts()).unwrap();
        assert_eq!((rights(&write, "/w"), rights(&write, "/cache")), (Some(Rights::All), Some(Rights::All)));
        assert_eq!((rights(&write, "/data"), rights(&write, "/usr")), (None, None));
        let shell = confinement("shell", &facts()).unwrap();
        assert!(shell.programs && !shell.deny_tcp);
        for (path, is) in [
            ("/usr", Rights::ReadExec),
            ("/data", Rights::ReadExec),
            ("/home/u/.rustup", Rights::ReadExec),
            ("/home/u", Rights::All),
            ("/tmp", Rights::All),
            ("/dev/shm", Rights::All),
            ("/proc", Rights::Read),
            ("/dev/null", Rights::Device),
        ] {
            assert_eq!(rights(&shell, path), Some(is), "{path}");
        }
        assert_eq!((rights(&shell, "/dev"), rights(&shell, "/"), rights(&shell, "~")), (None, None, None));
        let needed: Vec<_> = shell.paths.iter().filter(|rule| !rule.optional).map(|rule| rule.path.as_path()).collect();
        assert_eq!(needed, [Path::new("/w")]);
    }

    #[test]
    fn switches_change_the_filter() {
        let plain = confinement("shell", &facts()).unwrap();
        assert!(denies(&plain, "ptrace") && !denies(&plain, "socket") && !denies(&plain, "mbind"));
        let debug = confinement("shell", &SessionFacts { debug: true, ..facts() }).unwrap();
        assert!(!denies(&debug, "ptrace") && denies(&debug, "mount"));
        let strict = confinement("shell", &SessionFacts { strict: true, ..facts() }).unwrap();
        assert!(denies(&strict, "mbind") && !denies(&strict, "memfd_create") && !denies(&strict, "socket"));
        let degraded = confinement("shell", &SessionFacts { degraded_network: true, ..facts() }).unwrap();
        assert!(denies(&degraded, "socket") && !denies(&degraded, "socketpair") && degraded.deny_tcp);
        let open = SessionFacts { degraded_network: true, network: NetworkMode::Open, ..facts() };
        let open = confinement("shell", &open).unwrap();
        assert!(!denies(&open, "socket") && !open.deny_tcp);
    }

    #[test]
    fn strict_only_takes_away() {
        for name in super::super::NAMES {
            let plain = confinement(name, &facts()).unwrap();
            let strict = confinement(name, &SessionFacts { strict: true, ..facts() }).unwrap();
            assert_eq!((&plain.paths, plain.filter.default), (&strict.paths, strict.filter.default), "{name}");
            for rule in &strict.filter.rules {
                assert!(plain.filter.rules.contains(rule) || rule.action != Action::Allow, "{name} {rule:?}");
            }
            assert!(plain.filter.rules.iter().all(|rule| strict.filter.rules.contains(rule)), "{name}");
        }
    }

    #[test]
    fn no_profile_lets_keyctl_through() {
        for name in super::super::NAMES {
            let plan = confinement(name, &facts()).unwrap();
            let named = plan.filter.rules.iter().any(|rule| Some(rule.number) == number("keyctl"));
            let refused = denies(&plan, "keyctl") || (!named && plan.filter.default != Action::Allow);
            assert!(refused, "{name}");
        }
    }

    #[test]
    fn relative_paths_and_unknown_names_are_errors() {
        let facts = SessionFacts { extra_read: vec!["data".into()], ..facts() };
        assert_eq!(confinement("shell", &facts), Err(ProfileError::Relative("data".into())));
        assert_eq!(confinement("base", &facts), Err(ProfileError::Unknown("base".into())));
    }

    #[test]
    fn limits_come_from_the_policy() {
        let shell = confinement("shell", &facts()).unwrap();
        assert!(shell.rlimits.contains(&("core".into(), 0)) && shell.rlimits.contains(&("nofile".into(), 4096)));
        assert!(shell.rlimits.iter().all(|(name, _)| name != "as"), "a JVM reserves more than it uses");
        let read = confinement("read", &facts()).unwrap();
        assert!(read.rlimits.contains(&("fsize".into(), 0)));
    }
}
