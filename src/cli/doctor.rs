//! **What this room is for:** `stockade doctor`: what the kernel offers, what each guarantee rests on here and how it was
//! proved. **Who may enter:** the command line. **Never done here:** probing. **Where the proof is:** `tests/cli.rs`.

use super::{args::Options, text};
use crate::supervisor::{Report, SessionKind};

/// Prints the report. The status is 0 when there is a report, whatever it says: it is an answer, not a failure.
pub(super) fn doctor(options: Options) -> u8 {
    let json = options.json;
    super::block_on(async {
        let report = crate::supervisor::doctor(options.settings(SessionKind::Call)).await;
        if json {
            text::out(&text::json_line(&report));
        } else {
            let colour = text::colour(&std::io::stdout());
            // Each cell was made harmless; the colours are ours.
            text::out(as_text(&report, colour).as_bytes());
        }
        0
    })
}

fn as_text(report: &Report, colour: bool) -> String {
    let mut page = format!("kernel {}, Landlock ABI {}\n\n", text::plain(&report.kernel), report.landlock_abi);
    let guarantees =
        report.guarantees.iter().map(|g| [verdict(g.holds, "holds", "MISSING"), &g.guarantee, &g.rests_on, &g.proof]);
    page.push_str(&table(["", "guarantee", "rests here on", "proved by"], guarantees, colour));
    page.push('\n');
    let mechanisms = report.mechanisms.iter().map(|m| [verdict(m.available, "yes", "NO"), &m.name, &m.detail, ""]);
    page.push_str(&table(["", "mechanism", "detail", ""], mechanisms, colour));
    if !report.degraded.is_empty() {
        page.push_str("\nmissing here:\n");
        for line in &report.degraded {
            page.push_str(&format!("  {}\n", text::plain(line)));
        }
    }
    page
}

fn verdict(good: bool, yes: &'static str, no: &'static str) -> &'static str {
    if good { yes } else { no }
}

/// Columns as wide as their widest cell; the first is painted.
fn table<'a>(head: [&'a str; 4], rows: impl Iterator<Item = [&'a str; 4]>, colour: bool) -> String {
    let rows: Vec<[String; 4]> =
        std::iter::once(head).chain(rows).map(|row| row.map(|cell| text::plain(cell).replace('\n', " "))).collect();
    let widest =
        |column: fn(&[String; 4]) -> &String| rows.iter().map(|r| column(r).chars().count()).max().unwrap_or(0);
    let (a, b, c) = (widest(|r| &r[0]), widest(|r| &r[1]), widest(|r| &r[2]));
    let mut out = String::new();
    for (number, [first, second, third, fourth]) in rows.iter().enumerate() {
        let good = first.chars().any(char::is_lowercase);
        let first = text::paint(&format!("{first:a$}"), good, colour && number > 0);
        let line = format!("{first}  {second:b$}  {third:c$}  {fourth}");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_paint_the_terminal() {
        let rows = [["holds", "fs.read", "a\x1b[2Jb\nc", "proof"], ["MISSING", "net.none", "", "none"]];
        let page = table(["", "guarantee", "rests", "proof"], rows.into_iter(), false);
        assert!(!page.contains('\x1b') && page.contains("a\\x1b[2Jb c"), "{page}");
        assert_eq!(page.lines().count(), 3);
        let page = table(["", "g", "r", "p"], rows.into_iter(), true);
        assert!(page.contains("\x1b[32mholds  \x1b[0m") && page.contains("\x1b[31mMISSING\x1b[0m"), "{page}");
    }
}
