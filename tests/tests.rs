//! All integration tests in one program: one link, one compile.

mod architecture;
mod cli;
mod path;
mod properties;
mod support;
