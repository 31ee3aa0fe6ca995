//! **What this room is for:** the names of all tools of the contract, built or not, so that a policy may name a tool that
//! this version does not have, while a typo is an error. **Who may enter:** the policy reader and `decide`.
//! **Never done here:** saying whether a tool is there. **Where the proof is:** the tests below.

/// Canonical names, sorted.
pub const TOOLS: &[&str] = &[
    "apply_patch",
    "ask",
    "ast_query",
    "bash",
    "browser_back",
    "browser_cdp",
    "browser_click",
    "browser_console",
    "browser_dialog",
    "browser_get_images",
    "browser_navigate",
    "browser_press",
    "browser_screenshot",
    "browser_scroll",
    "browser_snapshot",
    "browser_status",
    "browser_type",
    "browser_vision",
    "config_status",
    "cronjob",
    "delegate_task",
    "delete_file",
    "edit_file",
    "execute_code",
    "find_callers",
    "find_references",
    "find_symbol",
    "forget",
    "glob",
    "grep",
    "image_edit",
    "image_generate",
    "impact_analysis",
    "knowledge_code_query",
    "knowledge_memory_deactivate",
    "knowledge_memory_inspect",
    "ls",
    "memory_curate",
    "memory_file_compact",
    "memory_file_compaction_restore",
    "memory_read",
    "memory_search",
    "move_file",
    "multi_edit",
    "notebook_edit",
    "plan",
    "playbook_plan",
    "process",
    "read_file",
    "read_many_files",
    "recall",
    "remember",
    "repo_map",
    "search_code",
    "search_text",
    "session_search",
    "skill",
    "skill_inspect",
    "skill_list",
    "skill_search",
    "terminal_inspect",
    "todo_write",
    "tool_search",
    "trajectory_record",
    "vision_analyze",
    "voice_speak",
    "voice_transcribe",
    "web_crawl",
    "web_fetch",
    "web_search",
    "write_file",
];

/// Other spellings and what they stand for, sorted. Dotted forms of `memory`, `browser`, `image`, `voice`, `vision` and
/// `knowledge` names are not here: [`canonical`] turns their dots into underscores.
const ALIASES: &[(&str, &str)] = &[
    ("agent", "delegate_task"),
    ("config.compression.status", "config_status"),
    ("edit", "edit_file"),
    ("explore", "delegate_task"),
    ("fetch", "web_fetch"),
    ("file.glob", "glob"),
    ("file.grep", "grep"),
    ("file.patch", "apply_patch"),
    ("file.read", "read_file"),
    ("file.replace", "edit_file"),
    ("file.search", "search_text"),
    ("file.write", "write_file"),
    ("list_dir", "ls"),
    ("multiedit", "multi_edit"),
    ("notebook.edit", "notebook_edit"),
    ("playbook.plan", "playbook_plan"),
    ("process.list", "process"),
    ("process.logs", "process"),
    ("process.start", "process"),
    ("process.stop", "process"),
    ("process_manager", "process"),
    ("python", "execute_code"),
    ("read", "read_file"),
    ("skill.inspect", "skill_inspect"),
    ("skill.invoke", "skill"),
    ("skill.list", "skill_list"),
    ("skill.search", "skill_search"),
    ("subagent", "delegate_task"),
    ("symbols", "find_symbol"),
    ("task", "delegate_task"),
    ("terminal.inspect", "terminal_inspect"),
    ("terminal.run", "bash"),
    ("todo", "todo_write"),
    ("trajectory.record", "trajectory_record"),
    ("web.crawl", "web_crawl"),
    ("web.extract", "web_fetch"),
    ("web.fetch", "web_fetch"),
    ("web.search", "web_search"),
    ("websearch", "web_search"),
    ("write", "write_file"),
];

/// What a rule's `match` means for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectKind {
    /// A shell command.
    Command,
    /// A path of the workspace.
    Path,
    /// A host or an origin.
    Host,
    /// A query, a name, nothing: compared as plain text.
    Text,
}

/// The canonical name behind a name or an alias; names of bridged tools (`mcp__SERVER__TOOL`) stand for themselves.
#[must_use]
pub fn canonical(name: &str) -> Option<String> {
    if name.len() > crate::limits::NAME_CHARS {
        return None;
    }
    if let Ok(at) = TOOLS.binary_search(&name) {
        return TOOLS.get(at).map(|&found| found.to_owned());
    }
    if let Ok(at) = ALIASES.binary_search_by_key(&name, |&(alias, _)| alias) {
        return ALIASES.get(at).map(|&(_, found)| found.to_owned());
    }
    if is_bridged(name) {
        return Some(name.to_owned());
    }
    let dotted = ["memory.", "browser.", "image.", "voice.", "vision.", "knowledge."];
    if dotted.iter().any(|family| name.starts_with(family)) {
        let flat = name.replace('.', "_");
        return TOOLS.binary_search(&flat.as_str()).ok().map(|_| flat);
    }
    None
}

fn is_bridged(name: &str) -> bool {
    let Some((server, tool)) = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) else { return false };
    let plain =
        |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    plain(server) && plain(tool)
}

/// Whether `pattern` (a canonical name, or a beginning and `*`) names at least one tool that can exist.
#[must_use]
pub fn family_exists(beginning: &str) -> bool {
    let flat = beginning.replace('.', "_");
    TOOLS.iter().any(|name| name.starts_with(&flat))
        || "mcp__".starts_with(&flat)
        || (flat.starts_with("mcp__") && flat.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'))
}

/// What the `match` of a rule for this tool is compared with.
#[must_use]
pub fn subject_kind(tool: &str) -> SubjectKind {
    match tool {
        "bash" | "process" | "terminal_inspect" => SubjectKind::Command,
        "apply_patch" | "delete_file" | "edit_file" | "glob" | "grep" | "ls" | "move_file" | "multi_edit"
        | "notebook_edit" | "read_file" | "read_many_files" | "repo_map" | "search_text" | "vision_analyze"
        | "voice_transcribe" | "write_file" => SubjectKind::Path,
        "browser_navigate" | "web_crawl" | "web_fetch" => SubjectKind::Host,
        _ => SubjectKind::Text,
    }
}

/// The tools whose name is nearest to a typo: at most three, the nearest first.
#[must_use]
pub fn similar<'a>(typo: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    if typo.len() > crate::limits::NAME_CHARS {
        return Vec::new();
    }
    let most = (typo.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> =
        names.map(|name| (distance(typo, name), name)).filter(|&(steps, _)| steps <= most).collect();
    found.sort_unstable();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Edits (one character more, less or other) between two short words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, &above) in b.iter().zip(row.iter().skip(1)) {
            let here = (corner + usize::from(x != *y)).min(above + 1).min(left + 1);
            corner = above;
            left = here;
            next.push(here);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_aliases_lead_to_them() {
        assert!(TOOLS.is_sorted() && ALIASES.is_sorted());
        for (alias, name) in ALIASES {
            assert!(TOOLS.contains(name) && !TOOLS.contains(alias), "{alias}");
        }
        assert!(TOOLS.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    }

    #[test]
    fn a_name_an_alias_and_a_typo() {
        assert_eq!(canonical("file.write").as_deref(), Some("write_file"));
        assert_eq!(canonical("memory.curate").as_deref(), Some("memory_curate"));
        assert_eq!(canonical("mcp__demo__echo").as_deref(), Some("mcp__demo__echo"));
        for bad in ["bsh", "Bash", "bash ", "", "mcp__demo", "browser.fly", "memory..curate"] {
            assert_eq!(canonical(bad), None, "{bad:?}");
        }
        assert_eq!(similar("bsh", TOOLS.iter().copied()), ["bash"]);
        assert!(
            family_exists("write") && family_exists("browser_") && family_exists("mcp__x__") && !family_exists("wrote")
        );
    }
}
