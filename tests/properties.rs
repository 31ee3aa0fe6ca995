//! The properties of `fuzz/properties`, on the corpus and on seeded random input.

use std::fs;
use std::path::Path;

#[path = "../fuzz/properties/glob_pattern.rs"]
mod glob_pattern;
#[path = "../fuzz/properties/path_lexical.rs"]
mod path_lexical;
#[path = "../fuzz/properties/path_resolve.rs"]
mod path_resolve;
#[path = "../fuzz/properties/wire_frame.rs"]
mod wire_frame;

/// Inputs made for each property.
const RANDOM_INPUTS: usize = 20_000;

/// xorshift64*: enough to be varied, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(value).unwrap() % below
    }
}

/// Runs a property over its corpus, mutations of it, and strings of `words`.
fn run(target: &str, words: &[&str], check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut corpus: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    corpus.sort();
    let corpus: Vec<Vec<u8>> = corpus.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(corpus.len() >= 24, "a corpus of {} for {target}", corpus.len());
    corpus.iter().for_each(|input| check(input));
    let mut random = Random(0x5eed_0f57_0cca_de01);
    for turn in 0..RANDOM_INPUTS {
        let mut input = Vec::new();
        if turn % 3 == 0 {
            input.clone_from(&corpus[random.next(corpus.len())]);
            for _ in 0..=random.next(3) {
                let at = random.next(input.len() + 1);
                match random.next(3) {
                    0 => input.insert(at, u8::try_from(random.next(256)).unwrap()),
                    1 => drop(input.splice(at..at, words[random.next(words.len())].bytes())),
                    _ => input.truncate(at),
                }
            }
        } else {
            for _ in 0..=random.next(10) {
                input.extend_from_slice(words[random.next(words.len())].as_bytes());
            }
        }
        check(&input);
    }
}

#[test]
fn path_lexical_holds() {
    let words = ["/", "..", ".", "a", "/x/work", "/alias", "-evil", "%2e", "~", "\0", "é", "//", "/../", "\u{202e}"];
    run("path_lexical", &words, path_lexical::check);
}

#[test]
fn path_resolve_holds() {
    let words = [
        "/", "/", "/", "..", ".", "a", "b", "c", "f", "i", "u", "o", "x", "g", "h", "l", "r", "e", "p", "t", "k", "n",
        "@", "new",
    ];
    run("path_resolve", &words, path_resolve::check);
}

#[test]
fn glob_pattern_holds() {
    let words = [
        "*", "**", "/", "/", "a", "b", ".rs", "?", "\n", "\n", "[a-c]", "{a,b}", "[", "{", "}", ",", "!", "\\", "~/",
        ".env", "é", "**/",
    ];
    run("glob_pattern", &words, glob_pattern::check);
}

#[test]
fn wire_frame_holds() {
    let words = [
        "{",
        "}",
        "[",
        "]",
        "\"Done\"",
        "\"Shut\"",
        "\"Build\"",
        "\"Chunk\"",
        ":",
        ",",
        "null",
        "true",
        "-1",
        "1e999",
        "\"ticket\"",
        "\u{fffd}",
        "\0",
        "\"\\ud800\"",
    ];
    run("wire_frame", &words, wire_frame::check);
}
