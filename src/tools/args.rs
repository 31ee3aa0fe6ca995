//! **What this room is for:** argument tables: one table gives the JSON Schema, the aliases and the validation.

/// What an argument holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A string of at least `min` characters and at most `max_bytes` bytes.
    Text {
        /// Characters at least.
        min: usize,
        /// Bytes at most.
        max_bytes: u64,
    },
    /// A path: a non-empty string of at most `PATH_BYTES` bytes.
    Path,
    /// A JSON integer in a range.
    Int {
        /// At least.
        min: i64,
        /// At most.
        max: i64,
    },
    /// true or false.
    Bool,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of objects.
    Objects {
        /// Items at least.
        min: usize,
        /// Items at most.
        max: usize,
        /// Their fields.
        fields: &'static [Arg],
    },
    /// A list of strings.
    Texts {
        /// Items at least.
        min: usize,
        /// Items at most.
        max: usize,
        /// Characters of one at most.
        max_chars: usize,
    },
}

/// One argument.
#[derive(Debug, Clone, Copy)]
pub struct Arg {
    /// Canonical name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Must be given.
    pub required: bool,
    /// Other spellings, rewritten before validation.
    pub aliases: &'static [&'static str],
    /// One sentence for models and people.
    pub about: &'static str,
    /// Only in the schema (and only accepted) when this feature of the session is on: `""` always, `daemons`, `not-strict`.
    pub when: &'static str,
}
