//! **What this room is for:** the tools: each is one file with a pure `plan` (arguments only) and a confined `run`
//! (content), and one line in [`TOOLS`]. **Who may enter:** the supervisor for specs and plans, the worker for `run`.
//! **Never done here:** opening a path by its name, judging, printing. **Where the proof is:** `tools/tests.rs`.

use std::os::fd::OwnedFd;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::access::{Asks, RiskClass};
use crate::call::{Outcome, Programs, Refusal, ToolOptions};
use crate::confine::Confined;

pub mod args;
mod atomic;
mod bash;
mod change;
mod diff;
mod edit_file;
mod folder;
mod glob;
mod grep;
mod ignores;
mod json;
mod ls;
mod matches;
mod multi_edit;
mod read_file;
mod replace;
mod search_text;
pub mod text;
mod walk;
mod write_file;

#[cfg(test)]
mod tests;

/// What a tool is: everything that lists, schemas, policies and help are made from.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Canonical name.
    pub name: &'static str,
    /// Other names that `call`, MCP and rules accept.
    pub aliases: &'static [&'static str],
    /// Risk class.
    pub class: RiskClass,
    /// When it asks.
    pub asks: Asks,
    /// Sandbox profile of its worker.
    pub profile: &'static str,
    /// One sentence for models and people.
    pub summary: &'static str,
    /// A call that works.
    pub example: &'static str,
    /// The arguments.
    pub args: &'static [args::Arg],
}

/// What a tool needs of one path. The order of a plan's paths is the order of [`Given::paths`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// An existing regular file, opened for reading by the supervisor.
    ReadFile,
    /// An existing folder to list.
    ListDir,
    /// An existing folder or file to search.
    Search,
    /// A file that is to be written; its folder is given, and the old file when there is one. `must_exist`: an edit.
    WriteFile {
        /// A missing file is `not_found`.
        must_exist: bool,
    },
    /// An existing folder to stand in.
    Enter,
}

/// What a call asks for, made from its arguments alone.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Paths as claimed, and what is needed of each.
    pub paths: Vec<(String, Need)>,
    /// The shell command that policy rules judge, if there is one.
    pub command: Option<String>,
}

/// One path, resolved and opened.
#[derive(Debug)]
pub struct GivenPath {
    /// Root-relative, resolved; `.` is the root. For showing and for rows, never for opening.
    pub shown: String,
    /// Absolute path of the same in the view.
    pub absolute: std::path::PathBuf,
    /// `ReadFile`, `WriteFile` on an existing file: open for reading. `ListDir`, `Search`, `Enter`: the folder (or the
    /// file, for `Search`) opened for reading in the worker's own view.
    pub file: Option<OwnedFd>,
    /// `WriteFile`: the deepest existing folder above the file.
    pub parent: Option<OwnedFd>,
    /// `WriteFile`: folders to be made below `parent`, outermost first.
    pub missing: Vec<String>,
    /// `WriteFile`: the file's own name.
    pub name: String,
}

/// Everything a tool body is given.
#[derive(Debug)]
pub struct Given {
    /// The plan's paths, in its order.
    pub paths: Vec<GivenPath>,
    /// Switches of the policy.
    pub options: ToolOptions,
}

/// A tool: one file, one line in [`TOOLS`].
pub trait Tool {
    /// The arguments after [`args::validate`]; deserialising them cannot fail then.
    type Args: DeserializeOwned + Serialize;
    /// What it is.
    const SPEC: Spec;
    /// Supervisor side: looks at the arguments only, never at content.
    ///
    /// # Errors
    /// A refusal `invalid_arguments` for what the argument table cannot say (an offset past a limit, `..` in a pattern).
    fn plan(args: &Self::Args) -> Result<Plan, Refusal>;
    /// Worker side: behind the shut door.
    fn run(door: &Confined, args: Self::Args, given: Given, programs: &mut dyn Programs) -> Outcome;
}

/// A tool without its types.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// What it is.
    pub spec: Spec,
    /// Validated arguments → plan.
    pub plan: fn(&Map<String, Value>) -> Result<Plan, Refusal>,
    /// Validated arguments → outcome. Called by the worker alone.
    pub run: fn(&Confined, Map<String, Value>, Given, &mut dyn Programs) -> Outcome,
}

/// Every tool, sorted by name: specs, schemas, help and dispatch are made from this.
pub static TOOLS: &[Entry] = &[
    entry::<bash::Bash>(),
    entry::<edit_file::EditFile>(),
    entry::<glob::Glob>(),
    entry::<grep::Grep>(),
    entry::<ls::Ls>(),
    entry::<multi_edit::MultiEdit>(),
    entry::<read_file::ReadFile>(),
    entry::<search_text::SearchText>(),
    entry::<write_file::WriteFile>(),
];

/// The tool of this name or alias.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    TOOLS.iter().find(|entry| entry.spec.name == name || entry.spec.aliases.contains(&name))
}

/// Erases a tool's types.
#[must_use]
pub const fn entry<T: Tool>() -> Entry {
    Entry { spec: T::SPEC, plan: plan_of::<T>, run: run_of::<T> }
}

fn typed<T: Tool>(args: Map<String, Value>) -> Result<T::Args, Refusal> {
    serde_json::from_value(Value::Object(args)).map_err(|error| {
        args::invalid(format!("The arguments of {} do not fit: {error}.", T::SPEC.name), T::SPEC.example)
    })
}

fn plan_of<T: Tool>(args: &Map<String, Value>) -> Result<Plan, Refusal> {
    T::plan(&typed::<T>(args.clone())?)
}

fn run_of<T: Tool>(door: &Confined, args: Map<String, Value>, given: Given, programs: &mut dyn Programs) -> Outcome {
    match typed::<T>(args) {
        Ok(args) => T::run(door, args, given, programs),
        Err(refusal) => refusal.into(),
    }
}
