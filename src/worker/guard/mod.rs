//! **What this room is for:** the name guard: answering the calls by which programs make, move or (in strict) open names.
//! **Who may enter:** `worker::child`, from its loop. **Never done here:** a step that can block or has no bound; a call
//! of the filter's own list by this process under that filter (it is on the programs alone). **Where the proof is:**
//! `tests/guard.rs`, the tests of the parts.
//!
//! What is left open, plainly: the kernel reads the name again after our answer, so another thread of the program can
//! change it between our look and the call. Masks are the fence for names that exist. This guard is for names that do not
//! exist yet, and for the moment in which a file that the host has just replaced is not masked again; the supervisor looks
//! at the workspace again after each call. Where the answer is an error, there is no second look and so no such race.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::call::RefusedName;
use crate::sys::notify::{self, Answer, Asked, Step};

mod calls;
mod place;
mod rules;

use calls::{Calls, Named, Wish};
use place::{Found, Memory, Place};
pub use rules::Rules;

/// Questions answered before others get a turn.
const TURNS: usize = 16;
/// Refusals that are kept for the answer.
const ROWS: usize = 20;
/// Characters of one target.
const TARGET_CHARS: usize = 300;

/// What is made ahead of need: the filter, the patterns, the table.
#[derive(Debug)]
pub struct Ready<'a> {
    filter: &'a [Step],
    rules: &'a Rules,
    calls: Calls,
}

impl<'a> Ready<'a> {
    /// Puts the parts together.
    #[must_use]
    pub fn new(filter: &'a [Step], rules: &'a Rules) -> Ready<'a> {
        Ready { filter, rules, calls: Calls::new() }
    }
}

/// Starts a program, under guard where there is one.
///
/// # Errors
/// Nothing was started then.
pub fn start<'a>(command: &mut Command, ready: Option<&'a Ready<'a>>) -> io::Result<(Child, Option<Watch<'a>>)> {
    let (child, listener) = notify::spawn(command, ready.map(|ready| ready.filter))?;
    let watch = ready.zip(listener).map(|(ready, listener)| {
        notify::take_turns(listener.as_fd());
        Watch { ready, listener, refused: Vec::new() }
    });
    Ok((child, watch))
}

/// The guard of one running program and all that it starts.
#[derive(Debug)]
pub struct Watch<'a> {
    ready: &'a Ready<'a>,
    listener: OwnedFd,
    refused: Vec<RefusedName>,
}

impl Watch<'_> {
    /// To be polled for reading.
    #[must_use]
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers what waits. Never blocks: a question is only fetched when there is one.
    pub fn serve(&mut self) {
        for _ in 0..TURNS {
            let mut ready = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            let asked = poll(&mut ready, PollTimeout::ZERO).is_ok_and(|count| count > 0)
                && ready.iter().any(|one| one.revents().is_some_and(|events| events.contains(PollFlags::POLLIN)));
            if !asked {
                return;
            }
            // ENOENT: the asker has died.
            let Ok(asked) = notify::receive(self.listener.as_fd()) else { continue };
            let answer = self.look(&asked);
            let _ = notify::answer(self.listener.as_fd(), asked.id, answer);
        }
    }

    /// Closes the listener (who still waits is being killed) and hands over what was refused.
    #[must_use]
    pub fn finish(self) -> Vec<RefusedName> {
        self.refused
    }

    fn look(&mut self, asked: &Asked) -> Answer {
        match self.verdict(asked) {
            Ok(None) => Answer::Continue,
            Ok(Some(refused)) => {
                if self.refused.len() < ROWS && !self.refused.contains(&refused) {
                    self.refused.push(refused);
                }
                Answer::Errno(libc::EACCES)
            }
            // What the kernel would say to such a name, said here, so that it is not looked up a second time.
            Err(errno) => Answer::Errno(errno as i32),
        }
    }

    fn verdict(&self, asked: &Asked) -> Result<Option<RefusedName>, Errno> {
        let memory = Memory::of(asked.pid)?;
        let names = self.ready.calls.names(asked, |address| memory.open_how(address)).ok_or(Errno::EFAULT)?;
        let mut moved: Option<Place> = None;
        for named in names {
            let places = place::places(asked.pid, &named, memory.text(named.text)?)?;
            if !notify::still_waits(self.listener.as_fd(), asked.id) {
                return Err(Errno::EACCES); // Whoever has this number now, it was not its question.
            }
            if let Some(refused) = self.refusal(&places, &named)? {
                return Ok(Some(refused));
            }
            let place = places.into_iter().last();
            match (named.wish, &moved, &place) {
                (Wish::New, Some(old), Some(new)) => {
                    if let Some(rule) = self.ready.rules.forbids_move(old, new) {
                        let path = if rule.contains(".git/") { &old.path } else { &new.path };
                        return Ok(Some(self.row(path, rule)));
                    }
                }
                (Wish::Old, ..) => moved = place,
                _ => {}
            }
        }
        Ok(None)
    }

    fn refusal(&self, places: &[Place], named: &Named) -> Result<Option<RefusedName>, Errno> {
        let Some(last) = places.last() else { return Ok(None) };
        let there = last.found != Found::Nothing;
        match named.wish {
            Wish::Folder | Wish::Node | Wish::Link if there => return Err(Errno::EEXIST),
            Wish::Open { exclusive: true, .. } if there => return Err(Errno::EEXIST),
            Wish::Old if !there => return Err(Errno::ENOENT),
            _ => {}
        }
        let wish = match named.wish {
            // What is there is not made: only its content is asked for.
            Wish::Open { write, .. } if there => Wish::Open { create: false, exclusive: false, write },
            wish => wish,
        };
        let found = places.iter().find_map(|place| Some((place, self.ready.rules.forbids(place, wish)?)));
        Ok(found.map(|(place, rule)| self.row(&place.path, rule)))
    }

    fn row(&self, path: &Path, rule: String) -> RefusedName {
        RefusedName { target: self.ready.rules.shown(path).chars().take(TARGET_CHARS).collect(), rule }
    }
}
