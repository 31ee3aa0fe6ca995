//! **What this room is for:** every table and key of a policy file, what it holds, and whether this version enforces it.
//! **Who may enter:** the reader; the test that compares it with `policies/policy.schema.json`.
//! **Never done here:** reading. **Where the proof is:** `tests/policy.rs`.
//!
//! A key that is not enforced yet is known here and refused when it asks for something: it would be worse to take a
//! setting and not do it.

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// true or false.
    Bool,
    /// An integer in a range, both ends included.
    Int(i64, i64),
    /// One line of text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A table of texts.
    TextMap,
}

/// Whether this version does what a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// It does.
    Yes,
    /// It does so only for these values (as they are written): off, or what is said when the key is absent.
    Only(&'static [&'static str]),
    /// Part of a table that is refused as a whole unless its other keys say "off".
    No,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Must be there.
    pub required: bool,
    /// Whether it is enforced.
    pub built: Built,
}

/// One table; the keys at the top of the file are the table with the empty name.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// `[[name]]`.
    pub many: bool,
    /// Only the files that are shipped may have it.
    pub shipped_only: bool,
    /// Its keys.
    pub keys: &'static [Key],
}

const LARGE: i64 = i64::MAX;
const OFF: Built = Built::Only(&["false"]);

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, required: false, built: Built::Yes }
}

const fn must(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, required: true, built: Built::Yes }
}

const fn only(name: &'static str, kind: Kind, values: &'static [&'static str]) -> Key {
    Key { name, kind, required: false, built: Built::Only(values) }
}

const fn unbuilt(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, required: false, built: Built::No }
}

const fn one(name: &'static str, keys: &'static [Key]) -> Table {
    Table { name, many: false, shipped_only: false, keys }
}

const fn many(name: &'static str, keys: &'static [Key]) -> Table {
    Table { name, many: true, shipped_only: false, keys }
}

/// Profiles, the strictest first.
pub const PROFILES: &[&str] = &["strict", "default"];
/// Modes, the strictest first.
pub const MODES: &[&str] = &["unattended", "plan", "ask", "accept_edits", "open"];
/// Networks, the strictest first.
pub const NETWORKS: &[&str] = &["none", "allowlist", "open"];
/// Verdicts of a rule.
pub const VERDICTS: &[&str] = &["deny", "ask", "allow"];
/// Built-in policies that `extends` may name.
pub const BUILT_INS: &[&str] = &["default", "strict", "ci", "audited"];
/// `[write] overwrite`, the strictest first.
pub const OVERWRITES: &[&str] = &["never", "flag", "always"];
/// `[write] shrink`, the strictest first.
pub const SHRINKS: &[&str] = &["refuse", "warn", "off"];

const PROVIDER: &[Key] = &[
    unbuilt("provider", Kind::OneOf(&["openai", "command", "ocr"])),
    unbuilt("url", Kind::Text),
    unbuilt("model", Kind::Text),
    unbuilt("key_env", Kind::Text),
    unbuilt("command", Kind::Texts),
];

/// All tables.
pub const TABLES: &[Table] = &[
    one(
        "",
        &[
            must("version", Kind::Int(1, 1)),
            key("extends", Kind::OneOf(BUILT_INS)),
            key("profile", Kind::OneOf(PROFILES)),
            key("mode", Kind::OneOf(MODES)),
        ],
    ),
    one(
        "filesystem",
        &[
            key("read", Kind::Texts),
            key("write", Kind::Texts),
            key("protect", Kind::Texts),
            key("allow_write", Kind::Texts),
        ],
    ),
    many("deny_path", &[must("pattern", Kind::Text), key("reason", Kind::Text)]),
    one(
        "network",
        &[
            Key { name: "mode", kind: Kind::OneOf(NETWORKS), required: false, built: Built::Only(&["none", "open"]) },
            only("allow", Kind::Texts, &[""]),
            only("allow_private", Kind::Texts, &[""]),
        ],
    ),
    one("env", &[key("pass", Kind::Texts), key("set", Kind::TextMap)]),
    one(
        "limits",
        &[
            key("bash_timeout_ms", Kind::Int(1, LARGE)),
            key("run_timeout_ms", Kind::Int(1, LARGE)),
            key("memory_bytes", Kind::Int(1, LARGE)),
            key("pids", Kind::Int(1, LARGE)),
            key("file_bytes", Kind::Int(1, LARGE)),
            key("open_files", Kind::Int(1, LARGE)),
            key("private_bytes", Kind::Int(1, LARGE)),
        ],
    ),
    many(
        "rule",
        &[
            must("tool", Kind::Text),
            key("match", Kind::Text),
            must("verdict", Kind::OneOf(VERDICTS)),
            key("reason", Kind::Text),
            key("message", Kind::Text),
        ],
    ),
    many("hard_block", &[must("tool", Kind::Text), key("match", Kind::Text), key("reason", Kind::Text)]),
    one("require", &[key("guarantees", Kind::Texts)]),
    many(
        "test",
        &[
            must("tool", Kind::Text),
            key("op", Kind::OneOf(&["read", "write", "list", "search", "run"])),
            key("path", Kind::Text),
            key("command", Kind::Text),
            must("expect", Kind::OneOf(&["allow", "ask", "deny", "block"])),
        ],
    ),
    one("tools", &[key("disable", Kind::Texts)]),
    one("read", &[only("auto_outline_bytes", Kind::Int(0, LARGE), &["0"])]),
    one("write", &[key("overwrite", Kind::OneOf(OVERWRITES)), key("shrink", Kind::OneOf(SHRINKS))]),
    one("search", &[key("exclude_generated", Kind::Bool), key("secret_globs", Kind::Texts)]),
    one("daemons", &[key("enabled", Kind::Bool), key("max", Kind::Int(1, 16))]),
    // ---- known, not enforced by this version
    one("todo", &[Key { name: "strict", kind: Kind::Bool, required: false, built: OFF }]),
    many(
        "hook",
        &[
            unbuilt("event", Kind::OneOf(&["before_call", "after_call"])),
            unbuilt("tool", Kind::Text),
            unbuilt("command", Kind::Texts),
            unbuilt("timeout_ms", Kind::Int(1, LARGE)),
        ],
    ),
    one(
        "after_write",
        &[
            Key { name: "format", kind: Kind::Bool, required: false, built: OFF },
            unbuilt("glob", Kind::Text),
            unbuilt("formatter", Kind::Texts),
            Key { name: "diagnostics", kind: Kind::Bool, required: false, built: OFF },
        ],
    ),
    one("taint", &[only("mode", Kind::OneOf(&["warn", "off", "confirm", "deny"]), &["warn", "off"])]),
    one(
        "canary",
        &[only("mode", Kind::OneOf(&["deny", "off", "warn"]), &["deny", "off"]), only("tokens", Kind::Texts, &[""])],
    ),
    one(
        "offload",
        &[
            only("threshold_chars", Kind::Int(0, LARGE), &["0"]),
            only("head_chars", Kind::Int(0, LARGE), &["4000"]),
            only("tail_chars", Kind::Int(0, LARGE), &["1000"]),
            only("quota_bytes", Kind::Int(0, LARGE), &["67108864"]),
        ],
    ),
    one("session_log", &[Key { name: "enabled", kind: Kind::Bool, required: false, built: OFF }]),
    one("code_index", &[only("mode", Kind::OneOf(&["all", "lookup", "off"]), &["all", "off"])]),
    one(
        "web_search",
        &[
            unbuilt("provider", Kind::OneOf(&["searxng", "brave", "tavily", "ddg_html", "command"])),
            unbuilt("url", Kind::Text),
            unbuilt("key_env", Kind::Text),
            unbuilt("command", Kind::Texts),
        ],
    ),
    one("model", &[unbuilt("url", Kind::Text), unbuilt("model", Kind::Text), unbuilt("key_env", Kind::Text)]),
    one(
        "delegate",
        &[
            Key { name: "enabled", kind: Kind::Bool, required: false, built: OFF },
            only("max_batch", Kind::Int(1, 10), &["10"]),
            only("max_concurrent", Kind::Int(1, 3), &["3"]),
            only("max_calls", Kind::Int(1, 3), &["3"]),
            only("max_depth", Kind::Int(1, 1), &["1"]),
            only("timeout_ms", Kind::Int(1, 600_000), &["600000"]),
            only("max_steps", Kind::Int(1, 20), &["20"]),
        ],
    ),
    many(
        "mcp_server",
        &[
            unbuilt("name", Kind::Text),
            unbuilt("command", Kind::Texts),
            unbuilt("env", Kind::TextMap),
            unbuilt("network", Kind::Texts),
            unbuilt("write", Kind::Texts),
            unbuilt("timeout_ms", Kind::Int(1, LARGE)),
            unbuilt("trust", Kind::Text),
        ],
    ),
    many("trust", &[unbuilt("path", Kind::Text), unbuilt("sha256", Kind::Text)]),
    one(
        "browser",
        &[
            unbuilt("backend", Kind::OneOf(&["chromium", "cdp"])),
            unbuilt("executable", Kind::Text),
            unbuilt("url", Kind::Text),
            Key { name: "cloud_spend_approved", kind: Kind::Bool, required: false, built: OFF },
        ],
    ),
    one("image", PROVIDER),
    one("vision", PROVIDER),
    one("voice", PROVIDER),
    one("memory", &[only("writes", Kind::OneOf(&["ask", "off", "allow"]), &["ask", "off"])]),
    one("cron", &[only("enabled", Kind::Bool, &["true", "false"])]),
    // ---- only in what is shipped: lists that need a reason for each entry
    Table {
        name: "protect_path",
        many: true,
        shipped_only: true,
        keys: &[must("pattern", Kind::Text), must("reason", Kind::Text), key("file_only", Kind::Bool)],
    },
    Table {
        name: "watch_path",
        many: true,
        shipped_only: true,
        keys: &[must("pattern", Kind::Text), must("reason", Kind::Text)],
    },
];

/// A table by its name.
#[must_use]
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}
