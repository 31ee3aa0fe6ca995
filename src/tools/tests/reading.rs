//! `read_file` and `ls`.

use std::fs::File;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::Bay;
use crate::call::Code;

#[test]
fn read_file_numbers_lines_and_says_how_to_go_on() {
    let bay = Bay::new();
    let body: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    bay.put("n.txt", &body);
    let whole = bay.good("read_file", json!({"path": "n.txt"}));
    assert!(whole.text.starts_with("     1\tline 1\n     2\tline 2\n") && whole.truncated.is_none());
    assert_eq!((&whole.details["total_lines"], &whole.details["last_line"]), (&json!(30), &json!(30)));
    let part = bay.good("read_file", json!({"path": "n.txt", "lineStart": 11, "limit": 10}));
    assert!(part.text.ends_with("[Showing lines 11-20 of 30. Use offset=21 to continue reading.]"));
    assert_eq!(part.truncated.unwrap().omitted_lines, Some(10));
    assert!(!bay.good("read_file", json!({"path": "n.txt", "offset": 10, "end_line": 12})).text.contains("line 13"));
    let past = bay.call("read_file", json!({"path": "n.txt", "offset": 31}));
    assert!(past.refusal.unwrap().message.contains("30"));
    assert_eq!(bay.code("read_file", json!({"path": "n.txt", "offset": 5, "end_line": 4})), Code::InvalidArguments);
    bay.put("none", "");
    assert_eq!(bay.good("read_file", json!({"path": "none"})).details["total_lines"], 0);
}

#[test]
fn read_file_cuts_lines_and_text_by_characters() {
    let bay = Bay::new();
    bay.put("long", "é".repeat(2600) + "\n" + &"ü".repeat(2000) + "\nend\n");
    let outcome = bay.good("read_file", json!({"path": "long"}));
    let lines: Vec<&str> = outcome.text.lines().map(|line| line.split_once('\t').unwrap().1).collect();
    assert!(lines[0].starts_with(&"é".repeat(2000)) && lines[0].matches('é').count() == 2000 && lines[0].len() > 4000);
    assert_eq!((lines[1], lines[2]), ("ü".repeat(2000).as_str(), "end"));
    assert_eq!(outcome.truncated.unwrap().omitted_bytes, Some(1200));
    bay.put("wide", (0..1500).map(|n| format!("{n:05} {}\n", "w".repeat(120))).collect::<String>());
    let first = bay.good("read_file", json!({"path": "wide"}));
    assert!(first.text.chars().count() <= 50_300);
    let last = first.details["last_line"].as_u64().unwrap();
    let next = bay.good("read_file", json!({"path": "wide", "offset": last + 1, "limit": 1}));
    assert!(next.text.contains(&format!("{last:05} w")), "line numbers start at one: {}", next.text);
}

#[test]
fn read_file_refuses_what_is_not_text() {
    let bay = Bay::new();
    bay.put("bin", [b"marlin".as_slice(), &[0]].concat());
    let binary = bay.call("read_file", json!({"path": "bin"})).refusal.unwrap();
    assert!(binary.code == Code::NotRegular && binary.message.contains("binary") && !binary.message.contains("marlin"));
    let folder = bay.call("read_file", json!({"path": "src"})).refusal.unwrap();
    assert!(folder.code == Code::NotRegular && folder.hint.unwrap().contains("ls"));
    nix::unistd::mkfifo(&bay.root().join("p"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(bay.code("read_file", json!({"path": "p"})), Code::NotRegular);
    File::create(bay.root().join("big")).unwrap().set_len(10 * 1024 * 1024 + 1).unwrap();
    assert_eq!(bay.code("read_file", json!({"path": "big"})), Code::TooLarge);
    bay.put("latin", b"caf\xe9 au lait\n");
    let lossy = bay.good("read_file", json!({"path": "latin"}));
    assert!(lossy.text.contains("caf\u{fffd} au lait") && lossy.details["encoding"] == "utf-8-lossy");
    let png = b"\x89PNG\r\n\x1a\n\0\0";
    bay.put("chart.dat", png);
    let image = bay.good("read_file", json!({"path": "chart.dat"}));
    assert!(image.text.contains("image/png") && image.text.contains("10"));
    assert_eq!(image.details["image"]["base64"], "iVBORw0KGgoAAA==");
}

#[test]
fn ls_sorts_hides_and_stops() {
    let bay = Bay::new();
    bay.put("zeta/x", "");
    bay.put("alpha.txt", "12345");
    bay.put("mid.bin", vec![0; 1536]);
    symlink("src", bay.root().join("way")).unwrap();
    let outcome = bay.good("ls", json!({}));
    assert_eq!(outcome.text, "src/\nzeta/\nalpha.txt  5 B\nmid.bin  1.5 KB\nway@");
    assert_eq!((&outcome.details["total"], &outcome.details["path"]), (&json!(5), &json!(".")));
    bay.put("a/b/c/deep.txt", "");
    assert!(bay.good("ls", json!({"path": "a", "depth": 3})).text.contains("b/c/deep.txt"));
    assert!(!bay.good("ls", json!({"path": "a"})).text.contains("deep"));
    for n in 0..520 {
        bay.put(&format!("many/f{n:03}"), "");
    }
    let many = bay.good("ls", json!({"dir": "many"}));
    assert!(many.text.contains("f499") && !many.text.contains("f500"));
    assert_eq!((many.details["total"].as_u64(), many.truncated.unwrap().omitted_results), (Some(520), Some(20)));
    assert_eq!(bay.code("ls", json!({"path": "src/a.txt"})), Code::NotRegular);
    bay.put(".gitignore", "alpha*\nc\n");
    assert!(!bay.good("ls", json!({"include_ignored": false})).text.contains("alpha"));
    let below = bay.good("ls", json!({"path": "a/b", "include_ignored": false}));
    assert_eq!(below.details["total"], 0, "rules of the root hold below it");
    bay.put("n\x1b]0;x\x07", "");
    assert!(!bay.good("ls", json!({})).text.contains('\x1b'));
}
