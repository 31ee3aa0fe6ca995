//! **What this room is for:** what the rules of each source say about a call, and which of them speaks.
//! **Who may enter:** `decide`. **Never done here:** paths that are denied to everybody, modes.
//! **Where the proof is:** `tests/decisions/`.
//!
//! Inside a source the most specific rule speaks and ties deny; between sources the strictest word holds, so that no source
//! cancels the `deny` of another.

use super::command::{CommandParts, Part, fold, subjects, without_cd_root};
use super::compose::RuleSet;
use super::file::{Rule, RuleVerdict, Subject, ToolPattern};
use super::wrappers::looked_through;
use crate::access::Access;
use crate::verdict::Layer;

/// What a call is judged by: its command, or its paths, or nothing.
pub(crate) enum Subjects<'a> {
    Command(CommandText),
    Paths(Vec<PathSubject<'a>>),
    None,
}

pub(crate) struct PathSubject<'a> {
    pub(crate) resolved: &'a str,
    pub(crate) spelled: &'a str,
    pub(crate) is_dir: bool,
}

/// A command in the forms that rules ask for.
pub(crate) struct CommandText {
    folded: String,
    /// As written.
    pub(crate) parts: CommandParts,
    /// And what wrappers would start.
    pub(crate) through: CommandParts,
}

impl CommandText {
    pub(crate) fn new(text: &str, root: &str) -> Self {
        let text = without_cd_root(text, root);
        CommandText { folded: fold(text), parts: subjects(text), through: looked_through(text) }
    }
}

impl<'a> Subjects<'a> {
    pub(crate) fn of(accesses: &'a [Access], root: &str) -> Self {
        let command = accesses.iter().find_map(|access| match access {
            Access::Command(text) => Some(text),
            _ => None,
        });
        if let Some(text) = command {
            return Subjects::Command(CommandText::new(text, root));
        }
        let paths: Vec<_> = accesses
            .iter()
            .filter_map(|access| match access {
                Access::Path { resolved, spelled, is_dir, .. } => {
                    Some(PathSubject { resolved, spelled, is_dir: *is_dir })
                }
                _ => None,
            })
            .collect();
        if paths.is_empty() { Subjects::None } else { Subjects::Paths(paths) }
    }
}

/// The word of all sources, the strictest one.
pub(crate) fn word<'a>(sets: &'a [RuleSet], tool: &str, subjects: &Subjects<'_>) -> Option<(&'a Rule, Layer)> {
    sets.iter()
        .filter_map(|set| {
            let rule = word_of_source(set, tool, subjects)?;
            (set.may_allow || rule.verdict != RuleVerdict::Allow).then_some((rule, set.layer))
        })
        .min_by_key(|(rule, _)| rule.verdict)
}

/// A hard block that holds, whatever else is said.
pub(crate) fn block<'a>(blocks: &'a [Rule], tool: &str, subjects: &Subjects<'_>) -> Option<&'a Rule> {
    blocks.iter().filter(|rule| names(rule, tool).is_some()).find(|rule| match (&rule.subject, subjects) {
        (None, _) => true,
        (Some(subject), Subjects::Command(command)) => {
            command.through.parts.iter().any(|part| subject.command.denies(part))
        }
        (Some(subject), Subjects::Paths(paths)) => paths.iter().any(|path| covers(subject, path)),
        (Some(_), Subjects::None) => false,
    })
}

/// 2: this tool; 1: a family of tools.
fn names(rule: &Rule, tool: &str) -> Option<u8> {
    match &rule.tool {
        ToolPattern::Exact(name) => (name == tool).then_some(2),
        ToolPattern::Family(beginning) => tool.starts_with(beginning.as_str()).then_some(1),
    }
}

/// How much a rule says: the tool counts before the match.
fn strength(rule: &Rule, tool: u8) -> (u8, u8) {
    (tool, rule.subject.as_ref().map_or(0, |subject| if subject.exact { 2 } else { 1 }))
}

fn word_of_source<'a>(set: &'a RuleSet, tool: &str, subjects: &Subjects<'_>) -> Option<&'a Rule> {
    let rules: Vec<(&Rule, u8)> = set.rules.iter().filter_map(|rule| Some((rule, names(rule, tool)?))).collect();
    match subjects {
        Subjects::None => strongest(rules.iter().filter(|(rule, _)| rule.subject.is_none())),
        Subjects::Paths(paths) => all_or_one(paths.iter().map(|path| {
            strongest(rules.iter().filter(|(rule, _)| match &rule.subject {
                None => true,
                Some(subject) if rule.verdict == RuleVerdict::Allow => is_exactly(subject, path.resolved, path.is_dir),
                Some(subject) => covers(subject, path),
            }))
        })),
        Subjects::Command(command) => word_on_command(&rules, command),
    }
}

fn word_on_command<'a>(rules: &[(&'a Rule, u8)], command: &CommandText) -> Option<&'a Rule> {
    let clear = !command.parts.unclear && !command.parts.too_large && !command.parts.parts.is_empty();
    // an exact rule for the whole text, a chain too, as long as it is clear what starts
    let plain = clear && command.parts.parts.iter().all(|part| part.words.is_empty() || part.is_plain_program());
    let whole = |rule: &Rule| rule.subject.as_ref().is_some_and(|subject| subject.command.is_whole(&command.folded));
    let on_part = |part: &Part, written: bool| {
        strongest(rules.iter().filter(|(rule, _)| match (&rule.subject, rule.verdict) {
            // a rule for the tool as a whole is about what was written, not about what a wrapper starts
            (None, _) => written,
            (Some(subject), RuleVerdict::Allow) => {
                (plain && whole(rule)) || (clear && written && subject.command.allows(part))
            }
            (Some(subject), _) => whole(rule) || subject.command.denies(part),
        }))
    };
    let written = all_or_one(command.parts.parts.iter().map(|part| on_part(part, true)));
    // behind wrappers only a stricter word counts
    let behind = command.through.parts.iter().filter(|part| part.derived);
    let behind = behind.filter_map(|part| on_part(part, false)).filter(|rule| rule.verdict != RuleVerdict::Allow);
    let behind = behind.min_by_key(|rule| rule.verdict);
    let nothing_read = command.parts.parts.is_empty();
    let on_nothing = || {
        strongest(
            rules
                .iter()
                .filter(|(rule, _)| rule.subject.is_none() || whole(rule) && rule.verdict != RuleVerdict::Allow),
        )
    };
    let written = if nothing_read { on_nothing() } else { written };
    match (written, behind) {
        (Some(a), Some(b)) => Some(if b.verdict < a.verdict { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// The most specific rule; ties go to the stricter one.
fn strongest<'a, 'b>(rules: impl Iterator<Item = &'b (&'a Rule, u8)>) -> Option<&'a Rule>
where
    'a: 'b,
{
    let key = |(rule, tool): &&(&'a Rule, u8)| (std::cmp::Reverse(strength(rule, *tool)), rule.verdict);
    rules.min_by_key(key).map(|(rule, _)| *rule)
}

/// `deny` and `ask` need one subject, `allow` needs all.
fn all_or_one<'a>(words: impl Iterator<Item = Option<&'a Rule>>) -> Option<&'a Rule> {
    let words: Vec<Option<&Rule>> = words.collect();
    let strict =
        words.iter().flatten().filter(|rule| rule.verdict != RuleVerdict::Allow).min_by_key(|rule| rule.verdict);
    if let Some(rule) = strict {
        return Some(rule);
    }
    if words.iter().any(Option::is_none) { None } else { words.into_iter().flatten().next() }
}

/// For `deny` and `ask`: where it leads, or how it is spelled.
fn covers(subject: &Subject, path: &PathSubject<'_>) -> bool {
    is_exactly(subject, path.resolved, path.is_dir) || is_exactly(subject, path.spelled, path.is_dir)
}

fn is_exactly(subject: &Subject, path: &str, is_dir: bool) -> bool {
    subject.path.as_ref().is_some_and(|pattern| !pattern.is_absolute() && pattern.matches_exactly(path, is_dir))
}
