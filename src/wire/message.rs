//! **What this room is for:** what the three processes say to each other. **Who may enter:** they alone.
//! **Never done here:** I/O. **Where the proof is:** the processes' own tests.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::{Outcome, ToolOptions};
use crate::confinement::{Facts, Mask, SessionPlan};

/// Supervisor → launcher.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToLauncher {
    /// The first message: build this. Nothing else is accepted before it.
    Build(Box<SessionPlan>),
    /// Fork one worker of this kind.
    Spawn {
        /// Echoed in the answer.
        ticket: u64,
        /// Name of the confinement.
        profile: String,
    },
    /// Cover these names too, now, for workers that already run as well.
    Cover {
        /// Echoed in the answer.
        ticket: u64,
        /// What to cover.
        masks: Vec<Mask>,
    },
    /// Hold the descriptor that comes with this until you end; no more workers after it. No answer.
    Hold,
}

/// Launcher → supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromLauncher {
    /// The session stands (or stands without some mechanism, which `missing` names).
    Built {
        /// Namespaces that were made.
        namespaces: Vec<String>,
        /// The private view is in place.
        view: bool,
        /// Mechanism and why, one line each.
        missing: Vec<String>,
    },
    /// A worker is there; its socket and its pidfd come with this message.
    Worker {
        /// The question's ticket.
        ticket: u64,
    },
    /// A worker could not be forked.
    Failed {
        /// The question's ticket.
        ticket: u64,
        /// Why.
        why: String,
    },
    /// Names were covered.
    Covered {
        /// The question's ticket.
        ticket: u64,
        /// Names that could not be covered, and why.
        failed: Vec<String>,
    },
}

/// What the supervisor has opened or resolved for one path of a plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct DoorPath {
    /// Root-relative resolved path of the file, or for a file to be written of the deepest existing folder above it.
    pub open: String,
    /// What has to be opened in the worker's own view.
    pub what: Open,
    /// Device and inode that `open` must lead to in the view; another one is refused (masked, or swapped meanwhile).
    pub dev: u64,
    /// See `dev`.
    pub ino: u64,
    /// A descriptor of the file, open for reading, comes with the door.
    pub descriptor: bool,
    /// Root-relative path for showing.
    pub shown: String,
    /// Absolute path in the view.
    pub absolute: PathBuf,
    /// Folders to be made.
    pub missing: Vec<String>,
    /// Name of the file to be written.
    pub name: String,
    /// Device and inode of the old file behind `descriptor`, when there is one.
    pub old: Option<(u64, u64)>,
}

/// How a worker opens a path of its door, and what its last Landlock layer then allows below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Open {
    /// The descriptor that came along is the file; the view must agree that it is there. Nothing is allowed below.
    Given,
    /// Opened for reading in the view; reading is allowed below.
    Read,
    /// The folder is opened in the view; everything is allowed below.
    WriteBelow,
    /// Stand in it; allows nothing (programs have their session-wide ruleset).
    Enter,
}

/// Supervisor → worker, first message: shut the door.
#[derive(Debug, Serialize, Deserialize)]
pub struct Door {
    /// The paths, in the plan's order; descriptors come in the same order.
    pub paths: Vec<DoorPath>,
}

/// Supervisor → worker, second message: the letter.
#[derive(Debug, Serialize, Deserialize)]
pub enum Work {
    /// A tool with validated arguments.
    Tool {
        /// Canonical name.
        tool: String,
        /// Arguments.
        args: Map<String, Value>,
        /// Switches.
        options: Box<ToolOptions>,
        /// Keep the program running and stream its output (daemons).
        background: bool,
    },
    /// One program whose standard streams are the three descriptors that come along.
    Run {
        /// Program and arguments (bytes that are not UTF-8 cannot travel; such arguments are refused before).
        argv: Vec<String>,
        /// Wall time, if it is limited.
        timeout_ms: Option<u64>,
    },
    /// Try the escapes of `doctor` from inside.
    Probe(Box<ProbeTargets>),
}

/// Things outside that a probe tries to reach.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbeTargets {
    /// A file outside that the user may read and write.
    pub file: PathBuf,
    /// A denied file inside the workspace.
    pub denied: PathBuf,
    /// A socket file on which the supervisor listens.
    pub socket: PathBuf,
    /// A TCP port of 127.0.0.1 on which the supervisor listens.
    pub port: u16,
    /// A folder of the workspace that may be written.
    pub workspace: PathBuf,
}

/// Supervisor → worker, while it works.
#[derive(Debug, Serialize, Deserialize)]
pub enum Control {
    /// Pass this signal on to the program.
    Signal(i32),
    /// End everything: TERM, grace, KILL.
    Cancel,
}

/// Worker → supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// The door is shut; what the kernel really took.
    Shut(Facts),
    /// A program runs (daemons).
    Started {
        /// Its pid in the session's pid namespace.
        pid: i32,
    },
    /// Output of a daemon.
    Chunk {
        /// 1 or 2.
        stream: u8,
        /// Base64 of the bytes.
        data: String,
    },
    /// A tool is done.
    Done(Box<Outcome>),
    /// A program of `run` or a daemon has ended.
    Ended {
        /// Exit status, when it exited.
        exit_code: Option<i32>,
        /// Signal, when one ended it.
        signal: Option<i32>,
        /// `timeout` `memory` `cancel`.
        killed_by: Option<String>,
        /// errno of the start, when it never ran.
        not_started: Option<i32>,
    },
    /// What a probe saw: name, did the escape fail as it must, and the kernel's answer.
    Probed(Vec<(String, bool, String)>),
    /// The worker cannot go on: which step, and why. Nothing of the work was done.
    Broken {
        /// Step of `confine::enter` or of the door.
        step: String,
        /// The kernel's answer.
        why: String,
    },
    /// The view does not show what the supervisor resolved: masked, swapped or gone. Nothing of the work was done.
    Disagrees {
        /// Index of the path.
        index: usize,
    },
}
