//! Denied names: for programs and their children, by every spelling and every other name of the file.

use serde_json::json;

use super::{Outside, Scene, way, ways};
use crate::support::{assert_sealed, shown, users};

const NO: &[&str] = &["EACCES", "EPERM", "EXDEV", "EBUSY", "EROFS", "ENOENT"];

ways! {
    read_by_every_spelling: way(&[
        "open('.env').read()",
        "open('./.env').read()",
        "open('src/../.env').read()",
        "open('src//..//.env').read()",
        "open('{work}/.env').read()",
        "open('/proc/self/cwd/.env').read()",
        "open('/proc/self/root{work}/.env').read()",
        "open('/proc/thread-self/cwd/.env').read()",
        "os.open('.env', os.O_RDONLY, dir_fd=os.open('.', os.O_PATH))",
        "open('vault/key').read()",
        "open('vault/../vault/./key').read()",
        "os.chdir('vault'); open('key').read()",
        "os.open('key', os.O_RDONLY, dir_fd=os.open('vault', os.O_PATH))",
        "open('/dev/fd/%d' % os.open('.env', os.O_PATH)).read()",
        "call(437, -100, b'.env', struct.pack('3Q', 0, 0, 0), 24)",
        "os.open('.env', os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)",
    ], NO);
    list_a_denied_folder: way(&["os.listdir('vault')", "list(os.scandir('{work}/vault'))"], NO);
    read_by_links: way(&[
        "os.symlink('.env', 'l1'); open('l1').read()",
        "os.symlink('{work}/vault', 'l2'); open('l2/key').read()",
        "os.symlink('l1', 'l3'); open('l3').read()",
        "os.link('.env', 'h1'); open('h1').read()",
        "os.link('vault/key', 'h2'); open('h2').read()",
        "call(265, os.open('.env', os.O_PATH), b'', -100, b'h3', 0x1000); open('h3').read()",
        "os.link('/proc/self/fd/%d' % os.open('.env', os.O_PATH), 'h4', follow_symlinks=True); open('h4').read()",
    ], NO).outside(Outside::NotTried("linkat by descriptor asks for a capability; the others are tried one by one below"));
    read_by_a_hard_link: way(&["os.link('.env', 'h1'); open('h1').read()", "os.link('vault/key', 'h2'); open('h2').read()"], NO);
    read_by_a_hard_link_that_was_there: way(&["open('src/alias').read()", "open('other').read()"], NO)
        .host("os.link('{work}/.env', '{work}/src/alias'); os.link('{work}/vault/key', '{work}/other')", "");
    read_by_a_link_that_was_there: way(&["open('src/alias').read()", "open('folder/key').read()"], NO)
        .host("os.symlink('../.env', '{work}/src/alias'); os.symlink('vault', '{work}/folder')", "");
    read_after_a_rename: way(&["os.rename('.env', 'plain'); open('plain').read()"], NO);
    read_after_a_rename_of_the_folder: way(&["os.rename('vault', 'open'); open('open/key').read()"], NO);
    read_after_a_rename_of_the_folder_above: way(&["os.mkdir('n'); os.rename('sub', 'n/sub'); open('n/sub/deep/.env').read()"], NO)
        .host("os.makedirs('{work}/sub/deep', exist_ok=True); open('{work}/sub/deep/.env', 'w').write('otter42')
os.system('chown -R --reference={work} {work}/sub')", "");
    read_after_an_exchange: way(&["call(316, -100, b'src/a.txt', -100, b'.env', 2); open('src/a.txt').read()"], NO);
    write_denied_files: way(&[
        "open('.env', 'a').write('x')",
        "open('.env', 'w')",
        "os.truncate('.env', 0)",
        "open('vault/key', 'a').write('x')",
        "open('vault/new', 'w')",
        "os.mkdir('vault/d')",
    ], NO);
    remove_denied_files: way(&["os.unlink('.env')"], NO);
    remove_denied_folders: way(&["import shutil; shutil.rmtree('vault')"], NO);
    replace_denied_files: way(&["os.rename('src/a.txt', '.env')"], NO);
    execute_a_denied_file: way(&["os.rename('vault', 'v2') if False else os.close(os.open('vault/key', os.O_PATH | os.O_NOFOLLOW)); open('vault/key')"], NO);
    denied_pattern_at_any_depth: way(&["open('a/b/c/.env').read()", "open('a/.env').read()"], NO).host("
os.makedirs('{work}/a/b/c')
for d in ('a', 'a/b/c'): open('{work}/' + d + '/.env', 'w').write('otter42')
os.system('chown -R --reference={work} {work}/a')", "");
    denied_by_an_absolute_pattern: way(&["open('{outer}/note.txt').read()"], NO)
        .policy("[filesystem]\nread = [\"{outer}\"]\n[[deny_path]]\npattern = \"{outer}/note.txt\"\nreason = \"x\"\n");
    denied_in_a_readable_tree: way(&["open('{outer}/deep/.env').read()"], NO).policy("[filesystem]\nread = [\"{outer}\"]\n")
        .host("os.makedirs('{outer}/deep', exist_ok=True); open('{outer}/deep/.env', 'w').write('petrel31')
os.system('chown -R --reference={work} {outer}/deep')", "");
}

/// What children of a shell say about a denied file: all of them, each really started.
#[test]
fn every_program_is_a_child_of_the_fence() {
    for user in users() {
        let scene = Scene::new(user, "");
        for command in [
            "cat .env",
            "cat < .env",
            "head -c 99 .env",
            "tail .env",
            "grep -r TOKEN .",
            "grep -ra otter .",
            "find . -type f -exec cat {} +",
            "tar cf - .",
            "cp -r . /tmp/c; cat /tmp/c/.env",
            "dd if=.env",
            "od -c .env",
            "xxd .env; base64 .env",
            "sed -n p .env",
            "awk 1 .env",
            "sort .env vault/key",
            "bash -c '. ./.env; echo $TOKEN'",
            "(exec 3<.env; cat <&3)",
            "mapfile -t x <.env; echo ${x[@]}",
            "python3 -c 'print(open(\".env\").read())'",
            "perl -ne print .env",
            "ln .env l; cat l",
            "ln -s .env l; cat l",
            "mv .env e; cat e",
            "cp -al . /tmp/d; cat /tmp/d/.env",
            "cd vault && cat key",
            "cat vault/*",
            "cat ./v*/k*",
            "git diff --no-index /dev/null .env",
            "env -i cat .env",
            "setsid -w cat .env",
            "nohup cat .env",
            "xargs -a .env echo",
            "diff .env src/a.txt",
            "cmp -b .env src/a.txt",
            "git hash-object -w .env; git init -q; git add -f .env; git show :.env",
            "sh -c 'cat .env' &  wait",
            "strings .env; rev .env; tac .env",
        ] {
            let output = scene.bay.run(&format!("{command}\ntrue"));
            assert_sealed(&output.stdout);
            assert_sealed(&output.stderr);
            let (result, _) = scene.bay.call("bash", &json!({ "command": command }));
            assert_sealed(result.to_string().as_bytes());
            let kept = std::fs::read_to_string(scene.bay.work(".env")).unwrap_or_default();
            assert_eq!(kept, "TOKEN=otter42\n", "{user:?} {command}: {}", shown(&output));
        }
    }
}
