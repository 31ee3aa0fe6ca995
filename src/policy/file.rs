//! **What this room is for:** from checked tables to what one policy file states: patterns compiled, tool names resolved,
//! paths absolute, each value with its place. **Who may enter:** `load`. **Never done here:** merging with other files.
//! **Where the proof is:** `tests/policy.rs`, `fuzz/properties/policy.rs`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::doc::{Doc, Row, Source, Spot, read};
use super::error::PolicyError;
use super::glob::Pattern;
use super::keys::{MODES, NETWORKS, OVERWRITES, PROFILES, SHRINKS};
use super::names::{self, SubjectKind, canonical, family_exists, similar, subject_kind};
use super::values::{Mode, Overwrite, Place, Placed, Profile, Shrink};
use super::{command::CommandPattern, values::PathRule};
use crate::confinement::{Guarantee, NetworkMode};
use crate::verdict::Layer;

/// Where a file belongs and what `~` means in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) layer: Layer,
    pub(crate) name: &'a str,
    pub(crate) home: Option<&'a Path>,
    pub(crate) shipped: bool,
}

/// What one file says. `None` is "says nothing".
#[derive(Debug, Clone)]
pub(crate) struct Stated {
    pub(crate) layer: Layer,
    pub(crate) name: Arc<str>,
    pub(crate) extends: Option<Placed<String>>,
    pub(crate) profile: Option<Placed<Profile>>,
    pub(crate) mode: Option<Placed<Mode>>,
    pub(crate) network: Option<Placed<NetworkMode>>,
    pub(crate) read: Option<Vec<Placed<PathBuf>>>,
    pub(crate) write: Option<Vec<Placed<PathBuf>>>,
    pub(crate) allow_write: Option<Vec<Placed<String>>>,
    pub(crate) deny: Vec<PathRule>,
    pub(crate) protect: Vec<PathRule>,
    pub(crate) watch: Vec<PathRule>,
    pub(crate) env_pass: Option<Vec<Placed<String>>>,
    pub(crate) env_set: BTreeMap<String, Placed<String>>,
    /// By key of `[limits]`.
    pub(crate) limits: BTreeMap<&'static str, Placed<u64>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) blocks: Vec<Rule>,
    pub(crate) require: Vec<Placed<Guarantee>>,
    pub(crate) tests: Vec<PolicyTest>,
    pub(crate) disable: Vec<Placed<String>>,
    pub(crate) overwrite: Option<Placed<Overwrite>>,
    pub(crate) shrink: Option<Placed<Shrink>>,
    pub(crate) exclude_generated: Option<Placed<bool>>,
    pub(crate) secret_globs: Vec<Placed<String>>,
    pub(crate) daemons: Option<Placed<bool>>,
    pub(crate) daemons_max: Option<Placed<u64>>,
}

/// A rule or a hard block.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) tool: ToolPattern,
    pub(crate) subject: Option<Subject>,
    /// Of a rule; a hard block has none.
    pub(crate) verdict: RuleVerdict,
    pub(crate) reason: String,
    pub(crate) message: Option<String>,
    pub(crate) place: Place,
}

/// The strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuleVerdict {
    Deny,
    Ask,
    Allow,
}

/// Which tools a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToolPattern {
    Exact(String),
    /// The beginning before `*`.
    Family(String),
}

/// What a rule's `match` compares.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) text: String,
    pub(crate) command: CommandPattern,
    pub(crate) path: Option<Pattern>,
    /// No star, no class: it names one thing.
    pub(crate) exact: bool,
}

impl Rule {
    /// `bash(git *)`, or the tool alone.
    pub(crate) fn shown(&self) -> String {
        let tool = match &self.tool {
            ToolPattern::Exact(name) => name.clone(),
            ToolPattern::Family(beginning) => format!("{beginning}*"),
        };
        self.subject.as_ref().map_or(tool.clone(), |subject| format!("{tool}({})", subject.text))
    }
}

/// One of the policy's own tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyTest {
    /// Canonical name of the tool.
    pub tool: String,
    /// `read` `write` `list` `search` `run`; absent: what the tool does.
    pub op: Option<String>,
    /// The path, for tools that have one.
    pub path: Option<String>,
    /// The command, for tools that have one.
    pub command: Option<String>,
    /// `allow` `ask` `deny` `block`.
    pub expect: String,
    /// Where it stands.
    pub place: Place,
}

/// Reads a file's text into what it states.
pub(crate) fn parse(text: &str, origin: &Origin<'_>) -> Result<Stated, PolicyError> {
    let source = Source { name: origin.name, text, shipped: origin.shipped };
    let doc = read(&source)?;
    let newlines = text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(at, _)| at).collect();
    let reader = Reader { source, origin: *origin, file: Arc::from(origin.name), newlines };
    reader.stated(&doc)
}

struct Reader<'a> {
    source: Source<'a>,
    origin: Origin<'a>,
    file: Arc<str>,
    /// Bytes at which lines end: a file of a thousand rules asks for a thousand lines.
    newlines: Vec<usize>,
}

impl Reader<'_> {
    fn place(&self, at: usize) -> Place {
        Place {
            layer: self.origin.layer,
            file: self.file.clone(),
            line: self.newlines.partition_point(|&end| end < at) + 1,
        }
    }

    fn placed<T, U>(&self, spot: Spot<T>, make: impl FnOnce(T) -> U) -> Placed<U> {
        Placed { place: self.place(spot.span.start), value: make(spot.value) }
    }

    /// A word of a closed list as the value of the same number; the reader has checked the word.
    fn word<T: Copy>(&self, row: &Row, key: &str, words: &[&str], values: &[T]) -> Option<Placed<T>> {
        let spot = row.text(key)?;
        let at = words.iter().position(|word| *word == spot.value)?;
        let value = *values.get(at)?;
        Some(self.placed(spot, |_| value))
    }

    fn stated(&self, doc: &Doc) -> Result<Stated, PolicyError> {
        let (top, files, network) = (doc.table(""), doc.table("filesystem"), doc.table("network"));
        let (write, search, daemons) = (doc.table("write"), doc.table("search"), doc.table("daemons"));
        let networks = [NetworkMode::None, NetworkMode::Allowlist, NetworkMode::Open];
        let mut protect = self.patterns(&files, "protect", "protected by the policy")?;
        protect.extend(self.pattern_rows(doc, "protect_path")?);
        Ok(Stated {
            layer: self.origin.layer,
            name: self.file.clone(),
            extends: top.text("extends").map(|spot| self.placed(spot, |text| text)),
            profile: self.word(&top, "profile", PROFILES, &Profile::ALL),
            mode: self.word(&top, "mode", MODES, &Mode::ALL),
            network: self.word(&network, "mode", NETWORKS, &networks),
            read: self.trees(&files, "read")?,
            write: self.trees(&files, "write")?,
            allow_write: self.lifts(&files)?,
            deny: self.pattern_rows(doc, "deny_path")?,
            protect,
            watch: self.pattern_rows(doc, "watch_path")?,
            env_pass: self.env_names(&doc.table("env"))?,
            env_set: self.env_values(&doc.table("env"))?,
            limits: self.limits(&doc.table("limits")),
            rules: self.rules(doc, "rule")?,
            blocks: self.rules(doc, "hard_block")?,
            require: self.guarantees(&doc.table("require"))?,
            tests: self.tests(doc)?,
            disable: self.disabled(&doc.table("tools"))?,
            overwrite: self.word(&write, "overwrite", OVERWRITES, &Overwrite::ALL),
            shrink: self.word(&write, "shrink", SHRINKS, &Shrink::ALL),
            exclude_generated: search.bool("exclude_generated").map(|spot| self.placed(spot, |v| v)),
            secret_globs: self.globs(&search)?,
            daemons: daemons.bool("enabled").map(|spot| self.placed(spot, |v| v)),
            daemons_max: daemons.number("max").map(|spot| self.placed(spot, |v| v)),
        })
    }

    fn texts(&self, row: &Row, key: &str) -> Option<Vec<Spot<String>>> {
        row.texts(key).map(|spot| spot.value)
    }

    fn pattern(&self, spot: &Spot<String>) -> Result<Pattern, PolicyError> {
        Pattern::new(&spot.value, self.origin.home)
            .map_err(|why| self.source.error(&spot.span, format!("this pattern cannot be used: {why}")))
    }

    fn patterns(&self, row: &Row, key: &str, reason: &str) -> Result<Vec<PathRule>, PolicyError> {
        self.texts(row, key)
            .unwrap_or_default()
            .iter()
            .map(|spot| {
                let pattern = self.pattern(spot)?;
                let place = self.place(spot.span.start);
                Ok(PathRule { pattern, reason: reason.to_owned(), file_only: false, place })
            })
            .collect()
    }

    fn pattern_rows(&self, doc: &Doc, table: &str) -> Result<Vec<PathRule>, PolicyError> {
        doc.rows(table)
            .iter()
            .filter_map(|row| row.text("pattern").map(|spot| (row, spot)))
            // what is shipped speaks of `~` also where there is no home; then there is nothing to close
            .filter(|(_, spot)| !(self.origin.shipped && self.origin.home.is_none() && spot.value.starts_with('~')))
            .map(|(row, spot)| {
                if table == "deny_path"
                    && ["**", "**/", "**/*", "*", "/", "/*", "/**", "./**"].contains(&spot.value.as_str())
                {
                    let message = "this pattern denies everything, so nothing could be read or run";
                    return Err(self.source.error(&spot.span, message));
                }
                Ok(PathRule {
                    pattern: self.pattern(&spot)?,
                    reason: row.text("reason").map(|r| r.value).unwrap_or_default(),
                    file_only: row.bool("file_only").is_some_and(|b| b.value),
                    place: self.place(spot.span.start),
                })
            })
            .collect()
    }

    fn globs(&self, row: &Row) -> Result<Vec<Placed<String>>, PolicyError> {
        let spots = self.texts(row, "secret_globs").unwrap_or_default();
        spots.into_iter().map(|spot| self.pattern(&spot).map(|_| self.placed(spot, |text| text))).collect()
    }

    /// Whole trees of the host. Absolute or below `~`; never `/` itself and never the kernel's own file systems: a worker
    /// that has those has everything.
    fn trees(&self, row: &Row, key: &str) -> Result<Option<Vec<Placed<PathBuf>>>, PolicyError> {
        let Some(spots) = self.texts(row, key) else { return Ok(None) };
        let tree = |spot: Spot<String>| {
            let fault = |why: &str| self.source.error(&spot.span, format!("this tree cannot be opened: {why}"));
            let path = match (spot.value.strip_prefix('~'), self.origin.home) {
                (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                    home.join(rest.trim_start_matches('/'))
                }
                (Some(_), None) => return Err(fault("`~` means nothing here: the home folder is not known")),
                _ => PathBuf::from(&spot.value),
            };
            if !path.is_absolute() {
                return Err(fault("it is not absolute; the workspace itself comes from `--root`"));
            }
            if path.components().any(|part| part == Component::ParentDir) {
                return Err(fault("`..` is not understood"));
            }
            let path: PathBuf = path.components().collect();
            if path == Path::new("/") || ["/proc", "/sys", "/dev"].iter().any(|kernel| path.starts_with(kernel)) {
                return Err(fault("it would open the whole system"));
            }
            Ok(self.placed(spot, |_| path))
        };
        spots.into_iter().map(tree).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// Exact protected paths that an operator lifts.
    fn lifts(&self, row: &Row) -> Result<Option<Vec<Placed<String>>>, PolicyError> {
        let Some(spots) = self.texts(row, "allow_write") else { return Ok(None) };
        let lift = |spot: Spot<String>| {
            let fault = |why: &str| self.source.error(&spot.span, format!("`allow_write` names one exact path: {why}"));
            let path = spot.value.trim_start_matches("./").to_owned();
            if path.contains(['*', '?', '[', '\\']) {
                return Err(fault("no stars"));
            }
            if path.starts_with(['/', '~', '!']) || path.is_empty() || path.ends_with('/') {
                return Err(fault("relative to the root, and a file"));
            }
            if path.split('/').any(|name| name.is_empty() || name == "." || name == "..") {
                return Err(fault("without `.`, `..` and empty names"));
            }
            if path == ".stockade" || path.starts_with(".stockade/") {
                return Err(fault("the workspace's own policy is never written from inside"));
            }
            Ok(self.placed(spot, |_| path))
        };
        spots.into_iter().map(lift).collect::<Result<Vec<_>, _>>().map(Some)
    }

    fn env_name(&self, name: &str, span: &std::ops::Range<usize>) -> Result<(), PolicyError> {
        let plain = !name.is_empty()
            && name.len() <= 256
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let why = "a name of a variable is letters, digits and `_`, at most 256 of them; no patterns";
        if plain { Ok(()) } else { Err(self.source.error(span, why)) }
    }

    fn env_names(&self, row: &Row) -> Result<Option<Vec<Placed<String>>>, PolicyError> {
        let Some(spots) = self.texts(row, "pass") else { return Ok(None) };
        let name = |spot: Spot<String>| self.env_name(&spot.value, &spot.span).map(|()| self.placed(spot, |text| text));
        spots.into_iter().map(name).collect::<Result<Vec<_>, _>>().map(Some)
    }

    fn env_values(&self, row: &Row) -> Result<BTreeMap<String, Placed<String>>, PolicyError> {
        let mut values = BTreeMap::new();
        for (name, spot) in row.map("set").into_iter().flatten() {
            self.env_name(name, &spot.span)?;
            values.insert(name.clone(), self.placed(spot.clone(), |text| text));
        }
        Ok(values)
    }

    fn limits(&self, row: &Row) -> BTreeMap<&'static str, Placed<u64>> {
        super::keys::table("limits")
            .into_iter()
            .flat_map(|table| table.keys)
            .filter_map(|key| row.number(key.name).map(|spot| (key.name, self.placed(spot, |n| n))))
            .collect()
    }

    fn guarantees(&self, row: &Row) -> Result<Vec<Placed<Guarantee>>, PolicyError> {
        let spots = self.texts(row, "guarantees").unwrap_or_default();
        let one = |spot: Spot<String>| {
            let found = Guarantee::ALL.into_iter().find(|g| g.name() == spot.value);
            let known = || Guarantee::ALL.map(Guarantee::name).join(", ");
            match found {
                Some(guarantee) => Ok(self.placed(spot, |_| guarantee)),
                None => Err(self.source.error(&spot.span, "no such guarantee").help(format!("known: {}", known()))),
            }
        };
        spots.into_iter().map(one).collect()
    }

    fn tool(&self, spot: &Spot<String>, name: &str) -> Result<String, PolicyError> {
        canonical(name).ok_or_else(|| {
            let near = similar(name, names::TOOLS.iter().copied());
            let help = match near.first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`stockade tools` lists them".to_owned(),
            };
            self.source.error(&spot.span, "no such tool").help(help)
        })
    }

    fn disabled(&self, row: &Row) -> Result<Vec<Placed<String>>, PolicyError> {
        let spots = self.texts(row, "disable").unwrap_or_default();
        let one = |spot: Spot<String>| self.tool(&spot, &spot.value).map(|name| self.placed(spot, |_| name));
        spots.into_iter().map(one).collect()
    }

    fn rules(&self, doc: &Doc, table: &str) -> Result<Vec<Rule>, PolicyError> {
        let rows = doc.rows(table).iter().filter_map(|row| row.text("tool").map(|tool| (row, tool)));
        rows.map(|(row, tool)| self.rule(row, &tool)).collect()
    }

    fn rule(&self, row: &Row, spot: &Spot<String>) -> Result<Rule, PolicyError> {
        let short = spot.value.strip_suffix(')').and_then(|text| text.split_once('('));
        let (name, matched) = match (short, row.text("match")) {
            (Some(_), Some(twice)) => {
                return Err(self
                    .source
                    .error(&twice.span, "`match` is given twice, here and in the brackets of `tool`"));
            }
            (Some((name, matched)), None) => (name, Some(Spot { value: matched.to_owned(), span: spot.span.clone() })),
            (None, matched) => (spot.value.as_str(), matched),
        };
        let (tool, kind) = match name.strip_suffix('*') {
            Some(beginning) if family_exists(beginning) => {
                (ToolPattern::Family(beginning.replace('.', "_")), SubjectKind::Text)
            }
            Some(_) => return Err(self.source.error(&spot.span, "no tool has a name that begins like this")),
            None => {
                let name = self.tool(spot, name)?;
                let kind = subject_kind(&name);
                (ToolPattern::Exact(name), kind)
            }
        };
        let subject = matched.map(|matched| self.subject(&matched, kind)).transpose()?;
        let verdict = match row.text("verdict").map(|v| v.value).as_deref() {
            Some("allow") => RuleVerdict::Allow,
            Some("ask") => RuleVerdict::Ask,
            _ => RuleVerdict::Deny,
        };
        Ok(Rule {
            tool,
            subject,
            verdict,
            reason: row.text("reason").map(|r| r.value).unwrap_or_default(),
            message: row.text("message").map(|m| m.value),
            place: self.place(row.span.start),
        })
    }

    fn subject(&self, spot: &Spot<String>, kind: SubjectKind) -> Result<Subject, PolicyError> {
        let text = spot.value.trim().to_owned();
        if text.is_empty() {
            return Err(self
                .source
                .error(&spot.span, "an empty `match` matches nothing; leave it out to match everything"));
        }
        let path = match (kind, Pattern::new(&text, self.origin.home)) {
            (SubjectKind::Path, Err(why)) => {
                return Err(self.source.error(&spot.span, format!("this path pattern cannot be used: {why}")));
            }
            (_, read) => read.ok(),
        };
        let exact = !text.contains(['*', '?', '[']);
        Ok(Subject { command: CommandPattern::new(&text), text, path, exact })
    }

    fn tests(&self, doc: &Doc) -> Result<Vec<PolicyTest>, PolicyError> {
        let rows = doc.rows("test").iter().filter_map(|row| row.text("tool").map(|tool| (row, tool)));
        rows.map(|(row, tool)| {
            let of = |key: &str| row.text(key).map(|spot| spot.value);
            if of("path").is_some() == of("command").is_some() {
                return Err(self.source.error(&row.span, "a test has either a `path` or a `command`"));
            }
            Ok(PolicyTest {
                tool: self.tool(&tool, &tool.value)?,
                op: of("op"),
                path: of("path"),
                command: of("command"),
                expect: of("expect").unwrap_or_default(),
                place: self.place(row.span.start),
            })
        })
        .collect()
    }
}
