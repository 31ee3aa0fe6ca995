//! **What this room is for:** every number, with its unit and its reason. **Who may enter:** everybody.
//! **Never done here:** anything but numbers. **Where the proof is:** the assertions below.

use serde::{Deserialize, Serialize};

/// Bytes of one frame between supervisor, launcher and worker: the largest argument (10 MiB of content) may grow six-fold
/// when JSON escapes it.
pub const FRAME_BYTES: usize = 72 * 1024 * 1024;
/// Bytes of the content that one write takes.
pub const WRITE_BYTES: u64 = 10 * 1024 * 1024;
/// Bytes of the largest file that `read_file` and edits take.
pub const READ_FILE_BYTES: u64 = 10 * 1024 * 1024;
/// Bytes of the largest image that is handed over.
pub const IMAGE_BYTES: u64 = 5 * 1024 * 1024;
/// Lines of one read: default and maximum.
pub const READ_LINES: u32 = 2000;
/// Characters of one line that a read shows.
pub const READ_LINE_CHARS: usize = 2000;
/// Characters of one read.
pub const READ_CHARS: usize = 50_000;
/// Bytes looked at to tell binary from text.
pub const BINARY_PROBE_BYTES: usize = 8192;
/// Entries of one `ls`.
pub const LS_ENTRIES: usize = 500;
/// Bytes kept of each stream of a command.
pub const STREAM_BYTES: usize = 30_000;
/// Milliseconds that a command may run when nothing is said, and at most.
pub const BASH_TIMEOUT_MS: u64 = 120_000;
/// See [`BASH_TIMEOUT_MS`].
pub const BASH_TIMEOUT_MAX_MS: u64 = 600_000;
/// Milliseconds between TERM and KILL.
pub const KILL_GRACE_MS: u64 = 2_000;
/// Characters of the text of any result, after everything.
pub const OUTCOME_CHARS: usize = 100_000;
/// Characters of message and hint of a refusal together.
pub const REFUSAL_CHARS: usize = 10_000;
/// Characters of an unknown tool's name that come back.
pub const NAME_CHARS: usize = 64;
/// Bytes of one ignore file: the largest known ones have a few thousand lines.
pub const IGNORE_FILE_BYTES: u64 = 1024 * 1024;
/// Lines of the ignore files of one folder; each becomes a pattern that every entry is matched against.
pub const IGNORE_FILE_LINES: usize = 20_000;
/// Entries that one search looks at.
pub const WALK_ENTRIES: usize = 2_000_000;
/// Folders below each other that a search goes down; each step is one `openat`.
pub const WALK_DEPTH: usize = 256;
/// Entries of one folder, and in all, that `ls` looks at to count them.
pub const LS_SCAN_ENTRIES: usize = 200_000;
/// Milliseconds that one search may take before it answers with what it has.
pub const SEARCH_MS: u64 = 30_000;
/// Rows of one `glob` when nothing is said, and at most.
pub const GLOB_ROWS: usize = 200;
/// See [`GLOB_ROWS`].
pub const GLOB_ROWS_MAX: usize = 1000;
/// Bytes of a search pattern.
pub const PATTERN_BYTES: u64 = 4096;
/// Rows of one `grep` when nothing is said, and at most.
pub const GREP_ROWS: usize = 100;
/// See [`GREP_ROWS`].
pub const GREP_ROWS_MAX: usize = 500;
/// Lines of context on each side of a match.
pub const GREP_CONTEXT_LINES: usize = 20;
/// Characters of one row of `grep`: default, least, most.
pub const GREP_LINE_CHARS: [usize; 3] = [500, 80, 2000];
/// Characters of the text of one `grep`: default and most, least.
pub const GREP_RESULT_CHARS: [usize; 2] = [100_000, 1000];
/// Bytes of the largest file that `grep` reads: default and most.
pub const GREP_FILE_BYTES: u64 = 2 * 1024 * 1024;
/// Rows of one `search_text`.
pub const SEARCH_TEXT_ROWS: usize = 80;
/// Characters of the text of one `search_text`.
pub const SEARCH_TEXT_CHARS: usize = 12_000;
/// Edits of one `multi_edit`.
pub const MULTI_EDITS: usize = 100;
/// Bytes of a compiled pattern. Time is bounded by pattern × text: at this size a file of the largest kind stays far
/// below [`SEARCH_MS`].
pub const REGEX_BYTES: usize = 1024 * 1024;
/// Bytes of a command: the kernel takes no longer argument (`MAX_ARG_STRLEN`, 128 KiB with its end).
pub const COMMAND_BYTES: u64 = 128 * 1024 - 2;
/// Characters of a diff in details.
pub const DIFF_CHARS: usize = 20_000;
/// Characters of a diff in the text of an edit.
pub const DIFF_TEXT_CHARS: usize = 4_000;
/// Bytes of the changed middle of each side that is compared line by line; more is only told by size.
pub const DIFF_BYTES: usize = 1024 * 1024;
/// Milliseconds that making a diff may take; then it gets coarser.
pub const DIFF_MS: u64 = 200;
/// Milliseconds that a write waits for another session that writes in the same folder.
pub const WRITE_LOCK_MS: u64 = 5_000;
/// Bytes from which on a rewrite to half the size is called out.
pub const SHRINK_BYTES: u64 = 500;
/// Bytes of extended attributes that a rewrite carries over, names and each value (`XATTR_SIZE_MAX`).
pub const XATTR_BYTES: usize = 64 * 1024;
/// Bytes of a policy file: a thousand rules fit.
pub const POLICY_BYTES: u64 = 1024 * 1024;
/// Entries of the workspace that a scan for denied names looks at; more is an error in strict, a degradation else.
pub const SCAN_ENTRIES: u64 = 4_000_000;
/// Folders whose changes are watched while a session lives; inotify watches are a resource shared with the user's editor.
pub const WATCHED_FOLDERS: usize = 8_192;
/// Masks of one session: 9–25 µs each.
pub const MASKS: usize = 10_000;
/// Links followed in one path, as in the kernel (`MAXSYMLINKS`).
pub const LINKS_FOLLOWED: u32 = 40;
/// Bytes of a path, as in the kernel (`PATH_MAX`).
pub const PATH_BYTES: usize = 4096;
/// Bytes of one name, as in the kernel (`NAME_MAX`).
pub const NAME_BYTES: usize = 255;

/// The least `pid_max` that the kernel takes for a pid namespace (`RESERVED_PIDS` + 1); lower caps need a cgroup, or for
/// an ordinary user `RLIMIT_NPROC`.
pub const PID_MAX_FLOOR: u32 = 301;

/// Limits that a policy may lower, never raise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Milliseconds that one `bash` call may run when the call names no time; also its maximum when lower.
    pub bash_timeout_ms: u64,
    /// Milliseconds that `stockade run` may take; `None` is no limit (a whole agent may run for days).
    pub run_timeout_ms: Option<u64>,
    /// Resident bytes of one call with all its programs.
    pub memory_bytes: u64,
    /// Processes and threads of one call.
    pub pids: u32,
    /// Bytes of one file that a program writes.
    pub file_bytes: u64,
    /// Open descriptors of one process.
    pub open_files: u64,
    /// Bytes that the private folders of a session hold.
    pub private_bytes: u64,
}

/// What a session gets when no policy says less. Measured: Java, Node and Go start under these; `pids` counts threads
/// too (a JVM has about forty, a Chromium two hundred).
pub const BUILT_IN: Limits = Limits {
    bash_timeout_ms: BASH_TIMEOUT_MS,
    run_timeout_ms: None,
    memory_bytes: 8 * 1024 * 1024 * 1024,
    pids: 2048,
    file_bytes: 16 * 1024 * 1024 * 1024,
    open_files: 4096,
    private_bytes: 2 * 1024 * 1024 * 1024,
};

impl Limits {
    /// The stricter of the two, field by field.
    #[must_use]
    pub fn meet(self, other: Limits) -> Limits {
        Limits {
            bash_timeout_ms: self.bash_timeout_ms.min(other.bash_timeout_ms),
            run_timeout_ms: match (self.run_timeout_ms, other.run_timeout_ms) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            pids: self.pids.min(other.pids),
            file_bytes: self.file_bytes.min(other.file_bytes),
            open_files: self.open_files.min(other.open_files),
            private_bytes: self.private_bytes.min(other.private_bytes),
        }
    }
}

const _: () = assert!(READ_CHARS < OUTCOME_CHARS, "a read fits into an outcome");
const _: () = assert!(BASH_TIMEOUT_MS <= BASH_TIMEOUT_MAX_MS, "the default is within the maximum");
const _: () = assert!(WRITE_BYTES * 6 < FRAME_BYTES as u64, "escaped content fits into a frame");
