//! stockade: a security-first executor for the tools of AI coding agents, built around OS isolation.
#![doc = include_str!("README.md")]

pub mod access;
pub mod call;
pub mod confine;
pub mod confinement;
pub mod limits;
pub mod policy;
pub mod tools;
pub mod verdict;
