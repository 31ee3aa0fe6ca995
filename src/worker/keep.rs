//! **What this room is for:** the bounded memory of a stream: its first and last bytes, and how many were between.
//! **Who may enter:** `worker::child`. **Never done here:** I/O. **Where the proof is:** the tests below.

use std::collections::VecDeque;

use crate::call::Kept;

/// Takes a stream of any length; holds at most `keep` bytes of it.
#[derive(Debug)]
pub struct Keeper {
    keep: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    seen: u64,
}

impl Keeper {
    /// Keeps `keep` bytes: half from the start, half from the end.
    #[must_use]
    pub fn new(keep: usize) -> Self {
        Keeper { keep, head: Vec::new(), tail: VecDeque::new(), seen: 0 }
    }

    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.seen = self.seen.saturating_add(bytes.len() as u64);
        let half = self.keep / 2;
        let room = half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        let tail_room = self.keep - half;
        let rest = rest.get(rest.len().saturating_sub(tail_room)..).unwrap_or_default();
        let over = (self.tail.len() + rest.len()).saturating_sub(tail_room);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// The end of the stream. The cut, if there is one, falls between characters.
    #[must_use]
    pub fn finish(self) -> Kept {
        let Keeper { mut head, tail, seen, .. } = self;
        let mut tail = Vec::from(tail);
        let held = (head.len() + tail.len()) as u64;
        if held == seen {
            head.append(&mut tail);
            return Kept { head, tail: Vec::new(), omitted: 0 };
        }
        head.truncate(head.len() - cut_short(&head));
        let stray = tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        tail.drain(..stray);
        let omitted = seen - (head.len() + tail.len()) as u64;
        Kept { head, tail, omitted }
    }
}

/// How many bytes at the end belong to a character that is not complete.
fn cut_short(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(4).enumerate() {
        let needed = match byte {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if back + 1 < needed { back + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(keep: usize, chunks: &[&[u8]]) -> Kept {
        let mut keeper = Keeper::new(keep);
        chunks.iter().for_each(|chunk| keeper.take(chunk));
        keeper.finish()
    }

    #[test]
    fn what_fits_is_whole() {
        let kept = kept(10, &[b"01234", b"56789"]);
        assert_eq!((kept.head.as_slice(), kept.omitted), (&b"0123456789"[..], 0));
    }

    #[test]
    fn the_middle_goes_and_is_counted() {
        let kept = kept(10, &[b"HEAD!", &[b'x'; 1000], b"TAIL!"]);
        assert_eq!((kept.head.as_slice(), kept.tail.as_slice(), kept.omitted), (&b"HEAD!"[..], &b"TAIL!"[..], 1000));
    }

    #[test]
    fn a_cut_never_falls_inside_a_character() {
        for shift in 0..4 {
            for keep in 20..30 {
                let text = "a".repeat(shift) + &"中é😀".repeat(100);
                let kept = kept(keep, &[text.as_bytes()]);
                let (head, tail) =
                    (String::from_utf8(kept.head).expect("head"), String::from_utf8(kept.tail).expect("tail"));
                assert_eq!(head.len() as u64 + kept.omitted + tail.len() as u64, text.len() as u64);
                assert!(text.starts_with(&head) && text.ends_with(&tail));
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_as_they_are() {
        let kept = kept(8, &[&[0xff; 100]]);
        assert_eq!((kept.head.len(), kept.tail.len(), kept.omitted), (4, 4, 92));
    }
}
