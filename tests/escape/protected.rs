//! Files that run later, outside: readable, never written; an operator lifts exactly one.

use serde_json::json;

use super::{Scene, way, ways};
use crate::support::{Bay, shown, users};

const NO: &[&str] = &["EROFS", "EACCES", "EPERM", "EBUSY", "EXDEV"];

/// A repository, one nested in it, a worktree's `.git` file, editor and agent settings.
const PLACES: &str = "
import subprocess
w = '{work}'
for d in (w, w + '/lib/inner'):
    subprocess.run(['git', 'init', '-q', d], check=True)
    for hook in ('pre-commit', 'pre-push'):
        open(d + '/.git/hooks/' + hook, 'w').write('#!/bin/sh\\n')
os.makedirs(w + '/tree'); open(w + '/tree/.git', 'w').write('gitdir: {work}/.git/worktrees/tree\\n')
for name in ('.vscode/settings.json', '.vscode/tasks.json', '.idea/workspace.xml', '.mcp.json', '.claude/settings.json', '.cursor/mcp.json', '.stockade/policy.toml'):
    os.makedirs(os.path.dirname(w + '/' + name), exist_ok=True); open(w + '/' + name, 'w').write('version = 1\\n' if 'stockade' in name else '{}')
os.system('chown -R --reference=%s %s' % (w, w))
";

ways! {
    hooks_of_the_repository: way(&[
        "open('.git/hooks/pre-commit', 'a').write('x')",
        "open('.git/hooks/post-merge', 'w')",
        "os.chmod('.git/hooks/pre-commit', 0o755)",
        "os.rename('src/a.txt', '.git/hooks/pre-push')",
        "os.symlink('/bin/sh', '.git/hooks/update')",
        "os.mkfifo('.git/hooks/fifo')",
        "os.link('src/b.txt', '.git/hooks/link') if os.path.exists('src/b.txt') else os.link('.git/HEAD', '.git/hooks/link')",
        "os.truncate('.git/hooks/pre-commit', 0)",
        "os.unlink('.git/hooks/pre-commit')",
    ], NO).host(PLACES, "");
    hooks_folder_replaced: way(&["os.rename('.git/hooks', '.git/old'); os.mkdir('.git/hooks')"], NO).host(PLACES, "");
    hooks_folder_removed: way(&["import shutil; shutil.rmtree('.git/hooks')"], NO).host(PLACES, "");
    hooks_of_nested_repositories: way(&[
        "open('lib/inner/.git/hooks/pre-commit', 'a').write('x')",
        "open('lib/inner/.git/hooks/new', 'w')",
        "open('lib/inner/.git/config', 'a').write('x')",
        "os.rename('src/a.txt', 'lib/inner/.git/config')",
    ], NO).host(PLACES, "");
    configuration_of_the_repository: way(&[
        "open('.git/config', 'a').write('x')",
        "os.unlink('.git/config') if False else os.truncate('.git/config', 0)",
        "os.rename('src/a.txt', '.git/config')",
        "os.unlink('.git/config')",
    ], NO).host(PLACES, "");
    configuration_by_git: way(&["
import subprocess
done = subprocess.run(['git', 'config', 'core.hooksPath', '/tmp/x'])
if done.returncode: raise OSError(errno.EACCES, 'git')"], NO).host(PLACES, "");
    worktree_file: way(&[
        "open('tree/.git', 'w').write('gitdir: /tmp/evil')",
        "os.rename('src/a.txt', 'tree/.git')",
        "os.unlink('tree/.git')",
    ], NO).host(PLACES, "");
    settings_of_editors: way(&[
        "open('.vscode/settings.json', 'a').write('x')",
        "open('.vscode/tasks.json', 'a').write('x')",
        "os.unlink('.vscode/settings.json')",
        "os.rename('src/a.txt', '.vscode/tasks.json')",
        "open('.idea/workspace.xml', 'a').write('x')",
    ], NO).host(PLACES, "");
    settings_of_agents: way(&[
        "open('.mcp.json', 'a').write('x')",
        "os.rename('src/a.txt', '.mcp.json')",
        "open('.claude/settings.json', 'a').write('x')",
        "open('.cursor/mcp.json', 'a').write('x')",
    ], NO).host(PLACES, "");
    the_workspaces_own_policy: way(&[
        "open('.stockade/policy.toml', 'a').write('x')",
        "open('.stockade/new', 'w')",
        "os.rename('src/a.txt', '.stockade/policy.toml')",
        "os.unlink('.stockade/policy.toml')",
    ], NO).host(PLACES, "");
    the_workspaces_own_policy_moved: way(&["os.rename('.stockade', 'gone')"], NO).host(PLACES, "");
}

fn repository(scene: &Scene) {
    scene.host.python(&scene.fill(PLACES));
}

#[test]
fn they_stay_readable_and_the_repository_usable() {
    for user in users() {
        let scene = Scene::new(user, "");
        repository(&scene);
        let text = "cat .git/config .git/hooks/pre-commit .vscode/settings.json tree/.git && \
                    git -c user.name=a -c user.email=a@b commit --no-verify -q --allow-empty -m one && \
                    git log --oneline && git branch other && git status --short | head -3";
        let output = scene.bay.run(text);
        assert!(output.status.success(), "{user:?}: {}", shown(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("one"), "{user:?}: {}", shown(&output));
    }
}

#[test]
fn file_tools_are_refused_and_say_why() {
    for user in users() {
        let scene = Scene::new(user, "");
        repository(&scene);
        for path in [
            ".git/hooks/pre-commit",
            ".git/hooks/new",
            ".git/config",
            "lib/inner/.git/hooks/pre-commit",
            "lib/inner/.git/config",
            "tree/.git",
            ".vscode/settings.json",
            ".mcp.json",
            ".claude/settings.json",
            ".stockade/policy.toml",
            "src/../.git/config",
            ".git/./config",
        ] {
            let write = json!({"path": path, "content": "x", "overwrite": true});
            let (result, exit) = scene.bay.call("write_file", &write);
            let code = result["refusal"]["code"].as_str();
            assert!(
                exit == 3 && ["protected_path", "denied_path"].contains(&code.unwrap()),
                "{user:?} {path}: {result}"
            );
            let (result, exit) =
                scene.bay.call("edit_file", &json!({"path": path, "old_string": "v", "new_string": "w"}));
            assert!(exit == 3, "{user:?} {path}: {result}");
        }
    }
}

#[test]
fn allow_write_lifts_exactly_one() {
    for user in users() {
        let scene = Scene::new(user, "[filesystem]\nallow_write = [\".git/hooks/pre-push\"]\n");
        repository(&scene);
        let write = |bay: &Bay, name: &str| bay.run(&format!("echo '# x' >> {name}")).status.code();
        assert_eq!(write(&scene.bay, ".git/hooks/pre-push"), Some(0), "{user:?}: the lifted one");
        let hook = std::fs::read_to_string(scene.bay.work(".git/hooks/pre-push")).unwrap();
        assert!(hook.contains("# x"), "{user:?}: it reached the disk: {hook}");
        for name in [".git/hooks/pre-commit", ".git/hooks/pre-push2", ".git/config", "lib/inner/.git/hooks/pre-push"] {
            assert_ne!(write(&scene.bay, name), Some(0), "{user:?}: {name}");
        }
        let call = |path: &str| {
            scene.bay.call("write_file", &json!({"path": path, "content": "#!/bin/sh\n", "overwrite": true})).1
        };
        assert_eq!((call(".git/hooks/pre-push"), call(".git/hooks/pre-commit")), (0, 3), "{user:?}");
    }
}
