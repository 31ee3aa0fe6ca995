//! **What this room is for:** the values of a policy, each enum with the strictest word first, and their places.
//! **Who may enter:** everybody who reads a policy. **Never done here:** merging, judging.
//! **Where the proof is:** the test below: the order of the words is the order of the values.

use std::fmt;
use std::sync::Arc;

use super::glob::Pattern;
use super::keys::{MODES, OVERWRITES, PROFILES, SHRINKS};
use crate::verdict::Layer;

macro_rules! words {
    ($(#[$about:meta])* $name:ident, $words:ident, [$($(#[$one:meta])* $variant:ident),+]) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$one])* $variant),+ }

        impl $name {
            /// All of them, the strictest first.
            pub const ALL: [$name; $words.len()] = [$($name::$variant),+];

            /// The word in the policy.
            #[must_use]
            pub fn name(self) -> &'static str {
                $words.get(self as usize).copied().unwrap_or_default()
            }

            /// The value of a word.
            #[must_use]
            pub fn named(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == word)
            }
        }
    };
}

words!(
    /// How strongly calls are confined.
    Profile,
    PROFILES,
    [
        /// What cannot be enforced is refused; no way out of the sandbox is in any schema.
        Strict,
        /// Every call is confined; what is missing is reported.
        Default
    ]
);
words!(
    /// Who says yes.
    Mode,
    MODES,
    [
        /// Nobody: a question is a no.
        Unattended,
        /// Nothing changes until a plan is approved.
        Plan,
        /// A person is asked.
        Ask,
        /// A person is asked, but not for edits of files.
        AcceptEdits,
        /// Nobody needs to be asked, but for what always asks.
        Open
    ]
);
words!(
    /// When `write_file` replaces a file that is there.
    Overwrite,
    OVERWRITES,
    [
        /// Never.
        Never,
        /// When the call says so.
        Flag,
        /// Always.
        Always
    ]
);
words!(
    /// What happens when a write makes a file much shorter.
    Shrink,
    SHRINKS,
    [
        /// It is refused.
        Refuse,
        /// The answer warns.
        Warn,
        /// Nothing.
        Off
    ]
);

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The layer.
    pub layer: Layer,
    /// The file as it was named, or the option.
    pub file: Arc<str>,
    /// The line, from 1; 0 for an option or a value that no file states.
    pub line: usize,
}

impl Place {
    /// What stockade does when nobody says anything.
    #[must_use]
    pub fn built_in() -> Self {
        Place { layer: Layer::BuiltIn, file: Arc::from("built-in"), line: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub place: Place,
}

impl<T> Placed<T> {
    /// A value that no file states.
    pub(crate) fn built_in(value: T) -> Self {
        Placed { value, place: Place::built_in() }
    }
}

/// A denied, protected or watched pattern.
#[derive(Debug, Clone)]
pub struct PathRule {
    /// The pattern.
    pub pattern: Pattern,
    /// Why.
    pub reason: String,
    /// Only a file of this name is meant; a folder of the same name, and what is in it, is not.
    pub file_only: bool,
    /// Where it stands.
    pub place: Place,
}

/// Something of a file that was not done, because it would have widened what came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where it stands.
    pub place: Place,
    /// What was not done, and what holds instead.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_values_have_one_order() {
        assert_eq!(Mode::named("accept_edits"), Some(Mode::AcceptEdits));
        assert_eq!(Mode::Unattended.name(), "unattended");
        assert!(Mode::Unattended < Mode::Open && Profile::Strict < Profile::Default);
        assert!(
            Mode::ALL.is_sorted() && Overwrite::named("flag") == Some(Overwrite::Flag) && Shrink::named("x").is_none()
        );
    }
}
