//! **What this room is for:** `stockade profile`: the sandbox profiles that are built in. **Who may enter:** the command
//! line. **Never done here:** filling a profile in. **Where the proof is:** `tests/cli.rs`.

use serde_json::json;

use super::{USAGE, args, text};
use crate::profile;

/// Lists the profiles or shows one.
pub(super) fn profile(what: args::Profile) -> u8 {
    let done = match what {
        args::Profile::List { json } => profile::list().map(|all| print_list(&all, json)),
        args::Profile::Show { json, name } => profile::show(&name).map(|shown| {
            if json {
                text::out(&text::json_line(&shown));
            } else {
                text::out_text(&shown.text());
            }
        }),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            text::complain(&error.to_string());
            USAGE
        }
    }
}

fn print_list(all: &[(&'static str, String)], json: bool) {
    if json {
        let all: Vec<_> = all.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
        text::out(&text::json_line(&json!({ "profiles": all })));
    } else {
        text::out_text(&all.iter().map(|(name, about)| format!("{name:10} {about}\n")).collect::<String>());
    }
}
