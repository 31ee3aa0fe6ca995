//! **What this room is for:** what this session has seen of each file, so that nothing is overwritten unseen.
//! **Who may enter:** the pipeline. **Never done here:** reading files; the digests come from the workers.
//! **Where the proof is:** the tests below, `tests/pipeline.rs`.

use std::collections::HashMap;

use serde_json::Value;

use crate::call::{Code, Outcome, Refusal};

/// Files remembered at most; a session that touches more forgets the ones it saw first.
const FILES: usize = 20_000;
/// Misses in a row after which the model is told to read again.
const MISSES: u32 = 3;
/// Time-outs of one command after which it is not run again.
const TIME_OUTS: u32 = 2;

#[derive(Debug, Default)]
struct Seen {
    sha256: String,
    shown: Vec<(u64, u64)>,
    misses: u32,
    order: u64,
}

/// The memory of a session.
#[derive(Debug, Default)]
pub struct Tracker {
    files: HashMap<String, Seen>,
    timed_out: HashMap<String, u32>,
    clock: u64,
}

impl Tracker {
    /// The digest of the content this session last saw of a file.
    #[must_use]
    pub fn known(&self, path: &str) -> Option<String> {
        self.files.get(path).map(|seen| seen.sha256.clone()).filter(|digest| !digest.is_empty())
    }

    /// A read is done: remembers it, or turns a repeated one into a short note.
    pub fn after_read(&mut self, outcome: &mut Outcome) {
        let text = |key: &str| outcome.details.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| outcome.details.get(key).and_then(Value::as_u64).unwrap_or(0);
        let (Some(path), Some(digest)) = (text("path"), text("sha256")) else { return };
        let range = (number("first_line"), number("last_line"));
        let seen = self.entry(&path);
        seen.misses = 0;
        let same = seen.sha256 == digest;
        if !same {
            seen.sha256 = digest;
            seen.shown.clear();
        }
        let again = same && seen.shown.contains(&range);
        if !again {
            seen.shown.push(range);
            seen.shown.truncate(64);
        }
        let has_image = outcome.details.get("image").is_some_and(|image| !image.is_null());
        outcome.details.insert("unchanged".to_owned(), Value::Bool(again));
        if again && !has_image {
            outcome.text = format!("{path} is unchanged since these lines were read in this session.");
            outcome.truncated = None;
        }
    }

    /// A write or an edit is done: what was written counts as seen.
    pub fn after_write(&mut self, path: &str, outcome: &Outcome) {
        if let Some(digest) = outcome.details.get("sha256").and_then(Value::as_str) {
            let seen = self.entry(path);
            seen.shown.clear();
            seen.misses = 0;
            digest.clone_into(&mut seen.sha256);
        }
    }

    /// An edit did not match; the third time in a row the hint says what helps.
    pub fn after_miss(&mut self, path: &str, refusal: &mut Refusal) {
        let seen = self.entry(path);
        seen.misses += 1;
        if seen.misses >= MISSES {
            refusal.hint = Some(format!(
                "this is miss number {} on this file: read it again with read_file, then copy the text exactly",
                seen.misses
            ));
        }
    }

    /// A command ran out of time.
    pub fn after_time_out(&mut self, command: &str) {
        if self.timed_out.len() < FILES {
            *self.timed_out.entry(folded(command)).or_default() += 1;
        }
    }

    /// A command that ran out of time twice is not run a third time.
    ///
    /// # Errors
    /// `limit_reached`.
    pub fn before_command(&self, command: &str) -> Result<(), Refusal> {
        match self.timed_out.get(&folded(command)) {
            Some(times) if *times >= TIME_OUTS => Err(Refusal::new(
                Code::LimitReached,
                format!("this command ran out of time {times} times in this session and is not run again"),
            )
            .hint("split it, narrow it, or give it a larger timeout_ms under another form")),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, path: &str) -> &mut Seen {
        self.clock += 1;
        if self.files.len() >= FILES && !self.files.contains_key(path) {
            let oldest = self.files.iter().min_by_key(|(_, seen)| seen.order).map(|(path, _)| path.clone());
            oldest.map(|path| self.files.remove(&path));
        }
        let seen = self.files.entry(path.to_owned()).or_default();
        seen.order = self.clock;
        seen
    }
}

fn folded(command: &str) -> String {
    command.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(digest: &str, last: u64) -> Outcome {
        Outcome::ok("text")
            .detail("path", "a")
            .detail("sha256", digest)
            .detail("first_line", 1)
            .detail("last_line", last)
    }

    #[test]
    fn the_same_lines_of_the_same_content_are_not_sent_twice() {
        let mut tracker = Tracker::default();
        let texts: Vec<String> = [read("x", 5), read("x", 5), read("x", 6), read("y", 5)]
            .into_iter()
            .map(|mut outcome| {
                tracker.after_read(&mut outcome);
                outcome.text
            })
            .collect();
        assert!(texts[0] == "text" && texts[1].contains("unchanged") && texts[2] == "text" && texts[3] == "text");
        assert_eq!(tracker.known("a").as_deref(), Some("y"));
    }

    #[test]
    fn the_third_miss_names_the_way_out() {
        let mut tracker = Tracker::default();
        let hints: Vec<_> = (0..3)
            .map(|_| {
                let mut refusal = Refusal::new(Code::NoMatch, "no");
                tracker.after_miss("a", &mut refusal);
                refusal.hint
            })
            .collect();
        assert!(hints[1].is_none() && hints[2].as_deref().is_some_and(|hint| hint.contains("read_file")));
        assert_eq!(tracker.known("a"), None, "a miss is no read");
    }

    #[test]
    fn two_time_outs_are_enough() {
        let mut tracker = Tracker::default();
        tracker.after_time_out("sleep  30");
        assert!(tracker.before_command("sleep 30").is_ok());
        tracker.after_time_out("sleep 30 ");
        assert_eq!(tracker.before_command(" sleep 30").expect_err("refused").code, Code::LimitReached);
    }
}
