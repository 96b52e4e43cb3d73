//! XXL-JOB's tables in MySQL or MariaDB.

use std::process::Output;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, Connection as _};

use super::*;

/// A database of a test's own, removed when it is dropped.
struct TestDatabase {
    /// The URL of the server, as root and without a database.
    server: String,
    name: String,
}

impl TestDatabase {
    fn new(sql: &str) -> Option<Self> {
        let url = servers::find("MYSQL")?;
        let (server, _) = url.rsplit_once('/').expect("a URL with a database");
        let made = Self { server: server.to_owned(), name: fresh_name() };
        made.execute("", &format!("CREATE DATABASE {} CHARACTER SET utf8mb4", made.name));
        made.execute(&made.name, sql);
        Some(made)
    }

    fn execute(&self, database: &str, sql: &str) {
        let url = format!("{}/{database}", self.server);
        wait(async {
            let options = MySqlConnectOptions::from_str(&url).expect("a URL");
            let mut connection = MySqlConnection::connect_with(&options).await.expect("MySQL answers");
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.expect("it is done");
        });
    }

    fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        self.execute("", &format!("DROP DATABASE {}", self.name));
    }
}

fn import_mysql(url: &str, more: &[&str]) -> Output {
    run(&[&["import", "xxl-job", "--mysql", url, "--dry-run"], &REST[..], more].concat())
}

fn sample() -> String {
    let sample = repository("crates/server/src/import/samples/xxl_job.sql");
    std::fs::read_to_string(sample).expect("the sample")
}

/// The columns of versions before 2.3, and those that 3.5 is to have.
const BEFORE_2_3: &str = "CREATE TABLE xxl_job_group (id INT PRIMARY KEY, app_name VARCHAR(64), title VARCHAR(12), address_list VARCHAR(512));
    INSERT INTO xxl_job_group VALUES (4, 'billing', '账单', NULL);
    CREATE TABLE xxl_job_info (id INT PRIMARY KEY, job_group INT, job_cron VARCHAR(128), job_desc VARCHAR(255), add_time DATETIME,
        executor_handler VARCHAR(255), executor_param TEXT, executor_timeout INT, glue_type VARCHAR(50), glue_source MEDIUMTEXT,
        trigger_status TINYINT);
    INSERT INTO xxl_job_info VALUES (9, 4, '0 0 1 * * ?', 'bills', '2020-01-01 00:00:00', 'billJob', 'a b', 30, 'BEAN', NULL, 1);";
const SINCE_3_5: &str = "CREATE TABLE xxl_job_group (id INT PRIMARY KEY, app_name VARCHAR(64), name VARCHAR(64), access_token VARCHAR(255));
    INSERT INTO xxl_job_group VALUES (1, 'app', 'App', 'hunter2');
    CREATE TABLE xxl_job_info (id INT PRIMARY KEY, job_group INT, name VARCHAR(255), schedule_type VARCHAR(50),
        schedule_conf VARCHAR(128), misfire_strategy VARCHAR(50), executor_handler VARCHAR(255), glue_type VARCHAR(50),
        trigger_status TINYINT);
    INSERT INTO xxl_job_info VALUES (1, 1, 'cleans', 'FIX_RATE', '60', 'DO_NOTHING', 'cleanJob', 'BEAN', 0);";

#[test]
fn the_tables_of_xxl_job_give_the_jobs_of_their_dump() {
    for (sql, version, count) in [
        (sample().as_str(), "XXL-JOB 2.3 to 3.4", 3),
        (BEFORE_2_3, "XXL-JOB 2.1 or 2.2", 1),
        (SINCE_3_5, "XXL-JOB 3.5 or later", 1),
    ] {
        let Some(database) = TestDatabase::new(sql) else { return };
        let printed = import_mysql(&database.url(), &[]);
        let report = text(&printed.stderr);
        assert!(printed.status.success(), "{version}: {report}");
        assert!(report.contains(version), "{version}: {report}");
        let live = jobs(&printed);
        assert_eq!(live.len(), count, "{version}");
        assert_eq!(live, jobs_of_file("xxl-job", "dump.sql", sql), "{version}");
        let all = text(&printed.stdout);
        let place = format!("imported from 127.0.0.1:{}", database.url().rsplit_once(':').expect("a port").1);
        assert!(all.contains(&place) && all.contains("executor = "), "{version}: {all}");
        assert!(!all.contains("hunter2") && !report.contains("hunter2"), "{version}: {all}{report}");
    }
}

#[test]
fn an_import_from_mysql_needs_the_right_to_read_and_says_what_is_wrong() {
    let Some(database) = TestDatabase::new(&sample()) else { return };
    let user = fresh_name();
    let name = &database.name;
    let grant = format!(
        "CREATE USER '{user}'@'127.0.0.1' IDENTIFIED BY 'se cret'; GRANT SELECT ON {name}.* TO '{user}'@'127.0.0.1'"
    );
    database.execute("", &grant);
    let folder = tempfile::tempdir().expect("a folder");
    let right = written(folder.path(), "right", "se cret\n");
    let wrong = written(folder.path(), "wrong", "guess");
    let as_user = database.url().replace("root@", &format!("{user}@"));
    let answers = |url: &str, more: &[&str], code, said: &str| {
        let answer = import_mysql(url, more);
        let report = text(&answer.stderr);
        assert_eq!(answer.status.code(), Some(code), "{url} {more:?}: {report}");
        assert!(report.contains(said), "{url} {more:?} {said}: {report}");
        assert!(!report.contains("se cret") && !report.contains("guess"), "{report}");
    };
    answers(&as_user, &["--mysql-password-file", &right], 0, "XXL-JOB 2.3 to 3.4");
    answers(&as_user, &["--mysql-password-file", &wrong], 1, "its password is wrong");
    answers(&as_user, &[], 1, "EVENKEEL_IMPORT_PASSWORD");
    answers(&as_user, &["--mysql-password-file", "/nonexistent/x"], 2, "/nonexistent/x");
    answers(&database.url().replace(name, "absent"), &[], 1, "has no database \"absent\"");
    answers(&format!("mysql://root@{}/{name}", nowhere()), &[], 1, "does not answer");
    answers(
        &as_user.replace(&format!("{user}@"), &format!("{user}:x@")),
        &[],
        2,
        "--mysql-password-file FILE",
    );
    let by_environment = |password: &str| {
        let mut command = crate::process::evenkeel(&[
            "import",
            "xxl-job",
            "--mysql",
            &as_user,
            "--dry-run",
            "--timezone",
            "UTC",
        ]);
        command.env("EVENKEEL_IMPORT_PASSWORD", password).output().expect("it runs")
    };
    // Two scripts are jobs, and the code of a program is refused without --command.
    let read = by_environment("se cret");
    assert!(text(&read.stderr).contains("the 2 others are in the job file"), "{}", text(&read.stderr));
    assert!(text(&by_environment("guess").stderr).contains("its password is wrong"));
    database.execute(name, "DROP TABLE xxl_job_group");
    answers(&database.url(), &[], 1, &format!("has no table xxl_job_group in database \"{name}\""));
    database.execute(name, "DROP TABLE xxl_job_info");
    answers(&database.url(), &[], 1, &format!("has no table xxl_job_info in database \"{name}\""));
    database.execute("", &format!("DROP USER '{user}'@'127.0.0.1'"));
}
