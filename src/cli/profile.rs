//! **What this room is for:** `stockade profile`: the sandbox profiles that are built in. **Who may enter:** the command
//! line. **Never done here:** filling a profile in. **Where the proof is:** `tests/cli.rs`.

use serde_json::json;

use super::{USAGE, args, text};
use crate::profile;

/// Lists the profiles or shows one.
pub(super) fn profile(what: args::Profile) -> u8 {
    match what {
        args::Profile::List { json } => {
            let all = profile::list();
            if json {
                text::out(&text::json_line(&json!({ "profiles": all })));
            } else {
                let row = |p: &profile::Summary| format!("{:10} {}\n", p.name, p.about);
                text::out_text(&all.iter().map(row).collect::<String>());
            }
            0
        }
        args::Profile::Show { json, name } => match profile::show(&name) {
            Some(source) if json => {
                text::out(&text::json_line(&json!({ "name": name, "toml": source })));
                0
            }
            Some(source) => {
                text::out_text(&source);
                0
            }
            None => {
                let names: Vec<_> = profile::list().into_iter().map(|p| p.name).collect();
                text::complain(&format!("there is no profile of that name; there are: {}", names.join(", ")));
                USAGE
            }
        },
    }
}
