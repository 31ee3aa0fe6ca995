//! **What this room is for:** which arguments of a call are names, and what the call wants with each. **Who may enter:**
//! `worker::guard`. **Never done here:** reading memory; judging. **Where the proof is:** the tests below.

use crate::sys::notify::Asked;
use crate::sysnum;

/// What a call wants with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Opens it.
    Open {
        /// Makes it when it is not there.
        create: bool,
        /// And nothing else will do.
        exclusive: bool,
        /// Changes what is there.
        write: bool,
    },
    /// Makes a folder.
    Folder,
    /// Makes a file, fifo or socket.
    Node,
    /// Makes a symbolic link.
    Link,
    /// Moves it away, or gives its file a second name.
    Old,
    /// The name that it gets.
    New,
}

/// One name of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    /// Where a relative one begins.
    pub folder: i32,
    /// Where its text is in the asker's memory.
    pub text: u64,
    /// What for.
    pub wish: Wish,
    /// A link in the last place is followed.
    pub follow: bool,
    /// `RESOLVE_*` of `openat2`.
    pub resolve: u64,
}

/// The table.
#[derive(Debug)]
pub(super) struct Calls {
    rows: Vec<(i64, &'static str)>,
}

const NAMES: [&str; 15] = [
    "open",
    "openat",
    "openat2",
    "creat",
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

impl Calls {
    pub(super) fn new() -> Calls {
        Calls { rows: NAMES.iter().filter_map(|name| Some((sysnum::number(name)?, *name))).collect() }
    }

    /// The names of a call. `flags` are those of an `openat2`: its open and its resolve flags, read from memory.
    pub(super) fn names(&self, asked: &Asked, flags: impl FnOnce(u64) -> Option<(u64, u64)>) -> Option<Vec<Named>> {
        let (_, name) = self.rows.iter().find(|(number, _)| *number == asked.number)?;
        let [a, b, c, d, e, _] = asked.args;
        let here = libc::AT_FDCWD;
        let one = |folder, text, wish| Named { folder, text, wish, follow: false, resolve: 0 };
        let open = |folder, text, flags| opened(folder, text, flags, 0);
        let follow = |named: Named, yes: bool| Named { follow: yes, ..named };
        Some(match *name {
            "open" => vec![open(here, a, b)],
            "openat" => vec![open(fd(a), b, c)],
            "creat" => vec![open(here, a, bits(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC))],
            "openat2" => {
                let (flags, resolve) = flags(c)?;
                vec![opened(fd(a), b, flags, resolve)]
            }
            "mkdir" => vec![one(here, a, Wish::Folder)],
            "mkdirat" => vec![one(fd(a), b, Wish::Folder)],
            "mknod" => vec![one(here, a, Wish::Node)],
            "mknodat" => vec![one(fd(a), b, Wish::Node)],
            "symlink" => vec![one(here, b, Wish::Link)],
            "symlinkat" => vec![one(fd(b), c, Wish::Link)],
            "link" => vec![one(here, a, Wish::Old), one(here, b, Wish::Node)],
            "linkat" => {
                let through = e & bits(libc::AT_SYMLINK_FOLLOW) != 0;
                vec![follow(one(fd(a), b, Wish::Old), through), one(fd(c), d, Wish::Node)]
            }
            "rename" => vec![one(here, a, Wish::Old), one(here, b, Wish::New)],
            "renameat2" if e & u64::from(libc::RENAME_EXCHANGE) != 0 => {
                let (a, c) = (fd(a), fd(c));
                vec![one(a, b, Wish::Old), one(c, d, Wish::New), one(c, d, Wish::Old), one(a, b, Wish::New)]
            }
            _ => vec![one(fd(a), b, Wish::Old), one(fd(c), d, Wish::New)],
        })
    }
}

fn opened(folder: i32, text: u64, flags: u64, resolve: u64) -> Named {
    let has = |bit: i32| flags & bits(bit) != 0;
    // O_TMPFILE makes no name; it gets one by linkat.
    let create = has(libc::O_CREAT) && !has(libc::O_PATH);
    let exclusive = create && has(libc::O_EXCL);
    let write = flags & bits(libc::O_ACCMODE) != bits(libc::O_RDONLY) || has(libc::O_TRUNC);
    let follow = !has(libc::O_NOFOLLOW) && !exclusive;
    Named { folder, text, wish: Wish::Open { create, exclusive, write }, follow, resolve }
}

fn bits(flags: i32) -> u64 {
    u64::from(flags.unsigned_abs())
}

/// The kernel looks at 32 bits of a descriptor's number.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "that is the meaning")]
fn fd(argument: u64) -> i32 {
    argument as u32 as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str, args: [u64; 6]) -> Vec<(i32, u64, Wish, bool)> {
        let asked = Asked { id: 0, pid: 1, number: sysnum::number(name).expect(name), args };
        let how = |address| Some((bits(libc::O_CREAT), address));
        let names = Calls::new().names(&asked, how).expect(name);
        names.into_iter().map(|named| (named.folder, named.text, named.wish, named.follow)).collect()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn every_call_names_its_names() {
        let here = libc::AT_FDCWD;
        let args = [3, 4, 5, 6, 7, 8];
        let open = |create, exclusive, write| Wish::Open { create, exclusive, write };
        let create = bits(libc::O_CREAT | libc::O_WRONLY);
        let table = [
            ("open", [3, create, 0, 0, 0, 0], vec![(here, 3, open(true, false, true), true)]),
            ("open", [3, create | bits(libc::O_EXCL), 0, 0, 0, 0], vec![(here, 3, open(true, true, true), false)]),
            ("openat", [3, 4, bits(libc::O_NOFOLLOW), 0, 0, 0], vec![(3, 4, open(false, false, false), false)]),
            ("openat2", args, vec![(3, 4, open(true, false, false), true)]),
            ("creat", args, vec![(here, 3, open(true, false, true), true)]),
            ("mkdir", args, vec![(here, 3, Wish::Folder, false)]),
            ("mkdirat", args, vec![(3, 4, Wish::Folder, false)]),
            ("mknod", args, vec![(here, 3, Wish::Node, false)]),
            ("mknodat", args, vec![(3, 4, Wish::Node, false)]),
            ("symlink", args, vec![(here, 4, Wish::Link, false)]),
            ("symlinkat", args, vec![(4, 5, Wish::Link, false)]),
            ("link", args, vec![(here, 3, Wish::Old, false), (here, 4, Wish::Node, false)]),
            ("linkat", [3, 4, 5, 6, 0, 0], vec![(3, 4, Wish::Old, false), (5, 6, Wish::Node, false)]),
            ("linkat", [3, 4, 5, 6, 0x400, 0], vec![(3, 4, Wish::Old, true), (5, 6, Wish::Node, false)]),
            ("rename", args, vec![(here, 3, Wish::Old, false), (here, 4, Wish::New, false)]),
            ("renameat", args, vec![(3, 4, Wish::Old, false), (5, 6, Wish::New, false)]),
            ("renameat2", [3, 4, 5, 6, 1, 0], vec![(3, 4, Wish::Old, false), (5, 6, Wish::New, false)]),
        ];
        for (name, args, wanted) in table {
            assert_eq!(names(name, args), wanted, "{name}");
        }
        assert_eq!(names("renameat2", [3, 4, 5, 6, 2, 0]).len(), 4, "an exchange moves both");
        assert_eq!(fd(0xffff_ffff_ffff_ff9c), here);
        assert_eq!(fd(0xffff_ff9c), here, "the upper half is not looked at");
    }
}
