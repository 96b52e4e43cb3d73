//! The engine on MySQL and MariaDB: its SQL dialect, and the settings that its guarantees need.

use evenkeel_core::registry::DurabilityClass;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::{ConnectOptions as _, Error};

use crate::RegistryError;
use crate::sql::{
    OrderStatements, RegistryDialect, Sql, SqlArg, SqlConfig, SqlConnection, SqlDialect, SqlServerInfo,
    SqlSession, SqlStatement, SqlTarget, TableNames,
};
use crate::url::EngineUrl;

/// The packet size that the server must allow: statements use a quarter of it.
const PACKET_MIN: i64 = 16 << 20;

/// The dialect of its statements.
pub(crate) static SQL_DIALECT: SqlDialect = SqlDialect {
    numbered: false,
    quote: '`',
    now: "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000)",
    ignore: ("IGNORE", ""),
    no_ddl_timeout: None,
};

static DIALECT: RegistryDialect = RegistryDialect {
    name: "mysql",
    sql: &SQL_DIALECT,
    // A client that is frozen inside a transaction, or vanished, must not block the others. MariaDB can distinguish a
    // transaction that waits from an idle connection, even one that only holds locks; MySQL cannot. Settings that
    // protect a server's other users against slips are turned off here.
    session_setup: "SET SESSION autocommit = 1, SESSION sql_safe_updates = 0, \
               SESSION innodb_lock_wait_timeout = 2, SESSION wait_timeout = 5 \
               /*M!100300 , SESSION idle_transaction_timeout = 1 */; \
               SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    begin: "START TRANSACTION READ WRITE",
    isolation: "SHOW VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')",
    snapshot: Some((
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
         START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY; ",
        "; COMMIT",
    )),
    identity: "VARCHAR(255)",
    table: "ENGINE = InnoDB",
    replace_entry: " ON DUPLICATE KEY UPDATE value = VALUES(value), revision = VALUES(revision), \
                    born = VALUES(born), owner = VALUES(owner)",
    replace_lease: " ON DUPLICATE KEY UPDATE ttl = VALUES(ttl), ends = VALUES(ends)",
    notify: None,
    // InnoDB shows a commit to others before its log is on the disk, unless there is a binary log to keep in step with.
    durable_before_visible: false,
    layouts: |tables| vec![first_layout(tables)],
    order: |_| OrderStatements { position: "m.revision".into(), ..OrderStatements::default() },
    inspect: |link, tables| Box::pin(inspect(link, tables)),
};

/// A registry on a MySQL or MariaDB server. Class A on one server that flushes its log at each commit.
pub struct MySql(Sql);

crate::sql::engine!(MySql);

impl MySql {
    /// Connects to `mysql://USER@HOST/DATABASE[/NAMESPACE]`, and creates missing tables.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] for a URL, user, database or layout that cannot be used,
    /// [`RegistryError::Unavailable`] while the server is out of reach or read-only.
    pub async fn connect(url: &EngineUrl) -> Result<Self, RegistryError> {
        let (target, namespace) = target(url)?;
        Sql::connect(SqlConfig::new(&DIALECT, target, url, namespace, SqlSession::Own)).await.map(Self)
    }

    /// Whether the tables exist. Creates nothing.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect).
    pub async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
        let (target, namespace) = target(url)?;
        Sql::exists(&SqlConfig::new(&DIALECT, target, url, namespace, SqlSession::Own)).await
    }

    /// Deletes the tables and all that is in them.
    pub(crate) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
        let (target, namespace) = target(url)?;
        Sql::erase(&SqlConfig::new(&DIALECT, target, url, namespace, SqlSession::Own)).await
    }
}

/// The server and user of the URL, and the namespace.
pub(crate) fn target(url: &EngineUrl) -> Result<(SqlTarget, &str), RegistryError> {
    url.allow_options(&[])?;
    let ([database], namespace) = url.path_segments(["DATABASE"])?;
    let host = url.single_address()?;
    let Some(user) = url.user() else {
        return Err(url.refusal("names no user: write mysql://USER@HOST/DATABASE"));
    };
    let mut options = MySqlConnectOptions::new()
        .host(&host.name)
        .port(host.port.unwrap_or(3306))
        .username(user)
        .database(database)
        .statement_cache_capacity(256)
        .ssl_mode(MySqlSslMode::Disabled)
        .disable_statement_logging();
    if let Some(password) = url.password()? {
        options = options.password(&password);
    }
    if let Some(tls) = url.tls()? {
        options = options.ssl_mode(MySqlSslMode::VerifyIdentity);
        if let Some(ca) = tls.ca {
            options = options.ssl_ca(ca);
        }
        if let Some((cert, key)) = tls.identity {
            options = options.ssl_client_cert(cert).ssl_client_key(key);
        }
    }
    Ok((SqlTarget::MySql(options), namespace))
}

fn first_layout(tables: &TableNames) -> Vec<String> {
    let TableNames { entry, lease, change, owned, .. } = tables;
    vec![
        format!(
            "CREATE TABLE IF NOT EXISTS {entry} (k VARBINARY(700) PRIMARY KEY, value LONGBLOB NOT NULL,
             revision BIGINT NOT NULL, born BIGINT NOT NULL, owner BIGINT, cold BIGINT NOT NULL, INDEX {owned} (owner))
             ENGINE = InnoDB ROW_FORMAT = DYNAMIC"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {lease} (id BIGINT PRIMARY KEY, ttl BIGINT NOT NULL, ends BIGINT NOT NULL)
             ENGINE = InnoDB"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {change} (revision BIGINT NOT NULL, k VARBINARY(700) NOT NULL,
             gone BIGINT NOT NULL, PRIMARY KEY (revision, k)) ENGINE = InnoDB ROW_FORMAT = DYNAMIC"
        ),
    ]
}

const SERVER: &str = "SELECT CAST(@@read_only AS CHAR), CAST(@@innodb_flush_log_at_trx_commit AS SIGNED), \
    CAST(@@log_bin AS SIGNED), CAST(@@sync_binlog AS SIGNED), CAST(@@max_allowed_packet AS SIGNED), \
    CAST(VERSION() AS CHAR)";

/// A MariaDB server has no permanent id, only a number that distinguishes it from its replicas.
const MARIADB: &str = "SELECT CAST(@@server_id AS CHAR)";
const MYSQL: &str = "SELECT CAST(@@server_uuid AS CHAR)";

/// A table that was restored from a dump or a copy has a new creation time.
const MADE: &str = "SELECT CAST(CREATE_TIME AS CHAR) FROM information_schema.tables \
    WHERE table_schema = DATABASE() AND table_name = ";

async fn inspect(link: &mut SqlConnection, tables: &TableNames) -> Result<SqlServerInfo, Error> {
    let row = link.ask_one(SqlStatement::new(&DIALECT, SERVER)).await?;
    let writable = matches!(row.text(0)?.as_str(), "0" | "OFF");
    let (flushes, logs, syncs, packet) = (row.int(1)? == 1, row.int(2)? != 0, row.int(3)? == 1, row.int(4)?);
    let identity = if row.text(5)?.contains("MariaDB") { MARIADB } else { MYSQL };
    let identity = link.ask_one(SqlStatement::new(&DIALECT, identity)).await?.text(0)?;
    let made = SqlStatement::new(&DIALECT, MADE).with(SqlArg::Text(&tables.counter));
    let made = link.ask(made).await?.first().map(|row| row.text(0)).transpose()?;
    let identity = made.map(|made| format!("{identity}/{made}"));
    // In a Galera cluster a lock is local to one server.
    let galera = link.ask(SqlStatement::new(&DIALECT, "SHOW VARIABLES LIKE 'wsrep_on'")).await?;
    let galera = galera.first().map(|row| row.text(1)).transpose()?.is_some_and(|on| on == "ON");
    // Without it a page that was half written when the host died is lost.
    let twice = link.ask(SqlStatement::new(&DIALECT, "SHOW VARIABLES LIKE 'innodb_doublewrite'")).await?;
    let twice = twice.first().map(|row| row.text(1)).transpose()?;
    let torn = twice.is_some_and(|twice| matches!(twice.as_str(), "OFF" | "DETECT_ONLY"));
    let (class, lacks) = match (flushes, !logs || syncs, !galera) {
        _ if torn => (DurabilityClass::C, "innodb_doublewrite is off"),
        (true, true, true) => (DurabilityClass::A, ""),
        (false, ..) => (DurabilityClass::B, "innodb_flush_log_at_trx_commit is not 1"),
        (_, false, _) => (DurabilityClass::B, "sync_binlog is not 1"),
        _ => (DurabilityClass::B, "wsrep_on is on"),
    };
    let refused = (packet < PACKET_MIN).then(|| {
        format!("takes statements of {packet} bytes only: set max_allowed_packet to {PACKET_MIN} or more")
    });
    Ok(SqlServerInfo { identity, writable, class, weakness: lacks, refusal: refused })
}
