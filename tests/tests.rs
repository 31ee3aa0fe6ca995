//! All integration tests in one binary: one link instead of many.
#![allow(missing_docs, reason = "tests")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "tests say what went wrong by failing"
)]

mod support;

/// Who may import whom, where things are started, how large files are.
mod architecture;
/// The command line, sessions and MCP from outside.
mod cli;
