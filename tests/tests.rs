//! All integration tests in one program: one link instead of many.
#![allow(missing_docs, reason = "tests")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "tests say what went wrong by failing; the helpers of tests are outside of test functions"
)]

mod support;

/// Who may import whom, where things are started, how large files are.
mod architecture;
/// The command line, sessions and MCP from outside.
mod cli;
/// Ways out, really tried from inside.
#[cfg(target_arch = "x86_64")]
mod escape;
/// Names that programs may not make.
mod guard;
/// Hosts that lack something, or lie.
#[cfg(target_arch = "x86_64")]
mod ladder;
/// Resolution, patterns and the scan.
mod path;
/// The road of a call in a session.
mod pipeline;
/// Files of all layers, decisions as data, parser and schema.
mod policy;
/// The laws of layers and of the readers, on seeded input.
mod policy_laws;
/// Laws of the sandbox profiles, and every filter executed.
mod profiles;
/// Programs from their start to their end.
mod programs;
/// The fuzz properties over their corpus and seeded input.
mod properties;
/// Faults that were found once.
mod regression;
