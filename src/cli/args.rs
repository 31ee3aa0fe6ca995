//! **What this room is for:** the command line as types. **Who may enter:** the commands beside it. **Never done here:**
//! reading files, starting anything. **Where the proof is:** the tests below and `tests/cli.rs`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::supervisor::{SessionKind, Settings};

/// A security-first executor for the tools of AI coding agents.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, disable_help_subcommand = true)]
pub(super) struct Line {
    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run one command (a build, a test run, a whole agent) confined; standard streams pass through
    Run {
        #[command(flatten)]
        options: Options,
        /// Program and arguments, after `--`
        #[arg(last = true, required = true, value_name = "CMD")]
        argv: Vec<OsString>,
    },
    /// Make one tool call
    Call {
        #[command(flatten)]
        options: Options,
        /// Name or alias of the tool
        tool: OsString,
        /// The arguments as a JSON object; `-` reads them from standard input
        #[arg(value_name = "JSON", allow_hyphen_values = true)]
        arguments: OsString,
    },
    /// Read one call a line on standard input, write one result a line on standard output
    Session {
        #[command(flatten)]
        options: Options,
    },
    /// Serve the Model Context Protocol on standard input and output
    Mcp {
        #[command(flatten)]
        options: Options,
        /// Add output schemas and structuredContent to every result
        #[arg(long)]
        structured: bool,
    },
    /// List every tool: class, arguments, availability
    Tools {
        #[command(flatten)]
        options: Options,
        /// Print a reference in Markdown
        #[arg(long, conflicts_with = "json")]
        markdown: bool,
    },
    /// Check, show and explain policies
    #[command(subcommand)]
    Policy(Policy),
    /// List and show the sandbox profiles
    #[command(subcommand)]
    Profile(Profile),
    /// What this kernel offers and what each guarantee rests on here, proved by live probes
    Doctor {
        #[command(flatten)]
        options: Options,
    },
    /// Check, read and export the audit log (not built in this version)
    #[command(subcommand)]
    Audit(Audit),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Debug, Subcommand)]
pub(super) enum Policy {
    /// Look for errors in policy files
    Check {
        /// Report as JSON
        #[arg(long)]
        json: bool,
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// The effective policy and the layer of each value
    Show {
        #[command(flatten)]
        options: Options,
    },
    /// Why one access is allowed or not
    Explain {
        #[command(flatten)]
        options: Options,
        /// Name or alias of the tool
        tool: String,
        /// A path, a command or a URL
        #[arg(value_name = "PATH|COMMAND|URL", allow_hyphen_values = true)]
        subject: String,
    },
    /// Run the policy's own tests (not built in this version)
    Test {
        #[command(flatten)]
        options: Options,
    },
    /// Print the JSON Schema of policy files
    Schema,
    /// Print a commented policy file to start from
    Init,
}

#[derive(Debug, Subcommand)]
pub(super) enum Profile {
    /// List the sandbox profiles
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one sandbox profile
    Show {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Its name
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum Audit {
    /// Check the chain
    Verify(Unbuilt),
    /// Read it
    Show(Unbuilt),
    /// Export it
    Export(Unbuilt),
}

/// Takes anything, so that the answer is always that this is not built.
#[derive(Debug, Args)]
pub(super) struct Unbuilt {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Options that stand before TOOL or `--`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The workspace
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) root: PathBuf,
    /// A policy file; may be repeated, each can only tighten what came before it
    #[arg(long, value_name = "FILE")]
    pub(super) policy: Vec<PathBuf>,
    /// How strongly calls are confined: default or strict
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// Who says yes: ask, accept_edits, plan, open or unattended
    #[arg(long, value_name = "MODE")]
    pub(super) mode: Option<String>,
    /// Write an audit log (not built in this version)
    #[arg(long, value_name = "FILE")]
    pub(super) audit: Option<PathBuf>,
    /// Answer with JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Accept missing guarantees; each result lists them
    #[arg(long)]
    pub(super) allow_degraded: bool,
}

impl Options {
    /// What the supervisor is started with.
    pub(super) fn settings(self, kind: SessionKind) -> Settings {
        Settings {
            root: self.root,
            policies: self.policy,
            profile: self.profile,
            mode: self.mode,
            allow_degraded: self.allow_degraded,
            kind,
            audit: self.audit,
        }
    }
}

impl Command {
    /// The common options, where the command has them.
    pub(super) fn options(&self) -> Option<&Options> {
        match self {
            Command::Run { options, .. }
            | Command::Call { options, .. }
            | Command::Session { options }
            | Command::Mcp { options, .. }
            | Command::Tools { options, .. }
            | Command::Doctor { options }
            | Command::Policy(Policy::Show { options } | Policy::Explain { options, .. } | Policy::Test { options }) => {
                Some(options)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn options_come_before_the_tool_and_values_may_look_like_options() {
        let line = Line::try_parse_from(["stockade", "call", "--root", "/w", "--json", "ls", "-"]).unwrap();
        let Command::Call { options, tool, arguments } = line.command else { panic!("not a call") };
        assert!(options.json && tool == "ls" && arguments == "-" && options.root.as_os_str() == "/w");
        let line = Line::try_parse_from(["stockade", "call", "", "-5"]).unwrap();
        let Command::Call { tool, arguments, .. } = line.command else { panic!("not a call") };
        assert!(tool.is_empty() && arguments == "-5");
    }

    #[test]
    fn run_wants_two_dashes_and_keeps_what_follows() {
        let line = Line::try_parse_from(["stockade", "run", "--", "sh", "--root", "x", "--", "y"]).unwrap();
        let Command::Run { argv, .. } = line.command else { panic!("not a run") };
        assert_eq!(argv, ["sh", "--root", "x", "--", "y"]);
        assert!(Line::try_parse_from(["stockade", "run", "sh"]).is_err());
        assert!(Line::try_parse_from(["stockade", "run", "--"]).is_err());
    }
}
