//! **What this room is for:** the text of a pattern as rules over names. **Who may enter:** `path::pattern`.
//! **Never done here:** guessing what a malformed pattern meant. **Where the proof is:** the tests of `path::pattern`.

use super::glob::Glob;
use crate::limits::PATH_BYTES;
use std::path::Path;

/// Alternatives that the braces of one pattern may stand for; `{a,b}` twelve times would be four thousand.
const ALTERNATIVES: usize = 256;

/// A piece of a pattern between slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// `**`: any number of folders, none too.
    Dirs,
    /// One name.
    Name(Glob),
}

/// One alternative of a pattern. Its last part is a name; no parts at all mean the base itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub parts: Vec<Part>,
    pub folders_only: bool,
    /// Which pattern of the set it came from.
    pub index: usize,
}

/// What one pattern means below the root and on the host.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    pub relative: Vec<Rule>,
    pub absolute: Vec<Rule>,
}

/// Reads one pattern.
pub(super) fn parse(text: &str, index: usize, home: Option<&Path>) -> Result<Meaning, String> {
    if text.len() > PATH_BYTES {
        return Err(format!("the pattern is {} bytes long, more than {PATH_BYTES}", text.len()));
    }
    if text.contains('\0') {
        return Err("the pattern holds a NUL".to_owned());
    }
    if text.starts_with('!') {
        return Err("a negation would lift what an earlier pattern says; write `\\!` for the character".to_owned());
    }
    let mut meaning = Meaning::default();
    for text in braces(text)? {
        if text.is_empty() {
            return Err("the pattern (or one alternative of it) is empty".to_owned());
        }
        if text == "~" || text.starts_with("~/") {
            let home = home.ok_or("there is no home folder to put in place of `~`")?;
            meaning.absolute.push(in_home(&text, index, home)?);
            continue;
        }
        let rule = rule(&text, index)?;
        if text.starts_with('/') {
            meaning.absolute.push(rule.clone());
        }
        meaning.relative.push(rule);
    }
    Ok(meaning)
}

/// `~/…` below the home folder, whose own names are literal.
fn in_home(text: &str, index: usize, home: &Path) -> Result<Rule, String> {
    let home =
        home.to_str().filter(|home| home.starts_with('/')).ok_or("the home folder has no absolute UTF-8 path")?;
    let mut rule = rule(&format!("/{}", text.strip_prefix('~').unwrap_or_default()), index)?;
    let names = home.split('/').filter(|name| !matches!(*name, "" | "."));
    let above = names.map(|name| Part::Name(Glob::Literal(name.as_bytes().to_vec())));
    rule.parts.splice(0..0, above.collect::<Vec<_>>());
    Ok(rule)
}

/// One alternative, free of braces.
fn rule(text: &str, index: usize) -> Result<Rule, String> {
    let (body, mut folders_only) = match text.strip_suffix('/') {
        Some(body) if !body.ends_with('\\') => (body, true),
        _ => (text, false),
    };
    let mut parts: Vec<Part> = Vec::new();
    if !body.contains('/') && !text.starts_with('/') {
        parts.push(Part::Dirs);
    }
    for name in body.split('/') {
        match name {
            "" | "." => {}
            ".." => return Err("`..` never matches, since paths are matched after it is resolved".to_owned()),
            "**" if parts.last() == Some(&Part::Dirs) => {}
            "**" => parts.push(Part::Dirs),
            name => parts.push(Part::Name(Glob::parse(name)?)),
        }
    }
    // `dir/**` is everything below `dir`, and the folder itself: who may not see what is in it may not list it.
    while parts.last() == Some(&Part::Dirs) {
        parts.pop();
        folders_only = true;
    }
    Ok(Rule { parts, folders_only, index })
}

/// `{a,b}` written out. Escapes and classes are left as they are.
fn braces(text: &str) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    while let Some(text) = open.pop() {
        match first_braces(&text)? {
            None => done.push(text),
            Some((before, alternatives, after)) => {
                // The last first, so that they come out in the order of writing.
                open.extend(alternatives.iter().rev().map(|part| format!("{before}{part}{after}")));
            }
        }
        if done.len() + open.len() > ALTERNATIVES {
            return Err(format!("its braces stand for more than {ALTERNATIVES} patterns"));
        }
    }
    Ok(done)
}

/// What stands before, in and after the first braces.
type Braces<'t> = (&'t str, Vec<&'t str>, &'t str);

fn first_braces(text: &str) -> Result<Option<Braces<'_>>, String> {
    let mut start = None;
    let mut depth = 0_u32;
    let mut from = 0;
    let mut parts = Vec::new();
    let mut skip = false;
    let mut class_until = 0;
    for (at, c) in text.char_indices() {
        if std::mem::take(&mut skip) || at < class_until {
            continue;
        }
        match c {
            '\\' => skip = true,
            '[' => class_until = class_end(text, at),
            '{' => {
                depth += 1;
                if depth == 1 {
                    (start, from) = (Some(at), at + 1);
                }
            }
            ',' if depth == 1 => {
                parts.push(text.get(from..at).unwrap_or_default());
                from = at + 1;
            }
            '}' if depth == 0 => return Err("a `}` has no `{`; write `\\}` for the character".to_owned()),
            '}' => {
                depth -= 1;
                if depth == 0 {
                    parts.push(text.get(from..at).unwrap_or_default());
                    let before = text.get(..start.unwrap_or(0)).unwrap_or_default();
                    return Ok(Some((before, parts, text.get(at + 1..).unwrap_or_default())));
                }
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err("a `{` is not closed; write `\\{` for the character".to_owned());
    }
    Ok(None)
}

/// Where the class that opens at `start` ends; `start` when it does not (the glob will say so).
fn class_end(text: &str, start: usize) -> usize {
    let rest = text.get(start + 1..).unwrap_or_default();
    let body = rest.strip_prefix(['!', '^']).unwrap_or(rest);
    let mut skip = false;
    for (at, c) in body.char_indices() {
        if std::mem::take(&mut skip) {
            continue;
        }
        match c {
            '\\' => skip = true,
            ']' if at > 0 => return text.len() - body.len() + at,
            _ => {}
        }
    }
    start
}
