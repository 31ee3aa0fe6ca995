//! No claim is spelled above the root.

use std::path::PathBuf;
use stockade::path::lexical::{PathClaim, spell};

/// Fails when a claim is spelled so that it leaves the root, or when its plain form is not stable.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let anchors = [PathBuf::from("/x/work"), PathBuf::from("/alias")];
    let Ok(claim) = PathClaim::new(text) else {
        let long = text.len() >= 4096 || text.split('/').any(|name| name.len() > 255);
        assert!(text.is_empty() || text.contains('\0') || long, "refused without a reason: {text:?}");
        return;
    };
    let Ok(spelled) = spell(claim, &anchors) else { return };
    let mut depth = 0_i64;
    for name in spelled.names() {
        assert!(!name.is_empty() && name != "." && !name.contains(['/', '\0']));
        depth += if name == ".." { -1 } else { 1 };
        assert!(depth >= 0, "{text:?} climbs above the root");
    }
    let plain = spelled.collapsed();
    assert!(!plain.starts_with('/') && !plain.split('/').any(|name| name == ".." || name.is_empty()), "{plain:?}");
    if text.starts_with('/') {
        let names: Vec<&str> = text.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        assert!(
            names.starts_with(&["x", "work"]) || names.starts_with(&["alias"]),
            "{text:?} is no spelling of the root"
        );
    }
    let again = PathClaim::new(plain).and_then(|claim| spell(claim, &anchors));
    assert_eq!(
        again.map(|again| again.collapsed().to_owned()).as_deref(),
        Ok(plain),
        "the plain form is its own plain form"
    );
}
