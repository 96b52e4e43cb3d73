//! Plays every transcript in `scenarios/`. `UPDATE=1` writes what was shown into the files, to be reviewed as prose;
//! `SCENARIO=name` plays only those whose names contain that.

use std::fs;
use std::path::Path;

use evenkeel_sim::scenario::replay;

#[test]
fn every_transcript_is_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let only = std::env::var("SCENARIO").ok();
    let mut wrong = Vec::new();
    let mut played = 0;
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it is read").path();
        if only.as_ref().is_some_and(|only| !path.to_string_lossy().contains(only)) {
            continue;
        }
        let written = fs::read_to_string(&path).expect("it is read");
        played += 1;
        let shown = match replay(&written) {
            Ok(shown) => shown,
            Err(e) => {
                wrong.push(format!("{}: {e}", path.display()));
                continue;
            }
        };
        if shown == written {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, shown).expect("it is written");
        } else {
            let line = shown.lines().zip(written.lines()).position(|(a, b)| a != b).unwrap_or(0);
            let (is, was) = (shown.lines().nth(line).unwrap_or(""), written.lines().nth(line).unwrap_or(""));
            wrong.push(format!("{}:{}: shows `{is}`, written is `{was}`", path.display(), line + 1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(played >= 6 || only.is_some(), "only {played} transcripts were found");
}

#[test]
fn what_is_expected_and_not_shown_is_a_difference() {
    let told = "start A\njobs 1\nshow\n----\nA={K=2 S=1 N=3 X=2 M=1000}\n";
    let shown = replay(told).expect("it plays");
    assert_eq!(shown, "start A\njobs 1\nshow\n----\nA={K=1 S=1 N=2 X=1 M=1000}\n");
}
