//! An SQL server of the test's own: started in a temporary folder, killed, frozen, and started again.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel_registry::EngineUrl;
use evenkeel_registry::clock::Stopwatch;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::LONG;
use crate::host::{free_ports, skip};
use crate::listening::{PORTS, listens, says_in_use};
use crate::still::wait_until_still;
use crate::until::until;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlServerKind {
    Postgres,
    MySql,
}

/// A server that runs while this lives.
pub(crate) struct SqlServer {
    pub(crate) kind: SqlServerKind,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    child: Child,
    settings: Vec<String>,
}

impl SqlServer {
    /// Starts one with these settings; `None`, said aloud, where it is not installed.
    pub(crate) async fn start(kind: SqlServerKind, settings: &[&str]) -> Option<Self> {
        let Some(program) = program(kind) else {
            skip(&format!("{kind:?} is not installed: `cargo xtask engines install` gets it"));
            return None;
        };
        Some(Self::start_in(tempfile::tempdir().unwrap(), kind, &program, settings).await)
    }

    /// Starts one that speaks in secret too, with a certificate for 127.0.0.1 that `ca.pem` vouches for.
    pub(crate) async fn start_encrypted(kind: SqlServerKind) -> Option<Self> {
        let program = program(kind)?;
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let settings = match kind {
            SqlServerKind::Postgres => vec![
                "ssl=on".to_owned(),
                format!("ssl_cert_file={}", path("server.pem")),
                format!("ssl_key_file={}", path("server.key")),
                format!("ssl_ca_file={}", path("ca.pem")),
            ],
            SqlServerKind::MySql => vec![
                format!("ssl-ca={}", path("ca.pem")),
                format!("ssl-cert={}", path("server.pem")),
                format!("ssl-key={}", path("server.key")),
            ],
        };
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        Some(Self::start_in(folder, kind, &program, &settings).await)
    }

    /// A file in its folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    async fn start_in(
        folder: tempfile::TempDir,
        kind: SqlServerKind,
        program: &Path,
        settings: &[&str],
    ) -> Self {
        initialise(kind, program, folder.path());
        let settings: Vec<_> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let ports = free_ports(PORTS);
        let child = launch(kind, program, folder.path(), ports[0], &settings);
        let mut server = Self { kind, folder, port: ports[0], child, settings };
        for other in &ports[1..] {
            if server.serves().await {
                break;
            }
            assert!(says_in_use(&server.log()), "the server does not start:\n{}", server.log());
            server.port = *other;
            server.launch();
        }
        server.wait().await;
        if kind == SqlServerKind::MySql {
            server.sql_in("mysql", "CREATE DATABASE evenkeel").await;
        }
        server
    }

    /// A registry of a namespace, asked for by the superuser.
    pub(crate) fn url(&self, namespace: &str) -> EngineUrl {
        self.url_at(self.port, namespace)
    }

    /// The same through another port.
    pub(crate) fn url_at(&self, port: u16, namespace: &str) -> EngineUrl {
        self.url_by(port, self.admin(), namespace)
    }

    /// The same for somebody else.
    pub(crate) fn url_by(&self, port: u16, user: &str, namespace: &str) -> EngineUrl {
        let (scheme, database) = match self.kind {
            SqlServerKind::Postgres => ("postgres", "postgres"),
            SqlServerKind::MySql => ("mysql", "evenkeel"),
        };
        EngineUrl::parse(&format!("{scheme}://{user}@127.0.0.1:{port}/{database}/{namespace}")).unwrap()
    }

    fn admin(&self) -> &'static str {
        match self.kind {
            SqlServerKind::Postgres => "evenkeel",
            SqlServerKind::MySql => "root",
        }
    }

    /// Does something behind the engine's back.
    pub(crate) async fn sql(&self, text: &str) {
        let database = if self.kind == SqlServerKind::Postgres { "postgres" } else { "evenkeel" };
        self.sql_in(database, text).await;
    }

    async fn sql_in(&self, database: &str, text: &str) {
        self.try_sql(database, text).await.unwrap();
    }

    /// A connection that PostgreSQL notifies on this channel.
    pub(crate) async fn listener(&self, channel: &str) -> sqlx::postgres::PgListener {
        let url = format!("postgres://{}@127.0.0.1:{}/postgres", self.admin(), self.port);
        let mut listener = sqlx::postgres::PgListener::connect(&url).await.unwrap();
        listener.listen(channel).await.unwrap();
        listener
    }

    pub(crate) async fn try_sql(&self, database: &str, text: &str) -> Result<(), sqlx::Error> {
        let url = format!("{}@127.0.0.1:{}/{database}", self.admin(), self.port);
        match self.kind {
            SqlServerKind::Postgres => {
                let mut link = sqlx::PgConnection::connect(&format!("postgres://{url}")).await?;
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut link).await?;
            }
            SqlServerKind::MySql => {
                let mut link = sqlx::MySqlConnection::connect(&format!("mysql://{url}")).await?;
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut link).await?;
            }
        }
        Ok(())
    }

    /// Ends every connection of others.
    pub(crate) async fn disconnect_clients(&self) {
        match self.kind {
            SqlServerKind::Postgres => {
                let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE pid <> pg_backend_pid() AND application_name = 'evenkeel'";
                self.sql(all).await;
            }
            SqlServerKind::MySql => {
                let url = format!("mysql://root@127.0.0.1:{}/mysql", self.port);
                // In such a storm one may be turned away oneself.
                let Ok(mut link) = sqlx::MySqlConnection::connect(&url).await else { return };
                let all = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
                           WHERE db = 'evenkeel' AND id <> CONNECTION_ID()";
                let ids: Vec<i64> = sqlx::query_scalar(all).fetch_all(&mut link).await.unwrap();
                for id in ids {
                    // It may have gone by itself.
                    let _ = sqlx::raw_sql(AssertSqlSafe(format!("KILL {id}"))).execute(&mut link).await;
                }
            }
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts PostgreSQL again as one that only follows, until it is promoted.
    pub(crate) async fn restart_as_standby(&mut self) {
        self.kill();
        std::fs::write(self.folder.path().join("data/standby.signal"), "").unwrap();
        self.restart().await;
    }

    /// Starts again with these settings.
    pub(crate) async fn restart_with(&mut self, settings: &[&str]) {
        self.kill();
        self.settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        self.restart().await;
    }

    /// Starts to copy PostgreSQL over the network, slowly, and waits until it is at it.
    pub(crate) async fn copied(&self) -> Child {
        self.followed(2, "pg_basebackup", &["-X", "stream", "-D", "slow", "--max-rate=32"]).await
    }

    /// Starts to follow PostgreSQL by one of its own programs, and waits until the server sends to it so often.
    pub(crate) async fn followed(&self, often: u32, by: &str, args: &[&str]) -> Child {
        let mut follower = command(self.kind, &program(self.kind).unwrap().with_file_name(by));
        follower.args(["-h", "127.0.0.1", "-U", "evenkeel"]).args(args).current_dir(self.folder.path());
        follower.arg("-p").arg(self.port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut follower = follower.spawn().unwrap();
        let sent = format!("DO 'BEGIN ASSERT (SELECT count(*) FROM pg_stat_replication) >= {often}; END'");
        until("it is sent what it follows", || {
            assert!(follower.try_wait().unwrap().is_none(), "{by} goes on");
            async { self.try_sql("postgres", &sent).await.ok() }
        })
        .await;
        follower
    }

    /// Keeps a copy of all its data.
    pub(crate) async fn copy(&mut self) {
        self.kill();
        self.copy_folder("data", "copy");
        self.restart().await;
    }

    /// Goes back to that copy.
    pub(crate) async fn go_back(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.folder.path().join("data")).unwrap();
        self.copy_folder("copy", "data");
        self.restart().await;
    }

    fn copy_folder(&self, from: &str, to: &str) {
        let done =
            Command::new("cp").args(["-a", from, to]).current_dir(self.folder.path()).status().unwrap();
        assert!(done.success());
    }

    /// Starts again on the same folder and port.
    pub(crate) async fn restart(&mut self) {
        self.launch();
        self.wait().await;
    }

    fn launch(&mut self) {
        let program = program(self.kind).unwrap();
        self.child = launch(self.kind, &program, self.folder.path(), self.port, &self.settings);
    }

    async fn wait(&mut self) {
        let begun = Stopwatch::start();
        while !self.serves().await {
            assert!(begun.elapsed() < LONG, "the server does not stay:\n{}", self.log());
            // After a kill the last of the old processes may still be leaving.
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.launch();
        }
    }

    /// Waits until it, and no other program at its port, answers; `false` when it has ended.
    async fn serves(&mut self) -> bool {
        let database = if self.kind == SqlServerKind::Postgres { "postgres" } else { "mysql" };
        let begun = Stopwatch::start();
        while !listens(self.child.id(), self.port) || self.try_sql(database, "SELECT 1").await.is_err() {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(begun.elapsed() < LONG, "the server does not answer:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        true
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Stops every process of the server; none does anything more when this returns.
    pub(crate) fn freeze(&self) {
        // The first one starts the others, so it stops before they are counted.
        signal(Signal::STOP, self.child.id());
        wait_until_still(self.child.id());
        for child in self.children() {
            signal(Signal::STOP, child);
            wait_until_still(child);
        }
    }

    /// Lets them go on.
    pub(crate) fn thaw(&self) {
        self.children().into_iter().for_each(|child| signal(Signal::CONT, child));
        signal(Signal::CONT, self.child.id());
    }

    fn children(&self) -> Vec<u32> {
        let children =
            Command::new("ps").args(["-o", "pid=", "--ppid", &self.child.id().to_string()]).output();
        let children = String::from_utf8(children.unwrap().stdout).unwrap();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }
}

/// One that has ended meanwhile needs none.
fn signal(signal: Signal, pid: u32) {
    let sent = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal);
    assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{signal:?} to {pid}: {sent:?}");
}

impl Drop for SqlServer {
    fn drop(&mut self) {
        self.thaw();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes `ca.pem`, which vouches for `server.pem` and for `client.pem` of a user `certified`, and `other.pem`, which does
/// not.
fn certify(folder: &Path) {
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n").unwrap();
    for line in [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=ours -days 2",
        "req -x509 -newkey rsa:2048 -nodes -keyout other.key -out other.pem -subj /CN=other -days 2",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names",
        "req -newkey rsa:2048 -nodes -keyout client.key -out client.csr -subj /CN=certified",
        "x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out client.pem -days 2 -extfile names",
    ] {
        let out = Command::new("openssl").args(line.split(' ')).current_dir(folder).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}

fn program(kind: SqlServerKind) -> Option<PathBuf> {
    match kind {
        SqlServerKind::Postgres => {
            let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
            let programs = versions.map(|version| version.path().join("bin/postgres"));
            programs.filter(|program| program.is_file()).max()
        }
        SqlServerKind::MySql => {
            ["/usr/sbin/mariadbd", "/usr/bin/mariadbd"].map(PathBuf::from).into_iter().find(|it| it.is_file())
        }
    }
}

fn is_root() -> bool {
    let out = Command::new("id").arg("-u").output().unwrap();
    String::from_utf8_lossy(&out.stdout).trim() == "0"
}

/// A command that runs as somebody whom PostgreSQL accepts.
pub(crate) fn command(kind: SqlServerKind, program: &Path) -> Command {
    if kind != SqlServerKind::Postgres || !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    command
}

fn initialise(kind: SqlServerKind, program: &Path, folder: &Path) {
    let data = folder.join("data");
    let mut init = match kind {
        SqlServerKind::Postgres => {
            if is_root() {
                let owned = Command::new("chown").args(["-R", "postgres:"]).arg(folder).status().unwrap();
                assert!(owned.success());
            }
            let mut init = command(kind, &program.with_file_name("initdb"));
            let options =
                ["--auth=trust", "--username=evenkeel", "--encoding=UTF8", "--no-locale", "--no-sync"];
            init.args(options).arg(format!("--pgdata={}", data.display()));
            init
        }
        SqlServerKind::MySql => {
            let mut init = Command::new("mariadb-install-db");
            let options = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"];
            init.args(options).arg(format!("--datadir={}", data.display()));
            init.arg(format!("--tmpdir={}", folder.display()));
            if is_root() {
                init.arg("--user=root");
            }
            init
        }
    };
    let out = init.current_dir(folder).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    if kind == SqlServerKind::Postgres {
        // All are trusted but two, who must prove that they are.
        let rules = data.join("pg_hba.conf");
        let usual = std::fs::read_to_string(&rules).unwrap();
        let (secret, certified) =
            ("host all secret 127.0.0.1/32 scram-sha-256", "hostssl all certified 127.0.0.1/32 cert");
        std::fs::write(rules, format!("{secret}\n{certified}\n{usual}")).unwrap();
    }
}

fn launch(kind: SqlServerKind, program: &Path, folder: &Path, port: u16, settings: &[String]) -> Child {
    let (data, folder_text) = (folder.join("data"), folder.display());
    let mut server = command(kind, program);
    match kind {
        SqlServerKind::Postgres => {
            server.arg("-D").arg(&data);
            let usual = [
                format!("port={port}"),
                format!("unix_socket_directories={folder_text}"),
                "listen_addresses=127.0.0.1".to_owned(),
                "shared_buffers=16MB".to_owned(),
            ];
            for setting in usual.iter().chain(settings) {
                server.args(["-c", setting]);
            }
        }
        SqlServerKind::MySql => {
            server.args(["--no-defaults", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=16M"]);
            server.args(["--innodb-log-file-size=16M", "--performance-schema=OFF", "--skip-name-resolve"]);
            server.arg(format!("--datadir={}", data.display())).arg(format!("--port={port}"));
            server.arg(format!("--tmpdir={folder_text}"));
            server.arg(format!("--socket={folder_text}/socket")).arg(format!("--pid-file={folder_text}/pid"));
            server.args(settings.iter().map(|setting| format!("--{setting}")));
            if is_root() {
                server.arg("--user=root");
            }
        }
    }
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    server.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    server.spawn().unwrap()
}
