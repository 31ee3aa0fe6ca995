//! **What this room is for:** one request, one decision, with the rule that made it. **Who may enter:** the supervisor,
//! `explain`. **Never done here:** clock, disk, environment: same policy and request, same decision.
//! **Where the proof is:** `tests/policy.rs` with `tests/decisions/*.toml`.

use super::file::{Rule, RuleVerdict};
use super::rules::{Subjects, block, word};
use super::values::{Mode, PathRule, Place};
use super::{Policy, floor};
use crate::access::{Access, Asks, Right, RiskClass};
use crate::call::{Code, Refusal};
use crate::verdict::{Decision, Layer, Reason};

/// Characters of a path or a rule that a message shows.
const SHOWN_CHARS: usize = 200;
/// Characters of an operator's reason or message that a refusal shows; all of it stays far below `REFUSAL_CHARS`.
const WORDS_CHARS: usize = 2000;

/// The tools that mode `accept_edits` lets through.
const EDITS: &[&str] = &["apply_patch", "edit_file", "move_file", "multi_edit", "notebook_edit", "write_file"];

/// What a call asks for, after its paths were resolved.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Canonical name of the tool.
    pub tool: &'a str,
    /// Its risk class.
    pub class: RiskClass,
    /// When it asks.
    pub asks: Asks,
    /// What it touches.
    pub accesses: &'a [Access],
}

/// A verdict in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Allow,
    /// A person must say yes.
    Ask,
    /// No.
    Deny,
    /// No, and no grant, mode or option changes it.
    Block,
}

impl Verdict {
    /// The word, as in `[[test]] expect`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
            Verdict::Block => "block",
        }
    }
}

/// A decision with all that can be said about it.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// In one word.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The finished refusal, for `deny` and `block`.
    pub refusal: Option<Refusal>,
}

impl Judgement {
    fn open(verdict: Verdict, rule: impl Into<String>, place: &Place) -> Self {
        Judgement { verdict, reason: reason(rule.into(), place), refusal: None }
    }

    fn no(verdict: Verdict, place: &Place, refusal: Refusal) -> Self {
        let rule = refusal.rule.clone().unwrap_or_default();
        Judgement { verdict, reason: reason(rule, place), refusal: Some(refusal) }
    }
}

fn reason(rule: String, place: &Place) -> Reason {
    Reason {
        rule,
        layer: place.layer,
        place: (place.line > 0 || place.layer != Layer::BuiltIn).then(|| place.to_string()),
    }
}

/// Judges a request. In mode `unattended` a question is still [`Decision::Ask`]: the caller, who knows whether anybody
/// can answer and which grants there are, turns it into `approval_required`.
#[must_use]
pub fn decide(policy: &Policy, request: &Request<'_>) -> Decision {
    let judged = judge(policy, request);
    match (judged.refusal, judged.verdict) {
        (Some(refusal), _) => Decision::Deny(refusal),
        (None, Verdict::Allow) => Decision::Allow(judged.reason),
        (None, _) => Decision::Ask(judged.reason),
    }
}

/// [`decide`] with the verdict in one word and the place of the rule, for explaining and testing.
#[must_use]
pub fn judge(policy: &Policy, request: &Request<'_>) -> Judgement {
    let root = policy.root.to_string_lossy();
    let subjects = Subjects::of(request.accesses, &root);
    let first = disabled(policy, request)
        .or_else(|| hard_block(policy, request, &subjects))
        .or_else(|| closed_path(policy, request));
    if let Some(judged) = first {
        return judged;
    }
    // no rule answers the question whether a plan is good
    let rule = if request.tool == "plan" { None } else { word(&policy.merged.rules, request.tool, &subjects) };
    if let Some((rule, layer)) = rule.filter(|(rule, _)| rule.verdict == RuleVerdict::Deny) {
        return denied_by(rule, layer, request);
    }
    let mode = &policy.merged.mode.now;
    if mode.value == Mode::Plan && request.asks != Asks::No && request.tool != "plan" {
        let refusal = Refusal::new(
            Code::PlanMode,
            format!("`{}` waits: this session is in plan mode, nothing changes yet.", request.tool),
        )
        .rule("mode plan", mode.place.layer.name())
        .hint("Read what you need, then call the tool `plan` with your plan and wait for its approval.");
        return Judgement::no(Verdict::Deny, &mode.place, refusal);
    }
    match rule {
        Some((rule, _)) if rule.verdict == RuleVerdict::Allow => {
            Judgement::open(Verdict::Allow, rule.shown(), &rule.place)
        }
        Some((rule, _)) => Judgement::open(Verdict::Ask, rule.shown(), &rule.place),
        None => by_mode(policy, request),
    }
}

fn by_mode(policy: &Policy, request: &Request<'_>) -> Judgement {
    let mode = &policy.merged.mode.now;
    let free = match (request.asks, mode.value) {
        (Asks::No, _) => return Judgement::open(Verdict::Allow, "a tool that never asks", &Place::built_in()),
        (Asks::Yes, Mode::Open) => true,
        (Asks::Yes, Mode::AcceptEdits) => EDITS.contains(&request.tool),
        _ => false,
    };
    let verdict = if free { Verdict::Allow } else { Verdict::Ask };
    Judgement::open(verdict, format!("mode {}", mode.value.name()), &mode.place)
}

fn disabled(policy: &Policy, request: &Request<'_>) -> Option<Judgement> {
    let place = policy.disabled(request.tool)?;
    let refusal = Refusal::new(Code::Unavailable, format!("The policy has switched `{}` off.", request.tool))
        .rule("tools.disable", place.layer.name())
        .hint("Use another tool, or ask the operator.");
    Some(Judgement::no(Verdict::Deny, place, refusal))
}

fn hard_block(policy: &Policy, request: &Request<'_>, subjects: &Subjects<'_>) -> Option<Judgement> {
    if let Subjects::Command(command) = subjects {
        let home = policy.home.as_deref().and_then(std::path::Path::to_str);
        if let Some(block) = floor::stopped_by(&command.through, home) {
            let place = Place::built_in();
            let refusal = Refusal::new(Code::HardBlock, format!("Blocked: this command {}.", block.what))
                .rule(block.id.as_str(), place.layer.name())
                .hint(format!("No mode and no approval changes this. Instead: {}.", block.instead));
            return Some(Judgement::no(Verdict::Block, &place, refusal));
        }
        if command.through.too_large {
            let place = Place::built_in();
            let refusal =
                Refusal::new(Code::DeniedRule, "This command has too many parts inside each other to be judged.")
                    .rule("command too large to judge", place.layer.name())
                    .hint("Write it as several commands, or as a script file in the workspace.");
            return Some(Judgement::no(Verdict::Deny, &place, refusal));
        }
    }
    let rule = block(&policy.merged.blocks, request.tool, subjects)?;
    let refusal = Refusal::new(Code::HardBlock, format!("Blocked by the policy.{}", because(&rule.reason)))
        .rule(cut(&rule.shown()), rule.place.layer.name())
        .hint("No mode and no approval changes this. Find a way without it, or ask the operator.");
    Some(Judgement::no(Verdict::Block, &rule.place, refusal))
}

/// Denied paths for every right, protected ones for writing. Where a path leads counts, and how it is spelled too.
fn closed_path(policy: &Policy, request: &Request<'_>) -> Option<Judgement> {
    let paths = || {
        request.accesses.iter().filter_map(|access| match access {
            Access::Path { resolved, spelled, is_dir, right } => {
                Some((resolved.as_str(), spelled.as_str(), *is_dir, *right))
            }
            _ => None,
        })
    };
    for (resolved, spelled, is_dir, _) in paths() {
        let rule = policy.denies_path(resolved, is_dir).or_else(|| policy.denies_path(spelled, is_dir));
        if let Some(rule) = rule {
            return Some(closed(Code::DeniedPath, rule, spelled));
        }
    }
    for (resolved, spelled, is_dir, _) in paths().filter(|(.., right)| *right == Right::Write) {
        let rule = policy.protects_path(resolved, is_dir).or_else(|| policy.protects_path(spelled, is_dir));
        if let Some(rule) = rule {
            return Some(closed(Code::ProtectedPath, rule, spelled));
        }
    }
    None
}

fn closed(code: Code, rule: &PathRule, spelled: &str) -> Judgement {
    let (what, hint) = match code {
        Code::DeniedPath => {
            ("is denied", "No tool and no command can read, list or write it. Work without it, or ask the operator.")
        }
        _ => (
            "is protected: it can be read, not written",
            "Show the change to the operator instead; `allow_write` in the policy lifts one exact path.",
        ),
    };
    let message = format!("`{}` {what} by `{}`.{}", cut(spelled), cut(rule.pattern.text()), because(&rule.reason));
    let refusal = Refusal::new(code, message).rule(cut(rule.pattern.text()), rule.place.layer.name()).hint(hint);
    Judgement::no(Verdict::Deny, &rule.place, refusal)
}

fn denied_by(rule: &Rule, layer: Layer, request: &Request<'_>) -> Judgement {
    let own = rule.message.as_deref().map(|text| format!(" {}", cut_to(text, WORDS_CHARS))).unwrap_or_default();
    let message = format!("A rule denies this use of `{}`.{}{own}", request.tool, because(&rule.reason));
    let refusal = Refusal::new(Code::DeniedRule, message)
        .rule(cut(&rule.shown()), layer.name())
        .hint("Find a way without it, or ask the operator to change the rule.");
    Judgement::no(Verdict::Deny, &rule.place, refusal)
}

fn because(reason: &str) -> String {
    let reason = cut_to(reason.trim_end_matches('.'), WORDS_CHARS);
    if reason.is_empty() { String::new() } else { format!(" Reason: {reason}.") }
}

fn cut(text: &str) -> String {
    cut_to(text, SHOWN_CHARS)
}

/// Short and without control characters.
fn cut_to(text: &str, most: usize) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(most).map(clean).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}
