//! All integration tests in one binary.

mod path;
mod properties;
