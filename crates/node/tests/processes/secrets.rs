//! Secrets of commands: how a run gets them, and that nothing else does.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::guard::{TestGuard, folder};
use crate::process::{lives, until};

pub(crate) const TESTS: &[(&str, fn())] = &[
    (
        "secrets::a_run_gets_its_secrets_and_its_output_shows_none",
        a_run_gets_its_secrets_and_its_output_shows_none,
    ),
    ("secrets::a_secret_in_pieces_is_masked", a_secret_in_pieces_is_masked),
    ("secrets::the_files_of_a_run_go_with_it", the_files_of_a_run_go_with_it),
    ("secrets::the_files_of_a_killed_guard_go_with_the_next", the_files_of_a_killed_guard_go_with_the_next),
    ("secrets::a_run_of_another_user_reads_its_files", a_run_of_another_user_reads_its_files),
];

/// A change that gives a start these secrets: variable, file and text.
fn secrets(all: &'static [(&str, &str, &str)]) -> impl FnOnce(&mut Value) {
    let secret = |(variable, file, text): &(&str, &str, &str)| json!({"variable": variable, "file": file, "text": text});
    move |start| start["secrets"] = all.iter().map(secret).collect()
}

/// proves: I52
fn a_run_gets_its_secrets_and_its_output_shows_none() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let script = "test \"$PASS\" = hunter2 && test \"$(cat $KEY)\" = \"first line\nsecond\" && echo right; \
                  stat -c '%a %u' $KEY $(dirname $KEY); echo $KEY >> $DATA/paths; basename $KEY; \
                  echo to stdout $PASS; echo to stderr $PASS >&2; cat $KEY; printf %s \"$PASS-and-more\" | base64";
    let given = secrets(&[
        ("PASS", "", "hunter2\n"),
        ("MORE", "", "hunter2-and-more"),
        ("KEY", "the-key", "first line\nsecond\n"),
    ]);
    let run = guard.launch(&["sh", "-c", script], given);
    assert_eq!(guard.ended()["code"], 0);
    let user = rustix::process::geteuid().as_raw();
    let expected = format!("right\n400 {user}\n700 {user}\nthe-key\nto stdout ***\nto stderr ***\n***\n***Q");
    let output = guard.output(&run);
    assert_eq!(output.trim_end_matches(['=', '\n']), expected, "{output}");
    let path = fs::read_to_string(data.path().join("paths")).unwrap();
    assert!(path.starts_with("/dev/shm/") && !Path::new(path.trim()).exists(), "{path}");
    // The next run gets none of them.
    let run = guard.launch(&["env"], |_| {});
    assert_eq!(guard.ended()["code"], 0);
    assert!(!guard.output(&run).contains("hunter2"));
}

/// proves: I52
fn a_secret_in_pieces_is_masked() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let script = "printf 'one hunt'; while ! test -e $DATA/go; do sleep 0.01; done; printf 'er2 two hunter'";
    let run = guard.launch(&["sh", "-c", script], secrets(&[("PASS", "", "hunter2")]));
    guard.started();
    let first = until("the first piece is written", || {
        fs::read_to_string(guard.log(&run)).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(first, "one ");
    fs::write(data.path().join("go"), "").unwrap();
    let end = guard.ended();
    assert_eq!(guard.output(&run), "one *** two hunter");
    assert_eq!(end["output"], guard.output(&run).len());
}

/// The path of the file that a run has written down.
fn path_of(data: &Path) -> String {
    let read = || fs::read_to_string(data.join("paths")).ok()?.strip_suffix('\n').map(str::to_owned);
    until("the run says where its file is", read)
}

const WAITS: [&str; 3] = ["sh", "-c", "echo $KEY > $DATA/paths; echo $$ >> $DATA/pids; sleep 600"];

/// proves: I52
fn the_files_of_a_run_go_with_it() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.launch(&WAITS, secrets(&[("KEY", "key", "hunter2")]));
    let path = path_of(data.path());
    assert_eq!(fs::read_to_string(&path).unwrap(), "hunter2");
    for argv in [&["/nowhere/program"][..], &["false"]] {
        guard.launch(argv, secrets(&[("KEY", "key", "hunter2")]));
    }
    let count = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
    let place = Path::new(&path).ancestors().nth(2).unwrap();
    until("only the first one's are left", || (count(place) == 1).then_some(()));
    // The node is gone, so the run is ended too.
    guard.end();
    assert!(!place.exists(), "{path}");
}

/// proves: I52
fn the_files_of_a_killed_guard_go_with_the_next() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    guard.launch(&WAITS, secrets(&[("KEY", "key", "hunter2")]));
    let path = path_of(data.path());
    let run = guard.pids(1)[0];
    guard.process.kill().unwrap();
    until("the kernel ends the run with its guard", || (!lives(run)).then_some(()));
    assert!(Path::new(&path).exists());
    let mut next = TestGuard::start(&data);
    assert!(!Path::new(&path).exists());
    next.end();
}

/// proves: I52
fn a_run_of_another_user_reads_its_files() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let script = "cat $KEY | tr a-z A-Z; touch $(dirname $KEY)/more || echo refused; sleep 600";
    let given = secrets(&[("KEY", "key", "hunter2\n")]);
    let run = guard.launch(&["sh", "-c", script], |start| {
        given(start);
        start["setting"] = json!({"user": "nobody"});
    });
    let group = guard.started();
    let output = until("the run has read its file", || {
        let output = fs::read_to_string(guard.log(&run)).ok()?;
        output.ends_with("refused\n").then_some(output)
    });
    assert!(output.starts_with("HUNTER2\n"), "{output}");
    let environment = fs::read(format!("/proc/{group}/environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment).into_owned();
    let path = environment.split('\0').find_map(|pair| pair.strip_prefix("KEY=")).unwrap();
    let (file, within) =
        (fs::metadata(path).unwrap(), fs::metadata(Path::new(path).parent().unwrap()).unwrap());
    assert_eq!((file.uid(), file.mode() & 0o777), (65_534, 0o400));
    assert_eq!((within.uid(), within.mode() & 0o777), (0, 0o710));
    guard.end();
}
