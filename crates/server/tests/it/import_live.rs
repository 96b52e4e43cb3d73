//! Jobs of other schedulers are imported from where they are kept while in use: the same jobs as from their files.

mod mysql;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use zookeeper_client::{Acls, Client, CreateMode};

use crate::process::{ServerProcess, millis, repository, run, text};
use crate::servers;

/// What ElasticJob 3.0.4 writes for a job of a class and for a script, while an instance executes the class.
const SLOW: &str = "cron: 0/2 * * * * ?\ndescription: ''\ndisabled: false\nfailover: true\njobName: slow\njobParameter: p\n\
    maxTimeDiffSeconds: -1\nmisfire: true\nmonitorExecution: true\noverwrite: false\nreconcileIntervalMinutes: 10\n\
    shardingItemParameters: 0=a,1=b,2=c\nshardingTotalCount: 3\nstaticSharding: false\n";
const SCRIPT: &str = "cron: 0 0 3 * * ?\ndescription: 'says hi: \"a\"'\ndisabled: false\nfailover: false\njobName: script\n\
    jobParameter: ''\njobShardingStrategyType: ODEVITY\nmaxTimeDiffSeconds: 9\nmisfire: false\nmonitorExecution: true\n\
    overwrite: false\nprops:\n  script.command.line: /bin/echo hi\nreconcileIntervalMinutes: 10\nshardingItemParameters: ''\n\
    shardingTotalCount: 2\nstaticSharding: false\ntimeZone: GMT+8\n";
/// What version 2 writes.
const OLD: &str = r#"{"jobName":"old","jobClass":"com.example.Old","jobType":"SCRIPT","scriptCommandLine":"/bin/old","cron":"0 0 4 * * ?","shardingTotalCount":2}"#;
const INSTANCE: &str = "192.0.2.2@-@12043";

/// What the two importers of these tests say beside the place.
const REST: [&str; 4] = ["--command", "call {class} {parameter}", "--timezone", "UTC"];

fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

/// A name that no other test uses on a shared server.
fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("import_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A namespace of a test's own, removed when it is dropped.
struct TestNamespace {
    servers: String,
    name: String,
    digest: Option<&'static str>,
}

impl TestNamespace {
    fn new(digest: Option<&'static str>) -> Option<Self> {
        let servers = servers::find("ZOOKEEPER")?.trim_start_matches("zookeeper://").to_owned();
        let made = Self { servers, name: fresh_name(), digest };
        made.write(&[("", "")]);
        Some(made)
    }

    async fn client(&self) -> Client {
        let connector = Client::connector();
        let connector = match self.digest {
            Some(digest) => connector.with_auth("digest", digest.as_bytes()),
            None => connector,
        };
        connector.connect(&self.servers).await.expect("ZooKeeper answers")
    }

    /// Writes nodes below the namespace with those above them.
    fn write(&self, nodes: &[(&str, &str)]) {
        wait(async {
            let client = self.client().await;
            let acls = if self.digest.is_some() { Acls::creator_all() } else { Acls::anyone_all() };
            let options = CreateMode::Persistent.with_acls(acls);
            for (node, data) in nodes {
                let path = format!("/{}{node}", self.name);
                if let Some((above, _)) = path.rsplit_once('/').filter(|(above, _)| !above.is_empty()) {
                    client.mkdir(above, &options).await.expect("nodes above it");
                }
                client.create(&path, data.as_bytes(), &options).await.expect("a node");
            }
        });
    }

    fn import(&self, more: &[&str]) -> Output {
        let place =
            ["import", "elasticjob", "--zookeeper", &self.servers, "--zookeeper-namespace", &self.name];
        run(&[&place, &REST[..], more].concat())
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        async fn remove(client: &Client, path: String) {
            let below = client.get_children(&path).await.map(|(names, _)| names).unwrap_or_default();
            for name in below {
                Box::pin(remove(client, format!("{path}/{name}"))).await;
            }
            let _ = client.delete(&path, None).await;
        }
        wait(async { remove(&self.client().await, format!("/{}", self.name)).await });
    }
}

/// The nodes that a living ElasticJob 3.0.4 has of a job with shards.
fn living(namespace: &TestNamespace) {
    let instance = format!("jobInstanceId: {INSTANCE}\nserverIp: 192.0.2.2\n");
    namespace.write(&[
        ("/slow", "com.example.Slow"),
        ("/slow/config", SLOW),
        ("/slow/instances", ""),
        (&format!("/slow/instances/{INSTANCE}"), &instance),
        ("/slow/leader/election/instance", INSTANCE),
        ("/slow/leader/election/latch", ""),
        ("/slow/leader/sharding", ""),
        ("/slow/servers/192.0.2.2", "ENABLED"),
        ("/slow/servers/192.0.2.3", "DISABLED"),
        ("/slow/sharding/0/instance", INSTANCE),
        ("/slow/sharding/1/instance", INSTANCE),
        ("/slow/sharding/1/running", INSTANCE),
        ("/slow/sharding/2/disabled", ""),
        ("/script", "SCRIPT"),
        ("/script/config", SCRIPT),
        ("/script/servers/192.0.2.2", "ENABLED"),
        ("/old", ""),
        ("/old/config", OLD),
        ("/old/servers/192.0.2.2", ""),
    ]);
}

/// The jobs of a printed job file by name, without where they come from.
fn jobs(printed: &Output) -> BTreeMap<String, toml::Table> {
    let file: toml::Table = text(&printed.stdout).parse().expect("a job file");
    let job = |job: &toml::Value| {
        let mut job = job.as_table().expect("a job").clone();
        let description = job["description"].as_str().expect("a text");
        let said = description.split("imported from").next().unwrap_or_default().to_owned();
        job.insert("description".to_owned(), said.into());
        (job["name"].as_str().expect("a name").to_owned(), job)
    };
    file["job"].as_array().expect("jobs").iter().map(job).collect()
}

/// The jobs that a file gives.
fn jobs_of_file(verb: &str, name: &str, what: &str) -> BTreeMap<String, toml::Table> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name);
    std::fs::write(&file, what).expect("written");
    let printed = run(&[&["import", verb, &file.display().to_string(), "--dry-run"], &REST[..]].concat());
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    jobs(&printed)
}

/// A file in a folder of a test's own.
fn written(folder: &Path, name: &str, what: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, what).expect("written");
    file.display().to_string()
}

/// An address of this host at which no server listens.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

#[test]
fn the_tree_of_elasticjob_gives_the_jobs_of_its_config_texts() {
    let Some(namespace) = TestNamespace::new(None) else { return };
    living(&namespace);
    let printed = namespace.import(&["--dry-run"]);
    let report = text(&printed.stderr);
    assert!(printed.status.success(), "{report}");
    let live = jobs(&printed);
    let texts = format!("{SLOW}jobClass: com.example.Slow\n---\n{SCRIPT}---\n{OLD}\n");
    assert_eq!(live, jobs_of_file("elasticjob", "config.yaml", &texts));
    assert_eq!(live["slow"]["command"].as_array().map(Vec::len), Some(3), "{live:?}");
    let place = format!("imported from {}/{}", namespace.servers, namespace.name);
    assert!(text(&printed.stdout).contains(&place), "{}", text(&printed.stdout));
    for said in ["ElasticJob 3.x: 2 jobs", "ElasticJob 2.x: 1 job", "shards 1 run there now", "192.0.2.3"] {
        assert!(report.contains(said), "{said}: {report}");
    }
    let programs = namespace.import(&["--dry-run", "-o", "json"]);
    let rows: Vec<Value> = text(&programs.stderr)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    assert!(rows.iter().any(|row| row["field"] == "version" && row["fate"] == "taken"), "{rows:?}");
    assert_eq!(
        serde_json::from_slice::<Value>(&programs.stdout).expect("jobs").as_array().map(Vec::len),
        Some(3)
    );
}

#[test]
fn what_was_read_from_zookeeper_can_be_planned_and_is_applied_without_what_is_refused() {
    let Some(namespace) = TestNamespace::new(None) else { return };
    namespace.write(&[
        ("/script", "SCRIPT"),
        ("/script/config", SCRIPT),
        ("/script/servers/192.0.2.2", "DISABLED"),
        ("/empty", "com.example.Empty"),
        ("/empty/config", ""),
        ("/folder", ""),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let node = ServerProcess::serve(folder.path(), "a", &[]);
    let place =
        ["import", "elasticjob", "--zookeeper", &namespace.servers, "--zookeeper-namespace", &namespace.name];
    let import = [&place, &REST[..]].concat();
    let planned = node.cli(&[&import[..], &["--plan"]].concat());
    assert_eq!(planned.status.code(), Some(1), "{}", text(&planned.stderr));
    assert!(text(&planned.stdout).contains("script  created"), "{}", text(&planned.stdout));
    assert_eq!(node.json(&["job", "list"]), serde_json::json!([]));
    for word in ["created", "unchanged"] {
        let applied = node.cli(&import);
        let said = text(&applied.stderr);
        assert!(
            said.contains("1 refused, as the table says: job empty; the 1 others were applied"),
            "{said}"
        );
        assert!(text(&applied.stdout).contains(word), "{}", text(&applied.stdout));
    }
    let job = &node.json(&["job", "show", "script", "--details"])["job"];
    assert_eq!(job["enabled"], serde_json::json!(false), "its only server is disabled");
}

#[test]
fn an_import_from_zookeeper_says_what_is_wrong_and_how_to_mend_it() {
    let Some(open) = TestNamespace::new(None) else { return };
    living(&open);
    let other = TestNamespace { servers: open.servers.clone(), name: fresh_name(), digest: None };
    let absent = other.import(&["--dry-run"]);
    let said = text(&absent.stderr);
    assert_eq!(absent.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("has no namespace \"{}\"", other.name)) && said.contains(&open.name),
        "{said}"
    );
    let down = TestNamespace { servers: nowhere(), name: "x".to_owned(), digest: None };
    let refused = down.import(&["--dry-run"]);
    std::mem::forget(down);
    assert!(
        text(&refused.stderr).contains("does not answer: see whether it runs"),
        "{}",
        text(&refused.stderr)
    );
    let Some(locked) = TestNamespace::new(Some("ann:secret")) else { return };
    locked.write(&[("/script", "SCRIPT"), ("/script/config", SCRIPT)]);
    let folder = tempfile::tempdir().expect("a folder");
    let right = written(folder.path(), "right", "ann:secret\n");
    let wrong = written(folder.path(), "wrong", "ann:guess\n");
    let none = written(folder.path(), "none", "secret\n");
    for (more, code, said) in [
        (vec![], 1, "give ElasticJob's setting digest with --zookeeper-digest-file FILE"),
        (vec!["--zookeeper-digest-file", &wrong], 1, "has to hold ElasticJob's own setting digest"),
        (vec!["--zookeeper-digest-file", &none], 2, "does not hold USER:PASSWORD"),
        (vec!["--zookeeper-digest-file", &right], 0, "ElasticJob 3.x: 1 job"),
    ] {
        let answer = locked.import(&[&["--dry-run"], &more[..]].concat());
        assert_eq!(answer.status.code(), Some(code), "{more:?}: {}", text(&answer.stderr));
        assert!(text(&answer.stderr).contains(said), "{more:?}: {}", text(&answer.stderr));
    }
    // A job of another user in a namespace that all may read.
    let alone =
        TestNamespace { servers: open.servers.clone(), name: open.name.clone(), digest: Some("ann:secret") };
    alone.write(&[("/private", "SCRIPT"), ("/private/config", SCRIPT)]);
    let answer = open.import(&["--dry-run"]);
    let said = text(&answer.stderr);
    assert!(
        said.contains("1 refused, as the table says: job private; the 3 others are in the job file"),
        "{said}"
    );
    assert!(said.contains("--zookeeper-digest-file"), "{said}");
}

#[test]
#[ignore = "soak: ten thousand jobs are written into ZooKeeper"]
fn ten_thousand_jobs_are_read_in_seconds() {
    const JOBS: usize = 10_000;
    let Some(namespace) = TestNamespace::new(None) else { return };
    wait(async {
        let client = namespace.client().await;
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let nodes = |n: usize| {
            let base = format!("/{}/job-{n}", namespace.name);
            let nodes = [
                (String::new(), "SCRIPT".to_owned()),
                ("/config".to_owned(), SCRIPT.replace("jobName: script", &format!("jobName: job-{n}"))),
                ("/servers".to_owned(), String::new()),
                ("/servers/192.0.2.2".to_owned(), "ENABLED".to_owned()),
            ];
            nodes.map(|(node, data)| (format!("{base}{node}"), data))
        };
        for first in (0..JOBS).step_by(100) {
            let nodes: Vec<_> = (first..first + 100).flat_map(nodes).collect();
            let asked: Vec<_> =
                nodes.iter().map(|(path, data)| client.create(path, data.as_bytes(), &options)).collect();
            for asked in asked {
                asked.await.expect("a node");
            }
        }
    });
    let began = millis();
    let printed = namespace.import(&["--dry-run", "-o", "json"]);
    let took = millis() - began;
    assert!(printed.status.success(), "{}", text(&printed.stderr).lines().last().unwrap_or_default());
    let jobs: Value = serde_json::from_slice(&printed.stdout).expect("jobs");
    assert_eq!(jobs.as_array().map(Vec::len), Some(JOBS));
    println!("{JOBS} jobs were imported in {took} ms");
    assert!(took < 60_000, "{took} ms");
}

#[test]
fn the_flags_of_a_live_store_exclude_a_file_and_need_each_other() {
    for (words, said) in [
        ("import elasticjob", "--zookeeper"),
        ("import elasticjob x --zookeeper h:1 --zookeeper-namespace n", "cannot be used with"),
        ("import elasticjob --zookeeper h:1", "--zookeeper-namespace"),
        ("import elasticjob x --zookeeper-digest-file f", "--zookeeper"),
        ("import elasticjob --zookeeper zookeeper://h:1 --zookeeper-namespace n", "HOST:PORT"),
        ("import elasticjob --zookeeper h:1 --zookeeper-namespace a//b", "no namespace of ElasticJob"),
        ("import xxl-job", "--mysql"),
        ("import xxl-job x --mysql mysql://u@h/d", "cannot be used with"),
        ("import xxl-job x --mysql-password-file f", "--mysql"),
        ("import xxl-job --mysql u@h/d", "mysql://USER@HOST:PORT/DATABASE"),
    ] {
        let refused = run(&words.split(' ').chain(["--timezone", "UTC"]).collect::<Vec<_>>());
        assert_eq!(refused.status.code(), Some(2), "{words}: {}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(said), "{words}: {}", text(&refused.stderr));
    }
}
