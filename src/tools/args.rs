//! **What this room is for:** argument tables: one table gives the JSON Schema, the aliases and the validation.
//! **Who may enter:** the supervisor (schemas, validation), every tool file (its table). **Never done here:** clamping,
//! guessing, touching a disk. **Where the proof is:** the tests below and the invariants over `TOOLS` in `tools/tests.rs`.

use serde_json::{Map, Value, json};

use crate::call::{Code, Refusal};
use crate::limits::{NAME_CHARS, PATH_BYTES};
use crate::tools::text::{clip, escaped};

pub use crate::tools::json::parse_object;

/// What an argument holds.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A string of at least `min` characters and at most `max_bytes` bytes.
    Text {
        /// Characters at least.
        min: usize,
        /// Bytes at most.
        max_bytes: u64,
    },
    /// A path: a non-empty string of at most `PATH_BYTES` bytes.
    Path,
    /// A JSON integer in a range.
    Int {
        /// At least.
        min: i64,
        /// At most.
        max: i64,
    },
    /// true or false.
    Bool,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of objects.
    Objects {
        /// Items at least.
        min: usize,
        /// Items at most.
        max: usize,
        /// Their fields.
        fields: &'static [Arg],
    },
    /// A list of strings.
    Texts {
        /// Items at least.
        min: usize,
        /// Items at most.
        max: usize,
        /// Characters of one at most.
        max_chars: usize,
    },
}

/// One argument.
#[derive(Debug, Clone, Copy)]
pub struct Arg {
    /// Canonical name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Must be given.
    pub required: bool,
    /// Other spellings, rewritten before validation.
    pub aliases: &'static [&'static str],
    /// One sentence for models and people.
    pub about: &'static str,
    /// Only in the schema (and only accepted) when this feature of the session is on: `""` always, `daemons`, `not-strict`.
    pub when: &'static str,
}

impl Arg {
    /// An optional argument without other spellings.
    #[must_use]
    pub const fn new(name: &'static str, kind: Kind, about: &'static str) -> Arg {
        Arg { name, kind, required: false, aliases: &[], about, when: "" }
    }

    /// The same, required.
    #[must_use]
    pub const fn required(mut self) -> Arg {
        self.required = true;
        self
    }

    /// The same with other spellings.
    #[must_use]
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Arg {
        self.aliases = aliases;
        self
    }

    /// The same, offered only with a feature of the session.
    #[must_use]
    pub const fn when(mut self, feature: &'static str) -> Arg {
        self.when = feature;
        self
    }

    fn is_offered(&self, features: &Features) -> bool {
        match self.when {
            "" => true,
            "daemons" => features.daemons,
            "not-strict" => !features.strict,
            _ => false,
        }
    }

    fn is_spelled(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

/// What of a session decides whether an argument exists at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// `[daemons] enabled`.
    pub daemons: bool,
    /// The strict profile is on.
    pub strict: bool,
}

/// The JSON Schema of a table: closed at every level, with every bound, without defaults.
#[must_use]
pub fn schema(args: &[Arg], features: &Features) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for arg in args.iter().filter(|arg| arg.is_offered(features)) {
        let mut property = kind_schema(&arg.kind, features);
        if let Value::Object(fields) = &mut property {
            fields.insert("description".to_owned(), Value::from(arg.about));
        }
        properties.insert(arg.name.to_owned(), property);
        if arg.required {
            required.push(arg.name);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn kind_schema(kind: &Kind, features: &Features) -> Value {
    match *kind {
        Kind::Text { min, max_bytes } => json!({ "type": "string", "minLength": min, "maxLength": max_bytes }),
        Kind::Path => json!({ "type": "string", "minLength": 1, "maxLength": PATH_BYTES }),
        Kind::Int { min, max: i64::MAX } => json!({ "type": "integer", "minimum": min }),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::OneOf(words) => json!({ "type": "string", "enum": words }),
        Kind::Objects { min, max, fields } => {
            json!({ "type": "array", "minItems": min, "maxItems": max, "items": schema(fields, features) })
        }
        Kind::Texts { min, max, max_chars } => {
            json!({ "type": "array", "minItems": min, "maxItems": max, "items": { "type": "string", "maxLength": max_chars } })
        }
    }
}

/// Arguments as received → arguments under their canonical names, every one of them within its bounds.
///
/// # Errors
/// `invalid_arguments`; the message names the argument, the hint says what is expected.
pub fn validate(
    tool: &str,
    args: Map<String, Value>,
    table: &[Arg],
    features: &Features,
) -> Result<Map<String, Value>, Refusal> {
    object(tool, "", args, table, features)
}

/// A name from outside, fit for a message: cut, control characters escaped.
#[must_use]
pub fn shown(name: &str) -> String {
    escaped(clip(name, NAME_CHARS))
}

/// `invalid_arguments` with a message and what is expected instead.
#[must_use]
pub fn invalid(message: impl Into<String>, expected: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidArguments, message).hint(expected)
}

fn object(
    tool: &str,
    place: &str,
    args: Map<String, Value>,
    table: &[Arg],
    features: &Features,
) -> Result<Map<String, Value>, Refusal> {
    let mut found: Map<String, Value> = Map::new();
    let mut spelled: Vec<(&str, String)> = Vec::new();
    for (name, value) in args {
        let Some(arg) = table.iter().find(|arg| arg.is_offered(features) && arg.is_spelled(&name)) else {
            let names: Vec<&str> = table.iter().filter(|a| a.is_offered(features)).map(|a| a.name).collect();
            return Err(invalid(
                format!("{tool} has no argument `{place}{}`.", shown(&name)),
                format!("It takes: {}.", names.join(", ")),
            ));
        };
        if let Some(before) = found.get(arg.name) {
            let first =
                spelled.iter().find(|(canonical, _)| *canonical == arg.name).map_or(arg.name, |(_, s)| s.as_str());
            if *before != value {
                return Err(invalid(
                    format!(
                        "`{place}{first}` and `{place}{name}` are one argument of {tool} and have different values."
                    ),
                    format!("Give `{}` once.", arg.name),
                ));
            }
            continue;
        }
        spelled.push((arg.name, name));
        found.insert(arg.name.to_owned(), value);
    }
    let mut checked = Map::new();
    for arg in table.iter().filter(|arg| arg.is_offered(features)) {
        let spelling =
            spelled.iter().find(|(canonical, _)| *canonical == arg.name).map_or(arg.name, |(_, s)| s.as_str());
        match found.remove(arg.name) {
            Some(value) => {
                let label = format!("{place}{spelling}");
                checked.insert(arg.name.to_owned(), checked_value(tool, &label, value, &arg.kind, features)?);
            }
            None if arg.required => {
                return Err(invalid(
                    format!("{tool} needs the argument `{place}{}`.", arg.name),
                    format!("`{}` is {}.", arg.name, expected(&arg.kind)),
                ));
            }
            None => {}
        }
    }
    Ok(checked)
}

fn checked_value(tool: &str, label: &str, value: Value, kind: &Kind, features: &Features) -> Result<Value, Refusal> {
    let wrong =
        |what: &str| invalid(format!("`{label}` of {tool} {what}."), format!("`{label}` must be {}.", expected(kind)));
    match (*kind, value) {
        (Kind::Text { min, max_bytes }, Value::String(text)) => {
            if text.contains('\0') {
                Err(wrong("holds a NUL character"))
            } else if text.len() as u64 > max_bytes {
                Err(wrong("is too long"))
            } else if text.chars().take(min).count() < min {
                Err(wrong(if text.is_empty() { "is empty" } else { "is too short" }))
            } else {
                Ok(Value::String(text))
            }
        }
        (Kind::Path, Value::String(text)) => {
            if text.contains('\0') {
                Err(wrong("holds a NUL character"))
            } else if text.is_empty() {
                Err(wrong("is empty"))
            } else if text.len() > PATH_BYTES {
                Err(wrong("is too long"))
            } else {
                Ok(Value::String(text))
            }
        }
        (Kind::Int { min, max }, Value::Number(number)) => match number.as_i64() {
            Some(n) if n < min || n > max => Err(wrong("is out of range")),
            Some(_) => Ok(Value::Number(number)),
            None if number.is_u64() => Err(wrong("is out of range")),
            None => Err(wrong("is not an integer")),
        },
        (Kind::Bool, Value::Bool(b)) => Ok(Value::Bool(b)),
        (Kind::OneOf(words), Value::String(text)) => {
            if words.contains(&text.as_str()) {
                Ok(Value::String(text))
            } else {
                Err(wrong("is not one of its words"))
            }
        }
        (Kind::Objects { min, max, fields }, Value::Array(items)) => {
            if items.len() < min || items.len() > max {
                return Err(wrong(&format!("has {} items", items.len())));
            }
            let mut list = Vec::with_capacity(items.len());
            for (n, item) in items.into_iter().enumerate() {
                let Value::Object(item) = item else {
                    return Err(wrong(&format!("has an item (number {}) that is not an object", n + 1)));
                };
                list.push(Value::Object(object(tool, &format!("{label}[{}].", n + 1), item, fields, features)?));
            }
            Ok(Value::Array(list))
        }
        (Kind::Texts { min, max, max_chars }, Value::Array(items)) => {
            let good =
                |item: &Value| item.as_str().is_some_and(|s| !s.contains('\0') && s.chars().count() <= max_chars);
            if items.len() < min || items.len() > max {
                Err(wrong(&format!("has {} items", items.len())))
            } else if let Some(n) = items.iter().position(|item| !good(item)) {
                Err(wrong(&format!("has an item (number {}) that does not fit", n + 1)))
            } else {
                Ok(Value::Array(items))
            }
        }
        (_, other) => Err(wrong(&format!("is {}", type_name(&other)))),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn expected(kind: &Kind) -> String {
    match *kind {
        Kind::Text { min: 0, max_bytes } => format!("a string of at most {max_bytes} bytes"),
        Kind::Text { min: 1, max_bytes } => format!("a string, not empty, of at most {max_bytes} bytes"),
        Kind::Text { min, max_bytes } => format!("a string of at least {min} characters and at most {max_bytes} bytes"),
        Kind::Path => "a path: a string, not empty, relative to the root or absolute inside it".to_owned(),
        Kind::Int { min, max: i64::MAX } => format!("an integer of at least {min}"),
        Kind::Int { min, max } => format!("an integer from {min} to {max}"),
        Kind::Bool => "true or false".to_owned(),
        Kind::OneOf(words) => format!("one of: {}", words.join(", ")),
        Kind::Objects { min, max, .. } => format!("a list of {min} to {max} objects"),
        Kind::Texts { min, max, max_chars } => {
            format!("a list of {min} to {max} strings of at most {max_chars} characters")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: &[Arg] =
        &[Arg::new("old", Kind::Text { min: 1, max_bytes: 9 }, "old").required().aliases(&["oldText"])];
    const TABLE: &[Arg] = &[
        Arg::new("path", Kind::Path, "a path").required().aliases(&["file_path"]),
        Arg::new("limit", Kind::Int { min: 1, max: 5 }, "how many"),
        Arg::new("flag", Kind::Bool, "a switch"),
        Arg::new("mode", Kind::OneOf(&["a", "b"]), "a word"),
        Arg::new("edits", Kind::Objects { min: 1, max: 2, fields: INNER }, "edits"),
        Arg::new("names", Kind::Texts { min: 1, max: 2, max_chars: 3 }, "names"),
        Arg::new("background", Kind::Bool, "stays").when("daemons").aliases(&["isDaemon"]),
    ];

    fn check(text: &str) -> Result<Map<String, Value>, Refusal> {
        validate("t", parse_object(text)?, TABLE, &Features::default())
    }

    #[test]
    fn aliases_are_rewritten_and_must_agree() {
        assert_eq!(check(r#"{"file_path":"x"}"#).unwrap()["path"], "x");
        assert_eq!(check(r#"{"file_path":"x","path":"x"}"#).unwrap().len(), 1);
        let both = check(r#"{"file_path":"x","path":"y"}"#).unwrap_err();
        assert!(both.message.contains("`file_path`") && both.message.contains("`path`"), "{both:?}");
        assert_eq!(check(r#"{"path":"x","edits":[{"oldText":"a"}]}"#).unwrap()["edits"][0]["old"], "a");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (bad, name) in [
            (r#"{}"#, "`path`"),
            (r#"{"path":null}"#, "`path`"),
            (r#"{"path":""}"#, "`path`"),
            ("{\"path\":\"a\\u0000b\"}", "`path`"),
            (r#"{"path":"x","limit":"5"}"#, "`limit`"),
            (r#"{"path":"x","limit":5.0}"#, "`limit`"),
            (r#"{"path":"x","limit":true}"#, "`limit`"),
            (r#"{"path":"x","limit":0}"#, "`limit`"),
            (r#"{"path":"x","limit":6}"#, "`limit`"),
            (r#"{"path":"x","limit":99999999999999999999}"#, "`limit`"),
            (r#"{"path":"x","flag":1}"#, "`flag`"),
            (r#"{"path":"x","mode":"c"}"#, "`mode`"),
            (r#"{"path":"x","edits":[]}"#, "`edits`"),
            (r#"{"path":"x","edits":["a"]}"#, "`edits`"),
            (r#"{"path":"x","edits":[{"old":"a","more":1}]}"#, "`edits[1].more`"),
            (r#"{"path":"x","names":["abcd"]}"#, "`names`"),
            (r#"{"path":"x","other":1}"#, "`other`"),
            (r#"{"path":"x","background":true}"#, "`background`"),
            (r#"{"path":"x","isDaemon":true}"#, "`isDaemon`"),
        ] {
            let refusal = check(bad).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidArguments, "{bad}");
            assert!(refusal.message.contains(name), "{bad}: {}", refusal.message);
            assert!(refusal.hint.is_some(), "{bad}");
        }
    }

    #[test]
    fn a_name_from_outside_is_cut_and_escaped() {
        let long = format!(r#"{{"path":"x","\u001b[2J{}":1}}"#, "n".repeat(500));
        let message = check(&long).unwrap_err().message;
        assert!(!message.contains('\u{1b}') && message.len() < 120, "{message:?}");
    }

    #[test]
    fn the_schema_is_closed_and_knows_features() {
        let off = schema(TABLE, &Features::default());
        assert_eq!(off["additionalProperties"], false);
        assert_eq!(off["required"], json!(["path"]));
        assert_eq!(off["properties"]["edits"]["items"]["additionalProperties"], false);
        assert!(off["properties"].get("background").is_none());
        let on = schema(TABLE, &Features { daemons: true, strict: false });
        assert!(on["properties"].get("background").is_some());
    }
}
