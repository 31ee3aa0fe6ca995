//! stockade: a security-first executor for the tools of AI coding agents, built around OS isolation.
#![doc = include_str!("README.md")]

pub mod access;
pub mod call;
pub mod cli;
pub mod confine;
pub mod confinement;
pub mod launcher;
pub mod limits;
pub mod mcp;
pub mod path;
pub mod policy;
pub mod profile;
pub mod supervisor;
pub mod sys;
pub mod sysnum;
pub mod tools;
pub mod verdict;
pub mod wire;
pub mod worker;
