//! **What this room is for:** noticing names that the host makes or replaces while programs run, and covering them again.
//! **Who may enter:** `supervisor::ground`. **Never done here:** reading files. **Where the proof is:** `tests/escape.rs`.
//!
//! A rename on the host takes the mask off the name that it replaces (the kernel detaches mounts from a dentry that is
//! gone), so between the rename and the new mask a running program can open the new file. The window is what inotify and
//! one message to the launcher take.

use std::os::fd::AsFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

use super::ground::Ground;
use crate::limits::WATCHED_FOLDERS;

/// A running watch; ends when it is dropped.
#[derive(Debug)]
pub(super) struct Watch(Option<tokio::task::JoinHandle<()>>);

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Starts watching the folders of the workspace.
pub(super) async fn start(ground: Arc<Ground>) -> Watch {
    let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
    let Ok(inotify) = Inotify::init(flags) else { return Watch(None) };
    if add_folders(&inotify, &ground).await.is_none() {
        return Watch(None);
    }
    #[expect(deprecated, reason = "its successor is unsafe; the descriptor lives as long as the object")]
    let Ok(ready) = AsyncFd::new(OwnedInotify(inotify)) else { return Watch(None) };
    Watch(Some(tokio::spawn(follow(ready, ground))))
}

#[derive(Debug)]
struct OwnedInotify(Inotify);

impl std::os::fd::AsRawFd for OwnedInotify {
    fn as_raw_fd(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.0.as_fd())
    }
}

async fn add_folders(inotify: &Inotify, ground: &Ground) -> Option<()> {
    let events = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_ONLYDIR
        | AddWatchFlags::IN_DONT_FOLLOW;
    let guard = ground.scan().await.ok()?;
    for folder in guard.as_ref()?.folders().take(WATCHED_FOLDERS) {
        // ENOSPC: the user's inotify watches are used up; what is not watched is looked at before each call.
        if inotify.add_watch(&ground.root.real().join(folder), events) == Err(Errno::ENOSPC) {
            break;
        }
    }
    Some(())
}

async fn follow(ready: AsyncFd<OwnedInotify>, ground: Arc<Ground>) {
    loop {
        let Ok(mut guard) = ready.readable().await else { return };
        let mut relevant = false;
        loop {
            match ready.get_ref().0.read_events() {
                Ok(events) => {
                    relevant |= events.iter().any(|event| {
                        event.mask.contains(AddWatchFlags::IN_ISDIR)
                            || event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)
                            || event.name.as_ref().is_none_or(|name| {
                                let name = name.as_encoded_bytes();
                                ground.sets.deny.could_match_name(name) || ground.sets.protect.could_match_name(name)
                            })
                    });
                }
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        guard.clear_ready();
        if relevant {
            let _ = ground.cover_new_names().await;
            let _ = add_folders(&ready.get_ref().0, &ground).await;
        }
    }
}
