//! Sketch of the profile room's API, only to type-check this branch.
#![allow(missing_docs)]
#[derive(Debug, serde::Serialize)]
pub struct Summary {
    pub name: String,
    pub about: String,
}
pub fn list() -> Vec<Summary> {
    Vec::new()
}
pub fn show(_name: &str) -> Option<String> {
    None
}
