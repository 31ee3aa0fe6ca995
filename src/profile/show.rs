//! **What this room is for:** profiles for people: names, and the effective profile with every reason. **Who may enter:** the
//! command line. **Never done here:** printing; facts of a session. **Where the proof is:** tests below.

use std::fmt::Write as _;

use serde::Serialize;

use super::ProfileError;
use super::file::{self, CallEntry, LimitEntry, PathEntry, PathReason, PlaceEntry, ProfileFile};
use super::syscalls;

/// A profile with its sets opened and its base included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// One line.
    pub about: String,
    /// May it start programs?
    pub programs: bool,
    /// Does Landlock refuse TCP?
    pub deny_tcp: bool,
    /// Landlock rules.
    pub paths: Vec<PathEntry>,
    /// The answer for calls that no rule names.
    pub default: String,
    /// The filter's rules, `@sets` opened.
    pub rules: Vec<CallEntry>,
    /// Resource limits.
    pub rlimits: Vec<LimitEntry>,
    /// The view; empty for workers that start no program.
    pub view: Vec<PlaceEntry>,
    /// Toolchains below home that are readable; empty for workers that start no program.
    pub toolchains: Vec<PathReason>,
    /// Names of the system that are masked.
    pub hidden: Vec<PathReason>,
}

/// Names and one line about each loadable profile.
///
/// # Errors
/// A fault of the files.
pub fn list() -> Result<Vec<(&'static str, String)>, ProfileError> {
    super::NAMES.into_iter().map(|name| Ok((name, file::profile(name)?.about))).collect()
}

/// The effective profile of a name.
///
/// # Errors
/// `Unknown`; a fault of the files.
pub fn show(name: &str) -> Result<Shown, ProfileError> {
    let ProfileFile { about, programs, deny_tcp, path, syscalls: table, rlimit, .. } = file::profile(name)?;
    let (base, sets) = (file::base()?, file::sets()?);
    let mut rules = table.rule;
    for rule in &mut rules {
        rule.calls = syscalls::expand(&rule.calls, sets)?.into_iter().map(str::to_owned).collect();
    }
    Ok(Shown {
        name: name.to_owned(),
        about,
        programs,
        deny_tcp,
        paths: path,
        default: table.default,
        rules,
        rlimits: base.rlimit.iter().cloned().chain(rlimit).collect(),
        view: if programs { base.place.clone() } else { Vec::new() },
        toolchains: if programs { base.toolchain.clone() } else { Vec::new() },
        hidden: base.hide.clone(),
    })
}

impl Shown {
    /// As text for people. Writing into a string cannot fail, so nothing is lost by not looking.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{}: {}\n", self.name, self.about);
        let yes = |is: bool| if is { "yes" } else { "no" };
        let _ = writeln!(out, "starts programs: {} · Landlock refuses TCP: {}", yes(self.programs), yes(self.deny_tcp));
        out.push_str("\npaths\n");
        if self.paths.is_empty() {
            out.push_str("  none: nothing can be opened, files come as descriptors\n");
        }
        for entry in &self.paths {
            let _ = writeln!(out, "  {:<12} {:<10} {}", word(&entry.at), word(&entry.rights), entry.reason);
        }
        let _ = writeln!(out, "\nsystem calls (not named: {})", self.default);
        for rule in &self.rules {
            let _ = write!(out, "  {:<16}{}", rule.action, rule.calls.join(" "));
            for (index, alternative) in rule.when.iter().enumerate() {
                let _ = write!(out, "{} {alternative}", if index == 0 { " when" } else { ", or" });
            }
            if let Some(switch) = &rule.only_if {
                let _ = write!(out, " (only in sessions: {})", word(switch));
            }
            if let Some(switch) = &rule.unless {
                let _ = write!(out, " (not in sessions: {})", word(switch));
            }
            let _ = writeln!(out, "\n                  {}", rule.reason);
        }
        out.push_str("\nlimits\n");
        for entry in &self.rlimits {
            let _ = writeln!(out, "  {:<12} {:<14} {}", word(&entry.name), word(&entry.value), entry.reason);
        }
        if !self.view.is_empty() {
            out.push_str("\nview (what is not named here, in the policy or is the workspace does not exist inside)\n");
        }
        for entry in &self.view {
            let _ = writeln!(out, "  {:<8} {:<38} {}", word(&entry.kind), entry.paths.join(" "), entry.reason);
        }
        for entry in &self.toolchains {
            let _ = writeln!(out, "  {:<8} ~/{:<36} {}", "bind", entry.paths.join(" ~/"), entry.reason);
        }
        for entry in &self.hidden {
            let _ = writeln!(out, "  {:<8} {:<38} {}", "masked", entry.paths.join(" "), entry.reason);
        }
        out
    }
}

/// The word that the files use for a value.
fn word<T: Serialize>(value: &T) -> String {
    toml::Value::try_from(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_can_be_listed_and_shown() {
        let names: Vec<_> = list().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, super::super::NAMES);
        for name in names {
            let shown = show(name).unwrap();
            assert!(shown.rules.iter().flat_map(|rule| &rule.calls).all(|call| !call.starts_with('@')));
            let text = shown.text();
            for rule in &shown.rules {
                assert!(text.contains(&rule.reason.to_string()), "{name}: {}", rule.reason);
            }
        }
        assert!(show("base").is_err());
    }

    #[test]
    fn text_uses_the_words_of_the_files() {
        let text = show("shell").unwrap().text();
        for line in [
            "  system       read_exec  ",
            "  core         0  ",
            "(only in sessions: strict)",
            "  private  /tmp /var/tmp ",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
