//! **What this room is for:** the private view of a session as data: which places of the host it holds, in the order in
//! which they are built. **Who may enter:** the supervisor. **Never done here:** looking at the disk (the caller says what
//! is there), mounting. **Where the proof is:** tests below, `tests/escape.rs`.

use std::path::{Component, Path, PathBuf};

use super::ProfileError;
use super::file::{self, BaseFile, PlaceEntry, PlaceKind, Switch};
use super::syscalls::counts;
use crate::confinement::{Mask, MaskKind, NetworkMode, Place};

/// What stands at a path of the host, its last component not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKind {
    /// A folder.
    Dir,
    /// A file, or anything else that is no folder and no link.
    File,
    /// A symbolic link and its text.
    Link(PathBuf),
}

/// What a view is made from. All paths are absolute.
#[derive(Debug, Clone)]
pub struct ViewFacts {
    /// The workspace, real.
    pub root: PathBuf,
    /// The home folder: of the host for toolchains, private in the view; the same path in both.
    pub home: PathBuf,
    /// Trees that the policy adds for reading, real.
    pub extra_read: Vec<PathBuf>,
    /// Trees that the policy adds for writing, real.
    pub extra_write: Vec<PathBuf>,
    /// The network.
    pub network: NetworkMode,
}

/// A view as data, and the lists that [`super::SessionFacts`] wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The places, folders before what stands in them. Device nodes are binds below `/dev/`; all others can be `nodev`.
    pub places: Vec<Place>,
    /// System places that are there.
    pub system: Vec<PathBuf>,
    /// Toolchains that are there.
    pub toolchains: Vec<PathBuf>,
    /// Names of the system that are masked; those that are there.
    pub masks: Vec<Mask>,
}

/// The view of a session. `kind_of` looks at a path of the host without following its last component.
///
/// The workspace and the trees of the policy are bound over whatever base puts at the same path; a deeper place is always
/// built later than the one that it stands in, so a workspace below `/tmp` or home is there in spite of the private folder.
///
/// # Errors
/// A path that is not absolute or holds `.` or `..`; a fault of the files.
pub fn places(facts: &ViewFacts, kind_of: &dyn Fn(&Path) -> Option<HostKind>) -> Result<View, ProfileError> {
    let base = file::base()?;
    for path in [&facts.root, &facts.home].into_iter().chain(&facts.extra_read).chain(&facts.extra_write) {
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !plain {
            return Err(ProfileError::Relative(path.clone()));
        }
    }
    let mut view = View { places: Vec::new(), system: Vec::new(), toolchains: Vec::new(), masks: masks(base, kind_of) };
    let on: &[Switch] = if facts.network == NetworkMode::Open { &[Switch::OpenNetwork] } else { &[] };
    for entry in base.place.iter().filter(|entry| counts(entry.only_if, None, on)) {
        for path in &entry.paths {
            let at = if path == "~" { facts.home.clone() } else { PathBuf::from(path) };
            base_place(entry, at, kind_of, &mut view);
        }
    }
    for path in base.toolchain.iter().flat_map(|entry| &entry.paths) {
        let path = facts.home.join(path);
        if kind_of(&path).is_some() {
            view.places.push(bind(&path, false, true));
            view.toolchains.push(path);
        }
    }
    view.places.extend(facts.extra_read.iter().map(|path| bind(path, false, true)));
    view.places.extend(facts.extra_write.iter().map(|path| bind(path, true, true)));
    view.places.push(bind(&facts.root, true, false));
    view.places = ordered(view.places);
    Ok(view)
}

fn base_place(entry: &PlaceEntry, at: PathBuf, kind_of: &dyn Fn(&Path) -> Option<HostKind>, view: &mut View) {
    let place = match (entry.kind, kind_of(&at)) {
        (PlaceKind::Private, _) => Place::Private { at, mode: entry.mode_bits().unwrap_or(0o700) },
        (PlaceKind::Link, _) => Place::Link { at, to: entry.to.clone().unwrap_or_default().into() },
        (_, None) => return,
        (PlaceKind::Device, Some(_)) => bind(&at, true, true),
        (PlaceKind::System, Some(HostKind::Link(to))) => Place::Link { at, to },
        (PlaceKind::System | PlaceKind::Bind, Some(_)) => {
            view.system.push(at.clone());
            bind(&at, false, true)
        }
    };
    view.places.push(place);
}

fn bind(path: &Path, write: bool, optional: bool) -> Place {
    Place::Bind { from: path.to_path_buf(), at: path.to_path_buf(), write, optional }
}

fn masks(base: &BaseFile, kind_of: &dyn Fn(&Path) -> Option<HostKind>) -> Vec<Mask> {
    let mask = |at: &String| {
        let dir = match kind_of(Path::new(at))? {
            HostKind::Dir => true,
            HostKind::File => false,
            // Both covers refuse a link, and where it points is outside of what is named here.
            HostKind::Link(_) => return None,
        };
        Some(Mask { at: at.into(), dir, kind: MaskKind::Hidden })
    };
    base.hide.iter().flat_map(|entry| &entry.paths).filter_map(mask).collect()
}

fn at(place: &Place) -> &Path {
    match place {
        Place::Bind { at, .. } | Place::Link { at, .. } | Place::Private { at, .. } => at,
    }
}

/// Shallow before deep, else as given; of two at one path the later stands.
fn ordered(mut places: Vec<Place>) -> Vec<Place> {
    places.sort_by_key(|place| at(place).components().count());
    let mut kept: Vec<Place> = Vec::with_capacity(places.len());
    for place in places {
        match kept.iter_mut().find(|old| at(old) == at(&place)) {
            Some(old) => *old = place,
            None => kept.push(place),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(root: &str) -> ViewFacts {
        ViewFacts {
            root: root.into(),
            home: "/home/u".into(),
            extra_read: vec![],
            extra_write: vec![],
            network: NetworkMode::None,
        }
    }

    /// A merged-usr machine with Rust in home.
    fn host(path: &Path) -> Option<HostKind> {
        match path.to_str()? {
            "/bin" => Some(HostKind::Link("usr/bin".into())),
            "/lib64" => Some(HostKind::Dir),
            "/usr" | "/etc" | "/home/u/.cargo/bin" | "/home/u/.rustup" | "/etc/ssl/private" => Some(HostKind::Dir),
            "/dev/null" | "/etc/shadow" | "/run/systemd/resolve/stub-resolv.conf" => Some(HostKind::File),
            "/etc/sudoers" => Some(HostKind::Link("elsewhere".into())),
            _ => None,
        }
    }

    fn find<'a>(view: &'a View, path: &str) -> Vec<&'a Place> {
        view.places.iter().filter(|place| at(place) == Path::new(path)).collect()
    }

    #[test]
    fn a_link_stays_a_link_and_what_is_missing_is_left_out() {
        let view = places(&facts("/srv/w"), &host).unwrap();
        assert_eq!(find(&view, "/bin"), [&Place::Link { at: "/bin".into(), to: "usr/bin".into() }]);
        assert_eq!(find(&view, "/lib64"), [&bind(Path::new("/lib64"), false, true)]);
        assert_eq!(find(&view, "/dev/null"), [&bind(Path::new("/dev/null"), true, true)]);
        assert!(find(&view, "/opt").is_empty() && find(&view, "/sys/fs/cgroup").is_empty());
        assert_eq!(view.system, ["/usr", "/etc", "/lib64"].map(PathBuf::from));
        assert_eq!(view.toolchains, ["/home/u/.cargo/bin", "/home/u/.rustup"].map(PathBuf::from));
        let hidden: Vec<_> = view.masks.iter().map(|mask| (mask.at.to_str().unwrap(), mask.dir)).collect();
        assert_eq!(hidden, [("/etc/shadow", false), ("/etc/ssl/private", true)]);
    }

    #[test]
    fn only_the_workspace_and_devices_are_writable_binds() {
        let view = places(&facts("/srv/w"), &host).unwrap();
        for place in &view.places {
            if let Place::Bind { at, write: true, .. } = place {
                assert!(at == Path::new("/srv/w") || at.starts_with("/dev"), "{place:?}");
            }
        }
        assert!(matches!(find(&view, "/home/u")[..], [Place::Private { mode: 0o700, .. }]));
        assert!(matches!(find(&view, "/tmp")[..], [Place::Private { mode: 0o1777, .. }]));
    }

    #[test]
    fn folders_come_before_what_stands_in_them() {
        for root in ["/tmp/w", "/home/u/w", "/home/u", "/home", "/usr/src/w", "/tmp"] {
            let view = places(&ViewFacts { extra_read: vec!["/tmp/w/deep/er".into()], ..facts(root) }, &host).unwrap();
            for (index, place) in view.places.iter().enumerate() {
                let later = &view.places[index + 1..];
                assert!(later.iter().all(|other| !at(place).starts_with(at(other))), "{root}: {place:?}");
            }
            let root_place = find(&view, root);
            assert!(matches!(root_place[..], [Place::Bind { write: true, optional: false, .. }]), "{root}");
        }
    }

    #[test]
    fn name_servers_only_with_an_open_network() {
        let stub = "/run/systemd/resolve/stub-resolv.conf";
        assert!(find(&places(&facts("/w"), &host).unwrap(), stub).is_empty());
        let open = ViewFacts { network: NetworkMode::Open, ..facts("/w") };
        assert_eq!(find(&places(&open, &host).unwrap(), stub).len(), 1);
    }

    #[test]
    fn paths_must_be_absolute_and_plain() {
        for root in ["w", "", "/w/../etc"] {
            assert!(places(&facts(root), &host).is_err(), "{root}");
        }
    }

    #[test]
    fn base_never_names_credentials() {
        let base = file::base().unwrap();
        for path in base.toolchain.iter().flat_map(|entry| &entry.paths) {
            assert!(!path.starts_with('/') && !path.contains(".."), "{path}");
            for secret in
                [".cargo", ".npmrc", ".config", ".ssh", ".gnupg", ".aws", ".m2", ".gem", ".gitconfig", ".local"]
            {
                assert_ne!(path, secret);
            }
            assert!(!path.starts_with(".config") && !path.contains("credential"), "{path}");
        }
        assert!(base.hide.iter().flat_map(|entry| &entry.paths).all(|path| path.starts_with('/')));
    }
}
