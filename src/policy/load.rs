//! **What this room is for:** finding, opening and reading the policy files of all layers, in their order.
//! **Who may enter:** `cli`, `supervisor`, tests. **Never done here:** judging; reading a workspace file through a link.
//! **Where the proof is:** `tests/policy.rs`.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::Mode as Bits;

use super::compose::{Merged, Power};
use super::file::{Origin, Stated, parse};
use super::glob::Pattern;
use super::keys::{BUILT_INS, MODES, PROFILES};
use super::values::{Mode, PathRule, Place, Placed, Profile};
use super::{Policy, PolicyError};
use crate::limits::POLICY_BYTES;
use crate::verdict::Layer;

const BASE: &str = include_str!("../../policies/base.toml");
const DEFAULT: &str = include_str!("../../policies/default.toml");
const STRICT: &str = include_str!("../../policies/strict.toml");
const CI: &str = include_str!("../../policies/ci.toml");
const AUDITED: &str = include_str!("../../policies/audited.toml");

/// The workspace's own policy, relative to the root.
pub const PROJECT_FILE: &str = ".stockade/policy.toml";

/// Where the layers come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The workspace, absolute and real.
    pub root: PathBuf,
    /// What `~` means; `None` makes every `~` in a policy an error.
    pub home: Option<PathBuf>,
    /// The admin's file; `/etc/stockade/policy.toml`.
    pub admin: PathBuf,
    /// The folder that holds `stockade/policy.toml` of the user (`$XDG_CONFIG_HOME`, else `~/.config`).
    pub config_home: Option<PathBuf>,
    /// `--policy` files in their order.
    pub files: Vec<PathBuf>,
    /// `--profile`.
    pub profile: Option<String>,
    /// `--mode`.
    pub mode: Option<String>,
}

impl Sources {
    /// What the process was started with: `HOME` and `XDG_CONFIG_HOME` of the operator.
    #[must_use]
    pub fn of_process(root: PathBuf, files: Vec<PathBuf>, profile: Option<String>, mode: Option<String>) -> Self {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let root = crate::path::Root::open(&root).map_or(root, |opened| opened.real().to_path_buf());
        Sources {
            home: absolute("HOME"),
            config_home: absolute("XDG_CONFIG_HOME"),
            files,
            profile,
            mode,
            ..Sources::built_in(root)
        }
    }

    /// The built-in layers alone, for this root.
    #[must_use]
    pub fn built_in(root: impl Into<PathBuf>) -> Self {
        Sources {
            root: root.into(),
            home: None,
            admin: PathBuf::from("/etc/stockade/policy.toml"),
            config_home: None,
            files: Vec::new(),
            profile: None,
            mode: None,
        }
    }
}

/// A file's text and what it is to the law of layers.
#[derive(Debug, Clone)]
pub struct LayerText {
    /// The layer.
    pub layer: Layer,
    /// The name in messages.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Reads all layers and makes the policy.
///
/// # Errors
/// The first fault: a file that cannot be read or parsed, an admin file that others can write, an unknown option value.
pub fn load(sources: &Sources) -> Result<Policy, PolicyError> {
    let mut texts = Vec::new();
    texts.extend(optional(Layer::Admin, &sources.admin, check_owner)?);
    if let Some(folder) = &sources.config_home {
        texts.extend(optional(Layer::User, &folder.join("stockade/policy.toml"), |_, _| Ok(()))?);
    }
    for path in &sources.files {
        let name = path.display().to_string();
        let file = open_plain(path).map_err(|e| PolicyError::whole(&name, cannot_read(&e)))?;
        texts.push(LayerText { layer: Layer::File, text: read_all(file, &name)?, name });
    }
    texts.extend(project(&sources.root)?);
    compose_texts(&texts, sources)
}

/// The same from texts that were read before: nothing here touches the disk.
///
/// # Errors
/// As [`load`], but for the reading.
pub fn compose_texts(texts: &[LayerText], sources: &Sources) -> Result<Policy, PolicyError> {
    let home = sources.home.as_deref();
    let shipped = |name: &str, text: &str| parse(text, &Origin { layer: Layer::BuiltIn, name, home, shipped: true });
    let mut files = Vec::new();
    let mut first = true;
    for one in texts {
        let stated = parse(&one.text, &Origin { layer: one.layer, name: &one.name, home, shipped: false })?;
        let power = match one.layer {
            Layer::Admin | Layer::User => Power::Sets,
            Layer::File if std::mem::take(&mut first) => Power::Sets,
            _ => Power::Tightens,
        };
        if let (Some(extends), Power::Tightens) = (&stated.extends, power) {
            let mut error = PolicyError::at(
                &one.name,
                &one.text,
                &line_span(&one.text, extends.place.line),
                "`extends` stands in a later file",
            );
            error.help = Some(
                "only the first `--policy` file (and the admin's and the user's) may choose a built-in policy"
                    .to_owned(),
            );
            return Err(error);
        }
        files.push((stated, power));
    }
    let mut merged = Merged::closed();
    merged.hear(&shipped("built-in:base", BASE)?, Power::Default);
    // without a word and without a `--policy` file it is the default; with one, what is not stated stays closed
    let given = texts.iter().any(|one| one.layer == Layer::File);
    let stated = files.iter().find_map(|(file, _)| file.extends.as_ref()).map(|word| word.value.clone());
    let chosen = stated.or_else(|| (!given).then(|| "default".to_owned()));
    if let Some(name) = &chosen {
        merged.hear(&shipped(&format!("built-in:{name}"), text_of(name))?, Power::Default);
    }
    let mut options = Some(option_words(sources)?);
    for (file, power) in &files {
        if file.layer == Layer::Project {
            hear_options(&mut merged, &mut options, &files);
        }
        if let Some(further) = file.extends.as_ref().filter(|further| Some(&further.value) != chosen.as_ref()) {
            let mut more = shipped(&format!("built-in:{}", further.value), text_of(&further.value))?;
            if file.mode.is_some() {
                more.mode = None;
            }
            merged.hear(&more, Power::Tightens);
        }
        merged.hear(file, *power);
    }
    hear_options(&mut merged, &mut options, &files);
    protect_own_files(&mut merged, sources);
    Ok(merged.finish(sources.root.clone(), sources.home.clone()))
}

/// The text of a built-in policy that `extends` may name.
#[must_use]
pub fn text_of(name: &str) -> &'static str {
    match name {
        "strict" => STRICT,
        "ci" => CI,
        "audited" => AUDITED,
        _ => DEFAULT,
    }
}

/// Names of the built-in policies.
#[must_use]
pub fn built_ins() -> &'static [&'static str] {
    BUILT_INS
}

fn line_span(text: &str, line: usize) -> std::ops::Range<usize> {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let length = text.get(start..).and_then(|rest| rest.lines().next()).map_or(0, str::len);
    start..start + length
}

type Options = (Option<Placed<Profile>>, Option<Placed<Mode>>);

fn option_words(sources: &Sources) -> Result<Options, PolicyError> {
    let place = |name: &str| Place { layer: Layer::File, file: Arc::from(name), line: 0 };
    let fault = |name: &str, words: &[&str]| {
        PolicyError::whole(name, "no such value").help(format!("known: {}", words.join(", ")))
    };
    let profile = match &sources.profile {
        Some(word) => Some(Profile::named(word).ok_or_else(|| fault("--profile", PROFILES))?),
        None => None,
    };
    let mode = match &sources.mode {
        Some(word) => Some(Mode::named(word).ok_or_else(|| fault("--mode", MODES))?),
        None => None,
    };
    Ok((
        profile.map(|value| Placed { value, place: place("--profile") }),
        mode.map(|value| Placed { value, place: place("--mode") }),
    ))
}

/// Options are the operator's last word: they tighten, and `--mode` also sets the mode where no operator has.
fn hear_options(merged: &mut Merged, options: &mut Option<Options>, files: &[(Stated, Power)]) {
    let Some((profile, mode)) = options.take() else { return };
    let operator_spoke = files.iter().any(|(file, _)| file.layer != Layer::Project && file.mode.is_some());
    merged.hear_options(profile.as_ref(), mode.as_ref(), if operator_spoke { Power::Tightens } else { Power::Sets });
}

/// A policy file inside the workspace is protected from what it judges: the next run would obey it.
fn protect_own_files(merged: &mut Merged, sources: &Sources) {
    for path in &sources.files {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let Some(inside) = absolute.strip_prefix(&sources.root).ok().and_then(Path::to_str) else { continue };
        let literal = inside.chars().fold(String::new(), |mut out, c| {
            if "*?[]\\{}!".contains(c) {
                out.push('\\');
            }
            out.push(c);
            out
        });
        // `./` in front keeps a name without a slash from meaning any depth
        let Ok(pattern) = Pattern::new_anchored(&literal) else { continue };
        merged.protect.push(PathRule {
            pattern,
            reason: "a policy in force".to_owned(),
            file_only: false,
            place: Place::built_in(),
        });
        merged.allow_write.now.retain(|lift| lift.value != inside);
    }
}

fn cannot_read(e: &std::io::Error) -> String {
    format!("this policy file cannot be read: {e}")
}

/// Not a FIFO that would make us wait, not a terminal that would become ours.
fn open_plain(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY).open(path)
}

fn optional(
    layer: Layer,
    path: &Path,
    check: impl Fn(&File, &str) -> Result<(), PolicyError>,
) -> Result<Option<LayerText>, PolicyError> {
    let name = path.display().to_string();
    let file = match open_plain(path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(PolicyError::whole(name, cannot_read(&e))),
    };
    check(&file, &name)?;
    let text = read_all(file, &name)?;
    Ok(Some(LayerText { layer, name, text }))
}

/// Who can write the admin's file is the admin.
fn check_owner(file: &File, name: &str) -> Result<(), PolicyError> {
    let about = file.metadata().map_err(|e| PolicyError::whole(name, cannot_read(&e)))?;
    if about.uid() != 0 || about.mode() & 0o022 != 0 {
        let error = PolicyError::whole(name, "the admin's policy must belong to root and be writable by nobody else");
        return Err(error.help(format!("chown root {name}; chmod 644 {name}")));
    }
    Ok(())
}

/// The workspace's own file, below the root and without following any link.
fn project(root: &Path) -> Result<Option<LayerText>, PolicyError> {
    let name = PROJECT_FILE.to_owned();
    let fault = |what: String| PolicyError::whole(PROJECT_FILE, what);
    let folder = open(root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Bits::empty());
    let folder = match folder {
        Ok(folder) => folder,
        Err(nix::errno::Errno::ENOENT) => return Ok(None),
        Err(e) => return Err(fault(format!("the root cannot be opened: {e}"))),
    };
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let opened = openat2(&folder, PROJECT_FILE, how).or_else(|errno| match errno {
        // An outer filter without openat2: one plain name after the other, through no link, is as good.
        nix::errno::Errno::ENOSYS | nix::errno::Errno::EPERM => step_by_step(&folder),
        other => Err(other),
    });
    match opened {
        Ok(file) => Ok(Some(LayerText { layer: Layer::Project, text: read_all(File::from(file), &name)?, name })),
        Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR) => Ok(None),
        Err(nix::errno::Errno::ELOOP | nix::errno::Errno::EXDEV) => {
            Err(fault("the workspace's policy is reached by a link; it must be a plain file below the root".to_owned()))
        }
        Err(e) => Err(fault(format!("this policy file cannot be read: {e}"))),
    }
}

fn step_by_step(root: &std::os::fd::OwnedFd) -> nix::Result<std::os::fd::OwnedFd> {
    let (folder, file) = PROJECT_FILE.split_once('/').ok_or(nix::errno::Errno::EINVAL)?;
    let no_link = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = openat(root, folder, OFlag::O_PATH | OFlag::O_DIRECTORY | no_link, Bits::empty())?;
    openat(&folder, file, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | no_link, Bits::empty())
}

fn read_all(file: File, name: &str) -> Result<String, PolicyError> {
    let about = file.metadata().map_err(|e| PolicyError::whole(name, cannot_read(&e)))?;
    if !about.is_file() {
        return Err(PolicyError::whole(name, "a policy is a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(POLICY_BYTES + 1).read_to_end(&mut bytes).map_err(|e| PolicyError::whole(name, cannot_read(&e)))?;
    if bytes.len() as u64 > POLICY_BYTES {
        return Err(PolicyError::whole(name, format!("a policy is at most {POLICY_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|e| {
        let valid = e.utf8_error().valid_up_to();
        PolicyError::whole(name, format!("a policy is UTF-8; byte {} is not", valid + 1))
    })
}
