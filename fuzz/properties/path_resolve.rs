//! No claim resolves outside of a tree full of links.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use stockade::path::{Kind, Root, Target, resolve, resolve_entry};

struct Tree {
    /// Kept so that the folder stays.
    _dir: tempfile::TempDir,
    root: Root,
}

/// Made once: short names, so that random claims hit them, and links of every sort.
fn tree() -> &'static Tree {
    static TREE: OnceLock<Tree> = OnceLock::new();
    TREE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let work = dir.path().join("w");
        for folder in ["w/a/b/c", "w-evil", "o/a"] {
            fs::create_dir_all(dir.path().join(folder)).expect("a folder");
        }
        for file in ["w/f", "w/a/f", "w/a/b/f", "w-evil/f", "o/f", "o/a/f"] {
            fs::write(dir.path().join(file), "x").expect("a file");
        }
        let outside = dir.path().join("o");
        let links: [(&str, PathBuf); 14] = [
            ("w/i", "a".into()),
            ("w/u", "..".into()),
            ("w/o", "../o".into()),
            ("w/x", outside.clone()),
            ("w/g", outside.join("ghost")),
            ("w/h", "a/ghost".into()),
            ("w/l", "l".into()),
            ("w/r", work.join("a/../f")),
            ("w/e", "../w-evil".into()),
            ("w/p", "/proc/self/root".into()),
            ("w/a/u", "../..".into()),
            ("w/a/b/t", "../../i/b".into()),
            ("w/a/b/k", "../../../w/a".into()),
            ("w/n", "/".into()),
        ];
        for (name, target) in links {
            symlink(target, dir.path().join(name)).expect("a link");
        }
        Tree { root: Root::open(&work).expect("the root"), _dir: dir }
    })
}

/// Fails when a claim resolves outside, or under another name than the kernel's.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let tree = tree();
    // `@` stands for the root's own absolute path, which random input could not guess.
    let text = text.replace('@', &tree.root.real().to_string_lossy());
    for (answer, follow) in [(resolve(&tree.root, &text), true), (resolve_entry(&tree.root, &text), false)] {
        let resolved = match answer {
            Ok(resolved) => resolved,
            Err(error) => {
                let refusal = error.to_refusal(&text);
                assert!(refusal.message.len() < 4_000 && !refusal.message.contains(char::is_control));
                continue;
            }
        };
        assert!(!text.contains('\0'));
        assert!(!resolved.rel.split('/').any(|name| name == ".."), "{text:?} is {:?}", resolved.rel);
        match &resolved.target {
            Target::Exists { fd, facts } => {
                assert_eq!(
                    place(fd),
                    tree.root
                        .real()
                        .join(Path::new(&resolved.rel).strip_prefix(".").unwrap_or(Path::new(&resolved.rel))),
                    "{text:?}"
                );
                assert!(!follow || facts.kind != Kind::Link, "{text:?} ends in a link");
            }
            Target::Missing { parent, missing, name, .. } => {
                assert!(place(parent).starts_with(tree.root.real()), "{text:?} would be made in {:?}", place(parent));
                for name in missing.iter().chain([name]) {
                    assert!(!name.is_empty() && name != ".." && name != "." && !name.contains('/'), "{text:?}");
                }
            }
        }
    }
}

/// Where the kernel says that a descriptor's object is.
fn place(fd: &impl AsFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())).expect("a path")
}
