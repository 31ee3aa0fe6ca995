//! **What this room is for:** `stockade policy`: check, show, explain, schema, init. **Who may enter:** the command line.
//! **Never done here:** reading TOML or deciding; that is the room `policy`. **Where the proof is:** `tests/cli.rs`.

use std::path::PathBuf;

use serde_json::json;

use super::{USAGE, args, args::Options, text};
use crate::access::{Asks, RiskClass};
use crate::policy::{self, Policy, PolicyError, Sources};
use crate::tools;

/// One of the policy commands.
pub(super) fn policy(what: args::Policy) -> u8 {
    match what {
        args::Policy::Check { json, files } => check(&files, json),
        args::Policy::Show { options } => {
            let json = options.json;
            with(options, |policy| {
                if json {
                    text::out(&text::json_line(&policy.show_json()));
                } else {
                    text::out_text(&policy.show_text());
                }
            })
        }
        args::Policy::Explain { options, tool, subject } => {
            let json = options.json;
            with(options, |policy| {
                let told = explained(policy, &tool, &subject);
                if json {
                    text::out(&text::json_line(&told));
                } else {
                    text::out_text(&told.text());
                }
            })
        }
        args::Policy::Test { .. } => super::not_built("policy test"),
        args::Policy::Schema => {
            text::out_text(policy::schema());
            0
        }
        args::Policy::Init => {
            text::out_text(policy::STARTING_FILE);
            0
        }
    }
}

/// Loads all layers and goes on, or says what is wrong.
fn with(options: Options, go: impl FnOnce(&Policy)) -> u8 {
    match policy::load(&sources(options.root, options.policy, options.profile, options.mode)) {
        Ok(policy) => {
            go(&policy);
            0
        }
        Err(error) => failed(&error),
    }
}

/// Each file for itself, as the first file on the command line would be.
fn check(files: &[PathBuf], json: bool) -> u8 {
    let mut status = 0;
    let mut found = Vec::new();
    for file in files {
        let error = policy::load(&sources(PathBuf::from("."), vec![file.clone()], None, None)).err();
        if let Some(error) = &error {
            status = USAGE;
            if !json {
                failed(error);
            }
        }
        found.push(json!({
            "file": file.to_string_lossy(), "ok": error.is_none(), "error": error.map(|e| e.render(false)),
        }));
    }
    if json {
        text::out(&text::json_line(&json!({ "ok": status == 0, "files": found })));
    } else if status == 0 {
        text::out_text("no errors");
    }
    status
}

fn failed(error: &PolicyError) -> u8 {
    super::policy_failed(error);
    USAGE
}

fn sources(root: PathBuf, files: Vec<PathBuf>, profile: Option<String>, mode: Option<String>) -> Sources {
    Sources::of_process(root, files, profile, mode)
}

/// The tool by any of its names; one that does not exist is judged like the most powerful.
fn explained(policy: &Policy, tool: &str, subject: &str) -> policy::Explanation {
    let entry = tools::find(tool);
    let (name, class, asks) = entry.map_or((tool, RiskClass::WorkspaceWrite, Asks::Yes), |entry| {
        (entry.spec.name, entry.spec.class, entry.spec.asks)
    });
    match policy::access_of(policy, name, subject) {
        Ok(access) => policy::explain(policy, &policy::Request { tool: name, class, asks, accesses: &[access] }),
        Err(outside) => outside,
    }
}
