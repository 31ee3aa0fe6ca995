//! The laws of the room `policy` on seeded input: layers only tighten, and nothing panics.

#[path = "../fuzz/properties/policy.rs"]
mod properties;

/// xorshift64: the same numbers every time.
struct Seed(u64);

impl Seed {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

/// Pieces of a policy; those for the top of the file first.
const PIECES: &[&str] = &[
    "extends = \"default\"\n",
    "extends = \"ci\"\n",
    "mode = \"open\"\n",
    "mode = \"plan\"\n",
    "profile = \"strict\"\n",
    "profile = \"default\"\n",
    "[network]\nmode = \"open\"\n",
    "[filesystem]\nread = [\"/opt\", \"/srv/a\"]\nwrite = [\"/srv\"]\n",
    "[filesystem]\nread = [\"/opt/x\", \"/opt\"]\nallow_write = [\".vscode/settings.json\"]\n",
    "[filesystem]\nprotect = [\"src/**\"]\n",
    "[env]\npass = [\"A\"]\nset = { B = \"1\" }\n",
    "[limits]\npids = 9\n",
    "[limits]\npids = 99999\nrun_timeout_ms = 5\n",
    "[[rule]]\ntool = \"bash\"\nverdict = \"allow\"\n",
    "[[rule]]\ntool = \"bash\"\nmatch = \"echo *\"\nverdict = \"allow\"\n",
    "[[rule]]\ntool = \"*\"\nverdict = \"ask\"\n",
    "[[rule]]\ntool = \"write*\"\nmatch = \"src/**\"\nverdict = \"deny\"\n",
    "[[rule]]\ntool = \"bash\"\nmatch = \"date\"\nverdict = \"deny\"\n",
    "[[rule]]\ntool = \"write_file\"\nverdict = \"allow\"\n",
    "[[deny_path]]\npattern = \"vault/**\"\n",
    "[[hard_block]]\ntool = \"bash\"\nmatch = \"touch*\"\n",
    "[tools]\ndisable = [\"bash\"]\n",
    "[write]\noverwrite = \"always\"\nshrink = \"off\"\n",
    "[search]\nexclude_generated = true\n",
    "[daemons]\nenabled = true\nmax = 3\n",
    "[require]\nguarantees = [\"net.none\"]\n",
];

/// A policy in which no plain table and no key stands twice, so that it loads more often than not.
fn policy(seed: &mut Seed, from: usize) -> String {
    let count = seed.next(7);
    let mut chosen: Vec<usize> = (0..count).map(|_| from + seed.next(PIECES.len() - from)).collect();
    chosen.sort_unstable();
    chosen.dedup();
    let head = |at: usize| PIECES[at].split(['=', '\n']).next().unwrap_or_default();
    chosen.dedup_by(|a, b| head(*a) == head(*b) && !head(*a).starts_with("[["));
    chosen.into_iter().fold("version = 1\n".to_owned(), |text, at| text + PIECES[at])
}

#[test]
fn layers_only_tighten() {
    let mut seed = Seed(0x5eed);
    for _ in 0..120 {
        let text = format!("{}\n---\n{}", policy(&mut seed, 0), policy(&mut seed, 2));
        properties::layers_only_tighten(text.as_bytes());
    }
}

const BITS: &[&str] = &[
    "$(",
    ")",
    "`",
    "'",
    "\"",
    "\\",
    "${",
    "}",
    "<<E\n",
    "E\n",
    "|",
    "&&",
    ";",
    "(",
    "case x in",
    "esac",
    "for ",
    "do ",
    "a",
    "rm -rf /",
    " ",
    "\n",
    "<(",
    "env ",
    "sh -c ",
    "[[",
    "]]",
    "=",
    "x=(",
    "#",
    "$'",
    "é",
    "\0",
    "*",
    "/",
    "**",
    "[",
    "!",
];

#[test]
fn any_command_and_any_pattern_is_read() {
    let mut seed = Seed(0xb17e5);
    for _ in 0..1500 {
        let count = seed.next(40);
        let text: String = (0..count).map(|_| BITS[seed.next(BITS.len())]).collect();
        properties::command_words(text.as_bytes());
        properties::policy_pattern(text.as_bytes());
    }
}

/// Every nesting form, very deep and very long: bounded time, no stack.
#[test]
fn hostile_lengths_end() {
    for piece in BITS.iter().chain(&[
        "$((",
        "a;",
        "a|",
        "f(){ ",
        "x=$(",
        "if ",
        "$'\\x",
        "<<<",
        "{ ",
        "a>",
        "env sh -c '",
        "echo a|xargs ",
    ]) {
        let text = piece.repeat(200_000 / piece.len());
        let start = std::time::Instant::now();
        properties::command_words(text.as_bytes());
        assert!(start.elapsed().as_secs() < 20, "{piece:?} took {:?}", start.elapsed());
    }
}

#[test]
fn any_bytes_are_a_policy_or_an_error() {
    let mut seed = Seed(0xdead);
    for _ in 0..60 {
        let mut text = policy(&mut seed, 0);
        let at = seed.next(text.len() + 1);
        if text.is_char_boundary(at) {
            text.insert_str(at, BITS[seed.next(BITS.len())]);
        }
        properties::policy_toml(text.as_bytes());
    }
    let bytes: Vec<u8> = (0..4096).map(|_| u8::try_from(seed.next(256)).unwrap()).collect();
    properties::policy_toml(&bytes);
    properties::command_words(&bytes);
    properties::policy_pattern(&bytes);
}
