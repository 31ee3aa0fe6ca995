//! **What this room is for:** which names a search or a listing leaves out: denied, secret, version control, ignored.
//! **Who may enter:** `walk`, `ls`. **Never done here:** judging a call (the supervisor did), running git.
//! **Where the proof is:** `tools/tests.rs` and the tests of `walk`.
//!
//! Ignore files are workspace content: they are opened without following links or waiting for pipes, bounded, and can
//! only hide more; they never bring back what the policy hides.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::call::{Code, Refusal, ToolOptions};
use crate::limits::{IGNORE_FILE_BYTES, IGNORE_FILE_LINES};
use crate::tools::folder;

/// Never returned or read by a search, whatever is asked.
pub(super) const SKIPPED: [&str; 7] = [".git", ".svn", ".hg", ".bzr", ".jj", ".sl", "node_modules"];
/// Left out when `[search] exclude_generated` is on.
const GENERATED: [&str; 4] = ["dist", "build", ".next", ".turbo"];
/// Names that hold secrets by custom.
const SECRETS: [&str; 8] = [".env", ".env.*", "*.pem", "*.key", "id_rsa", "id_ed25519", "*.p12", "*.pfx"];
/// Templates that hold none.
const NOT_SECRET: [&str; 3] = [".env.example", ".env.sample", ".env.template"];
/// The kind of ignore file that belongs to git and ends at a nested repository.
const GIT_IGNORE: &str = ".gitignore";
/// Kinds that hold for everything below, later ones win.
const OWN_IGNORES: [&str; 3] = [".ignore", ".shiroignore", ".stockadeignore"];

/// What is hidden by the policy, as one matcher over root-relative paths.
#[derive(Debug)]
pub(super) struct Hidden(Gitignore);

impl Hidden {
    /// Builds the matcher. A pattern that cannot be understood hides nothing, so it is an error.
    pub(super) fn new(patterns: &[String]) -> Result<Hidden, Refusal> {
        let mut builder = GitignoreBuilder::new(".");
        for pattern in patterns {
            for line in hiding_lines(pattern) {
                builder.add_line(None, &line).map_err(|_| cannot(pattern))?;
            }
        }
        builder.build().map(Hidden).map_err(|_| cannot("the denied paths"))
    }

    /// Whether this root-relative path, or a folder above it, is hidden.
    pub(super) fn hides(&self, path: &Path, is_dir: bool) -> bool {
        !self.0.is_empty() && self.0.matched_path_or_any_parents(path, is_dir).is_ignore()
    }
}

fn cannot(pattern: &str) -> Refusal {
    Refusal::new(
        Code::CannotEnforce,
        format!("The denied path pattern `{}` cannot be used.", super::args::shown(pattern)),
    )
    .hint("Mend the pattern in the policy.")
}

/// Lines of gitignore grammar for one denied pattern. `dir/**` hides the folder itself as well; `!` and `#` in front and
/// blanks at the end are part of the name here: a denial cannot be cancelled by its spelling.
fn hiding_lines(pattern: &str) -> Vec<String> {
    let mut line = pattern.to_owned();
    if line.starts_with(['!', '#']) {
        line.insert(0, '\\');
    }
    let kept = line.trim_end().len();
    let blanks = line.split_off(kept);
    for blank in blanks.chars() {
        line.push('\\');
        line.push(blank);
    }
    let mut lines = vec![line.clone()];
    if let Some(folder) = line.strip_suffix("/**").filter(|folder| !folder.trim_matches(['/', '*']).is_empty()) {
        // Without an inner slash the name would hold at any depth; the pattern was anchored.
        let anchor = if folder.contains('/') { "" } else { "/" };
        lines.push(format!("{anchor}{folder}/"));
    }
    lines
}

/// Everything that a search leaves out.
#[derive(Debug)]
pub(super) struct Rules {
    hidden: Hidden,
    secrets: Gitignore,
    more_secrets: Gitignore,
    exclude_generated: bool,
    include_hidden: bool,
    /// Ignore files do not count.
    pub(super) include_ignored: bool,
}

impl Rules {
    pub(super) fn new(options: &ToolOptions, include_hidden: bool, include_ignored: bool) -> Result<Rules, Refusal> {
        let secrets = names_matcher(SECRETS.iter().copied())?;
        let added = options.secret_globs.iter().map(String::as_str).filter(|glob| !SECRETS.contains(glob));
        Ok(Rules {
            hidden: Hidden::new(&options.hidden)?,
            secrets,
            more_secrets: names_matcher(added)?,
            exclude_generated: options.exclude_generated,
            include_hidden,
            include_ignored,
        })
    }

    /// Left out whatever ignore files say. `path` is root-relative, `name` its last part.
    pub(super) fn never(&self, path: &Path, name: &OsStr, is_dir: bool) -> bool {
        let text = name.to_str();
        let named = |list: &[&str]| text.is_some_and(|text| list.contains(&text));
        named(&SKIPPED)
            || (self.exclude_generated && is_dir && named(&GENERATED))
            || (!self.include_hidden && name.as_encoded_bytes().starts_with(b"."))
            || self.is_secret(path, name, is_dir)
            || self.hidden.hides(path, is_dir)
    }

    fn is_secret(&self, path: &Path, name: &OsStr, is_dir: bool) -> bool {
        let template =
            name.to_str().is_some_and(|text| NOT_SECRET.iter().any(|plain| plain.eq_ignore_ascii_case(text)));
        (!template && self.secrets.matched(path, is_dir).is_ignore())
            || self.more_secrets.matched(path, is_dir).is_ignore()
    }

    /// Why nothing below (or at) this root-relative start is ever shown, if that is so.
    pub(super) fn shut_start(&self, start: &Path, is_dir: bool) -> Option<String> {
        let mut path = PathBuf::new();
        let parts: Vec<_> = start.components().collect();
        for (n, part) in parts.iter().enumerate() {
            let name = part.as_os_str();
            path.push(name);
            let dir = is_dir || n + 1 < parts.len();
            if name.to_str().is_some_and(|text| SKIPPED.contains(&text)) {
                return Some(format!("Searches never look into `{}`.", name.to_string_lossy()));
            }
            if self.is_secret(&path, name, dir) {
                return Some("Searches never read files with the names of secrets.".to_owned());
            }
            if self.hidden.hides(&path, dir) {
                return Some("The policy keeps this place from searches.".to_owned());
            }
        }
        None
    }
}

fn names_matcher<'a>(globs: impl Iterator<Item = &'a str>) -> Result<Gitignore, Refusal> {
    let mut builder = GitignoreBuilder::new(".");
    // A secret stays one in capitals. The builder's own errors are about the file system and cannot occur here.
    builder.case_insensitive(true).map_err(|_| cannot("secret names"))?;
    for glob in globs {
        for line in hiding_lines(glob) {
            builder.add_line(None, &line).map_err(|_| cannot(glob))?;
        }
    }
    builder.build().map_err(|_| cannot("secret names"))
}

/// The ignore files of one folder, and of the folders above it.
#[derive(Debug)]
pub(super) struct Level {
    up: Option<Rc<Level>>,
    base: PathBuf,
    own: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    is_repository: bool,
}

impl Level {
    /// Reads what the folder has. `base` is its root-relative path (empty for the root).
    pub(super) fn read(up: Option<Rc<Level>>, base: &Path, folder: &OwnedFd, rules: &Rules) -> Rc<Level> {
        let readable = |name: &str| !rules.hidden.hides(&base.join(name), false);
        let own: Vec<String> =
            OWN_IGNORES.iter().filter(|name| readable(name)).filter_map(|name| text_of(folder, name)).collect();
        let git: Vec<String> =
            [GIT_IGNORE].iter().filter(|name| readable(name)).filter_map(|n| text_of(folder, n)).collect();
        let is_repository = folder::stat_in(folder, OsStr::new(".git")).is_ok();
        let exclude: Vec<String> = if is_repository { exclude_of(folder).into_iter().collect() } else { Vec::new() };
        Rc::new(Level {
            up,
            base: base.to_owned(),
            own: matcher(&own),
            git: matcher(&git),
            exclude: matcher(&exclude),
            is_repository,
        })
    }

    /// Whether ignore files hide this root-relative path. The nearest folder with an opinion decides; files of our own
    /// kinds before `.gitignore`, that before `.git/info/exclude`; git's end at the repository they stand in.
    pub(super) fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let (mut own, mut git, mut exclude) = (None, None, None);
        let mut in_repository = true;
        let mut level = Some(self);
        while let Some(here) = level {
            if let Ok(relative) = path.strip_prefix(&here.base) {
                let ask = |matcher: &Gitignore| verdict(&matcher.matched(relative, is_dir));
                own = own.or_else(|| ask(&here.own));
                if in_repository {
                    git = git.or_else(|| ask(&here.git));
                    exclude = exclude.or_else(|| ask(&here.exclude));
                }
            }
            in_repository &= !here.is_repository;
            level = here.up.as_deref();
        }
        own.or(git).or(exclude).unwrap_or(false)
    }
}

fn verdict<T>(found: &Match<T>) -> Option<bool> {
    match found {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    }
}

fn matcher(texts: &[String]) -> Gitignore {
    if texts.is_empty() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(".");
    for line in texts.iter().flat_map(|text| text.lines()).take(IGNORE_FILE_LINES) {
        // A line that is no pattern is skipped, as git does.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

fn text_of(folder: &OwnedFd, name: &str) -> Option<String> {
    let (file, _) = folder::open_file(folder, OsStr::new(name)).ok()?;
    let bytes = folder::read_bounded(&file, IGNORE_FILE_BYTES).ok()??;
    Some(String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes)).into_owned())
}

fn exclude_of(folder: &OwnedFd) -> Option<String> {
    let info = folder::open_dir_below(folder, Path::new(".git/info")).ok()?;
    text_of(&info, "exclude")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hides(pattern: &str, path: &str, is_dir: bool) -> bool {
        Hidden::new(&[pattern.to_owned()]).unwrap().hides(Path::new(path), is_dir)
    }

    #[test]
    fn denied_patterns_hide_and_cannot_be_cancelled() {
        assert!(hides("**/.env", ".env", false) && hides("**/.env", "a/b/.env", false));
        assert!(hides("vault/**", "vault", true) && hides("vault/**", "vault/a/b", false));
        assert!(!hides("vault/**", "pub/vault", true), "the pattern is anchored");
        assert!(!hides("vault/**", "vault", false) || hides("vault/**", "vault/x", false));
        assert!(hides("**/deep/**", "a/deep", true) && hides("**/deep/**", "a/deep/x", false));
        assert!(hides("!odd", "!odd", false) && hides("#odd", "#odd", false) && hides("odd ", "odd ", false));
        assert!(hides("*.pem", "a/b.pem/inner", false), "below a hidden folder everything is hidden");
        let two = Hidden::new(&["secret".to_owned(), "!secret".to_owned()]).unwrap();
        assert!(two.hides(Path::new("secret"), false));
    }
}
