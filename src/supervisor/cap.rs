//! **What this room is for:** the last bound on every answer. **Who may enter:** the pipeline.
//! **Never done here:** formatting. **Where the proof is:** the tests below.

use crate::call::{Outcome, Truncated};
use crate::limits::{OUTCOME_CHARS, REFUSAL_CHARS};

/// Cuts the text in the middle, and message and hint of a refusal, to their bounds.
#[must_use]
pub fn outcome(mut outcome: Outcome) -> Outcome {
    if let Some(refusal) = &mut outcome.refusal {
        refusal.message = start(&refusal.message, REFUSAL_CHARS / 2);
        refusal.hint = refusal.hint.as_deref().map(|hint| start(hint, REFUSAL_CHARS / 2));
    }
    let length = outcome.text.chars().count();
    if length > OUTCOME_CHARS {
        let keep = OUTCOME_CHARS - 100;
        let left_out = length - keep;
        let head: String = outcome.text.chars().take(keep / 2).collect();
        let tail: String = outcome.text.chars().skip(length - (keep - keep / 2)).collect();
        outcome.text = format!("{head}\n[… {left_out} characters left out …]\n{tail}");
        outcome.truncated.get_or_insert(Truncated {
            omitted_bytes: Some(left_out as u64),
            reason: "outcome_cap".to_owned(),
            hint: "ask for less at a time".to_owned(),
            ..Truncated::default()
        });
    }
    outcome
}

fn start(text: &str, chars: usize) -> String {
    if text.len() <= chars { text.to_owned() } else { text.chars().take(chars).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Code, Refusal};

    #[test]
    fn a_text_is_cut_in_the_middle_and_says_so() {
        let text = format!("HEAD{}TAIL", "é".repeat(OUTCOME_CHARS * 2));
        let cut = outcome(Outcome::ok(text));
        assert!(
            cut.text.chars().count() <= OUTCOME_CHARS && cut.text.starts_with("HEAD") && cut.text.ends_with("TAIL")
        );
        assert_eq!(cut.truncated.map(|cut| cut.reason).as_deref(), Some("outcome_cap"));
        assert_eq!(outcome(Outcome::ok("short")).truncated, None);
    }

    #[test]
    fn a_refusal_is_bounded_whatever_came_in() {
        let long = Refusal::new(Code::NotFound, "é".repeat(50_000)).hint("é".repeat(50_000));
        let cut = outcome(long.into()).refusal.expect("still a refusal");
        assert!(cut.message.chars().count() + cut.hint.expect("hint").chars().count() <= REFUSAL_CHARS);
    }
}
