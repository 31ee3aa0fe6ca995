//! **What this room is for:** the filter of the name guard: which calls of a program wait for the worker's answer.
//! **Who may enter:** `confine`, `worker`. **Never done here:** answering. **Where the proof is:** the tests below,
//! `tests/guard.rs`.
//!
//! Landlock knows no names and a mount mask covers only what exists. So calls that make or move a name are stopped, and the
//! worker looks at the name. The filter is put on each program between fork and exec and never on the worker: it would
//! wait for itself. Where it stands among the filters does not matter: of all answers the kernel takes the strictest, and
//! every refusal of the profile is stricter than a question.

use seccompiler::sock_filter;

use super::seccomp::{self, SeccompError};
use crate::sys::notify::Step;
use crate::sysnum;

const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const USER_NOTIF: u32 = 0x7fc0_0000;
/// Where the arguments are in what a filter sees (`seccomp_data.args`); the low half comes first on every machine of ours.
const ARGS: u32 = 16;

/// Calls whose flags say whether a name is made, and which argument holds the flags.
const BY_FLAGS: [(&str, u32); 2] = [("open", 1), ("openat", 2)];

/// Calls that always ask. The flags of `openat2` lie in memory, where a filter cannot look.
const ALWAYS: [&str; 13] = [
    "creat",
    "openat2",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "symlink",
    "symlinkat",
    "link",
    "linkat",
    "rename",
    "renameat",
    "renameat2",
];

/// The program. `all_opens`: opening an existing file asks too.
///
/// # Errors
/// No filters on this machine.
pub fn program(all_opens: bool) -> Result<Vec<Step>, SeccompError> {
    let mut program = seccomp::entry()?;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    for name in ALWAYS {
        let Some(number) = number(name) else { continue };
        program.extend([step(JUMP_IF_EQUAL, 0, 1, number), step(RETURN, 0, 0, USER_NOTIF)]);
    }
    for (name, flags) in BY_FLAGS {
        let Some(number) = number(name) else { continue };
        if all_opens {
            program.extend([step(JUMP_IF_EQUAL, 0, 1, number), step(RETURN, 0, 0, USER_NOTIF)]);
        } else {
            program.extend([
                step(JUMP_IF_EQUAL, 0, 4, number),
                step(LOAD_WORD, 0, 0, ARGS + 8 * flags),
                step(JUMP_IF_ANY_BIT, 0, 1, libc::O_CREAT.unsigned_abs()),
                step(RETURN, 0, 0, USER_NOTIF),
                step(RETURN, 0, 0, ALLOW),
            ]);
        }
    }
    program.push(step(RETURN, 0, 0, ALLOW));
    Ok(program.into_iter().map(|s| Step { code: s.code, jt: s.jt, jf: s.jf, k: s.k }).collect())
}

/// Machines newer than x86-64 lack the calls without `at`.
fn number(name: &str) -> Option<u32> {
    sysnum::number(name).and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers to a call.
    fn run(program: &[Step], number: u32, args: [u64; 6]) -> u32 {
        let (mut at, mut word) = (0, 0_u32);
        loop {
            let step = program[at];
            at += 1;
            let yes = match step.code {
                LOAD_WORD => {
                    word = match step.k {
                        0 => number,
                        4 => 0xC000_003E,
                        k => u32::try_from(args[(k - ARGS) as usize / 8] & 0xffff_ffff).expect("32 bits"),
                    };
                    continue;
                }
                RETURN => return step.k,
                JUMP_IF_EQUAL => word == step.k,
                0x35 => word >= step.k,
                JUMP_IF_ANY_BIT => word & step.k != 0,
                code => panic!("instruction {code:#x}"),
            };
            at += usize::from(if yes { step.jt } else { step.jf });
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn what_makes_a_name_asks() {
        let number = |name: &str| number(name).expect(name);
        let create = libc::O_CREAT.unsigned_abs().into();
        for all in [false, true] {
            let program = program(all).expect("a program");
            let plain = if all { USER_NOTIF } else { ALLOW };
            for name in ALWAYS {
                assert_eq!(run(&program, number(name), [0; 6]), USER_NOTIF, "{name}");
            }
            assert_eq!(run(&program, number("open"), [0, create, 0, 0, 0, 0]), USER_NOTIF);
            assert_eq!(run(&program, number("open"), [create, 0, create, 0, 0, 0]), plain);
            assert_eq!(run(&program, number("openat"), [0, 0, create | 1, 0, 0, 0]), USER_NOTIF);
            assert_eq!(run(&program, number("openat"), [0, create, !create, 0, 0, 0]), plain);
            for name in ["read", "execve", "unlink", "stat", "chmod"] {
                assert_eq!(run(&program, number(name), [!0; 6]), ALLOW, "{name}");
            }
            assert_eq!(run(&program, 0x4000_0002, [!0; 6]), 0x0005_0000 | 38, "x32");
        }
    }
}
