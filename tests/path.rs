//! Paths on a real disk: links, races, names; and the scan for denied names.

use nix::fcntl::{RenameFlags, renameat2};
use nix::sys::stat::Mode;
use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use stockade::call::Code;
use stockade::path::{
    Kind, PatternSet, ResolveError, Resolved, Root, RootError, Scan, ScanError, ScanSets, StartupKind, Target, resolve,
    resolve_entry, scan, similar,
};

/// A workspace with a neighbour that shares its prefix, a folder outside and a second name for the workspace.
struct Bay {
    _dir: tempfile::TempDir,
    top: PathBuf,
    root: Root,
}

fn bay() -> Bay {
    let dir = tempfile::tempdir().unwrap();
    let open = fs::File::open(dir.path()).unwrap();
    let top = fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())).unwrap();
    for folder in ["work/src", "work/vault", "work-evil", "outer"] {
        fs::create_dir_all(top.join(folder)).unwrap();
    }
    fs::write(top.join("work/src/a.txt"), "plain\n").unwrap();
    fs::write(top.join("work/.env"), "TOKEN=otter\n").unwrap();
    fs::write(top.join("work/vault/key"), "walrus\n").unwrap();
    fs::write(top.join("work-evil/x"), "evil\n").unwrap();
    fs::write(top.join("outer/note.txt"), "petrel\n").unwrap();
    symlink(top.join("work"), top.join("alias")).unwrap();
    let root = Root::open(&top.join("work")).unwrap();
    Bay { _dir: dir, top, root }
}

impl Bay {
    fn work(&self, rel: &str) -> PathBuf {
        self.top.join("work").join(rel)
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.work(name)).unwrap();
    }

    fn get(&self, claim: &str) -> Result<Resolved, ResolveError> {
        resolve(&self.root, claim)
    }

    fn rel(&self, claim: &str) -> Result<String, ResolveError> {
        self.get(claim).map(|resolved| resolved.rel)
    }

    fn text(&self, claim: &str) -> String {
        let mut text = String::new();
        let fd = self.get(claim).unwrap().open_read().unwrap();
        fs::File::from(fd).read_to_string(&mut text).unwrap();
        text
    }
}

#[test]
fn spellings_of_one_file() {
    let bay = bay();
    let real = bay.work("src/a.txt");
    for claim in ["src/a.txt", "./src/../src/a.txt", "src//a.txt", real.to_str().unwrap()] {
        assert_eq!(bay.rel(claim).as_deref(), Ok("src/a.txt"), "{claim}");
        assert_eq!(bay.text(claim), "plain\n");
    }
    let aliased = Root::open(&bay.top.join("alias")).unwrap();
    assert_eq!(aliased.real(), bay.top.join("work"));
    assert_eq!(aliased.given(), bay.top.join("alias"));
    for claim in [bay.top.join("alias/src/a.txt"), real.clone(), "src/a.txt".into()] {
        assert_eq!(resolve(&aliased, claim.to_str().unwrap()).unwrap().rel, "src/a.txt");
    }
    assert_eq!(bay.rel(bay.top.join("alias/src/a.txt").to_str().unwrap()), Err(ResolveError::Outside));
    for (claim, rel) in [(".", "."), ("src/..", "."), ("src/", "src"), ("vault/../src/.", "src")] {
        let resolved = bay.get(claim).unwrap();
        assert_eq!((resolved.rel.as_str(), resolved.facts().unwrap().kind), (rel, Kind::Dir), "{claim}");
    }
    assert_eq!(bay.get("src/../.env").unwrap().spelled, ".env");
}

#[test]
fn outside_is_outside_whether_or_not_something_is_there() {
    let bay = bay();
    bay.link("ln", bay.top.join("outer/note.txt"));
    bay.link("lnd", bay.top.join("outer"));
    bay.link("up", "../outer");
    bay.link("dangle", bay.top.join("outer/ghost"));
    bay.link("updangle", "../outer/ghost");
    bay.link("null", "/dev/null");
    bay.link("magic", "/proc/self/cwd");
    bay.link("chain", "lnd");
    let evil = bay.top.join("work-evil/x");
    let none = bay.top.join("work-evil/none");
    let claims = [
        "../work-evil/x",
        "../work-evil/none",
        evil.to_str().unwrap(),
        none.to_str().unwrap(),
        "ln",
        "lnd/note.txt",
        "lnd/none",
        "lnd",
        "lnd/",
        "up/note.txt",
        "up/none/x",
        "dangle",
        "updangle",
        "dangle/x",
        "null",
        "magic",
        "magic/x",
        "chain/note.txt",
        "/",
        "/dev/stdin",
        "/dev/zero",
        "/proc/self/root",
        "src/../../work/src/a.txt",
        "lnd/../x",
        "chain/../none",
    ];
    for claim in claims {
        let error = bay.get(claim).unwrap_err();
        assert_eq!(error, ResolveError::Outside, "{claim}");
        let refusal = error.to_refusal(claim);
        assert_eq!(refusal.code, Code::OutsideWorkspace);
        assert!(refusal.hint.is_some());
    }
    let words = |claim: &str| bay.get(claim).unwrap_err().to_refusal("same").message;
    assert_eq!(words("lnd/note.txt"), words("lnd/none"));
}

#[test]
fn links_that_stay_inside_are_followed() {
    let bay = bay();
    fs::create_dir_all(bay.work("deep/er")).unwrap();
    bay.link("inner", "src/a.txt");
    bay.link("innerdir", "src");
    bay.link("src/back", "..");
    bay.link("far", format!("{}/src/../.env", bay.top.join("work").display()));
    bay.link("round", "../work/src");
    bay.link("other", bay.top.join("alias/src"));
    bay.link("two", "deep/er");
    bay.link("new", "src/later.txt");
    bay.link("newabs", bay.work("src/later2/x.txt"));
    for (claim, rel) in [
        ("inner", "src/a.txt"),
        ("innerdir/a.txt", "src/a.txt"),
        ("src/back/src/back/.env", ".env"),
        ("far", ".env"),
        ("round/a.txt", "src/a.txt"),
        ("other/a.txt", "src/a.txt"),
        ("two/..", "deep"),
        ("two/../../src/../.env", "two/../../src/../.env"),
        ("src/back", "."),
        ("new", "src/later.txt"),
        ("newabs", "src/later2/x.txt"),
        ("innerdir/n1/n2", "src/n1/n2"),
    ] {
        if claim.starts_with("two/../..") {
            // By text this climbs above the root, so it is refused although the kernel would stay inside.
            assert_eq!(bay.rel(claim), Err(ResolveError::Outside));
            continue;
        }
        assert_eq!(bay.rel(claim).as_deref(), Ok(rel), "{claim}");
    }
    assert_eq!(bay.get("far").unwrap().spelled, "far");
    assert_eq!(bay.rel("two/../er").as_deref(), Ok("deep/er"), "the parent of where the link leads");
    let entry = resolve_entry(&bay.root, "inner").unwrap();
    assert_eq!((entry.rel.as_str(), entry.facts().unwrap().kind), ("inner", Kind::Link));
    assert!(entry.open_read().is_err());
    let entry = resolve_entry(&bay.root, "innerdir/a.txt").unwrap();
    assert_eq!((entry.rel.as_str(), entry.facts().unwrap().kind), ("src/a.txt", Kind::File));
    let (parent, name) = bay.get("inner").unwrap().open_parent(&bay.root).unwrap();
    assert_eq!(fs::read_link(format!("/proc/self/fd/{}", parent.as_raw_fd())).unwrap(), bay.work("src"));
    assert_eq!(name, "a.txt");
}

#[test]
fn what_is_missing_says_what_to_make() {
    let bay = bay();
    let resolved = bay.get("src/n1/n2/f.txt").unwrap();
    assert_eq!(resolved.rel, "src/n1/n2/f.txt");
    let Target::Missing { parent_rel, missing, name, .. } = resolved.target else { panic!("there") };
    assert_eq!((parent_rel.as_str(), missing, name.as_str()), ("src", vec!["n1".into(), "n2".into()], "f.txt"));
    for claim in
        ["none/..", "none/../src/a.txt", "src/none/", "src/a.txt/x", "src/a.txt/", "src/a.txt/..", "src/%00a.txt/../x"]
    {
        let code = bay.get(claim).unwrap_err().to_refusal(claim).code;
        assert_eq!(code, Code::NotFound, "{claim}");
    }
    assert!(bay.get("%2e%2e/outer/note.txt").unwrap().facts().is_none());
    assert_eq!(bay.rel("~/x").as_deref(), Ok("~/x"));
    bay.link("loop", "loop2");
    bay.link("loop2", "loop");
    bay.link("bytes", std::ffi::OsStr::from_bytes(b"src/\xff"));
    assert_eq!(bay.rel("loop"), Err(ResolveError::LinkLoop));
    assert_eq!(bay.rel("bytes"), Err(ResolveError::NotUtf8));
    fs::write(bay.work("src").join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
    assert_eq!(bay.rel("bytes"), Err(ResolveError::NotUtf8));
    for bad in ["", "a\0b", &"x".repeat(300), &"a/".repeat(2500)] {
        let refusal = bay.get(bad).unwrap_err().to_refusal(bad);
        assert_eq!(refusal.code, Code::InvalidArguments);
        assert!(refusal.message.len() < 500 && !refusal.message.contains('\0'));
    }
    let deep = "d/".repeat(2000) + "f";
    assert!(bay.get(&deep).unwrap().facts().is_none(), "two thousand names, few descriptors");
}

#[test]
fn a_file_that_is_called_deleted() {
    let bay = bay();
    fs::write(bay.work("x (deleted)"), "still here").unwrap();
    assert_eq!(bay.rel("x (deleted)").as_deref(), Ok("x (deleted)"));
    assert_eq!(bay.text("x (deleted)"), "still here");
}

#[test]
fn special_files_are_named_and_never_opened() {
    let bay = bay();
    nix::unistd::mkfifo(&bay.work("p"), Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bay.work("sock")).unwrap();
    for (claim, kind) in [("p", Kind::Fifo), ("sock", Kind::Socket)] {
        let resolved = bay.get(claim).unwrap();
        assert_eq!(resolved.facts().unwrap().kind, kind);
        assert_eq!(resolved.open_read().unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_root_is_a_folder_and_not_everything() {
    let bay = bay();
    assert!(matches!(Root::open(Path::new("/")), Err(RootError::WholeSystem)));
    assert!(matches!(Root::open(Path::new("/proc/..")), Err(RootError::WholeSystem)));
    assert!(matches!(Root::open(&bay.work("src/a.txt")), Err(RootError::NotAFolder(_))));
    let error = Root::open(&bay.work("none")).unwrap_err();
    assert!(error.to_string().contains("none"));
    let dotted = Root::open(&bay.work("src/..")).unwrap();
    assert_eq!(dotted.given(), bay.top.join("work"));
}

#[test]
fn a_renamed_root_is_the_same_root() {
    let bay = bay();
    fs::rename(bay.top.join("work"), bay.top.join("moved")).unwrap();
    assert_eq!(bay.rel("src/a.txt").as_deref(), Ok("src/a.txt"));
    assert_eq!(bay.text("src/a.txt"), "plain\n");
}

#[test]
fn an_exchange_of_folder_and_link_wins_nothing() {
    let bay = bay();
    fs::create_dir(bay.work("d")).unwrap();
    fs::write(bay.work("d/f"), "inside\n").unwrap();
    fs::write(bay.top.join("outer/f"), "petrel\n").unwrap();
    bay.link("l", bay.top.join("outer"));
    let stop = AtomicBool::new(false);
    let here = fs::File::open(bay.top.join("work")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat2(&here, "d", &here, "l", RenameFlags::RENAME_EXCHANGE).unwrap();
            }
        });
        let (mut inside, mut outside) = (0, 0);
        for turn in 0..20_000 {
            let claim = if turn % 2 == 0 { "d/f" } else { "d/../d/f" };
            match bay.get(claim) {
                Ok(resolved) => {
                    let Target::Exists { fd, .. } = &resolved.target else { panic!("missing") };
                    let path = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
                    assert!(path.starts_with(bay.top.join("work")), "{}", path.display());
                    assert!(matches!(resolved.rel.as_str(), "d/f" | "l/f"), "{}", resolved.rel);
                    inside += 1;
                }
                Err(ResolveError::Outside | ResolveError::Busy) => outside += 1,
                Err(error) => panic!("{error}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(inside > 100 && outside > 100, "both sides of the race were seen: {inside} {outside}");
    });
}

#[test]
fn a_save_by_rename_does_not_hide_a_file() {
    let bay = bay();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::write(bay.work("src/.new"), "plain\n").unwrap();
                fs::rename(bay.work("src/.new"), bay.work("src/a.txt")).unwrap();
            }
        });
        for _ in 0..5_000 {
            assert_eq!(bay.rel("src/a.txt").as_deref(), Ok("src/a.txt"));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn similar_names_are_close_and_never_hidden_ones() {
    let bay = bay();
    for name in ["main.rs", "mein.rs", "Main.RS", "other.txt", "mair.rs"] {
        fs::write(bay.work("src").join(name), "").unwrap();
    }
    let names = similar(&bay.root, "src/main.rs2", &|rel| rel == "src/mair.rs");
    assert_eq!(names.len(), 3);
    assert!(!names.contains(&"src/mair.rs".to_owned()) && !names.contains(&"src/other.txt".to_owned()));
    assert!(similar(&bay.root, "none/x", &|_| false).is_empty());
    assert!(similar(&bay.root, "vault/kee", &|rel| rel.starts_with("vault")).is_empty());
    assert_eq!(similar(&bay.root, ".envs", &|_| false), [".env"]);
}

fn sets(deny: &[&str], protect: &[&str], watch: &[&str]) -> ScanSets {
    let set = |patterns| PatternSet::new(patterns).unwrap();
    ScanSets { deny: set(deny), protect: set(protect), watch: set(watch), ..ScanSets::default() }
}

fn rels(list: &[stockade::path::Found]) -> Vec<&str> {
    list.iter().map(|found| found.rel.to_str().unwrap()).collect()
}

#[test]
fn a_scan_finds_denied_and_protected_names() {
    let bay = bay();
    for folder in [".git/hooks", ".git/objects/aa", "lib/.git/hooks", "wt", "lib/sub"] {
        fs::create_dir_all(bay.work(folder)).unwrap();
    }
    for file in
        [".git/config", ".git/hooks/pre-push", "lib/.git/config", "wt/.git", "lib/sub/one.pem", ".git/hooks/x.pem"]
    {
        fs::write(bay.work(file), "x").unwrap();
    }
    bay.link("lib/.env", bay.top.join("outer/note.txt"));
    bay.link("lib/sub/.env", "../../src/a.txt");
    bay.link("config", ".git/config");
    let protect = ["**/.git/hooks/**", "**/.git/config", "**/.git"];
    let sets = sets(&[".env", "*.pem", "vault/**"], &protect[..2], &[".envrc"]);
    let found = scan(&bay.root, &sets, 10_000).unwrap();
    let denied = [".env", ".git/hooks/x.pem", "lib/.env", "lib/sub/.env", "lib/sub/one.pem", "src/a.txt", "vault"];
    assert_eq!(rels(&found.denied), denied);
    assert!(found.denied.iter().any(|found| found.rel == Path::new("vault") && found.is_dir));
    assert!(found.denied.iter().any(|found| found.rel == Path::new("lib/.env") && found.is_link));
    assert_eq!(rels(&found.protected), [".git/config", ".git/hooks", "lib/.git/config", "lib/.git/hooks"]);
    let facts = *bay.get(".env").unwrap().facts().unwrap();
    assert_eq!(found.denied_identity(facts.dev, facts.ino).unwrap().rel, Path::new(".env"));
    let whole = scan(&bay.root, &self::sets(&[], &protect[2..], &[]), 10_000).unwrap();
    assert_eq!(rels(&whole.protected), [".git", "lib/.git", "wt/.git"]);
    assert!(!whole.protected[2].is_dir);
    assert_eq!(scan(&bay.root, &sets, 5).unwrap_err(), ScanError::TooMany { max: 5 });
    let all = scan(&bay.root, &self::sets(&["**"], &[], &[]), 10_000).unwrap();
    assert_eq!(rels(&all.denied), ["."]);
}

#[test]
fn other_names_of_a_denied_file_are_denied() {
    let bay = bay();
    fs::hard_link(bay.work(".env"), bay.work("src/copy")).unwrap();
    fs::hard_link(bay.work("vault/key"), bay.work("src/key2")).unwrap();
    let found = scan(&bay.root, &sets(&[".env", "vault/**"], &[], &[]), 10_000).unwrap();
    assert_eq!(rels(&found.denied), [".env", "src/copy", "src/key2", "vault"]);
    assert_eq!(found.denied[1].alias_of.as_deref(), Some(Path::new(".env")));
    assert_eq!(found.denied[2].alias_of.as_deref(), Some(Path::new("vault/key")));
    let kept = scan(&bay.root, &sets(&[], &[".env"], &[]), 10_000).unwrap();
    assert_eq!(rels(&kept.protected), [".env", "src/copy"]);
}

#[test]
fn patterns_hold_behind_links() {
    let bay = bay();
    fs::create_dir_all(bay.work("settings/in")).unwrap();
    fs::create_dir_all(bay.work("lib")).unwrap();
    fs::write(bay.work("settings/a.key"), "x").unwrap();
    fs::write(bay.work("settings/in/b.key"), "x").unwrap();
    fs::write(bay.work("settings/in/hosts.yml"), "x").unwrap();
    bay.link("config", "settings");
    bay.link("lib/gh", bay.work("settings/in"));
    bay.link("whole", "settings/in");
    bay.link("hole", bay.top.join("outer"));
    bay.link("self", ".");
    let deny = ["config/*.key", "**/gh/hosts.yml", "hole/**", "self/*/none", "self/**"];
    let found = scan(&bay.root, &sets(&deny[..4], &[], &[]), 10_000).unwrap();
    assert_eq!(rels(&found.denied), ["settings/a.key", "settings/in/hosts.yml"], "nothing outside is named");
    assert_eq!(found.denied[0].alias_of.as_deref(), Some(Path::new("config")));
    let deep = scan(&bay.root, &sets(&["config/**/*.key", "self/config/in/hosts.yml"], &[], &[]), 10_000).unwrap();
    assert_eq!(rels(&deep.denied), ["settings/a.key", "settings/in/b.key", "settings/in/hosts.yml"]);
    let folder = scan(&bay.root, &sets(&["whole/"], &["config/**"], &[]), 10_000).unwrap();
    assert_eq!(rels(&folder.denied), ["settings/in", "whole"]);
    assert_eq!(rels(&folder.protected), ["config", "settings"]);
    let around = scan(&bay.root, &sets(&deny[4..], &[], &[]), 10_000).unwrap();
    assert_eq!(rels(&around.denied), ["self"], "a link up does not hide the workspace");
}

#[test]
fn a_refresh_sees_what_changed() {
    let bay = bay();
    fs::create_dir_all(bay.work("a/b")).unwrap();
    fs::create_dir_all(bay.work(".git/hooks")).unwrap();
    fs::write(bay.work(".envrc"), "one").unwrap();
    let sets = sets(&[".env", "*.pem"], &[".git/hooks/**"], &[".envrc"]);
    let mut known = scan(&bay.root, &sets, 10_000).unwrap();
    assert_eq!(known.refresh(&bay.root, &sets).unwrap().new_denied, []);
    let see = |known: &mut Scan| known.refresh(&bay.root, &sets).unwrap();

    fs::write(bay.work("a/b/k.pem"), "x").unwrap();
    fs::create_dir_all(bay.work("n/m")).unwrap();
    fs::write(bay.work("n/m/.env"), "x").unwrap();
    assert_eq!(rels(&see(&mut known).new_denied), ["a/b/k.pem", "n/m/.env"]);

    fs::rename(bay.work("n"), bay.work("moved")).unwrap();
    fs::remove_file(bay.work("a/b/k.pem")).unwrap();
    let changes = see(&mut known);
    assert_eq!(rels(&changes.new_denied), ["moved/m/.env"]);
    assert_eq!(changes.gone_denied, [PathBuf::from("a/b/k.pem"), PathBuf::from("n/m/.env")]);
    assert_eq!(rels(&known.denied), [".env", "moved/m/.env"]);

    fs::write(bay.work(".git/hooks/pre-push"), "x").unwrap();
    fs::write(bay.work(".envrc"), "two and more").unwrap();
    let changes = see(&mut known);
    let seen: Vec<_> = changes.startup.iter().map(|change| (change.rel.to_str().unwrap(), change.kind)).collect();
    assert_eq!(seen, [(".envrc", StartupKind::Changed), (".git/hooks/pre-push", StartupKind::Created)]);
    assert_eq!(see(&mut known).startup, []);

    fs::hard_link(bay.work(".env"), bay.work("a/twin")).unwrap();
    assert_eq!(rels(&see(&mut known).new_denied), ["a/twin"]);
    fs::rename(bay.work("src/a.txt"), bay.work(".env")).unwrap();
    assert!(rels(&see(&mut known).new_denied).contains(&".env"), "another file by the same name");

    fs::rename(bay.work("moved/m"), bay.work("moved/real")).unwrap();
    symlink("real", bay.work("moved/m")).unwrap();
    see(&mut known);
    assert!(rels(&known.denied).contains(&"moved/real/.env") && !rels(&known.denied).contains(&"moved/m/.env"));
}

#[test]
fn a_quiet_tree_is_not_read_again() {
    let bay = bay();
    let sets = sets(&[".env"], &[], &[]);
    let mut known = scan(&bay.root, &sets, 10_000).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert_eq!(known.refresh(&bay.root, &sets).unwrap().read_again, 3, "young folders are read once more");
    assert_eq!(known.refresh(&bay.root, &sets).unwrap().read_again, 0);
    fs::write(bay.work("vault/.env"), "x").unwrap();
    let changes = known.refresh(&bay.root, &sets).unwrap();
    assert_eq!((changes.read_again, changes.new_denied.len()), (1, 1));
}

#[test]
#[ignore = "a measurement: 100 000 files"]
fn how_long_a_scan_takes() {
    let dir = tempfile::tempdir().unwrap();
    for folder in 0..2_000 {
        let path = dir.path().join(format!("p{}/q{}/r{folder}", folder % 10, folder % 100));
        fs::create_dir_all(&path).unwrap();
        for file in 0..50 {
            fs::write(path.join(format!("file{file}.rs")), "").unwrap();
        }
    }
    fs::write(dir.path().join("p1/.env"), "x").unwrap();
    let root = Root::open(dir.path()).unwrap();
    let deny =
        ["**/.env", "**/.env.*", "**/*.pem", "**/*.key", "**/id_rsa*", "vault/**", "**/credentials.json", "**/.aws/**"];
    let sets = sets(&deny, &[".git/hooks/**", ".git/config", ".vscode/**"], &["**/.envrc", "Makefile"]);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    for _ in 0..3 {
        let start = std::time::Instant::now();
        let mut known = scan(&root, &sets, 4_000_000).unwrap();
        let scanned = start.elapsed();
        let start = std::time::Instant::now();
        let changes = known.refresh(&root, &sets).unwrap();
        let refreshed = start.elapsed();
        println!(
            "scan {scanned:?} of {} entries, refresh {refreshed:?} of {} folders, read {}",
            known.entries,
            known.folder_count(),
            changes.read_again
        );
    }
}
