//! **What this room is for:** `doctor`: what this host offers, and each guarantee proved by a live attempt from inside.
//! **Who may enter:** the command line. **Never done here:** concluding from a version number.
//! **Where the proof is:** `tests/cli.rs`, `tests/kernels` on other kernels.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use serde::Serialize;

use super::{SessionKind, Settings, Supervisor, enforce};
use crate::confinement::Guarantee;
use crate::sys;
use crate::wire::message::{Door, FromWorker, ProbeTargets, Work};

/// One mechanism of the kernel.
#[derive(Debug, Serialize)]
pub struct Mechanism {
    /// `landlock` `seccomp` `namespace user` …
    pub name: String,
    /// It can be used here.
    pub available: bool,
    /// Version, or what is missing.
    pub detail: String,
}

/// One guarantee.
#[derive(Debug, Serialize)]
pub struct Proof {
    /// Its name.
    pub guarantee: String,
    /// It holds for programs under the default profile.
    pub holds: bool,
    /// The mechanisms it rests on here.
    pub rests_on: String,
    /// The attempts and the kernel's answers.
    pub proof: String,
}

/// What `doctor` found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Release of the kernel.
    pub kernel: String,
    /// Landlock ABI; 0 is none.
    pub landlock_abi: u32,
    /// The mechanisms.
    pub mechanisms: Vec<Mechanism>,
    /// The guarantees.
    pub guarantees: Vec<Proof>,
    /// What is missing, one line each.
    pub degraded: Vec<String>,
}

/// Tries everything in a workspace of its own, made for this and removed.
pub async fn doctor(settings: Settings) -> Report {
    let release =
        nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned()).unwrap_or_default();
    let mut report = Report {
        kernel: release,
        landlock_abi: sys::landlock_abi(),
        mechanisms: Vec::new(),
        guarantees: Vec::new(),
        degraded: Vec::new(),
    };
    match examine(settings, &mut report).await {
        Ok((seen, holding)) => report.guarantees = proofs(&seen, &holding),
        Err(why) => {
            report.degraded.push(why.clone());
            report.guarantees = Guarantee::ALL.into_iter().map(|guarantee| unproved(guarantee, &why)).collect();
        }
    }
    report
}

type Seen = Vec<(String, bool, String)>;

async fn examine(settings: Settings, report: &mut Report) -> Result<(Seen, Vec<Guarantee>), String> {
    let text = |error: std::io::Error| format!("no place for the attempts: {error}");
    let place = tempfile::Builder::new().prefix("stockade-doctor-").tempdir().map_err(text)?;
    let (workspace, outside) = (place.path().join("workspace"), place.path().join("outside"));
    for folder in [&workspace, &outside] {
        std::fs::create_dir(folder).map_err(text)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).map_err(text)?;
    }
    let (file, denied) = (outside.join("file"), workspace.join(".env"));
    for path in [&file, &denied] {
        std::fs::write(path, "doctor").map_err(text)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(text)?;
    }
    let socket = outside.join("socket");
    let _listening = UnixListener::bind(&socket).map_err(text)?;
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    let port = tcp.local_addr().map_err(text)?.port();
    let settings = Settings {
        root: workspace.clone(),
        policies: Vec::new(),
        profile: None,
        mode: Some("open".to_owned()),
        allow_degraded: true,
        kind: SessionKind::Run,
        ..settings
    };
    let supervisor = Supervisor::start(settings).await.map_err(|error| error.to_string())?;
    report.mechanisms.push(Mechanism {
        name: "landlock".to_owned(),
        available: report.landlock_abi >= crate::confine::landlock::FLOOR,
        detail: format!("ABI {}, {} is the least", report.landlock_abi, crate::confine::landlock::FLOOR),
    });
    let launcher = supervisor.launcher("shell").await.map_err(|refusal| refusal.message)?;
    for name in ["user", "mnt", "pid", "net", "ipc", "uts"] {
        let made = launcher.built.namespaces.iter().any(|made| made == name);
        let why = launcher.built.missing.iter().find(|line| line.starts_with(&format!("namespace {name}")));
        let detail = if made { "made".to_owned() } else { why.cloned().unwrap_or_else(|| "not made".to_owned()) };
        report.mechanisms.push(Mechanism { name: format!("namespace {name}"), available: made, detail });
    }
    report.degraded.extend(launcher.built.missing.iter().cloned());
    let mut worker = launcher.worker("shell").await?;
    let facts = worker.shut().await?;
    report.degraded.extend(facts.missing.iter().cloned());
    for (name, available, detail) in [
        ("private view", facts.view, "the file system shows what the plan names, nothing else"),
        ("seccomp", facts.seccomp, "a canary call was answered by the filter"),
        ("landlock in force", facts.landlock_abi > 0, "a canary file outside of the ruleset could not be opened"),
        ("no_new_privs", facts.no_new_privs, "read back"),
        ("capabilities dropped", facts.capabilities_empty, "all sets read back empty"),
    ] {
        let detail = if available { detail } else { "no" };
        report.mechanisms.push(Mechanism { name: name.to_owned(), available, detail: detail.to_owned() });
    }
    let targets = ProbeTargets { file, denied, socket, port, workspace: PathBuf::from(supervisor.ground.root.real()) };
    worker.send(&Door { paths: Vec::new() }, &[]).await.map_err(|error| error.to_string())?;
    worker.send(&Work::Probe(Box::new(targets)), &[]).await.map_err(|error| error.to_string())?;
    match worker.next().await {
        Some(FromWorker::Probed(seen)) => {
            let kind = enforce::Kind { profile: "shell", programs: true };
            Ok((seen, enforce::holding(&facts, kind, true)))
        }
        _ => Err("the probing worker ended without an answer".to_owned()),
    }
}

fn rests_on(guarantee: Guarantee) -> &'static str {
    match guarantee {
        Guarantee::FsRead => "private view, masks, Landlock",
        Guarantee::FsWrite => "read-only view, Landlock",
        Guarantee::FsMeta => "read-only view (Landlock does not mediate it)",
        Guarantee::NetNone => "network namespace, socket files not in the view, seccomp",
        Guarantee::KillTree => "pid namespace of each call",
        Guarantee::ExecConfined => "nothing: loaders, interpreters and memory files run code that may only be read",
    }
}

fn unproved(guarantee: Guarantee, why: &str) -> Proof {
    Proof {
        guarantee: guarantee.name().to_owned(),
        holds: false,
        rests_on: rests_on(guarantee).to_owned(),
        proof: format!("could not be tried: {why}"),
    }
}

/// A guarantee holds when every attempt failed and all the mechanisms that it rests on are there: one that stands on half of
/// them is not what a result may promise.
fn proofs(seen: &Seen, holding: &[Guarantee]) -> Vec<Proof> {
    let mut by: BTreeMap<&str, Vec<&(String, bool, String)>> = BTreeMap::new();
    for line in seen {
        by.entry(line.0.as_str()).or_default().push(line);
    }
    // A worker that cannot even do what it may proves nothing by failing at the rest.
    let alive = seen.iter().filter(|(name, ..)| name.starts_with("works.")).all(|(_, works, _)| *works);
    Guarantee::ALL
        .into_iter()
        .map(|guarantee| match by.get(guarantee.name()) {
            None if guarantee == Guarantee::ExecConfined => Proof {
                proof: "not promised to programs; built-in tools start none".to_owned(),
                ..unproved(guarantee, "")
            },
            None => unproved(guarantee, "no attempt"),
            Some(lines) => Proof {
                guarantee: guarantee.name().to_owned(),
                holds: alive && holding.contains(&guarantee) && lines.iter().all(|(_, held, _)| *held),
                rests_on: rests_on(guarantee).to_owned(),
                proof: lines.iter().map(|(_, _, answer)| answer.as_str()).collect::<Vec<_>>().join("; "),
            },
        })
        .collect()
}
