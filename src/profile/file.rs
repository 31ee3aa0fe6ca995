//! **What this room is for:** the files of `sandbox-profiles/` as types: strict parsing, nothing else. **Who may enter:**
//! the room `profile`, tests, the fuzzer. **Never done here:** filling in facts of a session. **Where the proof is:**
//! `tests/profiles.rs` (files and schema agree), tests below (what must not parse).

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::ProfileError;
use crate::confinement::Rights;

/// Why an entry is there. Required everywhere; empty does not parse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reason(String);

impl TryFrom<String> for Reason {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() { Err("a reason must not be empty") } else { Ok(Reason(text)) }
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> String {
        reason.0
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An empty list is a slip: a rule for nothing, or a condition that is always true where one was meant.
fn not_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let list = Vec::<String>::deserialize(from)?;
    if list.is_empty() { Err(serde::de::Error::custom("a list must not be empty")) } else { Ok(list) }
}

/// A property of the session that an entry depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// The policy's profile is strict.
    Strict,
    /// The policy lets programs trace each other.
    Debug,
    /// The network is to be off and there is no network namespace to do it.
    DegradedNetwork,
    /// The session has the host's network.
    OpenNetwork,
    /// A person started it on a terminal (`stockade run`).
    Terminal,
}

/// Which paths of a session a Landlock rule stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words of the files; each is explained there")]
pub enum At {
    System,
    Toolchain,
    Workspace,
    Home,
    Tmp,
    Devices,
    Proc,
    ExtraRead,
    ExtraWrite,
}

/// One Landlock rule of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathEntry {
    /// On which paths.
    pub at: At,
    /// What may be done there.
    pub rights: Rights,
    /// Why.
    pub reason: Reason,
}

/// One rule of a filter, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallEntry {
    /// Names of calls and `@sets`.
    #[serde(deserialize_with = "not_empty")]
    pub calls: Vec<String>,
    /// `allow`, `kill` or the name of an error.
    pub action: String,
    /// Alternatives, each a conjunction of argument tests; none means always.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "not_empty")]
    pub when: Vec<String>,
    /// Counts only in such a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<Switch>,
    /// Does not count in such a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<Switch>,
    /// Why.
    pub reason: Reason,
}

/// The filter of a profile, as written. Of two errors that match, the first rule's is the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallTable {
    /// The answer for calls that no rule names.
    pub default: String,
    /// Why that.
    pub reason: Reason,
    /// The rules.
    #[serde(default)]
    pub rule: Vec<CallEntry>,
}

/// One resource limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitEntry {
    /// `nofile`, `fsize`, `core`, `as`.
    pub name: LimitName,
    /// A number, or the name of one of the policy's limits.
    pub value: LimitValue,
    /// Why.
    pub reason: Reason,
}

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "RLIMIT names")]
pub enum LimitName {
    Nofile,
    Fsize,
    Core,
    As,
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "fields of `limits::Limits`, and none at all")]
pub enum LimitValue {
    #[serde(rename = "0")]
    Zero,
    OpenFiles,
    FileBytes,
    MemoryBytes,
}

/// A loadable profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    /// 1.
    pub version: u32,
    /// `["base"]`.
    pub include: Vec<String>,
    /// One line.
    pub about: String,
    /// May it start programs?
    pub programs: bool,
    /// Does Landlock refuse TCP (see [`crate::confinement::Confinement::deny_tcp`])?
    pub deny_tcp: bool,
    /// Landlock rules; none: nothing can be opened.
    #[serde(default)]
    pub path: Vec<PathEntry>,
    /// The filter.
    pub syscalls: CallTable,
    /// Resource limits, besides those of base.
    #[serde(default)]
    pub rlimit: Vec<LimitEntry>,
}

/// What a place of the view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// As on the host: a folder is bound, a link stays a link.
    System,
    /// Bound read-only.
    Bind,
    /// A device node of the host.
    Device,
    /// A symbolic link of the view.
    Link,
    /// Private, empty, writable.
    Private,
}

/// Places of the view of one kind. `~` is the home folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceEntry {
    /// Where.
    #[serde(deserialize_with = "not_empty")]
    pub paths: Vec<String>,
    /// What.
    pub kind: PlaceKind,
    /// Target of a link.
    #[serde(default)]
    pub to: Option<String>,
    /// Mode of a private folder, octal.
    #[serde(default)]
    pub mode: Option<String>,
    /// Counts only in such a session.
    #[serde(default)]
    pub only_if: Option<Switch>,
    /// Why.
    pub reason: Reason,
}

/// Paths with their reason: names that are masked, toolchains below home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathReason {
    /// Absolute (`hide`) or relative to home (`toolchain`).
    #[serde(deserialize_with = "not_empty")]
    pub paths: Vec<String>,
    /// Why.
    pub reason: Reason,
}

/// What a value of an inherited variable must look like; others are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// Letters, digits and `_.,:+-@/<>=`, at most 128.
    Word,
    /// An absolute path of a folder that is there.
    Folder,
    /// An absolute path of a file that is there.
    File,
}

/// Names that programs inherit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassEntry {
    /// Whole names.
    #[serde(deserialize_with = "not_empty")]
    pub names: Vec<String>,
    /// What their values must look like.
    pub kind: ValueKind,
    /// Counts only in such a session.
    #[serde(default)]
    pub only_if: Option<Switch>,
    /// Why.
    pub reason: Reason,
}

/// Variables that are set to one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetEntry {
    /// Their names.
    #[serde(deserialize_with = "not_empty")]
    pub names: Vec<String>,
    /// Their value.
    pub value: String,
    /// Why.
    pub reason: Reason,
}

/// `base.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseFile {
    /// 1.
    pub version: u32,
    /// One line.
    pub about: String,
    /// The view.
    pub place: Vec<PlaceEntry>,
    /// Masked names.
    #[serde(default)]
    pub hide: Vec<PathReason>,
    /// Below home, readable.
    #[serde(default)]
    pub toolchain: Vec<PathReason>,
    /// Inherited variables.
    #[serde(default)]
    pub pass: Vec<PassEntry>,
    /// Variables of commands that no person watches.
    #[serde(default)]
    pub set_shell: Vec<SetEntry>,
    /// Limits of every profile.
    #[serde(default)]
    pub rlimit: Vec<LimitEntry>,
}

/// One set of `syscalls.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetOfCalls {
    /// `@name`.
    pub name: String,
    /// Names of calls and of other sets.
    #[serde(deserialize_with = "not_empty")]
    pub calls: Vec<String>,
    /// Why they belong together.
    pub reason: Reason,
}

/// `syscalls.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyscallsFile {
    /// 1.
    pub version: u32,
    /// The sets.
    pub set: Vec<SetOfCalls>,
}

/// The text of a file of `sandbox-profiles/`, by its name without `.toml`.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "syscalls" => include_str!("../../sandbox-profiles/syscalls.toml"),
        "base" => include_str!("../../sandbox-profiles/base.toml"),
        "read" => include_str!("../../sandbox-profiles/read.toml"),
        "search" => include_str!("../../sandbox-profiles/search.toml"),
        "write" => include_str!("../../sandbox-profiles/write.toml"),
        "shell" => include_str!("../../sandbox-profiles/shell.toml"),
        _ => return None,
    })
}

/// Reads one loadable profile.
///
/// # Errors
/// Anything that is not exactly a profile: see [`ProfileError`].
pub fn parse_profile(name: &str, text: &str) -> Result<ProfileFile, ProfileError> {
    let file: ProfileFile = parse(name, text)?;
    check_version(name, file.version)?;
    match file.include.as_slice() {
        [base] if base == "base" => Ok(file),
        other => Err(ProfileError::Include { file: name.to_owned(), include: other.join(", ") }),
    }
}

/// Reads a base.
///
/// # Errors
/// As [`parse_profile`]; also a private folder without a mode, a link without a target.
pub fn parse_base(text: &str) -> Result<BaseFile, ProfileError> {
    let file: BaseFile = parse("base", text)?;
    check_version("base", file.version)?;
    for place in &file.place {
        let wrong = match place.kind {
            PlaceKind::Link => place.to.is_none() || place.mode.is_some(),
            PlaceKind::Private => place.to.is_some() || place.mode_bits().is_none(),
            _ => place.to.is_some() || place.mode.is_some(),
        };
        let misplaced = place.paths.iter().find(|path| *path != "~" && !path.starts_with('/'));
        if wrong || misplaced.is_some() {
            let which = misplaced.or(place.paths.first()).map_or("", String::as_str);
            let why = format!("the place {which} needs an absolute path; a link needs to, a private folder a mode");
            return Err(ProfileError::Parse { file: "base".to_owned(), why });
        }
    }
    Ok(file)
}

impl PlaceEntry {
    /// The mode of a private folder.
    #[must_use]
    pub fn mode_bits(&self) -> Option<u32> {
        u32::from_str_radix(self.mode.as_deref()?, 8).ok().filter(|mode| *mode <= 0o7777)
    }
}

/// Reads the sets.
///
/// # Errors
/// As [`parse_profile`].
pub fn parse_syscalls(text: &str) -> Result<SyscallsFile, ProfileError> {
    let file: SyscallsFile = parse("syscalls", text)?;
    check_version("syscalls", file.version)?;
    Ok(file)
}

/// The base of this build, read once.
///
/// # Errors
/// See [`parse_base`].
pub fn base() -> Result<&'static BaseFile, ProfileError> {
    static BASE: OnceLock<Result<BaseFile, ProfileError>> = OnceLock::new();
    BASE.get_or_init(|| parse_base(text("base").unwrap_or_default())).as_ref().map_err(Clone::clone)
}

/// The sets of this build, read once.
///
/// # Errors
/// See [`parse_syscalls`].
pub fn sets() -> Result<&'static SyscallsFile, ProfileError> {
    static SETS: OnceLock<Result<SyscallsFile, ProfileError>> = OnceLock::new();
    SETS.get_or_init(|| parse_syscalls(text("syscalls").unwrap_or_default())).as_ref().map_err(Clone::clone)
}

/// A loadable profile of this build. Only this file is read.
///
/// # Errors
/// `Unknown`, or see [`parse_profile`].
pub fn profile(name: &str) -> Result<ProfileFile, ProfileError> {
    match text(name) {
        Some(text) if super::NAMES.contains(&name) => parse_profile(name, text),
        _ => Err(ProfileError::Unknown(name.chars().take(crate::limits::NAME_CHARS).collect())),
    }
}

fn parse<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> Result<T, ProfileError> {
    toml::from_str(text).map_err(|e| ProfileError::Parse { file: name.to_owned(), why: e.to_string() })
}

fn check_version(name: &str, version: u32) -> Result<(), ProfileError> {
    if version == 1 { Ok(()) } else { Err(ProfileError::Version { file: name.to_owned(), version }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "version = 1\ninclude = [\"base\"]\nabout = \"x\"\nprograms = false\ndeny_tcp = true\n[syscalls]\ndefault = \"EPERM\"\nreason = \"y\"\n";

    #[test]
    fn all_files_parse() {
        base().unwrap();
        sets().unwrap();
        for name in super::super::NAMES {
            profile(name).unwrap();
        }
    }

    #[test]
    fn what_is_not_exactly_a_profile_does_not_parse() {
        parse_profile("t", SMALL).unwrap();
        for (from, to) in [
            ("version = 1", "version = 2"),
            ("version = 1\n", ""),
            ("[\"base\"]", "[\"shell\"]"),
            ("[\"base\"]", "[]"),
            ("programs = false\n", ""),
            ("deny_tcp = true\n", ""),
            ("\"y\"", "\"  \""),
            ("reason = \"y\"\n", ""),
            ("about", "extra = 1\nabout"),
        ] {
            let bad = SMALL.replacen(from, to, 1);
            assert!(parse_profile("t", &bad).is_err(), "{bad}");
        }
        for tail in [
            "[[path]]\nat = \"system\"\nrights = \"read\"\n",
            "[[path]]\nat = \"moon\"\nrights = \"read\"\nreason = \"r\"\n",
            "[[path]]\nat = \"system\"\nrights = \"write\"\nreason = \"r\"\n",
            "[[syscalls.rule]]\ncalls = []\naction = \"allow\"\nreason = \"r\"\n",
            "[[syscalls.rule]]\ncalls = [\"read\"]\naction = \"allow\"\nwhen = []\nreason = \"r\"\n",
            "[[syscalls.rule]]\ncalls = [\"read\"]\naction = \"allow\"\n",
            "[[rlimit]]\nname = \"stack\"\nvalue = \"0\"\nreason = \"r\"\n",
            "[[rlimit]]\nname = \"core\"\nvalue = \"1\"\nreason = \"r\"\n",
        ] {
            assert!(parse_profile("t", &format!("{SMALL}{tail}")).is_err(), "{tail}");
        }
    }

    #[test]
    fn only_the_four_load() {
        for name in ["base", "syscalls", "Shell", "", "../shell"] {
            assert!(matches!(profile(name), Err(ProfileError::Unknown(_))), "{name}");
        }
    }
}
