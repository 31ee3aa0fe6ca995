//! **What this room is for:** noticing names that the host makes or replaces while programs run, and covering them again.
//! **Who may enter:** `supervisor::ground`. **Never done here:** reading files. **Where the proof is:** `tests/escape.rs`.
//!
//! A rename on the host takes the mask off the name that it replaces (the kernel detaches mounts from a dentry that is
//! gone), so between the rename and the new mask a running program can open the new file. The window is what inotify and
//! one message to the launcher take.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

use super::ground::Ground;
use super::spawn::Launcher;
use crate::limits::WATCHED_FOLDERS;

/// A running watch; ends when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    task: tokio::task::JoinHandle<()>,
    inotify: Arc<OwnedInotify>,
}

impl Watch {
    /// Ends it. The last close of an inotify descriptor waits in the kernel for the readers of all marks (milliseconds), so
    /// it is left to the launcher, whose end nobody waits for.
    pub async fn end(&self, launcher: &Launcher) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { task, inotify }) = running {
            launcher.hand_over(inotify.0.as_fd()).await;
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(running) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner) {
            running.task.abort();
        }
    }
}

/// Starts watching the folders of the workspace.
pub(super) async fn start(ground: Arc<Ground>) -> Watch {
    let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
    let Ok(inotify) = Inotify::init(flags) else { return Watch::default() };
    if add_folders(&inotify, &ground).await.is_none() {
        return Watch::default();
    }
    let inotify = Arc::new(OwnedInotify(inotify));
    #[expect(
        deprecated,
        reason = "its successor asks for a promise that this type keeps: the descriptor lives as long as the object"
    )]
    let Ok(ready) = AsyncFd::new(Arc::clone(&inotify)) else { return Watch::default() };
    Watch(Mutex::new(Some(Running { task: tokio::spawn(follow(ready, ground)), inotify })))
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

async fn follow(ready: AsyncFd<Arc<OwnedInotify>>, ground: Arc<Ground>) {
    // What was replaced between the scan and the first watch raised no event. A cover that fails is kept by the ground and
    // refuses the next call.
    let _ = ground.cover_new_names().await;
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
