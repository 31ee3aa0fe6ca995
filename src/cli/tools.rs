//! **What this room is for:** `stockade tools`: what there is, for people and for programs. **Who may enter:** the
//! command line. **Never done here:** deciding what is available. **Where the proof is:** `tests/cli.rs`.

use serde::Serialize;
use serde_json::{Value, json};

use super::{USAGE, args::Options, text};
use crate::supervisor::{Offer, SessionKind, Supervisor};

/// Prints every tool with class, question, schema and availability.
pub(super) fn tools(options: Options, markdown: bool) -> u8 {
    let json = options.json;
    super::block_on(async {
        let supervisor = match Supervisor::start(options.settings(SessionKind::Call)).await {
            Ok(supervisor) => supervisor,
            Err(error) => return super::start_failed(&error, USAGE),
        };
        let mut offers = supervisor.offered();
        supervisor.shutdown().await;
        offers.sort_by_key(|offer| offer.spec.name);
        if json {
            text::out(&text::json_line(&json!({ "tools": offers.iter().map(as_json).collect::<Vec<_>>() })));
        } else if markdown {
            text::out_text(&offers.iter().map(as_markdown).collect::<String>());
        } else {
            text::out_text(&as_table(&offers));
        }
        0
    })
}

fn as_json(offer: &Offer) -> Value {
    json!({
        "name": offer.spec.name,
        "summary": offer.spec.summary,
        "class": offer.spec.class,
        "asks": offer.spec.asks,
        "aliases": offer.spec.aliases,
        "input_schema": offer.schema,
        "available": offer.available,
        "unavailable_reason": offer.reason,
    })
}

/// The wire name of an enum value.
fn word<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn as_table(offers: &[Offer]) -> String {
    let name = offers.iter().map(|o| o.spec.name.len()).max().unwrap_or(0);
    let class = offers.iter().map(|o| word(&o.spec.class).len()).max().unwrap_or(0);
    let row = |offer: &Offer| {
        let note = match (&offer.reason, offer.available) {
            (_, true) => String::new(),
            (Some(reason), false) => format!(" (unavailable: {reason})"),
            (None, false) => " (unavailable)".to_owned(),
        };
        format!("{:name$}  {:class$}  {}{note}\n", offer.spec.name, word(&offer.spec.class), offer.spec.summary)
    };
    offers.iter().map(row).collect()
}

fn as_markdown(offer: &Offer) -> String {
    let spec = offer.spec;
    let mut page = format!("## {}\n\n{}\n\n", spec.name, spec.summary);
    page.push_str(&format!("Class `{}`, asks: {}.", word(&spec.class), word(&spec.asks)));
    if !spec.aliases.is_empty() {
        page.push_str(&format!(" Also: `{}`.", spec.aliases.join("` `")));
    }
    page.push_str("\n\n");
    if !spec.args.is_empty() {
        page.push_str("| argument | type | required | |\n|---|---|---|---|\n");
        for arg in spec.args {
            // Arguments of features that are off here are not in the schema.
            let Some(schema) = offer.schema.pointer(&format!("/properties/{}", arg.name)) else { continue };
            let required = if arg.required { "yes" } else { "" };
            page.push_str(&format!("| {} | {} | {required} | {} |\n", arg.name, kind(schema), arg.about));
        }
        page.push('\n');
    }
    page.push_str(&format!("```json\n{}\n```\n\n", spec.example));
    page
}

fn kind(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    }
    let name = schema.get("type").and_then(Value::as_str).unwrap_or("any");
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(low), Some(high)) => format!("{name} {low}–{high}"),
        (Some(low), None) => format!("{name} ≥ {low}"),
        _ => name.to_owned(),
    }
}
