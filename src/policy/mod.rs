//! **What this room is for:** from TOML layers to one policy, and from a request to a decision with its reason.
//! **Who may enter:** the supervisor and the command line. **Never done here:** running, resolving, opening what is judged;
//! `decide` is pure. There is no `Default` for a policy: an empty one is the most restrictive.
//! **Where the proof is:** `tests/policy.rs` with `tests/decisions/`, `fuzz/properties/policy.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub mod command;
mod compose;
mod decide;
mod doc;
mod error;
mod explain;
mod file;
pub mod floor;
pub mod glob;
pub mod keys;
mod load;
pub mod names;
mod rules;
mod show;
mod values;
mod words;
pub mod wrappers;

pub use decide::{Judgement, Request, Verdict, decide, judge};
pub use error::PolicyError;
pub use explain::{Explanation, access_of, explain};
pub use file::PolicyTest;
pub use load::{LayerText, PROJECT_FILE, Sources, built_ins, compose_texts, load, text_of};
pub use show::{STARTING_FILE, schema};
pub use values::{Mode, Overwrite, PathRule, Place, Placed, Profile, Shrink, Warning};

use crate::call::ToolOptions;
use crate::confinement::{Guarantee, NetworkMode};
use crate::limits::Limits;
use crate::verdict::Layer;
use compose::Merged;
use glob::{Pattern, PatternSet};

/// Holding one of these tells you: every layer was read and checked, each later one only tightened, and all patterns
/// compile. Made by `load` alone.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) merged: Merged,
    pub(crate) root: PathBuf,
    pub(crate) home: Option<PathBuf>,
    pub(crate) deny: PatternSet,
    pub(crate) protect: PatternSet,
    pub(crate) limits: Limits,
}

impl Policy {
    pub(crate) fn new(merged: Merged, root: PathBuf, home: Option<PathBuf>) -> Self {
        let set = |rules: &[PathRule]| PatternSet::of(rules.iter().map(|rule| rule.pattern.clone()).collect());
        let (deny, protect) = (set(&merged.deny), set(&merged.protect));
        let limits = compose::limits(&merged.limits);
        Policy { deny, protect, limits, merged, root, home }
    }

    /// How strongly calls are confined.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.merged.profile.now.value
    }

    /// The profile is `strict`.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.profile() == Profile::Strict
    }

    /// Who says yes.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.merged.mode.now.value
    }

    /// The same policy in another mode, for a session whose host changes it (the host is the operator; nothing that the
    /// agent says gets here). `None` when the admin's, the user's or the workspace's own file wants a stricter one, or the
    /// policy is `unattended`. An approved plan leads from `plan` to `ask` whoever asked for `plan`.
    #[must_use]
    pub fn with_mode(&self, mode: Mode, plan_approved: bool) -> Option<Self> {
        let unattended = self.mode() == Mode::Unattended && mode != Mode::Unattended;
        let most = match self.merged.mode_ceiling {
            Mode::Plan if plan_approved => Mode::Ask,
            other => other,
        };
        (!unattended && mode <= most).then(|| {
            let mut policy = self.clone();
            policy.merged.mode.now.value = mode;
            policy
        })
    }

    /// The network of commands.
    #[must_use]
    pub fn network(&self) -> NetworkMode {
        self.merged.network.now.value.into()
    }

    /// The workspace.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Further trees that may be read (absolute, not resolved).
    #[must_use]
    pub fn read_trees(&self) -> Vec<PathBuf> {
        self.merged.read.now.iter().map(|tree| tree.value.clone()).collect()
    }

    /// Further trees that may be written (absolute, not resolved).
    #[must_use]
    pub fn write_trees(&self) -> Vec<PathBuf> {
        self.merged.write.now.iter().map(|tree| tree.value.clone()).collect()
    }

    /// Names of variables that are passed on.
    #[must_use]
    pub fn env_pass(&self) -> Vec<String> {
        self.merged.env_pass.now.iter().map(|name| name.value.clone()).collect()
    }

    /// Variables that are set.
    #[must_use]
    pub fn env_set(&self) -> BTreeMap<String, String> {
        self.merged.env_set.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect()
    }

    /// What calls may use up.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Guarantees without which nothing starts, sorted.
    #[must_use]
    pub fn required(&self) -> Vec<Guarantee> {
        let mut all: Vec<_> = self.merged.require.iter().map(|one| one.value).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Neither read nor written nor listed, by any tool or child.
    #[must_use]
    pub fn deny_patterns(&self) -> &[PathRule] {
        &self.merged.deny
    }

    /// Readable, never written; [`Policy::allow_write`] names the exceptions.
    #[must_use]
    pub fn protect_patterns(&self) -> &[PathRule] {
        &self.merged.protect
    }

    /// Written as ever, but reported when created or changed, like protected ones.
    #[must_use]
    pub fn watch_patterns(&self) -> &[PathRule] {
        &self.merged.watch
    }

    /// Exact root-relative paths that may be written although a pattern protects them.
    #[must_use]
    pub fn allow_write(&self) -> Vec<String> {
        self.merged.allow_write.now.iter().map(|path| path.value.clone()).collect()
    }

    /// The first denied pattern that covers a root-relative path.
    #[must_use]
    pub fn denies_path(&self, relative: &str, is_dir: bool) -> Option<&PathRule> {
        let relative_hit = self.deny.matched(relative, is_dir);
        let absolute = self.root.join(if relative == "." { "" } else { relative });
        let absolute_hit = || self.denies_absolute(&absolute, is_dir);
        relative_hit.and_then(|at| self.merged.deny.get(at)).or_else(absolute_hit)
    }

    /// The first denied absolute pattern that covers an absolute path.
    #[must_use]
    pub fn denies_absolute(&self, path: &Path, is_dir: bool) -> Option<&PathRule> {
        let at = self.deny.matched_absolute(&path.to_string_lossy(), is_dir)?;
        self.merged.deny.get(at)
    }

    /// For a path of a further tree (`[filesystem] read`, `write`): absolute patterns, and those that mean a name at any
    /// depth (`**/.env`); those of one place in the workspace do not count there.
    #[must_use]
    pub fn denies_outside(&self, path: &Path, is_dir: bool) -> Option<&PathRule> {
        self.merged.deny.get(outside(&self.deny, path, is_dir, |_| true)?)
    }

    /// As [`Policy::denies_outside`], for protected paths: the hooks of a repository whose `.git` is a further tree.
    #[must_use]
    pub fn protects_outside(&self, path: &Path, is_dir: bool) -> Option<&PathRule> {
        let counts = |at: usize| self.merged.protect.get(at).is_none_or(|rule| !rule.file_only);
        self.merged.protect.get(outside(&self.protect, path, is_dir, counts)?)
    }

    /// The first pattern that protects a root-relative path from being written, and is not lifted for it. A folder is
    /// also protected when something protected stands in it by its name: who moves `.git` moves its hooks.
    #[must_use]
    pub fn protects_path(&self, relative: &str, is_dir: bool) -> Option<&PathRule> {
        if self.merged.allow_write.now.iter().any(|lift| lift.value == relative) {
            return None;
        }
        let rule = |at: usize| self.merged.protect.get(at);
        let absolute = self.root.join(relative);
        let held = || if is_dir { self.protect.held_by(relative) } else { None };
        let found = self
            .protect
            .matched_by(relative, is_dir, |at, itself| {
                rule(at).is_none_or(|rule| !rule.file_only || (itself && !is_dir))
            })
            .or_else(|| self.protect.matched_absolute(&absolute.to_string_lossy(), is_dir))
            .or_else(held);
        found.and_then(rule)
    }

    /// The tool is switched off, and where.
    #[must_use]
    pub fn disabled(&self, tool: &str) -> Option<&Place> {
        self.merged.disable.iter().find(|one| one.value == tool).map(|one| &one.place)
    }

    /// Background programs are allowed, and how many at a time.
    #[must_use]
    pub fn daemons(&self) -> Option<u64> {
        self.merged.daemons.now.value.then_some(self.merged.daemons_max.now.value)
    }

    /// What tool bodies need to know. `tracked` and `known_sha256` are the session's to fill in.
    #[must_use]
    pub fn tool_options(&self) -> ToolOptions {
        let relative = |pattern: &&Pattern| !pattern.is_absolute();
        ToolOptions {
            strict: self.is_strict(),
            overwrite: self.merged.overwrite.now.value.name().to_owned(),
            shrink: self.merged.shrink.now.value.name().to_owned(),
            exclude_generated: self.merged.exclude_generated.now.value.0,
            hidden: self.deny.patterns().iter().filter(relative).map(|pattern| pattern.text().to_owned()).collect(),
            secret_globs: self.merged.secret_globs.iter().map(|glob| glob.value.clone()).collect(),
            tracked: false,
            known_sha256: None,
        }
    }

    /// What layers wanted and did not get.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.merged.warnings
    }

    /// The layers that were read, in order: layer and file.
    #[must_use]
    pub fn layers(&self) -> Vec<(Layer, String)> {
        self.merged.layers.iter().map(|(layer, name)| (*layer, name.to_string())).collect()
    }

    /// The policy's own tests.
    #[must_use]
    pub fn tests(&self) -> &[PolicyTest] {
        &self.merged.tests
    }
}

fn outside(set: &PatternSet, path: &Path, is_dir: bool, counts: impl Fn(usize) -> bool) -> Option<usize> {
    let text = path.to_string_lossy();
    let any_depth = |at: usize, _| counts(at) && set.patterns().get(at).is_some_and(Pattern::any_depth);
    let name = set.matched_by(text.trim_start_matches('/'), is_dir, any_depth);
    name.or_else(|| set.matched_absolute(&text, is_dir))
}
