//! All integration tests in one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "the helpers of tests are outside of test functions")]

mod path;
mod properties;
