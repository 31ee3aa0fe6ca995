//! **What this room is for:** the plan of the name guard, from the policy and what a scan knows. **Who may enter:**
//! `supervisor::ground`. **Never done here:** judging a name. **Where the proof is:** `tests/guard.rs`.

use std::path::{Path, PathBuf};

use super::Supervisor;
use crate::call::Refusal;
use crate::confinement::GuardPlan;
use crate::limits::SCAN_ENTRIES;
use crate::path::{Root, Scan, ScanSets};

impl Supervisor {
    /// `trees`: further trees that may be written, by their real names. `programs`: the session may start programs.
    pub(super) async fn guard_plan(&self, trees: &[PathBuf], programs: bool) -> Result<GuardPlan, Refusal> {
        let root = self.ground.root.real();
        let mut pinned = Vec::new();
        if programs {
            let guard = self.ground.scan().await?;
            pinned.extend(guard.iter().flat_map(|scan| repositories(scan, root)));
            pinned.extend(trees.iter().flat_map(|tree| repositories_of_tree(tree)));
        }
        let text = |rule: &crate::policy::PathRule| rule.pattern.text().to_owned();
        Ok(GuardPlan {
            home: self.ground.home.clone(),
            trees: trees.to_vec(),
            deny: self.policy.deny_patterns().iter().map(text).collect(),
            // A file `.git` is what `git worktree add` and `git submodule` make; which ones exist is the masks' business.
            protect: self.policy.protect_patterns().iter().filter(|rule| !rule.file_only).map(text).collect(),
            lifted: self.policy.allow_write(),
            pinned,
            all_opens: self.policy.is_strict(),
        })
    }
}

fn is_repository(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".git")
}

fn repositories(scan: &Scan, root: &Path) -> Vec<PathBuf> {
    scan.folders().filter(|folder| is_repository(folder)).map(|folder| root.join(folder)).collect()
}

/// Those in a tree, and the one that the tree is, or is part of.
fn repositories_of_tree(tree: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = tree.ancestors().filter(|path| is_repository(path)).map(Path::to_path_buf).collect();
    if let Ok(opened) = Root::open(tree)
        && let Ok(scan) = Scan::new(&opened, &ScanSets::default(), SCAN_ENTRIES)
    {
        found.extend(repositories(&scan, tree));
    }
    found
}
