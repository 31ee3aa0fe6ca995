//! **What this room is for:** what is added to an outcome once the worker is done: the tracker's memory, denials, files
//! that will run later outside. **Who may enter:** the pipeline. **Never done here:** changing what happened.
//! **Where the proof is:** `tests/pipeline.rs`.

use serde_json::{Value, json};

use super::Supervisor;
use super::denials::{self, Cause};
use super::pipeline::Road;
use crate::call::{Code, Outcome};
use crate::path::StartupKind;

/// Startup files of one answer.
const STARTUP_ROWS: usize = 200;

impl Supervisor {
    pub(super) async fn finish(&self, road: &Road, mut outcome: Outcome) -> Outcome {
        if let Some(command) = &road.plan.command {
            if outcome.refusal.as_ref().is_some_and(|refusal| refusal.code == Code::TimedOut) && self.tracked {
                self.tracker().after_time_out(command);
            }
            self.add_denials(&mut outcome);
            self.add_startup_files(&mut outcome).await;
        }
        if self.tracked {
            self.remember(road, &mut outcome);
        }
        outcome
    }

    fn remember(&self, road: &Road, outcome: &mut Outcome) {
        let mut tracker = self.tracker();
        let Some(path) = &road.subject else { return };
        match (road.entry.spec.name, outcome.ok) {
            ("read_file", true) => tracker.after_read(outcome),
            ("write_file" | "edit_file" | "multi_edit", true) => tracker.after_write(path, outcome),
            (_, false) => {
                if let Some(refusal) = outcome.refusal.as_mut().filter(|refusal| refusal.code == Code::NoMatch) {
                    tracker.after_miss(path, refusal);
                }
            }
            _ => {}
        }
    }

    fn add_denials(&self, outcome: &mut Outcome) {
        let text = |key: &str| outcome.details.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut rows = denials::of(text("stderr"), &|target| self.cause(target));
        if rows.is_empty() && !outcome.ok {
            rows = denials::of(text("stdout"), &|target| self.cause(target));
        }
        let refused = outcome.details.remove("refused_names").unwrap_or_default();
        rows = denials::with_names(serde_json::from_value(refused).unwrap_or_default(), rows);
        if !rows.is_empty() {
            let notes: Vec<String> = rows.iter().filter_map(note).collect();
            add_before_last_line(&mut outcome.text, &notes);
        }
        outcome.details.insert("denials".to_owned(), Value::Array(rows));
    }

    /// Which of our layers stands behind a refusal that a program reports.
    fn cause(&self, target: &str) -> Cause {
        let root = self.ground.root.real();
        let path = std::path::Path::new(target);
        let inside = if path.is_absolute() { path.strip_prefix(root).ok() } else { Some(path) };
        let found = |set: &crate::path::PatternSet, rel: &std::path::Path| {
            set.matched_os(rel, false)
                .or_else(|| set.matched_os(rel, true))
                .and_then(|index| set.text(index))
                .map(str::to_owned)
        };
        let clean = inside.map(lexically_clean);
        if let Some(rel) = &clean {
            if let Some(rule) = found(&self.ground.sets.deny, rel) {
                return Cause { by: "mask".to_owned(), rule: Some(rule) };
            }
            if let Some(rule) = found(&self.ground.sets.protect, rel) {
                return Cause { by: "read-only mask".to_owned(), rule: Some(rule) };
            }
            return Cause { by: "file mode or owner".to_owned(), rule: None };
        }
        if let Some(rule) =
            self.ground.sets.deny.matched_absolute(target, false).and_then(|index| self.ground.sets.deny.text(index))
        {
            return Cause { by: "mask".to_owned(), rule: Some(rule.to_owned()) };
        }
        Cause { by: "view".to_owned(), rule: Some("outside of the workspace the view is read-only".to_owned()) }
    }

    /// Files that programs made or changed and that run later, outside.
    async fn add_startup_files(&self, outcome: &mut Outcome) {
        let mut rows = Vec::new();
        if let Err(refusal) = self.ground.cover_new_names().await {
            rows.push(json!({"path": ".", "change": "unknown", "why": refusal.message}));
        }
        rows.extend(self.ground.take_startup().await.iter().take(STARTUP_ROWS).map(|change| {
            let kind = if change.kind == StartupKind::Created { "created" } else { "changed" };
            json!({"path": change.rel.to_string_lossy(), "change": kind})
        }));
        if !rows.is_empty() {
            let names: Vec<&str> = rows.iter().filter_map(|row| row["path"].as_str()).take(10).collect();
            let note =
                format!("[files that run later, outside of the sandbox, were made or changed: {}]", names.join(", "));
            add_before_last_line(&mut outcome.text, &[note]);
        }
        outcome.details.insert("startup_files".to_owned(), Value::Array(rows));
    }
}

fn lexically_clean(path: &std::path::Path) -> std::path::PathBuf {
    use std::path::Component;
    let mut clean = std::path::PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

fn note(row: &Value) -> Option<String> {
    let (target, by, rule) = (row["target"].as_str()?, row["by"].as_str()?, row["rule"].as_str());
    let rule = rule?;
    Some(format!("[refused: {}; by {by}; rule {rule}]", crate::path::shown(target)))
}

fn add_before_last_line(text: &mut String, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let end = text.trim_end_matches('\n').len();
    let at = text.get(..end).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
    text.insert_str(at, &(notes.join("\n") + "\n"));
}
