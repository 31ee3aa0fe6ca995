//! Whatever a worker sends, the supervisor answers with an error or a message, never with a panic or with memory that the
//! length alone asked for.

use stockade::wire;
use stockade::wire::message::{FromLauncher, FromWorker, ToLauncher, Work};

pub fn check(data: &[u8]) {
    let (head, body) = data.split_at(data.len().min(4));
    if let Ok(head) = <[u8; 4]>::try_from(head)
        && let Ok(length) = wire::body_length(head)
    {
        assert!(length <= stockade::limits::FRAME_BYTES);
    }
    for body in [data, body] {
        let _ = wire::decode::<FromWorker>(body);
        let _ = wire::decode::<FromLauncher>(body);
        let _ = wire::decode::<ToLauncher>(body);
        let _ = wire::decode::<Work>(body);
    }
}
