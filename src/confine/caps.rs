//! **What this room is for:** taking every capability away, for good. **Who may enter:** `confine`.
//! **Never done here:** keeping one. **Where the proof is:** `tests/escape.rs` (from inside, as root and as nobody).
//!
//! Capabilities undo Landlock: with `CAP_SYS_ADMIN` a confined process reads the environment of its parent and clears a
//! read-only mount (measured). So they go first.

use caps::CapSet;

/// Empties the bounding, ambient, inheritable, effective and permitted sets and locks the securebits.
///
/// # Errors
/// A text that names the set.
pub fn drop_all() -> Result<(), String> {
    // Without CAP_SETPCAP (an ordinary user outside a user namespace) the bounding set stays; with empty permitted and
    // inheritable sets and no_new_privs nothing can be drawn from it.
    let may_bound = caps::has_cap(None, CapSet::Effective, caps::Capability::CAP_SETPCAP).unwrap_or(false);
    if may_bound {
        crate::sys::lock_securebits().map_err(|error| format!("securebits: {error}"))?;
        for number in 0..64 {
            if !crate::sys::drop_bounding(number).map_err(|error| format!("bounding set: {error}"))? {
                break;
            }
        }
    }
    for (set, name) in [
        (CapSet::Ambient, "ambient set"),
        (CapSet::Inheritable, "inheritable set"),
        (CapSet::Effective, "effective set"),
        (CapSet::Permitted, "permitted set"),
    ] {
        caps::clear(None, set).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Reads back that the sets from which a process can act are empty.
#[must_use]
pub fn are_empty() -> bool {
    [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted]
        .into_iter()
        .all(|set| caps::read(None, set).is_ok_and(|held| held.is_empty()))
}
