//! **What this room is for:** why one access is allowed or not, for people: verdict, rule, layer, file and line.
//! **Who may enter:** the command line. **Never done here:** judging by other rules than `decide`; touching the disk.
//! **Where the proof is:** the tests below.

use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::Policy;
use super::decide::{Request, judge};
use super::names::{SubjectKind, subject_kind};
use super::values::Place;
use crate::access::{Access, Right};

/// The answer to "why".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// `allow` `ask` `deny` `block`.
    pub verdict: &'static str,
    /// Code of the refusal, where it is one.
    pub code: Option<crate::call::Code>,
    /// The rule that decided.
    pub rule: String,
    /// Its layer.
    pub layer: &'static str,
    /// Its file and line, where it stands in one.
    pub place: Option<Box<str>>,
    /// What a model would read, or one sentence on what happens.
    pub message: String,
    /// What to do instead.
    pub hint: Option<Box<str>>,
}

impl Explanation {
    /// As lines of text.
    #[must_use]
    pub fn text(&self) -> String {
        let place = self.place.as_deref().unwrap_or("no file: this is built in");
        let mut lines = vec![
            format!("verdict: {}", self.verdict),
            format!("rule:    {}", self.rule),
            format!("layer:   {}", self.layer),
            format!("file:    {place}"),
            format!("says:    {}", self.message),
        ];
        lines.extend(self.hint.as_ref().map(|hint| format!("instead: {hint}")));
        lines.join("\n") + "\n"
    }
}

/// What the access of a tool to a subject given by a person is: a command, or a path read lexically.
///
/// # Errors
/// A path that leaves the root and is denied by no absolute pattern: the tools refuse it as `outside_workspace`.
pub fn access_of(policy: &Policy, tool: &str, subject: &str) -> Result<Access, Explanation> {
    if subject_kind(tool) == SubjectKind::Command {
        return Ok(Access::Command(subject.to_owned()));
    }
    if subject_kind(tool) != SubjectKind::Path {
        return Ok(Access::Nothing);
    }
    let right = match tool {
        "ls" => Right::List,
        "glob" | "grep" | "search_text" => Right::Search,
        "apply_patch" | "delete_file" | "edit_file" | "move_file" | "multi_edit" | "notebook_edit" | "write_file" => {
            Right::Write
        }
        _ => Right::Read,
    };
    let named_home = subject.strip_prefix("~/").and_then(|rest| Some(policy.home.as_ref()?.join(rest)));
    let absolute = lexical(&policy.root.join(named_home.as_deref().unwrap_or(Path::new(subject))));
    let Some(inside) = absolute.strip_prefix(&policy.root).ok().and_then(Path::to_str) else {
        return Err(outside(policy, &absolute));
    };
    let resolved = if inside.is_empty() { ".".to_owned() } else { inside.to_owned() };
    let is_dir = matches!(right, Right::List | Right::Search) || subject.ends_with('/') || resolved == ".";
    Ok(Access::Path { spelled: resolved.clone(), resolved, is_dir, right })
}

fn outside(policy: &Policy, absolute: &Path) -> Explanation {
    let denied = policy.denies_absolute(absolute, true);
    let trees = policy.merged.read.now.iter().chain(&policy.merged.write.now);
    let mut open = trees
        .filter(|tree| absolute.starts_with(&tree.value))
        .map(|tree| (tree.value.display().to_string(), &tree.place));
    let built_in = Place::built_in();
    let (verdict, code, rule, place, message) = match (denied, open.next_back()) {
        (Some(rule), _) => {
            let message = format!("Outside of the workspace, and denied to commands too. {}", rule.reason);
            ("deny", crate::call::Code::DeniedPath, rule.pattern.text().to_owned(), &rule.place, message)
        }
        (None, Some((tree, place))) => {
            let message = "Outside of the workspace: tools refuse it, commands may use this tree.".to_owned();
            ("deny", crate::call::Code::OutsideWorkspace, tree, place, message)
        }
        (None, None) => {
            let message =
                "Outside of the workspace: tools refuse it; commands see the system read-only and no home.".to_owned();
            ("deny", crate::call::Code::OutsideWorkspace, "outside of the root".to_owned(), &built_in, message)
        }
    };
    Explanation {
        verdict,
        code: Some(code),
        rule,
        layer: place.layer.name(),
        place: (place.line > 0).then(|| place.to_string().into()),
        message,
        hint: None,
    }
}

/// `.` and `..` taken out by the text alone: links are not followed here, and the answer says what the names say.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Explains one request.
#[must_use]
pub fn explain(policy: &Policy, request: &Request<'_>) -> Explanation {
    let judged = judge(policy, request);
    let (message, hint) = match &judged.refusal {
        Some(refusal) => (refusal.message.clone(), refusal.hint.clone()),
        None => match judged.verdict {
            super::Verdict::Allow => ("It goes on without a question.".to_owned(), None),
            _ if policy.mode() == super::Mode::Unattended => {
                ("A question that nobody can answer in mode unattended: refused.".to_owned(), None)
            }
            _ => ("A person is asked first.".to_owned(), None),
        },
    };
    Explanation {
        verdict: judged.verdict.name(),
        code: judged.refusal.as_ref().map(|refusal| refusal.code),
        rule: judged.reason.rule,
        layer: judged.reason.layer.name(),
        place: judged.reason.place.map(Into::into),
        message,
        hint: hint.map(Into::into),
    }
}
