//! **What this room is for:** from what each file states to one policy: the law that a later layer only tightens.
//! **Who may enter:** `load`, property tests. **Never done here:** disk, judging.
//! **Where the proof is:** the tests below and `fuzz/properties/policy.rs` (never widens, idempotent, associative).
//!
//! The law. A layer is an *operator's first word* (admin file, user file, first `--policy` file) or a *later word*
//! (further `--policy` files, options, the workspace's own file). Built-in values are defaults. The first operator's word
//! on a key sets it; every further word on that key can only make it stricter, and a later word can never do more than
//! that, also on keys that nobody has spoken about. What would widen is not done, and a [`Warning`] names its place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Policy;
use super::file::{Rule, RuleVerdict, Stated};
use super::glob::PatternSet;
use super::values::{Mode, Overwrite, PathRule, Place, Placed, Profile, Shrink, Warning};
use crate::confinement::{Guarantee, NetworkMode};
use crate::limits::{BUILT_IN, Limits};
use crate::verdict::Layer;

/// What a layer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Power {
    /// Shipped: sets defaults.
    Default,
    /// An operator's first word: sets what no operator has set.
    Sets,
    /// Can only tighten.
    Tightens,
}

/// One key: its value, and whether an operator has set it.
#[derive(Debug, Clone)]
pub(crate) struct Slot<T> {
    pub(crate) now: Placed<T>,
    set: bool,
}

impl<T: Copy + Ord> Slot<T> {
    fn new(value: T) -> Self {
        Slot { now: Placed::built_in(value), set: false }
    }

    /// `a.meet(b) ≤ a`: smaller is stricter. True when the word was not done.
    fn hear(&mut self, word: Option<&Placed<T>>, power: Power) -> bool {
        let Some(word) = word else { return false };
        match power {
            Power::Default => self.now = word.clone(),
            Power::Sets if !self.set => {
                self.now = word.clone();
                self.set = true;
            }
            _ if word.value < self.now.value => self.now = word.clone(),
            _ => return word.value > self.now.value,
        }
        false
    }
}

/// A list that widens: what is opened. Absent is nothing.
#[derive(Debug, Clone)]
pub(crate) struct Opened<T> {
    pub(crate) now: Vec<Placed<T>>,
    set: bool,
}

impl<T: Clone + Ord> Opened<T> {
    fn new() -> Self {
        Opened { now: Vec::new(), set: false }
    }

    /// `within(a, b)`: what is left of the word `b` when `a` is open; `None` when nothing is.
    fn hear(
        &mut self,
        word: Option<&Vec<Placed<T>>>,
        power: Power,
        within: impl Fn(&T, &T) -> Option<T>,
    ) -> Vec<Place> {
        let Some(word) = word else { return Vec::new() };
        if power != Power::Tightens && !self.set {
            self.now = word.clone();
            self.set = power == Power::Sets;
            return Vec::new();
        }
        let before = std::mem::take(&mut self.now);
        let mut refused = Vec::new();
        let mut seen = BTreeSet::new();
        for one in word {
            let left: BTreeSet<T> = before.iter().filter_map(|open| within(&open.value, &one.value)).collect();
            if left.is_empty() {
                refused.push(one.place.clone());
            }
            let left = left.into_iter().filter(|value| seen.insert(value.clone()));
            self.now.extend(left.map(|value| Placed { value, place: one.place.clone() }));
        }
        refused
    }
}

/// The rules of one source, which are weighed against each other before they are weighed against other sources.
#[derive(Debug, Clone)]
pub(crate) struct RuleSet {
    pub(crate) layer: Layer,
    pub(crate) rules: Vec<Rule>,
    /// Its `allow` counts; else it only makes an exception to this source's own `deny` and `ask`.
    pub(crate) may_allow: bool,
}

/// The policy while layers are added.
#[derive(Debug, Clone)]
pub(crate) struct Merged {
    pub(crate) profile: Slot<Profile>,
    pub(crate) mode: Slot<Mode>,
    /// The strictest mode that a layer beyond the command line wants: a session's host cannot go past it.
    pub(crate) mode_ceiling: Mode,
    pub(crate) network: Slot<Net>,
    pub(crate) read: Opened<PathBuf>,
    pub(crate) write: Opened<PathBuf>,
    pub(crate) allow_write: Opened<String>,
    pub(crate) deny: Vec<PathRule>,
    pub(crate) protect: Vec<PathRule>,
    pub(crate) watch: Vec<PathRule>,
    pub(crate) env_pass: Opened<String>,
    pub(crate) env_set: BTreeMap<String, Placed<String>>,
    pub(crate) limits: BTreeMap<&'static str, Placed<u64>>,
    pub(crate) rules: Vec<RuleSet>,
    pub(crate) blocks: Vec<Rule>,
    pub(crate) require: Vec<Placed<Guarantee>>,
    pub(crate) tests: Vec<super::PolicyTest>,
    pub(crate) disable: Vec<Placed<String>>,
    pub(crate) overwrite: Slot<Overwrite>,
    pub(crate) shrink: Slot<Shrink>,
    pub(crate) exclude_generated: Slot<std::cmp::Reverse<bool>>,
    pub(crate) secret_globs: Vec<Placed<String>>,
    pub(crate) daemons: Slot<bool>,
    pub(crate) daemons_max: Slot<u64>,
    pub(crate) layers: Vec<(Layer, std::sync::Arc<str>)>,
    pub(crate) warnings: Vec<Warning>,
}

/// [`NetworkMode`] in the order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Net {
    None,
    Allowlist,
    Open,
}

impl From<Net> for NetworkMode {
    fn from(net: Net) -> Self {
        match net {
            Net::None => NetworkMode::None,
            Net::Allowlist => NetworkMode::Allowlist,
            Net::Open => NetworkMode::Open,
        }
    }
}

fn net(word: &Placed<NetworkMode>) -> Placed<Net> {
    let value = match word.value {
        NetworkMode::None => Net::None,
        NetworkMode::Allowlist => Net::Allowlist,
        NetworkMode::Open => Net::Open,
    };
    Placed { value, place: word.place.clone() }
}

fn map<T: Copy, U>(word: Option<&Placed<T>>, make: impl Fn(T) -> U) -> Option<Placed<U>> {
    word.map(|word| Placed { value: make(word.value), place: word.place.clone() })
}

/// The numbers of [`Limits`] by key; `run_timeout_ms` without a limit is the largest number.
pub(crate) fn numbers(limits: &Limits) -> BTreeMap<&'static str, u64> {
    BTreeMap::from([
        ("bash_timeout_ms", limits.bash_timeout_ms),
        ("run_timeout_ms", limits.run_timeout_ms.unwrap_or(u64::MAX)),
        ("memory_bytes", limits.memory_bytes),
        ("pids", u64::from(limits.pids)),
        ("file_bytes", limits.file_bytes),
        ("open_files", limits.open_files),
        ("private_bytes", limits.private_bytes),
    ])
}

impl Merged {
    /// Nobody has said anything: the most restrictive there is.
    pub(crate) fn closed() -> Self {
        Merged {
            profile: Slot::new(Profile::Strict),
            mode: Slot::new(Mode::Unattended),
            mode_ceiling: Mode::Open,
            network: Slot::new(Net::None),
            read: Opened::new(),
            write: Opened::new(),
            allow_write: Opened::new(),
            deny: Vec::new(),
            protect: Vec::new(),
            watch: Vec::new(),
            env_pass: Opened::new(),
            env_set: BTreeMap::new(),
            limits: numbers(&BUILT_IN).into_iter().map(|(key, value)| (key, Placed::built_in(value))).collect(),
            rules: Vec::new(),
            blocks: Vec::new(),
            require: Vec::new(),
            tests: Vec::new(),
            disable: Vec::new(),
            overwrite: Slot::new(Overwrite::Flag),
            shrink: Slot::new(Shrink::Warn),
            exclude_generated: Slot::new(std::cmp::Reverse(false)),
            secret_globs: Vec::new(),
            daemons: Slot::new(false),
            daemons_max: Slot::new(16),
            layers: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn warn(&mut self, place: &Place, message: &str) {
        self.warnings.push(Warning { place: place.clone(), message: message.to_owned() });
    }

    /// Adds one layer.
    pub(crate) fn hear(&mut self, layer: &Stated, power: Power) {
        self.layers.push((layer.layer, layer.name.clone()));
        self.hear_words(layer, power);
        self.hear_openings(layer, power);
        self.hear_limits(layer);
        self.hear_lists(layer, power);
    }

    fn hear_words(&mut self, layer: &Stated, power: Power) {
        if let (Layer::Admin | Layer::User | Layer::Project, Some(word)) = (layer.layer, &layer.mode) {
            self.mode_ceiling = self.mode_ceiling.min(word.value);
        }
        // the strictest profile of all layers wins, that of the built-in policy too
        let profile = if power == Power::Default { Power::Sets } else { power };
        let late = [
            (self.profile.hear(layer.profile.as_ref(), profile), layer.profile.as_ref().map(|w| &w.place), "profile"),
            (self.mode.hear(layer.mode.as_ref(), power), layer.mode.as_ref().map(|w| &w.place), "mode"),
            (
                self.network.hear(layer.network.as_ref().map(net).as_ref(), power),
                layer.network.as_ref().map(|w| &w.place),
                "network mode",
            ),
            (
                self.overwrite.hear(layer.overwrite.as_ref(), power),
                layer.overwrite.as_ref().map(|w| &w.place),
                "overwrite",
            ),
            (self.shrink.hear(layer.shrink.as_ref(), power), layer.shrink.as_ref().map(|w| &w.place), "shrink"),
            (
                self.exclude_generated.hear(map(layer.exclude_generated.as_ref(), std::cmp::Reverse).as_ref(), power),
                layer.exclude_generated.as_ref().map(|w| &w.place),
                "exclude_generated",
            ),
            (self.daemons.hear(layer.daemons.as_ref(), power), layer.daemons.as_ref().map(|w| &w.place), "daemons"),
            (
                self.daemons_max.hear(layer.daemons_max.as_ref(), power),
                layer.daemons_max.as_ref().map(|w| &w.place),
                "max",
            ),
        ];
        let late: Vec<_> =
            late.into_iter().filter(|(late, ..)| *late).filter_map(|(_, place, key)| Some((place?, key))).collect();
        for (place, key) in late {
            self.warn(place, &format!("this {key} is looser than what came before; the stricter one holds"));
        }
    }

    fn hear_openings(&mut self, layer: &Stated, power: Power) {
        // of two trees, one above the other, the lower one is open in both
        let tree = |open: &PathBuf, word: &PathBuf| {
            let lower = |below: &PathBuf, above: &Path| below.starts_with(above).then(|| below.clone());
            lower(word, open).or_else(|| lower(open, word))
        };
        let same = |open: &String, word: &String| (open == word).then(|| word.clone());
        // what may be written may be read
        let late = [
            (self.read.hear(layer.read.as_ref(), power, tree), "tree is not opened for reading"),
            (self.write.hear(layer.write.as_ref(), power, tree), "tree is not opened for writing"),
            (self.allow_write.hear(layer.allow_write.as_ref(), power, same), "path stays protected"),
            (self.env_pass.hear(layer.env_pass.as_ref(), power, same), "variable is not passed on"),
        ];
        for (places, what) in late {
            for place in places {
                self.warn(&place, &format!("an earlier layer did not open this: the {what}"));
            }
        }
        for (name, value) in &layer.env_set {
            match self.env_set.get(name) {
                Some(before) if before.value == value.value => {}
                None if power != Power::Tightens => drop(self.env_set.insert(name.clone(), value.clone())),
                _ => self.warn(&value.place, "an earlier layer did not set this: the variable is not set"),
            }
        }
    }

    fn hear_limits(&mut self, layer: &Stated) {
        for (key, word) in &layer.limits {
            let Some(now) = self.limits.get_mut(key) else { continue };
            if word.value < now.value {
                *now = word.clone();
            } else if word.value > now.value {
                let message = format!("{key} is above the limit of {} that came before; that one holds", now.value);
                self.warn(&word.place, &message);
            }
        }
    }

    fn hear_lists(&mut self, layer: &Stated, power: Power) {
        let may_allow = power != Power::Tightens;
        for rule in layer.rules.iter().filter(|rule| rule.verdict == RuleVerdict::Allow && !may_allow) {
            let message = format!("`{}` allows nothing: this layer can only tighten", rule.shown());
            self.warn(&rule.place, &message);
        }
        self.drop_lifts(layer);
        self.deny.extend(layer.deny.iter().cloned());
        self.protect.extend(layer.protect.iter().cloned());
        self.watch.extend(layer.watch.iter().cloned());
        self.blocks.extend(layer.blocks.iter().cloned());
        self.require.extend(layer.require.iter().cloned());
        self.tests.extend(layer.tests.iter().cloned());
        self.disable.extend(layer.disable.iter().cloned());
        self.secret_globs.extend(layer.secret_globs.iter().cloned());
        if !layer.rules.is_empty() {
            self.rules.push(RuleSet { layer: layer.layer, rules: layer.rules.clone(), may_allow });
        }
    }

    /// A lifted path is lifted from the built-in list and from the lifting file's own; what another file protects stays.
    fn drop_lifts(&mut self, layer: &Stated) {
        if self.allow_write.now.is_empty() {
            return;
        }
        let stated = self.protect.iter().chain(&layer.protect).filter(|rule| rule.place.layer != Layer::BuiltIn);
        let rules: Vec<&PathRule> = stated.collect();
        let set = PatternSet::of(rules.iter().map(|rule| rule.pattern.clone()).collect());
        let held = |lift: &Placed<String>| {
            let another_file = |at: usize, _| rules.get(at).is_some_and(|rule| rule.place.file != lift.place.file);
            set.matched_by(&lift.value, false, another_file).is_some()
        };
        let (lost, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.allow_write.now).into_iter().partition(held);
        self.allow_write.now = kept;
        for lift in lost {
            self.warn(&lift.place, "another file protects this path: it stays protected");
        }
    }

    /// The words of `--profile` and `--mode`.
    pub(crate) fn hear_options(
        &mut self,
        profile: Option<&Placed<Profile>>,
        mode: Option<&Placed<Mode>>,
        power: Power,
    ) {
        if self.profile.hear(profile, Power::Tightens) {
            profile.into_iter().for_each(|word| self.warn(&word.place, "the policy is stricter; its profile holds"));
        }
        if self.mode.hear(mode, power) {
            mode.into_iter().for_each(|word| self.warn(&word.place, "the policy is stricter; its mode holds"));
        }
    }

    /// Closes the building site.
    pub(crate) fn finish(mut self, root: PathBuf, home: Option<PathBuf>) -> Policy {
        if self.profile.now.value == Profile::Strict && self.shrink.now.place.layer == Layer::BuiltIn {
            self.shrink.now.value = Shrink::Refuse;
        }
        Policy::new(self, root, home)
    }
}

/// The limits as the rest of the house takes them.
pub(crate) fn limits(numbers: &BTreeMap<&'static str, Placed<u64>>) -> Limits {
    let number = |key: &str, built_in: u64| numbers.get(key).map_or(built_in, |placed| placed.value.min(built_in));
    let run = number("run_timeout_ms", u64::MAX);
    Limits {
        bash_timeout_ms: number("bash_timeout_ms", BUILT_IN.bash_timeout_ms),
        run_timeout_ms: (run != u64::MAX).then_some(run),
        memory_bytes: number("memory_bytes", BUILT_IN.memory_bytes),
        pids: u32::try_from(number("pids", u64::from(BUILT_IN.pids))).unwrap_or(BUILT_IN.pids),
        file_bytes: number("file_bytes", BUILT_IN.file_bytes),
        open_files: number("open_files", BUILT_IN.open_files),
        private_bytes: number("private_bytes", BUILT_IN.private_bytes),
    }
}
