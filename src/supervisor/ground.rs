//! **What this room is for:** what a session stands on: the workspace, what a scan knows of it, and the launcher with the
//! plan it is given. **Who may enter:** `supervisor`. **Never done here:** judging calls. **Where the proof is:**
//! `tests/escape.rs`, `tests/ladder.rs`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use tokio::sync::{Mutex, MutexGuard, OnceCell};

use super::{No, SessionKind, Supervisor, enforce, masks, spawn, watch};
use crate::call::{Code, Refusal};
use crate::confinement::{GuardPlan, Mask, PathRule, Place, Rights, SessionPlan};
use crate::limits::{PID_MAX_FLOOR, SCAN_ENTRIES};
use crate::path::{Resolved, Root, Scan, ScanSets, StartupChange};
use crate::profile::{self, EnvironmentFacts, HostKind, SessionFacts, ViewFacts};

/// Startup files that are remembered until the next answer.
const STARTUP_FILES: usize = 10_000;
/// Where the private home stands when the workspace itself is the user's home.
const OTHER_HOME: &str = "/run/home";

/// What calls, daemons and the watch share.
#[derive(Debug)]
pub(super) struct Ground {
    pub root: Root,
    pub home: PathBuf,
    pub sets: ScanSets,
    /// Exact paths that the policy lifts from the protected ones.
    pub lifted: Vec<String>,
    pub launcher: OnceCell<Result<spawn::Launcher, Refusal>>,
    scan: Mutex<Option<Scan>>,
    news: Mutex<News>,
}

/// What a look at the workspace brought and nobody has dealt with yet. Whoever looks first must not swallow it.
#[derive(Debug, Default)]
struct News {
    /// Covers that are still to be made.
    uncovered: Vec<Mask>,
    /// Folders that could not be listed and are covered since.
    hidden: HashSet<PathBuf>,
    /// Startup files that changed.
    startup: Vec<StartupChange>,
}

impl Ground {
    pub fn new(root: Root, home: PathBuf, sets: ScanSets, lifted: Vec<String>) -> Ground {
        Ground { root, home, sets, lifted, launcher: OnceCell::new(), scan: Mutex::new(None), news: Mutex::default() }
    }

    /// What is known of the names in the workspace; scans when nothing is known yet.
    ///
    /// # Errors
    /// `cannot_enforce`: with names unknown nothing can be promised about denied ones.
    pub async fn scan(&self) -> Result<MutexGuard<'_, Option<Scan>>, Refusal> {
        let mut scan = self.scan.lock().await;
        if scan.is_none() {
            *scan = Some(Scan::new(&self.root, &self.sets, SCAN_ENTRIES).map_err(scan_failed)?);
        }
        Ok(scan)
    }

    /// Looks what has changed and covers denied and protected names that are new. Startup files that changed are kept for
    /// [`Ground::take_startup`]. What could not be covered is tried again the next time, and is an error until it is.
    ///
    /// # Errors
    /// `cannot_enforce`: a name is denied and could not be covered.
    pub async fn cover_new_names(&self) -> Result<(), Refusal> {
        let mut guard = self.scan().await?;
        let Some(scan) = guard.as_mut() else { return Ok(()) };
        let changes = scan.refresh(&self.root, &self.sets).map_err(scan_failed)?;
        let mut news = self.news.lock().await;
        news.startup.extend(changes.startup);
        news.startup.truncate(STARTUP_FILES);
        // A repository that programs made in this session is theirs to set up; its hooks are reported, not covered.
        let settings = changes.new_protected.iter().filter(|found| !found.rel.iter().any(|name| name == ".git"));
        let mut new: Vec<Mask> = masks::of_found(&self.root, &self.sets, changes.new_denied.iter(), settings);
        self.lifted.iter().for_each(|lift| masks::lift(&mut new, &self.root.real().join(lift)));
        let unreadable = masks::of_unreadable(&self.root, &scan.unreadable);
        for mask in unreadable.map_err(|why| enforce::cannot_enforce(&[why]))? {
            if news.hidden.insert(mask.at.clone()) {
                new.push(mask);
            }
        }
        news.uncovered.extend(new);
        let Some(Ok(launcher)) = self.launcher.get() else { return Ok(()) };
        if !news.uncovered.is_empty() {
            let failed = launcher.cover(news.uncovered.clone()).await.map_err(|why| enforce::cannot_enforce(&[why]))?;
            // A name that is gone again is no longer to be covered.
            let left: Vec<String> = failed.into_iter().filter(|why| !why.contains("os error 2)")).collect();
            if !left.is_empty() && launcher.built.view {
                return Err(enforce::cannot_enforce(&left));
            }
            news.uncovered.clear();
        }
        Ok(())
    }

    /// Startup files that changed since they were last taken.
    pub async fn take_startup(&self) -> Vec<StartupChange> {
        std::mem::take(&mut self.news.lock().await.startup)
    }
}

fn scan_failed(error: crate::path::ScanError) -> Refusal {
    enforce::cannot_enforce(&[format!("denied names: {error}")])
}

impl Supervisor {
    /// The session's launcher; builds the session when this is the first need of it.
    pub(super) async fn launcher(&self, profile: &str) -> Result<&spawn::Launcher, Refusal> {
        let built = self.ground.launcher.get_or_init(|| self.build(profile)).await;
        built.as_ref().map_err(Clone::clone)
    }

    async fn build(&self, profile: &str) -> Result<spawn::Launcher, Refusal> {
        if (profile == "shell" || self.policy.is_strict())
            && let Some(refusal) = enforce::never_for_programs(&self.policy.required())
        {
            return Err(refusal);
        }
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        let refused = |why: String| enforce::cannot_enforce(&[why]);
        let started = match started {
            Some(Ok(started)) => started,
            Some(Err(error)) => return Err(refused(format!("the launcher cannot be started: {error}"))),
            None => return Err(refused("the launcher has ended".to_owned())),
        };
        // One call that is handed its file needs no masks; what walks or starts programs needs every one.
        let single = self.settings.kind == SessionKind::Call;
        let masks = if single && matches!(profile, "read" | "write") { Vec::new() } else { self.masks().await? };
        let trees = trees(&self.policy.write_trees())?;
        let guard = self.guard_plan(&trees, !single || profile == "shell").await?;
        let one = single || self.settings.kind == SessionKind::Run;
        let plan = self.plan(masks, guard.clone(), one.then_some(profile), false)?;
        let mut launcher = started.build(plan).await.map_err(refused)?;
        if !launcher.built.view {
            // One step down the ladder: half a session is none, so a new launcher builds none of it.
            let missing = std::mem::take(&mut launcher.built.missing);
            let started = spawn::start_launcher().map_err(|error| refused(error.to_string()))?;
            let plan = self.plan(Vec::new(), guard, one.then_some(profile), true)?;
            launcher = started.build(plan).await.map_err(refused)?;
            launcher.built.missing.splice(0..0, missing);
            launcher.built.missing.dedup();
        }
        if one {
            launcher.warm(profile).await; // Made while the rest of the way is gone.
        } else {
            launcher.keep_ready();
            launcher.warm("read").await;
            launcher.warm("shell").await;
        }
        Ok(launcher)
    }

    async fn masks(&self) -> Result<Vec<Mask>, Refusal> {
        let guard = self.ground.scan().await?;
        let mut masks = Vec::new();
        if let Some(scan) = guard.as_ref() {
            masks.extend(masks::of_found(
                &self.ground.root,
                &self.ground.sets,
                scan.denied.iter(),
                scan.protected.iter(),
            ));
            masks.extend(masks::of_sockets(&self.ground.root, &scan.sockets));
            masks.extend(
                masks::of_unreadable(&self.ground.root, &scan.unreadable)
                    .map_err(|why| enforce::cannot_enforce(&[why]))?,
            );
            if !scan.unreadable.is_empty() && self.policy.is_strict() {
                let first = scan.unreadable.first().map(|path| path.display().to_string()).unwrap_or_default();
                return Err(enforce::cannot_enforce(&[format!("denied names: the folder {first} cannot be read")]));
            }
        }
        Ok(masks)
    }

    fn plan(&self, masks: Vec<Mask>, guard: GuardPlan, only: Option<&str>, bare: bool) -> Result<SessionPlan, Refusal> {
        let fault = |error: profile::ProfileError| enforce::cannot_enforce(&[error.to_string()]);
        let root = self.ground.root.real().to_path_buf();
        let extra_read = trees(&self.policy.read_trees())?;
        let extra_write = guard.trees.clone();
        let network = self.policy.network();
        let view_facts = ViewFacts {
            root: root.clone(),
            home: self.ground.home.clone(),
            extra_read: extra_read.clone(),
            extra_write: extra_write.clone(),
            network,
        };
        let mut view = profile::places(&view_facts, &host_kind).map_err(fault)?;
        let home = if root == self.ground.home { PathBuf::from(OTHER_HOME) } else { self.ground.home.clone() };
        if root == self.ground.home {
            view.places.push(Place::Private { at: home.clone(), mode: 0o700 });
        }
        let mut all = view.masks;
        all.extend(masks::of_system(
            self.policy.deny_patterns().iter().map(|rule| rule.pattern.text()),
            &self.ground.home,
        ));
        all.extend(masks::of_trees(&extra_write, &self.policy, &root));
        all.extend(masks::of_trees(&extra_read, &self.policy, &root));
        all.extend(masks);
        self.ground.lifted.iter().for_each(|lift| masks::lift(&mut all, &root.join(lift)));
        masks::tidy(&mut all);
        let facts = SessionFacts {
            root: root.clone(),
            home: home.clone(),
            system: view.system,
            toolchains: view.toolchains,
            extra_read,
            extra_write,
            network,
            strict: self.policy.is_strict(),
            limits: self.policy.limits(),
            degraded_network: bare,
            // The launcher takes it back where there is no pid namespace.
            debug: true,
        };
        let mut confinements = profile::NAMES
            .iter()
            .filter(|name| only.is_none_or(|only| only == **name))
            .map(|name| profile::confinement(name, &facts))
            .collect::<Result<Vec<_>, _>>()
            .map_err(fault)?;
        if bare {
            // Without a view there are no private folders: the host's own home and /tmp stand at these paths.
            let own = |rule: &PathRule| {
                rule.rights != Rights::All || rule.path == root || facts.extra_write.contains(&rule.path)
            };
            confinements.iter_mut().for_each(|kind| kind.paths.retain(own));
        }
        let limits = self.policy.limits();
        if limits.pids < PID_MAX_FLOOR || !crate::sys::kernel_at_least(6, 14) {
            // Counted for all processes of this user in the session's user namespace: the launcher's two and the
            // worker itself at least.
            let programs = confinements.iter_mut().filter(|kind| kind.programs);
            programs.for_each(|kind| kind.rlimits.push(("nproc".to_owned(), u64::from(limits.pids) + 5)));
        }
        Ok(SessionPlan {
            root,
            env: self.environment(&home).map_err(fault)?,
            home,
            view: view.places,
            masks: all,
            network,
            confinements,
            allow_degraded: self.settings.allow_degraded,
            private_bytes: limits.private_bytes,
            pids: limits.pids,
            memory_bytes: limits.memory_bytes,
            guard,
            bare,
        })
    }

    fn deny_layer(&self, pattern: &str) -> &'static str {
        let rule = self.policy.deny_patterns().iter().find(|rule| rule.pattern.text() == pattern);
        rule.map_or("built-in", |rule| rule.place.layer.name())
    }

    fn environment(&self, home: &Path) -> Result<Vec<(String, String)>, profile::ProfileError> {
        let inherited: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        use std::io::IsTerminal;
        let set: Vec<(String, String)> = self.policy.env_set().into_iter().collect();
        let terminal = self.settings.kind == SessionKind::Run && std::io::stdin().is_terminal();
        profile::environment(&EnvironmentFacts {
            inherited: &inherited,
            pass: &self.policy.env_pass(),
            set: &set,
            home,
            terminal,
            kind_of: &host_kind,
        })
    }

    /// Before programs run: names that the host has made since are covered, and from now on watched.
    pub(super) async fn before_programs(&self, profile: &str) -> Result<(), Refusal> {
        if profile != "shell" {
            return Ok(());
        }
        self.launcher(profile).await?;
        if self.tracked {
            self.ground.cover_new_names().await?;
            drop(self.ground.take_startup().await); // Of somebody outside, between two calls.
        }
        self.watch.get_or_init(|| watch::start(std::sync::Arc::clone(&self.ground))).await;
        Ok(())
    }

    /// A second name of a denied file is that file (hard links; no path rule of any kind sees them).
    pub(super) async fn same_file_as_a_denied_one(&self, resolved: &Resolved) -> Result<(), No> {
        let Some(facts) = resolved.facts() else { return Ok(()) };
        if facts.nlink < 2 || facts.kind != crate::path::Kind::File {
            return Ok(());
        }
        self.ground.cover_new_names().await?;
        let guard = self.ground.scan().await?;
        let Some(scan) = guard.as_ref() else { return Ok(()) };
        match scan.denied_identity(facts.dev, facts.ino) {
            None => Ok(()),
            Some(found) => {
                let pattern = self.ground.sets.deny.text(found.pattern).unwrap_or_default();
                Err(Refusal::new(Code::DeniedPath, "this is another name of a denied file")
                    .rule(pattern, self.deny_layer(pattern))
                    .hint("the policy keeps this file from every tool and command; ask an operator if you need it")
                    .into())
            }
        }
    }
}

fn host_kind(path: &Path) -> Option<HostKind> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some(if found.is_symlink() {
        HostKind::Link(std::fs::read_link(path).ok()?)
    } else if found.is_dir() {
        HostKind::Dir
    } else {
        HostKind::File
    })
}

/// The user's home: `HOME`, else the system's word for this user, else a name that is nobody's.
pub(super) fn home() -> PathBuf {
    let usable = |path: &PathBuf| path.is_absolute() && path.parent().is_some() && !path.starts_with("/proc");
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(usable)
        .or_else(|| nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.dir))
        .filter(usable)
        .unwrap_or_else(|| PathBuf::from("/home/agent"))
        .components()
        .collect()
}

/// Trees of the policy by their real names; one that is not there is an error of the operator.
fn trees(trees: &[PathBuf]) -> Result<Vec<PathBuf>, Refusal> {
    let real = |tree: &PathBuf| {
        crate::path::real(tree).map_err(|error| {
            enforce::cannot_enforce(&[format!("[filesystem]: {} cannot be opened: {error}", tree.display())])
        })
    };
    trees.iter().map(real).collect()
}

/// Sixteen random hexadecimal digits, for names that nobody can guess.
pub(super) fn random_name() -> String {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    format!("{:016x}", hasher.finish())
}
