//! **What this room is for:** the only `unsafe`: system calls that no safe crate offers. **Who may enter:** rooms that wrap
//! them. **Never done here:** deciding anything. **Where the proof is:** `tests/profiles.rs`.
#![allow(unsafe_code)]

/// Makes the one `keyctl` call that no kernel knows an answer for but a refusal, and gives its errno (0: it "worked").
/// The operation 0xffff is none: a kernel says EOPNOTSUPP, or ENOSYS without keyrings.
#[must_use]
pub fn keyctl_canary() -> i32 {
    // JUSTIFICATION: nix and libc have no keyctl; asking the kernel is the only proof that a filter answers.
    // SAFETY: the call takes five numbers, touches no memory of ours, and the operation does not exist.
    let answer = unsafe { libc::syscall(libc::SYS_keyctl, 0xffff_i64, 0_i64, 0_i64, 0_i64, 0_i64) };
    if answer == -1 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
}
