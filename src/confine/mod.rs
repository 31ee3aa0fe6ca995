//! **What this room is for:** shutting the door of a worker.

pub mod seccomp;

/// Proof that the door is shut on this thread. Holding one tells you: capabilities are gone, no_new_privs is set,
/// Landlock and seccomp are in force and their canaries were stopped (or the operator accepted what is missing).
#[derive(Debug)]
pub struct Confined {
    _private: (),
}

#[cfg(test)]
impl Confined {
    /// For unit tests of tool bodies alone; the shipped binary has no other door than [`enter`].
    pub fn for_tests() -> Self {
        Confined { _private: () }
    }
}
