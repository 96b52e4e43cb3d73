//! What the nodes of a tree make of jobs.

use super::super::super::report::ImportFate::{Changed, Lost, Refused, Taken};
use super::super::super::tests::{job, rows, says, source};
use super::*;

/// The text that ElasticJob 3.0.4 writes into the `config` node of a script.
const SCRIPT: &str = "cron: 0 0 3 * * ?\ndescription: 'says hi: \"a\"'\ndisabled: false\nfailover: false\njobName: script\n\
    jobParameter: ''\njobShardingStrategyType: ODEVITY\nmaxTimeDiffSeconds: 9\nmisfire: false\nmonitorExecution: true\n\
    overwrite: false\nprops:\n  script.command.line: /bin/echo hi\nreconcileIntervalMinutes: 10\nshardingItemParameters: ''\n\
    shardingTotalCount: 2\nstaticSharding: false\ntimeZone: GMT+8\n";

fn tree(name: &str, class: &str, config: &str) -> ElasticJobTree {
    ElasticJobTree {
        name: name.to_owned(),
        class: class.into(),
        config: ElasticJobConfigNode::Data(config.into()),
        ..ElasticJobTree::default()
    }
}

fn servers(list: &[(&str, bool)]) -> BTreeMap<String, bool> {
    list.iter().map(|(name, enabled)| ((*name).to_owned(), *enabled)).collect()
}

#[test]
fn the_nodes_of_one_job_become_the_job_and_rows_of_what_stays_behind() {
    let instances = BTreeSet::from(["192.0.2.2@-@7".to_owned(), "192.0.2.3@-@8".to_owned()]);
    let running = [(1, "192.0.2.2@-@7"), (2, "192.0.2.9@-@1"), (3, "")].map(|(n, id)| (n, id.to_owned()));
    let all = ElasticJobTree {
        servers: servers(&[("192.0.2.2", true), ("192.0.2.3", false)]),
        leader: instances.first().cloned(),
        instances,
        disabled_items: [0, 2, 3, 4].into(),
        waiting_items: [5].into(),
        running_items: running.into(),
        ..tree("script", "SCRIPT", SCRIPT)
    };
    let imported = convert(vec![all], "demo", &source());
    let script = job(&imported, "script");
    assert_eq!(script.command.argv(), ["/bin/echo", "hi"]);
    assert_eq!((script.enabled, script.timezone.as_str(), script.shards), (true, "Etc/GMT-8", 2));
    says(&imported, "version", Taken, "ElasticJob 3.x: 1 job");
    says(&imported, "servers", Lost, "1 of 2 servers are disabled for the job: 192.0.2.3;");
    says(&imported, "sharding/N/disabled", Lost, "`evenkeel shard disable script 0,2-4`");
    says(&imported, "leader/failover/items", Lost, "shards 5 wait");
    says(&imported, "sharding/N/running", Lost, "shards 1,3 run there now");
    says(&imported, "sharding/N/running", Lost, "shards 2 ran on instances that are gone");
    says(&imported, "instances", Lost, "192.0.2.2@-@7, 192.0.2.3@-@8 online, of which 192.0.2.2@-@7 leads");
}

#[test]
fn a_job_is_disabled_that_no_server_runs() {
    let with = |list: &[(&str, bool)], config: &str| {
        let tree = ElasticJobTree { servers: servers(list), ..tree("script", "SCRIPT", config) };
        convert(vec![tree], "demo", &source())
    };
    let disabled = SCRIPT.replace("disabled: false", "disabled: true");
    let none = with(&[("a", false), ("b", false)], SCRIPT);
    assert!(!job(&none, "script").enabled);
    says(&none, "servers", Changed, "all 2 servers are disabled");
    let online =
        ElasticJobTree { instances: ["a@-@1".to_owned()].into(), ..tree("script", "SCRIPT", &disabled) };
    let online = convert(vec![online], "demo", &source());
    assert!(online.findings.iter().all(|row| row.field != "instances"), "{:#?}", rows(&online));
    let both = with(&[("a", false)], &disabled);
    assert!(!job(&both, "script").enabled && both.findings.iter().all(|row| row.field != "servers"));
    let enabled_later = with(&[("a", true)], &disabled);
    assert!(!job(&enabled_later, "script").enabled);
    says(&enabled_later, "servers", Changed, "`evenkeel job enable script`");
    assert!(job(&with(&[], SCRIPT), "script").enabled);
}

#[test]
fn a_config_that_cannot_be_read_is_refused_without_the_others() {
    let unreadable = |config| ElasticJobTree { config, ..tree("locked", "", "") };
    let trees = vec![
        tree("empty", "SCRIPT", " \n"),
        tree("broken", "SCRIPT", "a: [1"),
        tree("list", "SCRIPT", "[1, 2]"),
        tree("two", "SCRIPT", "jobName: a\n---\njobName: b\n"),
        ElasticJobTree { config: ElasticJobConfigNode::Data(vec![0xff]), ..tree("bytes", "", "") },
        unreadable(ElasticJobConfigNode::Unreadable("not for you".to_owned())),
        unreadable(ElasticJobConfigNode::Missing),
        tree("typed", "HTTP", "jobName: typed\n"),
        tree("script", "SCRIPT", SCRIPT),
        tree(
            "old",
            "",
            r#"{"jobName": "old", "jobClass": "x.Old", "jobType": "SCRIPT", "scriptCommandLine": "/bin/old"}"#,
        ),
    ];
    let imported = convert(trees, "demo", &source());
    assert_eq!(imported.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["script", "old"]);
    let refused = imported.findings.iter().filter(|row| row.fate == Refused);
    let refused: Vec<_> = refused.map(|row| (row.object.as_str(), row.field.as_str())).collect();
    let config = ["empty", "broken", "list", "two", "bytes", "locked"].map(|name| format!("job {name}"));
    let mut wanted: Vec<_> = config.iter().map(|name| (name.as_str(), "config")).collect();
    wanted.push(("job typed", "props.http.uri"));
    assert_eq!(refused, wanted, "{:#?}", rows(&imported));
    says(&imported, "config", Refused, "it is empty");
    says(&imported, "config", Refused, "not for you");
    says(&imported, "", Lost, "it has no config node");
    says(&imported, "version", Taken, "ElasticJob 3.x: 2 jobs");
    says(&imported, "version", Taken, "ElasticJob 2.x: 1 job");
}

#[test]
fn the_tree_and_the_texts_of_its_config_nodes_give_the_same_jobs() {
    let class = "jobName: code\ncron: 0/5 * * * * ?\nshardingTotalCount: 3\n";
    let with = ImportSource { command: Some(vec!["call".to_owned(), "{class}".to_owned()]), ..source() };
    let trees = vec![tree("code", "com.example.Code", class), tree("script", "SCRIPT", SCRIPT)];
    let live = convert(trees, "demo", &with);
    let text = format!("{class}jobClass: com.example.Code\n---\n{SCRIPT}");
    let texts = super::super::read(&text, &with).expect("texts");
    assert_eq!(live.jobs, texts.jobs);
    assert_eq!(live.jobs.len(), 2, "{:#?}", rows(&live));
}
