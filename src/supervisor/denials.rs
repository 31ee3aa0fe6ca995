//! **What this room is for:** what the kernel refused during a command, as far as the command said so, in words of the policy.
//! **Who may enter:** the pipeline. **Never done here:** believing it: the text is the program's; it explains, it decides
//! nothing. **Where the proof is:** the tests below.

use std::path::Path;

use serde_json::{Value, json};

use crate::call::RefusedName;

/// Rows of one answer.
const ROWS: usize = 20;
/// Characters of one target.
const TARGET_CHARS: usize = 300;

/// What programs write when the kernel refuses, and what it was.
const REFUSALS: &[(&str, &str)] = &[
    ("permission denied", "EACCES"),
    ("read-only file system", "EROFS"),
    ("operation not permitted", "EPERM"),
    ("device or resource busy", "EBUSY"),
    ("network is unreachable", "ENETUNREACH"),
];

/// Who refused a target, and by which rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// `mask` `read-only mask` `view` `filter` `network`.
    pub by: String,
    /// The policy's pattern, where one stands behind it.
    pub rule: Option<String>,
}

/// The rows of `details.denials`. `cause` knows the policy.
pub fn of(stderr: &str, cause: &dyn Fn(&str) -> Cause) -> Vec<Value> {
    let mut rows: Vec<Value> = Vec::new();
    for line in stderr.lines() {
        let lower = line.to_lowercase();
        let Some((at, what)) = REFUSALS.iter().find_map(|(words, what)| lower.find(words).map(|at| (at, *what))) else {
            continue;
        };
        let Some(target) = target(line, at) else { continue };
        let cause = if what == "ENETUNREACH" {
            Cause { by: "network".to_owned(), rule: Some("network.mode".to_owned()) }
        } else {
            cause(&target)
        };
        let row = json!({"what": what, "target": target, "by": cause.by, "rule": cause.rule});
        if !rows.contains(&row) {
            rows.push(row);
        }
        if rows.len() == ROWS {
            break;
        }
    }
    rows
}

/// What the name guard refused, in front; it knows its names exactly, so what a program says of the same name is left out.
pub fn with_names(refused: Vec<RefusedName>, said: Vec<Value>) -> Vec<Value> {
    let tells = |said: &Value, name: &RefusedName| {
        let said = said["target"].as_str().unwrap_or_default().trim_start_matches("./");
        Path::new(&name.target).ends_with(said) || Path::new(said).ends_with(&name.target)
    };
    let left: Vec<Value> = said.into_iter().filter(|row| !refused.iter().any(|name| tells(row, name))).collect();
    let exact = refused
        .iter()
        .map(|name| json!({"what": "EACCES", "target": name.target, "by": "name guard", "rule": name.rule}));
    exact.chain(left).take(ROWS).collect()
}

/// The path a line speaks of: the last quoted text, else what stands before the refusal's words.
fn target(line: &str, at: usize) -> Option<String> {
    let quoted = ['\'', '"', '`', '’'].into_iter().filter_map(|end| {
        let start = match end {
            '’' => '‘',
            other => other,
        };
        let (before, _) = line.rsplit_once(end)?;
        let (_, inside) = before.rsplit_once(start)?;
        Some(inside).filter(|inside| !inside.is_empty())
    });
    let plain = || {
        let before = line.get(..at)?.trim_end().trim_end_matches(':').trim_end();
        before.rsplit(": ").next()
    };
    let found = quoted.max_by_key(|inside| inside.contains('/')).or_else(plain)?.trim().trim_matches(['\'', '"']);
    (!found.is_empty()).then(|| found.chars().take(TARGET_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(stderr: &str) -> Vec<String> {
        let cause = |_: &str| Cause { by: "mask".to_owned(), rule: None };
        of(stderr, &cause).iter().map(|row| row["target"].as_str().expect("text").to_owned()).collect()
    }

    #[test]
    fn the_ways_programs_say_it() {
        for (line, target) in [
            ("cat: .env: Permission denied", ".env"),
            ("bash: line 1: /etc/x: Read-only file system", "/etc/x"),
            ("touch: cannot touch '/etc/x': Read-only file system", "/etc/x"),
            ("mkdir: cannot create directory ‘vault/d’: Permission denied", "vault/d"),
            ("PermissionError: [Errno 13] Permission denied: '.env'", ".env"),
            ("Error: EACCES: permission denied, open '/root/.ssh/id'", "/root/.ssh/id"),
            (
                "error: could not lock config file .git/config: Read-only file system",
                "could not lock config file .git/config",
            ),
        ] {
            let found = targets(line);
            assert!(
                found.first().is_some_and(|found| found.contains(target) || target.contains(found.as_str())),
                "{line}: {found:?}"
            );
        }
    }

    #[test]
    fn refused_names_come_first_and_once() {
        let name = |target: &str| RefusedName { target: target.to_owned(), rule: "**/.env".to_owned() };
        let said = of(
            "sh: ./.env: Permission denied\ncat: /w/sub/.env: Permission denied\ncat: x: Permission denied",
            &|_| Cause { by: "mask".to_owned(), rule: None },
        );
        let rows = with_names(vec![name(".env"), name("sub/.env")], said);
        let shown: Vec<_> = rows.iter().map(|row| (row["target"].as_str(), row["by"].as_str())).collect();
        let guard = Some("name guard");
        assert_eq!(shown, [(Some(".env"), guard), (Some("sub/.env"), guard), (Some("x"), Some("mask"))]);
        assert_eq!(with_names((0..50).map(|n| name(&n.to_string())).collect(), Vec::new()).len(), ROWS);
    }

    #[test]
    fn hostile_text_is_bounded() {
        let flood = format!("{}: Permission denied\n", "é".repeat(5000)).repeat(100);
        assert!(targets(&flood).iter().all(|target| target.chars().count() <= TARGET_CHARS));
        let many: String = (0..100).map(|n| format!("x{n}: Permission denied\n")).collect();
        assert_eq!(targets(&many).len(), ROWS);
        assert!(targets(": permission denied\npermission denied\n'': permission denied").is_empty());
    }
}
