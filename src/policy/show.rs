//! **What this room is for:** the effective policy as data and as text, each value with its layer; its digest; the schema
//! and a starting file. **Who may enter:** the command line, the audit log. **Never done here:** printing; showing the
//! values of variables that are passed on. **Where the proof is:** the tests in `tests/policy.rs`.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Policy;
use super::compose::Net;
use super::file::{Rule, RuleVerdict};
use super::values::{PathRule, Place, Placed};

/// A commented file to start from (`stockade policy init`).
pub const STARTING_FILE: &str = include_str!("../../policies/start.toml");

/// The JSON Schema of a policy file.
#[must_use]
pub fn schema() -> &'static str {
    include_str!("../../policies/policy.schema.json")
}

fn at(value: impl Into<Value>, place: &Place) -> Value {
    let mut shown = json!({ "value": value.into(), "layer": place.layer.name() });
    if let (true, Some(object)) = (place.line > 0 || &*place.file != "built-in", shown.as_object_mut()) {
        object.insert("place".to_owned(), place.to_string().into());
    }
    shown
}

fn list<T>(values: &[Placed<T>], show: impl Fn(&T) -> String) -> Value {
    values.iter().map(|one| at(show(&one.value), &one.place)).collect()
}

fn patterns(rules: &[PathRule]) -> Value {
    let one = |rule: &PathRule| {
        let mut shown = at(rule.pattern.text(), &rule.place);
        if let Some(object) = shown.as_object_mut() {
            object.insert("reason".to_owned(), rule.reason.as_str().into());
        }
        shown
    };
    rules.iter().map(one).collect()
}

fn rule(rule: &Rule, verdict: Option<&str>) -> Value {
    let mut shown = at(rule.shown(), &rule.place);
    if let Some(object) = shown.as_object_mut() {
        object.extend(verdict.map(|word| ("verdict".to_owned(), word.into())));
        object.insert("reason".to_owned(), rule.reason.as_str().into());
        object.extend(rule.message.as_deref().map(|text| ("message".to_owned(), text.into())));
    }
    shown
}

impl Policy {
    /// The effective policy: each value with its layer and place.
    #[must_use]
    pub fn show_json(&self) -> Value {
        let merged = &self.merged;
        let network = match merged.network.now.value {
            Net::None => "none",
            Net::Allowlist => "allowlist",
            Net::Open => "open",
        };
        let path = |path: &std::path::PathBuf| path.display().to_string();
        let limits: Map<String, Value> = merged
            .limits
            .iter()
            .map(|(key, one)| {
                ((*key).to_owned(), at(if one.value == u64::MAX { Value::Null } else { one.value.into() }, &one.place))
            })
            .collect();
        let rules: Vec<Value> = merged
            .rules
            .iter()
            .flat_map(|set| set.rules.iter().map(move |one| (set, one)))
            .map(|(set, one)| {
                rule(
                    one,
                    Some(match one.verdict {
                        RuleVerdict::Deny => "deny",
                        RuleVerdict::Ask => "ask",
                        RuleVerdict::Allow if set.may_allow => "allow",
                        RuleVerdict::Allow => "none",
                    }),
                )
            })
            .collect();
        json!({
            "digest": self.digest(),
            "layers": self.layers().iter().map(|(layer, file)| json!({ "layer": layer.name(), "file": file })).collect::<Vec<_>>(),
            "profile": at(merged.profile.now.value.name(), &merged.profile.now.place),
            "mode": at(merged.mode.now.value.name(), &merged.mode.now.place),
            "filesystem": {
                "read": list(&merged.read.now, path),
                "write": list(&merged.write.now, path),
                "allow_write": list(&merged.allow_write.now, String::clone),
                "protect": patterns(&merged.protect),
                "watch": patterns(&merged.watch),
            },
            "deny_path": patterns(&merged.deny),
            "network": { "mode": at(network, &merged.network.now.place) },
            "env": {
                "pass": list(&merged.env_pass.now, String::clone),
                "set": merged.env_set.iter().map(|(name, one)| (name.clone(), at(one.value.as_str(), &one.place))).collect::<Map<_, _>>(),
            },
            "limits": limits,
            "rule": rules,
            "hard_block": merged.blocks.iter().map(|one| rule(one, None)).collect::<Vec<_>>(),
            "require": { "guarantees": list(&merged.require, |one| one.name().to_owned()) },
            "tools": { "disable": list(&merged.disable, String::clone) },
            "write": {
                "overwrite": at(merged.overwrite.now.value.name(), &merged.overwrite.now.place),
                "shrink": at(merged.shrink.now.value.name(), &merged.shrink.now.place),
            },
            "search": {
                "exclude_generated": at(merged.exclude_generated.now.value.0, &merged.exclude_generated.now.place),
                "secret_globs": list(&merged.secret_globs, String::clone),
            },
            "daemons": {
                "enabled": at(merged.daemons.now.value, &merged.daemons.now.place),
                "max": at(merged.daemons_max.now.value, &merged.daemons_max.now.place),
            },
            "warnings": self.warnings().iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    /// The same as lines of text: `key = value   # layer, place`.
    #[must_use]
    pub fn show_text(&self) -> String {
        let mut lines = Vec::new();
        if let Value::Object(all) = self.show_json() {
            for (key, value) in &all {
                text_of(key, value, &mut lines);
            }
        }
        lines.join("\n") + "\n"
    }

    /// SHA-256 (hex) of what this policy says, whatever files and lines say it.
    #[must_use]
    pub fn digest(&self) -> String {
        let merged = &self.merged;
        let paths = |rules: &[PathRule]| rules.iter().map(|rule| rule.pattern.text().to_owned()).collect::<Vec<_>>();
        let rules = |rules: &[Rule]| {
            rules.iter().map(|one| format!("{} {:?} {:?}", one.shown(), one.verdict, one.message)).collect::<Vec<_>>()
        };
        let said = json!([
            merged.profile.now.value.name(),
            merged.mode.now.value.name(),
            format!("{:?}", merged.network.now.value),
            self.read_trees(),
            self.write_trees(),
            self.allow_write(),
            paths(&merged.deny),
            paths(&merged.protect),
            paths(&merged.watch),
            self.env_pass(),
            self.env_set(),
            self.limits,
            merged.rules.iter().map(|set| json!([set.may_allow, rules(&set.rules)])).collect::<Vec<_>>(),
            rules(&merged.blocks),
            super::floor::TEXT,
            self.required(),
            merged.disable.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(),
            self.tool_options(),
            self.daemons(),
        ]);
        Sha256::digest(said.to_string()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// One value in its lines; a value with a place is a leaf.
fn text_of(key: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(leaf) if leaf.contains_key("value") && leaf.contains_key("layer") => {
            let of = |name: &str| leaf.get(name).and_then(Value::as_str);
            let verdict = of("verdict").map(|word| format!(" → {word}")).unwrap_or_default();
            let place = of("place").map(|place| format!(", {place}")).unwrap_or_default();
            let reason =
                of("reason").filter(|text| !text.is_empty()).map(|text| format!(" ({text})")).unwrap_or_default();
            let shown = leaf.get("value").map(ToString::to_string).unwrap_or_default();
            lines.push(format!("{key} = {shown}{verdict}   # {}{place}{reason}", of("layer").unwrap_or_default()));
        }
        Value::Object(table) => table.iter().for_each(|(name, value)| text_of(&format!("{key}.{name}"), value, lines)),
        Value::Array(items) if items.is_empty() => lines.push(format!("{key} = []")),
        Value::Array(items) => items.iter().for_each(|value| text_of(&format!("{key}[]"), value, lines)),
        other => lines.push(format!("{key} = {other}")),
    }
}
