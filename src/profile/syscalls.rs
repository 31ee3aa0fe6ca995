//! **What this room is for:** filters as data: `@sets` to names, names to numbers, argument tests to [`ArgTest`].
//! **Who may enter:** the room `profile`, tests, the fuzzer. **Never done here:** making BPF (that is `confine::seccomp`).
//! **Where the proof is:** tests below; `tests/profiles.rs` makes the calls.

use std::borrow::Cow;

use super::ProfileError;
use super::file::{CallEntry, CallTable, Switch, SyscallsFile};
use crate::confinement::{Action, ArgOp, ArgTest, CallRule, FilterPlan};
use crate::sysnum;

/// The errors that a filter may answer with, numbered as on x86-64 and aarch64. `ENOSYS` where callers fall back, `EPERM`
/// for "you may not".
const ERRORS: [(&str, i32); 5] =
    [("EPERM", 1), ("EACCES", 13), ("ENOSYS", 38), ("EPROTONOSUPPORT", 93), ("EAFNOSUPPORT", 97)];

/// A word for an answer to an [`Action`].
///
/// # Errors
/// [`ProfileError::Action`].
pub fn action(word: &str) -> Result<Action, ProfileError> {
    match word {
        "allow" => Ok(Action::Allow),
        "kill" => Ok(Action::Kill),
        _ => match ERRORS.iter().find(|(name, _)| *name == word) {
            Some((_, errno)) => Ok(Action::Errno(*errno)),
            None => Err(ProfileError::Action(word.to_owned())),
        },
    }
}

/// The names of system calls behind names and `@sets`, in order, each once.
///
/// # Errors
/// A name that nobody knows, sets in a ring.
pub fn expand<'a>(names: &'a [String], sets: &'a SyscallsFile) -> Result<Vec<&'a str>, ProfileError> {
    let mut found = Vec::new();
    expand_into(names, sets, &mut Vec::new(), &mut found)?;
    Ok(found)
}

fn expand_into<'a>(
    names: &'a [String],
    sets: &'a SyscallsFile,
    open: &mut Vec<&'a str>,
    found: &mut Vec<&'a str>,
) -> Result<(), ProfileError> {
    for name in names {
        if name.starts_with('@') {
            if open.contains(&name.as_str()) {
                return Err(ProfileError::SetRing(name.clone()));
            }
            let set = sets.set.iter().find(|set| set.name == *name);
            let set = set.ok_or_else(|| ProfileError::UnknownCall(name.clone()))?;
            open.push(name);
            expand_into(&set.calls, sets, open, found)?;
            open.pop();
        } else if !sysnum::is_known(name) {
            return Err(ProfileError::UnknownCall(name.clone()));
        } else if !found.contains(&name.as_str()) {
            found.push(name);
        }
    }
    Ok(())
}

/// One alternative: argument tests joined by `and`. `arg1 & 0xf == 3 and arg0 != 2`; 32 bits unless it starts with
/// `wide`. Numbers are decimal, `0x…` or `0o…`.
///
/// # Errors
/// [`ProfileError::ArgTest`] for anything else.
pub fn alternative(text: &str) -> Result<Vec<ArgTest>, ProfileError> {
    text.split(" and ").map(|part| test(part).ok_or_else(|| ProfileError::ArgTest(part.to_owned()))).collect()
}

fn test(text: &str) -> Option<ArgTest> {
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    let wide = words.first() == Some(&"wide");
    if wide {
        words.remove(0);
    }
    let (arg, mask, op, value) = match words.as_slice() {
        [arg, op, value] => (arg, None, *op, value),
        [arg, "&", mask, "==", value] => (arg, Some(number(mask)?), "==", value),
        _ => return None,
    };
    let index: u8 = arg.strip_prefix("arg")?.parse().ok().filter(|index| *index < 6)?;
    let value = number(value)?;
    let op = match (mask, op) {
        // A value outside the mask can never match: that is a slip, not a rule.
        (Some(mask), _) if value & !mask != 0 => return None,
        (Some(mask), _) => ArgOp::Masked(mask),
        (None, "==") => ArgOp::Eq,
        (None, "!=") => ArgOp::Ne,
        (None, "<") => ArgOp::Lt,
        (None, "<=") => ArgOp::Le,
        (None, ">") => ArgOp::Gt,
        (None, ">=") => ArgOp::Ge,
        _ => return None,
    };
    let narrow_fits = u32::try_from(value).is_ok() && mask.is_none_or(|mask| u32::try_from(mask).is_ok());
    (wide || narrow_fits).then_some(ArgTest { index, wide, op, value })
}

fn number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        u64::from_str_radix(hex, 16).ok()
    } else if let Some(octal) = text.strip_prefix("0o") {
        u64::from_str_radix(octal, 8).ok()
    } else {
        text.parse().ok()
    }
}

/// Does an entry count in a session with these switches?
#[must_use]
pub fn counts(only_if: Option<Switch>, unless: Option<Switch>, on: &[Switch]) -> bool {
    only_if.is_none_or(|switch| on.contains(&switch)) && !unless.is_some_and(|switch| on.contains(&switch))
}

/// The filter of a table in a session with these switches. Names that this architecture does not have are left out: they
/// cannot be called here.
///
/// # Errors
/// See [`expand`], [`alternative`], [`action`].
pub fn filter(table: &CallTable, sets: &SyscallsFile, on: &[Switch]) -> Result<FilterPlan, ProfileError> {
    let mut rules = Vec::new();
    for entry in &table.rule {
        // A rule that does not count is still read to its end: a slip in it must not wait for the day it counts.
        let (action, when) = read(entry)?;
        let names = expand(&entry.calls, sets)?;
        if counts(entry.only_if, entry.unless, on) {
            let numbers = names.into_iter().filter_map(sysnum::number);
            rules.extend(numbers.map(|number| CallRule { number, action, when: when.clone() }));
        }
    }
    Ok(FilterPlan { default: action(&table.default)?, rules })
}

fn read(entry: &CallEntry) -> Result<(Action, Vec<Vec<ArgTest>>), ProfileError> {
    let when = entry.when.iter().map(|text| alternative(text)).collect::<Result<_, _>>()?;
    Ok((action(&entry.action)?, when))
}

/// An errno's name, for showing.
#[must_use]
pub fn errno_name(errno: i32) -> Cow<'static, str> {
    match ERRORS.iter().find(|(_, known)| *known == errno) {
        Some((name, _)) => Cow::Borrowed(name),
        None => Cow::Owned(format!("errno {errno}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::{Reason, SetOfCalls};
    use super::*;

    fn set(name: &str, calls: &[&str]) -> SetOfCalls {
        let reason = Reason::try_from("r".to_owned()).unwrap();
        SetOfCalls { name: name.to_owned(), calls: calls.iter().map(|c| (*c).to_owned()).collect(), reason }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn sets_open_into_names_once_each() {
        let sets = SyscallsFile { version: 1, set: vec![set("@a", &["read", "@b"]), set("@b", &["write", "read"])] };
        assert_eq!(expand(&names(&["@b", "@a", "close"]), &sets).unwrap(), ["write", "read", "close"]);
        assert_eq!(expand(&names(&["@c"]), &sets), Err(ProfileError::UnknownCall("@c".into())));
        assert_eq!(expand(&names(&["raed"]), &sets), Err(ProfileError::UnknownCall("raed".into())));
    }

    #[test]
    fn a_ring_of_sets_is_an_error() {
        let sets = SyscallsFile { version: 1, set: vec![set("@a", &["@b"]), set("@b", &["read", "@a"])] };
        assert_eq!(expand(&names(&["@a"]), &sets), Err(ProfileError::SetRing("@a".into())));
    }

    #[test]
    fn argument_tests() {
        let eq = |index, value| ArgTest { index, wide: false, op: ArgOp::Eq, value };
        assert_eq!(alternative("arg0 == 16").unwrap(), [eq(0, 16)]);
        assert_eq!(alternative("arg0 == 0x10 and arg1 == 0o20").unwrap(), [eq(0, 16), eq(1, 16)]);
        let masked = ArgTest { index: 2, wide: true, op: ArgOp::Masked(0xff00), value: 0x100 };
        assert_eq!(alternative("wide arg2 & 0xff00 == 0x100").unwrap(), [masked]);
        for bad in [
            "",
            "arg6 == 1",
            "arg == 1",
            "arg0 = 1",
            "arg0 == -1",
            "arg0 == 1 or arg1 == 2",
            "arg0 & 1 == 2",
            "arg0 & 1 != 1",
            "arg0 == 0x100000000",
            "arg0 == 1 and ",
            "wide wide arg0 == 1",
        ] {
            assert!(alternative(bad).is_err(), "{bad}");
        }
        assert!(alternative("wide arg0 == 0x100000000").is_ok());
    }

    #[test]
    fn every_set_is_used_and_unique() {
        let sets = super::super::file::sets().unwrap();
        let mut used: Vec<String> = sets.set.iter().flat_map(|set| set.calls.clone()).collect();
        for name in super::super::NAMES {
            let file = super::super::file::profile(name).unwrap();
            used.extend(file.syscalls.rule.into_iter().flat_map(|rule| rule.calls));
        }
        for set in &sets.set {
            assert!(set.name.starts_with('@') && used.contains(&set.name), "{} is used by nobody", set.name);
            assert_eq!(sets.set.iter().filter(|other| other.name == set.name).count(), 1, "{} twice", set.name);
            expand(&set.calls, sets).unwrap();
        }
    }
}
