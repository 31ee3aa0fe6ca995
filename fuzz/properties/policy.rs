//! Properties of the room `policy`: any text is a policy or an error that can be shown; later layers only tighten; the reader
//! of commands and the patterns take any text. Each function takes bytes and asserts; none needs a disk.

use std::path::{Path, PathBuf};

use stockade::access::{Access, Asks, Right, RiskClass};
use stockade::policy::command::{fold, subjects, without_cd_root};
use stockade::policy::glob::{Pattern, PatternSet};
use stockade::policy::wrappers::looked_through;
use stockade::policy::{LayerText, Policy, PolicyError, Request, Sources, Verdict, compose_texts, floor, judge};
use stockade::verdict::Layer;

fn layer(layer: Layer, name: &str, text: &str) -> LayerText {
    LayerText { layer, name: name.to_owned(), text: text.to_owned() }
}

fn compose(texts: &[LayerText]) -> Result<Policy, PolicyError> {
    compose_texts(texts, &Sources { home: Some(PathBuf::from("/home/u")), ..Sources::built_in("/w") })
}

/// Any text is a policy or an error with a place and a message that can be shown; never a panic.
pub fn policy_toml(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for kind in [Layer::Admin, Layer::User, Layer::File, Layer::Project] {
        match compose(&[layer(kind, "p.toml", &text)]) {
            Ok(policy) => {
                assert!(policy.show_text().contains("profile") && policy.digest().len() == 64);
                for request in requests() {
                    let _ = judge(&policy, &request.ask());
                }
            }
            Err(error) => {
                assert!(!error.message.is_empty() && !error.render(false).is_empty() && !error.render(true).is_empty());
                assert!(error.render(false).len() < 64 * 1024, "a message is not a copy of the file");
                assert!(error.line <= text.matches('\n').count() + 1);
            }
        }
    }
}

/// Two policies with `---` between them: whatever the later one says, nothing becomes possible that was not before.
pub fn layers_only_tighten(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (first, later) = text.split_once("\n---\n").unwrap_or((&text, ""));
    for kind in [Layer::File, Layer::Project] {
        tightens(first, later, kind);
    }
}

fn tightens(first: &str, later: &str, kind: Layer) {
    let base = vec![layer(Layer::File, "first.toml", first)];
    let Ok(before) = compose(&base) else { return };
    let with = |times: usize| {
        let mut texts = base.clone();
        texts.extend((0..times).map(|_| layer(kind, "later.toml", later)));
        compose(&texts)
    };
    let (Ok(once), Ok(twice)) = (with(1), with(2)) else { return };
    no_wider(&before, &once);
    no_wider(&once, &twice);
    no_wider(&twice, &once); // a second time changes nothing
}

/// `after ≤ before`, key by key and on every request.
fn no_wider(before: &Policy, after: &Policy) {
    assert!(after.profile() <= before.profile(), "profile");
    assert!(after.mode() <= before.mode(), "mode");
    assert!(after.network() as u8 <= before.network() as u8, "network");
    let below = |path: &Path, trees: &[PathBuf]| trees.iter().any(|tree| path.starts_with(tree));
    assert!(after.read_trees().iter().all(|tree| below(tree, &before.read_trees())), "read");
    assert!(after.write_trees().iter().all(|tree| below(tree, &before.write_trees())), "write");
    let subset = |a: Vec<String>, b: Vec<String>| a.iter().all(|one| b.contains(one));
    assert!(subset(after.allow_write(), before.allow_write()), "allow_write");
    assert!(subset(after.env_pass(), before.env_pass()), "env.pass");
    assert!(after.env_set().iter().all(|(name, value)| before.env_set().get(name) == Some(value)), "env.set");
    assert_eq!(after.limits().meet(before.limits()), after.limits(), "limits");
    assert!(before.required().iter().all(|one| after.required().contains(one)), "require");
    assert!(after.daemons().unwrap_or(0) <= before.daemons().unwrap_or(0), "daemons");
    let (a, b) = (after.tool_options(), before.tool_options());
    assert!((a.strict || !b.strict) && (a.exclude_generated || !b.exclude_generated));
    assert!(b.hidden.iter().all(|one| a.hidden.contains(one)), "hidden");
    assert!(b.secret_globs.iter().all(|one| a.secret_globs.contains(one)), "secret_globs");
    let order = |word: &str, words: [&str; 3]| words.iter().position(|one| *one == word);
    assert!(order(&a.overwrite, ["never", "flag", "always"]) <= order(&b.overwrite, ["never", "flag", "always"]));
    assert!(order(&a.shrink, ["refuse", "warn", "off"]) <= order(&b.shrink, ["refuse", "warn", "off"]));
    for request in requests() {
        let (was, is) = (judge(before, &request.ask()).verdict, judge(after, &request.ask()).verdict);
        assert!(rank(is) >= rank(was), "{} {:?}: {was:?} became {is:?}", request.tool, request.accesses);
    }
}

fn rank(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 1,
        // a tool that is switched off is refused before a block is looked for; no grant turns either
        Verdict::Deny | Verdict::Block => 2,
    }
}

/// A request that owns its parts.
#[derive(Debug)]
struct Sample {
    tool: &'static str,
    asks: Asks,
    accesses: Vec<Access>,
}

impl Sample {
    fn ask(&self) -> Request<'_> {
        Request { tool: self.tool, class: RiskClass::WorkspaceWrite, asks: self.asks, accesses: &self.accesses }
    }
}

/// Calls of every kind that the laws are asked about.
fn requests() -> Vec<Sample> {
    let path = |tool, asks, path: &str, right| Sample {
        tool,
        asks,
        accesses: vec![Access::Path {
            resolved: path.into(),
            spelled: path.into(),
            is_dir: right == Right::List,
            right,
        }],
    };
    let mut all = Vec::new();
    for name in ["a", "src/a.txt", "vault/key", ".env", ".git/hooks/x", ".vscode/settings.json", "conf/live.yml"] {
        all.push(path("read_file", Asks::No, name, Right::Read));
        all.push(path("write_file", Asks::Yes, name, Right::Write));
        all.push(path("ls", Asks::No, name, Right::List));
    }
    for text in ["date", "echo a; echo b", "touch b", "git push origin main", "sh -c 'touch b'", "$X", "'", "rm -rf /"]
    {
        all.push(Sample { tool: "bash", asks: Asks::Yes, accesses: vec![Access::Command(text.into())] });
    }
    all.push(Sample { tool: "plan", asks: Asks::Always, accesses: vec![Access::Nothing] });
    all.push(Sample { tool: "todo_write", asks: Asks::No, accesses: Vec::new() });
    all
}

/// The reader of commands takes any text, and what it finds is bounded by the text.
pub fn command_words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parts = subjects(&text);
    assert!(parts.parts.len() <= text.len() + 1);
    let through = looked_through(&text);
    assert!(through.parts.len() >= parts.parts.len() || through.too_large);
    let _ = floor::stopped_by(&through, Some("/home/u"));
    let once = fold(&text);
    assert_eq!(fold(&once), once, "folding twice changes nothing");
    let _ = without_cd_root(&text, "/w");
}

/// A pattern is read or refused; what it covers, it covers with everything below.
pub fn policy_pattern(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(pattern) = Pattern::new(&text, Some(Path::new("/home/u"))) else { return };
    let set = PatternSet::of(vec![pattern]);
    for path in ["a", "a/b", ".env", "vault/key", "etc/shadow"] {
        if set.matched(path, true).is_some() {
            assert_eq!(set.matched(&format!("{path}/below/it"), false), Some(0), "{text:?} {path}");
        }
    }
}
