//! `bash`: one shell command. Asks: the command, and to stand in a folder. Starts programs through the worker alone; reads no
//! file itself. Proof: `tools/tests.rs`.

use base64::Engine as _;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::{Asks, RiskClass};
use crate::call::{Code, Kept, Outcome, Program, ProgramEnd, Programs, Refusal, Truncated};
use crate::confine::Confined;
use crate::limits::{BASH_TIMEOUT_MAX_MS, BASH_TIMEOUT_MS, COMMAND_BYTES, STREAM_BYTES, WRITE_BYTES};
use crate::tools::args::{Arg, Kind};
use crate::tools::{Given, Need, Plan, Spec, Tool};

pub(super) struct Bash;

/// Arguments of `bash`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    command: String,
    timeout_ms: Option<u64>,
    description: Option<String>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    interleave: bool,
    stdin: Option<String>,
    cwd: Option<String>,
}

/// Characters of a label.
const LABEL_BYTES: u64 = 4096;
const TIMEOUT_MAX: i64 = BASH_TIMEOUT_MAX_MS as i64;

impl Tool for Bash {
    type Args = Args;
    const SPEC: Spec = Spec {
        name: "bash",
        aliases: &["terminal.run"],
        class: RiskClass::WorkspaceWrite,
        asks: Asks::Yes,
        profile: "shell",
        summary: "Runs a shell command in the workspace, confined.",
        example: r#"{"command":"cargo test --quiet","timeout_ms":300000}"#,
        args: &[
            Arg::new("command", Kind::Text { min: 1, max_bytes: COMMAND_BYTES }, "Command for bash -c.").required(),
            Arg::new(
                "timeout_ms",
                Kind::Int { min: 1, max: TIMEOUT_MAX },
                "Milliseconds it may run; 120000 when left out.",
            )
            .aliases(&["timeout", "timeoutMs"]),
            Arg::new("description", Kind::Text { min: 0, max_bytes: LABEL_BYTES }, "A label for people; not judged."),
            Arg::new("background", Kind::Bool, "Start it and return at once; it ends with the session.")
                .aliases(&["is_daemon", "isDaemon"])
                .when("daemons"),
            Arg::new("interleave", Kind::Bool, "One stream in the order of writing."),
            Arg::new(
                "stdin",
                Kind::Text { min: 0, max_bytes: WRITE_BYTES },
                "Standard input; end of file when left out.",
            ),
            Arg::new("cwd", Kind::Path, "Folder to run in; the root when left out."),
        ],
    };

    fn plan(args: &Args) -> Result<Plan, Refusal> {
        let cwd = args.cwd.clone().unwrap_or_else(|| ".".to_owned());
        Ok(Plan { paths: vec![(cwd, Need::Enter)], command: Some(args.command.clone()) })
    }

    fn run(_: &Confined, args: Args, given: Given, programs: &mut dyn Programs) -> Outcome {
        if args.background {
            return Refusal::new(Code::Unavailable, "A background command needs a session.")
                .hint("Leave `background` out, or use a session with [daemons] enabled.")
                .into();
        }
        run(&args, given, programs).unwrap_or_else(Outcome::from)
    }
}

fn run(args: &Args, given: Given, programs: &mut dyn Programs) -> Result<Outcome, Refusal> {
    let place = given.paths.into_iter().next().ok_or_else(no_folder)?;
    // Programs inherit the folder; it is entered by descriptor, not by name.
    if let Some(folder) = &place.file {
        nix::unistd::fchdir(folder).map_err(|_| no_folder())?;
    }
    let root = (place.shown == ".").then(|| place.absolute.to_string_lossy().into_owned());
    let command = without_cd(&args.command, root.as_deref());
    let mut program = Program {
        argv: vec!["bash".to_owned(), "-c".to_owned(), as_script(command)],
        stdin: args.stdin.clone(),
        timeout_ms: Some(args.timeout_ms.unwrap_or(BASH_TIMEOUT_MS)),
        interleave: args.interleave,
        keep_bytes: STREAM_BYTES,
    };
    let mut end = programs.run(&program);
    if end.not_started == Some(Errno::ENOENT as i32) {
        "/bin/sh".clone_into(&mut program.argv[0]);
        end = programs.run(&program);
    }
    if let Some(errno) = end.not_started {
        return Err(Refusal::new(
            Code::Unavailable,
            format!("The shell could not be started: {}.", Errno::from_raw(errno).desc()),
        )
        .hint("The view of this sandbox has no shell that runs; add one to [filesystem] read."));
    }
    Ok(answer(command, &end))
}

fn no_folder() -> Refusal {
    Refusal::new(Code::NotFound, "The folder to run in cannot be entered.").hint("Check `cwd` with ls.")
}

/// Drops `cd ROOT &&` in front, which changes nothing when the command stands in the root anyway (and ROOT may be a
/// spelling that the view does not have).
fn without_cd<'a>(command: &'a str, root: Option<&str>) -> &'a str {
    let stripped = root.and_then(|root| {
        let rest = command.trim_start().strip_prefix("cd")?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
        let quoted = [format!("'{root}'"), format!("\"{root}\""), root.to_owned()];
        let rest = quoted.iter().find_map(|spelled| rest.strip_prefix(spelled.as_str()))?;
        let rest = rest.strip_prefix('/').unwrap_or(rest).trim_start_matches([' ', '\t']);
        rest.strip_prefix("&&").map(str::trim_start)
    });
    stripped.filter(|rest| !rest.is_empty()).unwrap_or(command)
}

/// A command that starts with a dash or a plus would be an option of the shell.
fn as_script(command: &str) -> String {
    if command.starts_with(['-', '+']) { format!(" {command}") } else { command.to_owned() }
}

/// One stream as text: lossy, with the number of bytes left out in the middle.
fn stream_text(kept: &Kept) -> String {
    let head = String::from_utf8_lossy(&kept.head).into_owned();
    if kept.omitted == 0 {
        return head + &String::from_utf8_lossy(&kept.tail);
    }
    format!("{head}\n[… {} bytes left out …]\n{}", kept.omitted, String::from_utf8_lossy(&kept.tail))
}

fn exact(kept: &Kept) -> Option<String> {
    // Each part is cut at character borders, so each is judged by itself.
    let is_text = std::str::from_utf8(&kept.head).is_ok() && std::str::from_utf8(&kept.tail).is_ok();
    let whole = || [kept.head.as_slice(), kept.tail.as_slice()].concat();
    let is_text = is_text || (kept.omitted == 0 && std::str::from_utf8(&whole()).is_ok());
    (!is_text).then(|| base64::engine::general_purpose::STANDARD.encode(whole()))
}

fn signal_name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned())
}

fn answer(command: &str, end: &ProgramEnd) -> Outcome {
    let (stdout, stderr) = (stream_text(&end.stdout), stream_text(&end.stderr));
    let mut text = String::new();
    for part in [&stdout, &stderr] {
        text.push_str(part);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }
    if let Some(hint) = hint(command) {
        text.push_str(&format!("[{hint}]\n"));
    }
    let timed_out = end.killed_by.as_deref() == Some("timeout");
    let clean = end.exit_code == Some(0) && end.killed_by.is_none() && stderr.is_empty() && !stdout.is_empty();
    // A clean success is its output and nothing else: who reads it as data need not cut a line off.
    if !clean || hint(command).is_some() {
        text.push_str(&ending(end));
    }
    let omitted = end.stdout.omitted + end.stderr.omitted;
    let mut outcome = Outcome::ok(text);
    outcome.ok = end.exit_code == Some(0) && end.killed_by.is_none();
    outcome.details = details(end, stdout, stderr, timed_out);
    if omitted > 0 {
        outcome.truncated = Some(Truncated {
            omitted_bytes: Some(omitted),
            reason: "limit".to_owned(),
            hint: "Write the output to a file and read the part you need.".to_owned(),
            ..Truncated::default()
        });
    }
    if timed_out {
        let refusal =
            Refusal::new(Code::TimedOut, format!("The command ran out of time after {} ms.", end.duration_ms))
                .hint("Give it a larger timeout_ms, or a smaller task.");
        outcome.refusal = Some(refusal);
    }
    outcome
}

fn ending(end: &ProgramEnd) -> String {
    let by = match end.killed_by.as_deref() {
        Some("timeout") => format!("[Timed out after {} ms]\n", end.duration_ms),
        Some("memory") => "[Killed: it used more memory than the limit]\n".to_owned(),
        Some("pids") => "[Killed: it started more processes than the limit]\n".to_owned(),
        Some("cancel") => "[Cancelled]\n".to_owned(),
        _ => String::new(),
    };
    match (end.exit_code, end.signal) {
        (Some(code), _) => format!("{by}[Exit code: {code}]"),
        (None, Some(signal)) => format!("{by}[Killed by {} ({signal})]", signal_name(signal)),
        (None, None) => format!("{by}[No exit code]"),
    }
}

fn details(end: &ProgramEnd, stdout: String, stderr: String, timed_out: bool) -> Map<String, Value> {
    let mut details = Map::new();
    let mut put = |key: &str, value: Value| {
        details.insert(key.to_owned(), value);
    };
    put("exit_code", end.exit_code.into());
    put("signal", end.signal.map(signal_name).into());
    put("timed_out", timed_out.into());
    put("duration_ms", end.duration_ms.into());
    put("stdout", stdout.into());
    put("stderr", stderr.into());
    put("stdout_omitted_bytes", end.stdout.omitted.into());
    put("stderr_omitted_bytes", end.stderr.omitted.into());
    put("killed_by", end.killed_by.clone().into());
    put("denials", Value::Array(Vec::new()));
    // For the supervisor, which makes rows of `denials` from them.
    put("refused_names", serde_json::to_value(&end.refused_names).unwrap_or_default());
    put("startup_files", Value::Array(Vec::new()));
    for (key, kept) in [("stdout_base64", &end.stdout), ("stderr_base64", &end.stderr)] {
        if let Some(data) = exact(kept) {
            put(key, data.into());
        }
    }
    details
}

/// A word of advice for a command that is nothing but what a tool does better.
fn hint(command: &str) -> Option<&'static str> {
    if command.contains(['|', '&', ';', '<', '>', '$', '`', '(', ')', '{', '}', '\n', '*', '?']) {
        return None;
    }
    match command.split_whitespace().next()? {
        "cat" | "head" | "tail" => {
            Some("Hint: read_file shows a file with line numbers, and its parts by offset and limit.")
        }
        "ls" => Some("Hint: the tool ls lists a folder, glob finds files by name."),
        "grep" => Some("Hint: the tool grep searches the workspace and leaves out what is ignored."),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cd_to_the_root_is_dropped_in_the_root_alone() {
        for command in ["cd /w && ls", " cd  '/w' &&ls", "cd \"/w\"&& ls", "cd /w/ && ls"] {
            assert_eq!(without_cd(command, Some("/w")), "ls", "{command}");
        }
        for command in ["cd /w-evil && ls", "cd /w/sub && ls", "cd /w; ls", "cd /w &&", "cdx /w && ls"] {
            assert_eq!(without_cd(command, Some("/w")), command);
        }
        assert_eq!(without_cd("cd /w && ls", None), "cd /w && ls");
        assert_eq!(as_script("-x"), " -x");
    }

    #[test]
    fn streams_as_text_and_as_bytes() {
        let cut = Kept { head: b"HEAD".to_vec(), tail: b"TAIL".to_vec(), omitted: 70_004 };
        assert_eq!(stream_text(&cut), "HEAD\n[… 70004 bytes left out …]\nTAIL");
        assert_eq!(exact(&cut), None);
        let odd = Kept { head: b"ok\xff\xfebad\n".to_vec(), ..Kept::default() };
        assert_eq!(stream_text(&odd), "ok\u{fffd}\u{fffd}bad\n");
        assert_eq!(exact(&odd).unwrap(), "b2v//mJhZAo=");
    }

    #[test]
    fn endings() {
        let end = |exit_code, signal, by: Option<&str>| {
            answer("true", &ProgramEnd { exit_code, signal, killed_by: by.map(str::to_owned), ..ProgramEnd::default() })
        };
        assert!(end(Some(0), None, None).ok);
        let seven = end(Some(7), None, None);
        assert!(!seven.ok && seven.refusal.is_none() && seven.text.ends_with("[Exit code: 7]"));
        assert!(end(None, Some(10), None).text.ends_with("[Killed by SIGUSR1 (10)]"));
        let late = end(None, Some(15), Some("timeout"));
        assert_eq!(late.refusal.unwrap().code, Code::TimedOut);
        assert_eq!(late.details["timed_out"], true);
    }

    #[test]
    fn hints_for_lone_commands() {
        assert!(hint("cat src/a.txt").unwrap().contains("read_file"));
        assert!(hint("cat a | wc -l").is_none() && hint("cat *.txt").is_none() && hint("echo cat").is_none());
    }
}
