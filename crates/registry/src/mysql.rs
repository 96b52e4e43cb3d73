//! The engine on MySQL and MariaDB: its SQL dialect, and the settings that its guarantees need.

use evenkeel_core::registry::DurabilityClass;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use sqlx::{ConnectOptions as _, Error};

use crate::RegistryError;
use crate::sql::{
    BASE_VARIABLE, HotForm, OrderStatements, RegistryDialect, RevisionSequence, Sql, SqlArg, SqlConfig,
    SqlConnection, SqlDialect, SqlServerInfo, SqlSession, SqlStatement, SqlTarget, TableNames,
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

/// The dialect of MySQL, which has no sequences, and of a MariaDB that has none yet.
static MYSQL: RegistryDialect = COMMON;

/// The dialect of MariaDB.
static MARIADB: RegistryDialect = RegistryDialect {
    // The gate is enough.
    snapshot: None,
    layouts: |tables| vec![first_layout(tables), second_layout(tables)],
    order,
    ..COMMON
};

const COMMON: RegistryDialect = RegistryDialect {
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
    of_server: |link| Box::pin(of_server(link)),
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
        Sql::connect(SqlConfig::new(&MYSQL, target, url, namespace, SqlSession::Own)).await.map(Self)
    }

    /// Whether the tables exist. Creates nothing.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect).
    pub async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
        let (target, namespace) = target(url)?;
        Sql::exists(&SqlConfig::new(&MYSQL, target, url, namespace, SqlSession::Own)).await
    }

    /// Deletes the tables and all that is in them.
    pub(crate) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
        let (target, namespace) = target(url)?;
        Sql::erase(SqlConfig::new(&MYSQL, target, url, namespace, SqlSession::Own)).await
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

/// Revisions come from a sequence, and hot transactions pass a gate. A program that knows only the first layout locks only
/// the counter's row: a new generation ends it.
fn second_layout(tables: &TableNames) -> Vec<String> {
    let meta = &tables.meta;
    let sequence = sequence(tables);
    vec![
        // Without a cache, so that it shows the last number that was given.
        format!("CREATE SEQUENCE IF NOT EXISTS {sequence} MINVALUE 1 NOCACHE ENGINE = InnoDB"),
        format!("CREATE TABLE IF NOT EXISTS {} (one SMALLINT PRIMARY KEY) ENGINE = InnoDB", gate(tables)),
        format!("INSERT IGNORE INTO {} (one) VALUES (1)", gate(tables)),
        format!("CREATE TABLE IF NOT EXISTS {} (one SMALLINT PRIMARY KEY) ENGINE = MEMORY", running(tables)),
        // First, so that they write nothing more behind what the sequence is set to.
        format!("UPDATE {meta} SET generation = generation + 1 WHERE server <> ''"),
        format!("SELECT {BASE_VARIABLE} := GREATEST(m.revision, 1) FROM {meta} m"),
        format!(
            "EXECUTE IMMEDIATE CONCAT('DO SETVAL({sequence}, ', {BASE_VARIABLE}, ', ', {BASE_VARIABLE} > 1, ')')"
        ),
    ]
}

fn sequence(tables: &TableNames) -> String {
    format!("`{}_order`", tables.namespace)
}

fn gate(tables: &TableNames) -> String {
    format!("`{}_gate`", tables.namespace)
}

/// The server forgets the rows of such a table when it ends.
fn running(tables: &TableNames) -> String {
    format!("`{}_running`", tables.namespace)
}

/// The turn is a lock on the counter's row, the gate one on a row of its own. InnoDB grants the locks of a row
/// in the order of requests. Each is locked by a statement of its own, so that what is read behind it is newer.
fn order(tables: &TableNames) -> OrderStatements {
    let (sequence, gate, meta) = (sequence(tables), gate(tables), &tables.meta);
    // The next number is shown as soon as one is drawn, whatever becomes of the transaction.
    let position = format!("GREATEST(m.revision, (SELECT next_not_cached_value - 1 FROM {sequence}))");
    OrderStatements {
        prepare: String::new(),
        queue: format!("SELECT one FROM {meta} FOR UPDATE; "),
        close_gate: format!("SELECT one FROM {gate} FOR UPDATE; "),
        pass_gate: format!("SELECT one FROM {gate} LOCK IN SHARE MODE; "),
        reading: ("START TRANSACTION; ", "; COMMIT"),
        sequence: Some(RevisionSequence {
            draw: format!("NEXTVAL({sequence})"),
            // It takes a literal only.
            move_on: (format!("EXECUTE IMMEDIATE CONCAT('DO SETVAL({sequence}, ', "), ", ')')".to_owned()),
            keep_base: format!("SELECT {BASE_VARIABLE} := {position} FROM {meta} m; "),
            hot: HotForm::Each,
        }),
        position,
        remove: vec![
            format!("DROP TABLE IF EXISTS {gate}, {}", running(tables)),
            format!("DROP SEQUENCE IF EXISTS {sequence}"),
        ],
        running: Some(running(tables)),
    }
}

/// MariaDB reads such a comment as a part of the statement, from the version on that has sequences.
const HAS_SEQUENCES: &str = "SELECT CAST(0 /*M!100300 + 1 */ AS SIGNED)";

async fn of_server(link: &mut SqlConnection) -> Result<&'static RegistryDialect, Error> {
    let has = link.ask_one(SqlStatement::new(&MYSQL, HAS_SEQUENCES)).await?.int(0)? == 1;
    Ok(if has { &MARIADB } else { &MYSQL })
}

const SERVER: &str = "SELECT CAST(@@read_only AS CHAR), CAST(@@innodb_flush_log_at_trx_commit AS SIGNED), \
    CAST(@@log_bin AS SIGNED), CAST(@@sync_binlog AS SIGNED), CAST(@@max_allowed_packet AS SIGNED), \
    CAST(VERSION() AS CHAR)";

/// A MariaDB server has no permanent id, only a number that distinguishes it from its replicas.
const SERVER_ID: &str = "SELECT CAST(@@server_id AS CHAR)";
const SERVER_UUID: &str = "SELECT CAST(@@server_uuid AS CHAR)";

/// A table that was restored from a dump or a copy has a new creation time.
const MADE: &str = "SELECT CAST(CREATE_TIME AS CHAR) FROM information_schema.tables \
    WHERE table_schema = DATABASE() AND table_name = ";

async fn inspect(link: &mut SqlConnection, tables: &TableNames) -> Result<SqlServerInfo, Error> {
    let row = link.ask_one(SqlStatement::new(&MYSQL, SERVER)).await?;
    let writable = matches!(row.text(0)?.as_str(), "0" | "OFF");
    let (flushes, logs, syncs, packet) = (row.int(1)? == 1, row.int(2)? != 0, row.int(3)? == 1, row.int(4)?);
    let identity = if row.text(5)?.contains("MariaDB") { SERVER_ID } else { SERVER_UUID };
    let identity = link.ask_one(SqlStatement::new(&MYSQL, identity)).await?.text(0)?;
    let made = SqlStatement::new(&MYSQL, MADE).with(SqlArg::Text(&tables.counter));
    let made = link.ask(made).await?.first().map(|row| row.text(0)).transpose()?;
    let identity = made.map(|made| format!("{identity}/{made}"));
    // In a Galera cluster a lock is local to one server.
    let galera = link.ask(SqlStatement::new(&MYSQL, "SHOW VARIABLES LIKE 'wsrep_on'")).await?;
    let galera = galera.first().map(|row| row.text(1)).transpose()?.is_some_and(|on| on == "ON");
    // Without it a page that was half written when the host died is lost.
    let twice = link.ask(SqlStatement::new(&MYSQL, "SHOW VARIABLES LIKE 'innodb_doublewrite'")).await?;
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
