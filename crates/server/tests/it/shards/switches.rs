//! The switches of a sharded job: on one node, of some shards, and of a node from afar.

use super::*;

/// proves: S2-38
#[test]
fn a_node_paused_for_a_job_stays_paused_through_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path(), BEAT);
    is(&first, "beat", "b", "active", "2-3");
    until("both fire", || {
        let runs = runs(&first, "beat");
        (by(&runs, "a") > 0 && by(&runs, "b") > 0).then_some(())
    });
    let said = first.ok(&["job", "pause", "beat", "--node", "b"]);
    assert_eq!(said, "job beat on node b is paused: it has only manual runs there\n");
    is(&first, "beat", "b", "paused", "2-3");
    let after = later(&first, "beat");
    assert!(by(&after, "a") > 0, "the other one fires: {after:?}");
    assert_eq!(by(&after, "b"), 0, "{after:?}");

    second.signal("TERM");
    assert_eq!(second.end(), 0);
    is(&first, "beat", "a", "active", "0-3");
    let second = ServerProcess::serve(folder.path(), "b", &[]);
    is(&first, "beat", "b", "paused", "2-3");
    let after = later(&second, "beat");
    assert!(by(&after, "a") > 0, "the other one fires: {after:?}");
    assert_eq!(by(&after, "b"), 0, "{after:?}");
    second.ok(&["job", "run", "beat", "--node", "b", "--request", "hand"]);
    until("by hand it fires", || (ran(&first, "beat", "hand").len() == 2).then_some(()));
    first.ok(&["job", "resume", "beat", "--node", "b"]);
    until("b fires again", || (by(&later(&first, "beat"), "b") > 0).then_some(()));
}

/// proves: S2-34
#[test]
fn a_node_disabled_for_a_job_takes_no_part_until_it_is_enabled_restart_or_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path(), BEAT);
    is(&first, "beat", "b", "active", "2-3");
    first.ok(&["job", "disable", "beat", "--node", "b"]);
    first.ok(&["job", "disable", "beat", "--node", "c"]);
    is(&first, "beat", "b", "disabled", "");
    let after = later(&first, "beat");
    assert_eq!(by(&after, "b"), 0, "{after:?}");
    assert!((0..4).all(|shard| of_shard(&after, shard) > 0), "its shards have moved: {after:?}");
    let refused = first.cli(&["job", "run", "beat", "--node", "b"]);
    assert_eq!(refused.status.code(), Some(6));
    assert!(text(&refused.stderr).contains("takes no part"), "{}", text(&refused.stderr));

    second.signal("KILL");
    second.end();
    let second = ServerProcess::serve(folder.path(), "b", &[]);
    let third = ServerProcess::serve(folder.path(), "c", &[]);
    is(&first, "beat", "b", "disabled", "");
    is(&third, "beat", "c", "disabled", "");
    let after = later(&second, "beat");
    assert_eq!((by(&after, "b"), by(&after, "c")), (0, 0), "a deployment is held back: {after:?}");
    first.ok(&["job", "enable", "beat", "--node", "b"]);
    first.ok(&["job", "enable", "beat", "--node", "c"]);
    is(&first, "beat", "b", "active", "1");
    is(&first, "beat", "c", "active", "2");
    let after = later(&first, "beat");
    assert!(by(&after, "b") > 0 && by(&after, "c") > 0, "{after:?}");
}

/// proves: S2-39
#[test]
fn a_node_shut_down_for_a_job_takes_part_again_when_it_is_started_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path(), BEAT);
    is(&first, "beat", "b", "active", "2-3");
    second.ok(&["job", "shutdown", "beat", "--node", "b"]);
    is(&first, "beat", "b", "shut_down", "");
    let after = later(&first, "beat");
    assert_eq!(by(&after, "b"), 0, "{after:?}");
    for verb in ["resume", "enable"] {
        let refused = first.cli(&["job", verb, "beat", "--node", "b"]);
        assert_eq!(refused.status.code(), Some(6), "{}", text(&refused.stderr));
    }
    assert_eq!(part(&first, "beat", "b")["state"], "shut_down", "only a restart ends it");
    second.signal("TERM");
    second.end();
    let second = ServerProcess::serve(folder.path(), "b", &[]);
    is(&first, "beat", "b", "active", "2-3");
    until("it fires again", || (by(&later(&second, "beat"), "b") > 0).then_some(()));

    first.ok(&["job", "shutdown", "beat"]);
    for name in ["a", "b"] {
        until("all are shut down", || (part(&second, "beat", name)["state"] == "shut_down").then_some(()));
    }
    until("nobody leads it", || {
        second.json(&["job", "show", "beat", "--details"])["sharing"]["leader"].is_null().then_some(())
    });
    first.ok(&["job", "delete", "beat"]);
    until("the other node hears that it is deleted", || {
        (second.json(&["job", "list"]) == json!([])).then_some(())
    });
}

#[test]
fn shards_are_switched_off_and_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path(), BEAT);
    is(&first, "beat", "b", "active", "2-3");
    let said = second.ok(&["shard", "disable", "beat", "0,2"]);
    assert_eq!(said, "shards 0,2 of job beat are off: they do not run until they are enabled\n");
    let after = later(&first, "beat");
    assert_eq!((of_shard(&after, 0), of_shard(&after, 2)), (0, 0), "{after:?}");
    assert!(of_shard(&after, 1) > 0 && of_shard(&after, 3) > 0, "{after:?}");
    let shards = first.json(&["shard", "list", "beat"]);
    assert_eq!((&shards[0]["state"], &shards[2]["state"]), (&json!("off"), &json!("off")));
    assert!(first.ok(&["shard", "list", "beat"]).contains("\nshards 0,2 are switched off\n"));
    first.ok(&["shard", "enable", "beat", "2"]);
    let after = later(&first, "beat");
    assert_eq!(of_shard(&after, 0), 0, "{after:?}");
    assert!(of_shard(&after, 2) > 0, "{after:?}");
}

/// proves: S3-30
#[test]
fn a_node_is_closed_from_afar_by_its_entry_and_for_a_job_from_the_console() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = two(folder.path(), BEAT);
    is(&first, "beat", "b", "active", "2-3");
    let head = format!(
        "POST /api/v1/jobs/beat/shutdown?node=b HTTP/1.1\nHost: {0}\nOrigin: http://{0}\nContent-Type: application/json",
        first.address
    );
    assert_eq!(first.raw(&head, b"{}").0, 200, "as the console's button asks");
    is(&first, "beat", "b", "shut_down", "");

    let mut books = rusqlite::Connection::open(folder.path().join("registry.db")).expect("the registry");
    books.busy_timeout(PATIENCE).expect("patience");
    let by_hand =
        books.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("its turn");
    let done = by_hand.execute_batch(
        "UPDATE meta SET revision = revision + 1;
         INSERT INTO change (revision, key) SELECT meta.revision, key FROM meta, entry WHERE key LIKE 'node/b@%';
         DELETE FROM entry WHERE key LIKE 'node/b@%';",
    );
    done.and_then(|()| by_hand.commit()).expect("written");
    until("b says that it is closed", || {
        let (status, answer) =
            second.raw(&format!("GET /api/v1/health HTTP/1.1\nHost: {}", second.address), b"");
        (status == 503 && answer.contains("closed from outside: start it again")).then_some(())
    });
    let listed = second.cli(&["node", "list"]);
    assert!(text(&listed.stderr).contains("closed from outside"), "{}", text(&listed.stderr));
    let refused = second.cli(&["job", "pause", "beat"]);
    assert_eq!(refused.status.code(), Some(7));
    assert!(text(&refused.stderr).contains("start it again"), "{}", text(&refused.stderr));
    until("the other one is alone", || (first.living().len() == 1).then_some(()));
    let after = later(&first, "beat");
    assert_eq!(by(&after, "b"), 0, "it stays away: {after:?}");
    second.signal("TERM");
    second.end();
    let second = ServerProcess::serve(folder.path(), "b", &[]);
    both(&first, &second);
    is(&first, "beat", "b", "active", "2-3");
}
