//! **What this room is for:** from the bytes of a policy file to checked tables, each value with its place.
//! **Who may enter:** `file`. **Never done here:** meaning; only shape: known keys, right types, right ranges.
//! **Where the proof is:** the tests below, `fuzz/properties/policy.rs`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::PolicyError;
use super::keys::{self, Built, Key, Kind, Table};
use super::names::similar;

/// Entries of one list, rows of one table: more are not written by people.
const ENTRIES: usize = 4096;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Spot<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

/// A checked value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
    Texts(Vec<Spot<String>>),
    TextMap(BTreeMap<String, Spot<String>>),
}

/// One table, or one row of a `[[table]]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) span: Range<usize>,
    values: BTreeMap<&'static str, Spot<Value>>,
}

/// A file's tables by name; the top of the file has the empty name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doc {
    tables: BTreeMap<&'static str, Vec<Row>>,
}

/// A file as read: what it is called in messages, and its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// Shipped with stockade: may have the tables that need a reason for each entry.
    pub(crate) shipped: bool,
}

impl Source<'_> {
    pub(crate) fn error(&self, span: &Range<usize>, message: impl Into<String>) -> PolicyError {
        PolicyError::at(self.name, self.text, span, message)
    }
}

impl Row {
    pub(crate) fn text(&self, key: &str) -> Option<Spot<String>> {
        match self.values.get(key)? {
            Spot { value: Value::Text(text), span } => Some(Spot { value: text.clone(), span: span.clone() }),
            _ => None,
        }
    }

    pub(crate) fn bool(&self, key: &str) -> Option<Spot<bool>> {
        match self.values.get(key)? {
            Spot { value: Value::Bool(value), span } => Some(Spot { value: *value, span: span.clone() }),
            _ => None,
        }
    }

    /// An integer; the reader has checked that it is not negative.
    pub(crate) fn number(&self, key: &str) -> Option<Spot<u64>> {
        match self.values.get(key)? {
            Spot { value: Value::Int(value), span } => {
                Some(Spot { value: u64::try_from(*value).unwrap_or(0), span: span.clone() })
            }
            _ => None,
        }
    }

    pub(crate) fn texts(&self, key: &str) -> Option<Spot<Vec<Spot<String>>>> {
        match self.values.get(key)? {
            Spot { value: Value::Texts(texts), span } => Some(Spot { value: texts.clone(), span: span.clone() }),
            _ => None,
        }
    }

    pub(crate) fn map(&self, key: &str) -> Option<&BTreeMap<String, Spot<String>>> {
        match self.values.get(key)? {
            Spot { value: Value::TextMap(map), .. } => Some(map),
            _ => None,
        }
    }
}

impl Doc {
    /// The rows of a `[[table]]`.
    pub(crate) fn rows(&self, table: &str) -> &[Row] {
        self.tables.get(table).map_or(&[], Vec::as_slice)
    }

    /// A `[table]`; empty when it is not there.
    pub(crate) fn table(&self, table: &str) -> Row {
        self.rows(table).first().cloned().unwrap_or_default()
    }
}

/// Reads and checks a file.
pub(crate) fn read(source: &Source<'_>) -> Result<Doc, PolicyError> {
    let parsed = DeTable::parse(source.text).map_err(|e| {
        let end = source.text.len();
        source.error(&e.span().unwrap_or(end..end), e.message().replace('\n', "; "))
    })?;
    let mut doc = Doc::default();
    let top = keys::table("").unwrap_or(&keys::TABLES[0]);
    let mut head = Row { span: 0..0, values: BTreeMap::new() };
    for (name, value) in parsed.get_ref() {
        if let Some(key) = top.keys.iter().find(|key| key.name == name.get_ref().as_ref()) {
            head.values.insert(key.name, check(source, top, key, value)?);
            continue;
        }
        let known = |table: &&&Table| !table.name.is_empty() && (source.shipped || !table.shipped_only);
        let found = keys::TABLES.iter().filter(|t| known(&t)).find(|t| t.name == name.get_ref().as_ref());
        let Some(table) = found else {
            let all = top.keys.iter().map(|k| k.name).chain(keys::TABLES.iter().filter(|t| known(&t)).map(|t| t.name));
            return Err(unknown(source, &name.span(), "no such key", name.get_ref(), all.collect()));
        };
        doc.tables.insert(table.name, read_table(source, table, &name.span(), value)?);
    }
    require(source, top, &head, &(0..0))?;
    doc.tables.insert("", vec![head]);
    Ok(doc)
}

fn read_table(
    source: &Source<'_>,
    table: &'static Table,
    name: &Range<usize>,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<Row>, PolicyError> {
    match value.get_ref() {
        DeValue::Table(inner) if !table.many => Ok(vec![read_row(source, table, name, inner)?]),
        DeValue::Array(rows) if table.many => {
            if rows.len() > ENTRIES {
                return Err(source.error(name, format!("more than {ENTRIES} entries")));
            }
            rows.iter()
                .map(|row| match row.get_ref() {
                    DeValue::Table(inner) => read_row(source, table, &row.span(), inner),
                    _ => Err(source.error(&row.span(), format!("an entry of `{}` is a table", table.name))),
                })
                .collect()
        }
        _ if table.many => {
            Err(source.error(name, format!("`{0}` is written `[[{0}]]`, once for each entry", table.name)))
        }
        _ => Err(source.error(name, format!("`{0}` is one table, written `[{0}]`", table.name))),
    }
}

fn read_row(
    source: &Source<'_>,
    table: &'static Table,
    span: &Range<usize>,
    inner: &DeTable<'_>,
) -> Result<Row, PolicyError> {
    let mut row = Row { span: span.clone(), values: BTreeMap::new() };
    for (name, value) in inner {
        let Some(key) = table.keys.iter().find(|key| key.name == name.get_ref().as_ref()) else {
            let what = format!("no such key in `{}`", table.name);
            return Err(unknown(
                source,
                &name.span(),
                &what,
                name.get_ref(),
                table.keys.iter().map(|k| k.name).collect(),
            ));
        };
        row.values.insert(key.name, check(source, table, key, value)?);
    }
    if table.many && table.keys.iter().any(|key| key.built == Built::No) {
        return Err(not_built(source, span, &format!("`[[{}]]`", table.name), &[]));
    }
    require(source, table, &row, span)?;
    Ok(row)
}

fn require(source: &Source<'_>, table: &Table, row: &Row, span: &Range<usize>) -> Result<(), PolicyError> {
    match table.keys.iter().find(|key| key.required && !row.values.contains_key(key.name)) {
        Some(key) if table.name.is_empty() => Err(source
            .error(span, format!("`{} = 1` is missing", key.name))
            .help("the first line of a policy is `version = 1`")),
        Some(key) => Err(source.error(span, format!("`{}` is missing in `{}`", key.name, table.name))),
        None => Ok(()),
    }
}

fn check(
    source: &Source<'_>,
    table: &Table,
    key: &Key,
    value: &Spanned<DeValue<'_>>,
) -> Result<Spot<Value>, PolicyError> {
    let span = value.span();
    let wrong = |want: &str| Err(source.error(&span, format!("`{}` is {want}", key.name)));
    let read = match (key.kind, value.get_ref()) {
        (Kind::Bool, DeValue::Boolean(value)) => Value::Bool(*value),
        (Kind::Bool, _) => return wrong("true or false"),
        (Kind::Int(min, max), DeValue::Integer(number)) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if (min..=max).contains(&number) => Value::Int(number),
            _ if min == max => return wrong(&format!("{min}; this version reads no other")),
            _ if max == i64::MAX => return wrong(&format!("an integer of at least {min}")),
            _ => return wrong(&format!("an integer from {min} to {max}")),
        },
        (Kind::Int(..), _) => return wrong("an integer"),
        (Kind::Text, DeValue::String(text)) => Value::Text(plain(source, &span, text)?),
        (Kind::Text, _) => return wrong("a text"),
        (Kind::OneOf(words), DeValue::String(text)) => {
            if !words.contains(&text.as_ref()) {
                let what = format!("`{}` has no such value", key.name);
                return Err(unknown(source, &span, &what, text, words.to_vec()));
            }
            Value::Text(text.to_string())
        }
        (Kind::OneOf(words), _) => return wrong(&format!("one of {}", words.join(", "))),
        (Kind::Texts, DeValue::Array(list)) if list.len() <= ENTRIES => {
            let mut texts = Vec::with_capacity(list.len());
            for item in list {
                let DeValue::String(text) = item.get_ref() else { return wrong("a list of texts") };
                texts.push(Spot { value: plain(source, &item.span(), text)?, span: item.span() });
            }
            Value::Texts(texts)
        }
        (Kind::Texts, DeValue::Array(_)) => return wrong(&format!("a list of at most {ENTRIES} texts")),
        (Kind::Texts, _) => return wrong("a list of texts"),
        (Kind::TextMap, DeValue::Table(map)) => {
            let mut texts = BTreeMap::new();
            for (name, item) in map {
                let DeValue::String(text) = item.get_ref() else { return wrong("a table of texts") };
                texts.insert(
                    name.get_ref().to_string(),
                    Spot { value: plain(source, &item.span(), text)?, span: item.span() },
                );
            }
            Value::TextMap(texts)
        }
        (Kind::TextMap, _) => return wrong("a table of texts"),
    };
    let place = if table.name.is_empty() { key.name.to_owned() } else { format!("[{}] {}", table.name, key.name) };
    match key.built {
        Built::Yes => {}
        Built::Only(values) if values.contains(&as_written(&read).as_str()) => {}
        Built::Only(values) => return Err(not_built(source, &span, &place, values)),
        Built::No if table.many => {} // said once for the whole entry
        Built::No => return Err(not_built(source, &span, &place, &[])),
    }
    Ok(Spot { value: read, span })
}

/// No NUL and no other control character but tab and newline: a value is shown, matched and passed on.
fn plain(source: &Source<'_>, span: &Range<usize>, text: &str) -> Result<String, PolicyError> {
    if text.chars().any(|c| c.is_control() && c != '\t' && c != '\n') {
        return Err(source.error(span, "a text holds no control characters"));
    }
    Ok(text.to_owned())
}

fn as_written(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Texts(texts) => texts.iter().map(|t| t.value.as_str()).collect::<Vec<_>>().join(","),
        Value::TextMap(_) => "{}".to_owned(),
    }
}

fn not_built(source: &Source<'_>, span: &Range<usize>, what: &str, values: &[&str]) -> PolicyError {
    let help = match values {
        [] => "remove it; a policy that asks for it does not start".to_owned(),
        [""] => "remove it or leave the list empty; a policy that asks for it does not start".to_owned(),
        some => format!("this version takes only: {}", some.join(", ")),
    };
    source.error(span, format!("{what}: this is not built in this version, and it is not ignored")).help(help)
}

fn unknown(source: &Source<'_>, span: &Range<usize>, what: &str, word: &str, known: Vec<&str>) -> PolicyError {
    let shown: String = word.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect();
    let near = similar(word, known.iter().copied());
    let help = match near.first() {
        Some(near) => format!("did you mean `{near}`? Known: {}", known.join(", ")),
        None => format!("known: {}", known.join(", ")),
    };
    source.error(span, format!("{what}: `{shown}`")).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> PolicyError {
        read(&Source { name: "p.toml", text, shipped: false }).unwrap_err()
    }

    #[test]
    fn a_typo_is_named_with_its_line_and_what_was_meant() {
        let error = fault("version = 1\n[networks]\nmode = \"none\"\n");
        assert_eq!(error.line, 2);
        assert!(error.help.unwrap().starts_with("did you mean `network`"));
        for (text, word) in [
            ("version = 1\nmode = \"opn\"", "open"),
            ("version = 1\n[[rule]]\ntool = \"bash\"\nmatches = \"x\"\nverdict = \"allow\"", "match"),
            ("version = 1\n[limits]\nbash_timout_ms = 1", "bash_timeout_ms"),
            ("version = 1\n[[rule]]\ntool = \"bash\"\nverdict = \"alow\"", "allow"),
        ] {
            assert!(fault(text).help.unwrap().contains(&format!("`{word}`")), "{text}");
        }
    }

    #[test]
    fn shape_is_checked() {
        for text in [
            "",
            "version = 2",
            "version = \"1\"",
            "version = 1.0",
            "version = 1\nversion = 1",
            "version = 1\n[rule]\ntool = \"bash\"",
            "version = 1\n[[limits]]\npids = 1",
            "version = 1\nlimits = 3",
            "version = 1\n[limits]\npids = 0",
            "version = 1\n[limits]\npids = -1",
            "version = 1\n[limits]\npids = 99999999999999999999",
            "version = 1\n[limits]\nbash_timeout_ms = \"1s\"",
            "version = 1\n[[deny_path]]\nreason = \"x\"",
            "version = 1\n[env]\npass = [1]",
            "version = 1\n[env]\nset = { A = 1 }",
            "version = 1\n[[deny_path]]\npattern = \"a\\u0000\"",
            "version = 1\n[[protect_path]]\npattern = \"a\"\nreason = \"b\"",
            "version = 1\n[rule",
        ] {
            fault(text);
        }
    }

    #[test]
    fn what_is_not_built_is_refused_unless_it_is_off() {
        for text in [
            "[network]\nmode = \"allowlist\"",
            "[network]\nallow = [\"a:1\"]",
            "[[hook]]\nevent = \"before_call\"",
            "[[mcp_server]]\nname = \"x\"",
            "[taint]\nmode = \"deny\"",
            "[model]\nurl = \"http://x/v1\"",
            "[read]\nauto_outline_bytes = 16384",
            "[todo]\nstrict = true",
        ] {
            assert!(fault(&format!("version = 1\n{text}\n")).message.contains("not built"), "{text}");
        }
        for text in [
            "[network]\nallow = []\nmode = \"none\"",
            "[todo]\nstrict = false",
            "[read]\nauto_outline_bytes = 0",
            "[memory]\nwrites = \"off\"",
        ] {
            let text = format!("version = 1\n{text}\n");
            assert!(read(&Source { name: "p", text: &text, shipped: false }).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_deep_key_is_no_deep_recursion() {
        fault(&format!("version = 1\n{}x = 1\n", "a.".repeat(200_000)));
        fault(&format!("version = 1\n[{}x]\n", "a.".repeat(200_000)));
        fault(&format!("version = 1\nx = {}\n", "[".repeat(200_000)));
        fault(&format!("version = 1\nx = {}\n", "{a=".repeat(200_000)));
        fault(&format!("version = 1\n\"\"\"\n'''\nx{} = 1", ".a".repeat(200_000)));
    }
}
