//! Jobs that wait for a slot, on a real node that has one.

use crate::process::{ServerProcess, text, until, until_told};

#[test]
fn the_next_slot_goes_to_the_job_of_the_highest_priority() {
    for placement in ["claimed", "dispatched"] {
        let folder = tempfile::tempdir().expect("a folder");
        let node = ServerProcess::serve(folder.path(), "a", &["--slots", "1"]);
        node.json(&["cluster", "settings", "--beat", "1s"]);
        let job = |name: &str, priority: &str, command: &str| {
            format!(
                "[[job]]\nname = \"{name}\"\nplacement = \"{placement}\"\n{priority}\ncommand = [{command}]\n"
            )
        };
        let jobs = [("low", "priority = 1"), ("middle", ""), ("high", "priority = 9")];
        let held = folder.path().join("held").display().to_string();
        let script = format!("\"/bin/sh\", \"-c\", \"until test -e {held}; do sleep 0.1; done\"");
        let mut file = job("slow", "", &script);
        jobs.iter().for_each(|(name, priority)| file += &job(name, priority, "\"true\""));
        let applied = node.fed(&["job", "apply", "-f", "-"], &file);
        assert!(applied.status.success(), "{}", text(&applied.stderr));
        let rows = || node.json(&["run", "list"]).as_array().cloned().unwrap_or_default();
        node.ok(&["job", "run", "slow"]);
        until("the slot is taken", || rows().iter().any(|row| row["state"] == "running").then_some(()));
        jobs.iter().for_each(|(name, _)| {
            node.ok(&["job", "run", name]);
        });
        for (name, _) in jobs {
            let why = || node.ok(&["explain", "job", name]);
            let waits = |why: &str| why.contains("no free slot") || why.contains("about to");
            until_told("it waits for a slot", || waits(&why()).then_some(()), why);
        }
        std::fs::write(&held, "").expect("a file");
        let ended = |row: &serde_json::Value| row["state"] == "succeeded";
        until("all have run", || (rows().iter().filter(|row| ended(row)).count() == 4).then_some(()));
        let mut order = rows();
        order.sort_by_key(|row| row["started"].as_str().map(str::to_owned));
        let order: Vec<_> = order.iter().filter_map(|row| row["job"].as_str()).collect();
        assert_eq!(order, ["slow", "high", "middle", "low"], "{placement}");
    }
}
