//! The engine on PostgreSQL: its SQL dialect, and the settings that its guarantees need.

use evenkeel_core::registry::DurabilityClass;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions as _, Error};

use crate::RegistryError;
use crate::sql::{
    BASE_SETTING, HotForm, OrderStatements, RegistryDialect, RevisionSequence, Sql, SqlArg, SqlConfig,
    SqlConnection, SqlDialect, SqlServerInfo, SqlSession, SqlStatement, SqlTarget, TableNames,
};
use crate::url::EngineUrl;

/// The dialect of its statements.
pub(crate) static SQL_DIALECT: SqlDialect = SqlDialect {
    numbered: true,
    quote: '"',
    now: "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    ignore: ("", "ON CONFLICT DO NOTHING"),
    no_ddl_timeout: Some(("BEGIN; SET LOCAL statement_timeout = 0", "COMMIT")),
};

static DIALECT: RegistryDialect = RegistryDialect {
    name: "postgres",
    sql: &SQL_DIALECT,
    // Every query finds rows by key, in key order. A planner without statistics of young tables
    // would read them whole: measured, 0.9 s instead of 0.1 ms for the changes among 300,000 entries.
    // A client that is frozen inside a transaction, or vanished, must not block the others.
    session_setup: "SET lock_timeout = '2s'; SET statement_timeout = '5s'; \
               SET idle_in_transaction_session_timeout = '1s'; SET client_min_messages = 'warning'; \
               SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off; \
               SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_sort = off; \
               SELECT set_config('synchronous_commit', 'on', false) \
               WHERE current_setting('synchronous_commit') = 'off'",
    begin: "BEGIN ISOLATION LEVEL READ COMMITTED",
    isolation: "SELECT 'isolation', current_setting('transaction_isolation')",
    snapshot: None,
    of_server: |_| Box::pin(async { Ok(&DIALECT) }),
    identity: "TEXT",
    table: "WITH (fillfactor = 50)",
    replace_entry: " ON CONFLICT (k) DO UPDATE SET value = excluded.value, revision = excluded.revision, \
                    born = excluded.born, owner = excluded.owner",
    replace_lease: " ON CONFLICT (id) DO UPDATE SET ttl = excluded.ttl, ends = excluded.ends",
    notify: Some("pg_notify"),
    durable_before_visible: true,
    layouts: |tables| vec![first_layout(tables), second_layout(tables)],
    order,
    inspect: |link, tables| Box::pin(inspect(link, tables)),
};

/// A registry on a PostgreSQL server. Class A on one server or with synchronous standbys.
pub struct Postgres(Sql);

crate::sql::engine!(Postgres);

impl Postgres {
    /// Connects to `postgres://USER@HOST/DATABASE[/NAMESPACE]`, and creates missing tables.
    ///
    /// # Errors
    /// [`RegistryError::Refused`] for a URL, user, database or layout that cannot be used,
    /// [`RegistryError::Unavailable`] while the server is out of reach or read-only.
    pub async fn connect(url: &EngineUrl) -> Result<Self, RegistryError> {
        Sql::connect(config(url)?).await.map(Self)
    }

    /// Whether the tables exist. Creates nothing.
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect).
    pub async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
        Sql::exists(&config(url)?).await
    }

    /// Deletes the tables and all that is in them.
    pub(crate) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
        Sql::erase(config(url)?).await
    }
}

fn config(url: &EngineUrl) -> Result<SqlConfig, RegistryError> {
    let (target, namespace) = target(url)?;
    let session = match url.option("notify") {
        None | Some("on") => SqlSession::Own,
        Some("off") => SqlSession::Pooled,
        Some(_) => {
            return Err(
                url.refusal("has an unknown notify: write notify=off behind a pooler, or leave it out")
            );
        }
    };
    Ok(SqlConfig::new(&DIALECT, target, url, namespace, session))
}

/// The server and user of the URL, and the namespace.
pub(crate) fn target(url: &EngineUrl) -> Result<(SqlTarget, &str), RegistryError> {
    url.allow_options(&["notify"])?;
    let ([database], namespace) = url.path_segments(["DATABASE"])?;
    let host = url.single_address()?;
    let Some(user) = url.user() else {
        return Err(url.refusal("names no user: write postgres://USER@HOST/DATABASE"));
    };
    let mut options = PgConnectOptions::new_without_pgpass()
        .host(&host.name)
        .port(host.port.unwrap_or(5432))
        .username(user)
        .database(database)
        .application_name("evenkeel")
        .statement_cache_capacity(256)
        // The engine reads no floats, and a pooler refuses a client that names a setting unknown to it.
        .extra_float_digits(None)
        .ssl_mode(PgSslMode::Disable)
        .disable_statement_logging();
    if let Some(password) = url.password()? {
        options = options.password(&password);
    }
    if let Some(tls) = url.tls()? {
        options = options.ssl_mode(PgSslMode::VerifyFull);
        if let Some(ca) = tls.ca {
            options = options.ssl_root_cert(ca);
        }
        if let Some((cert, key)) = tls.identity {
            options = options.ssl_client_cert(cert).ssl_client_key(key);
        }
    }
    Ok((SqlTarget::Postgres(options), namespace))
}

fn first_layout(tables: &TableNames) -> Vec<String> {
    let TableNames { entry, lease, change, owned, .. } = tables;
    vec![
        format!(
            "CREATE TABLE IF NOT EXISTS {entry} (k TEXT COLLATE \"C\" PRIMARY KEY, value BYTEA NOT NULL,
             revision BIGINT NOT NULL, born BIGINT NOT NULL, owner BIGINT, cold BIGINT NOT NULL)
             WITH (fillfactor = 80)"
        ),
        format!("CREATE INDEX IF NOT EXISTS {owned} ON {entry} (owner) WHERE owner IS NOT NULL"),
        format!(
            "CREATE TABLE IF NOT EXISTS {lease} (id BIGINT PRIMARY KEY, ttl BIGINT NOT NULL, ends BIGINT NOT NULL)
             WITH (fillfactor = 50)"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {change} (revision BIGINT NOT NULL, k TEXT COLLATE \"C\" NOT NULL,
             gone BIGINT NOT NULL, PRIMARY KEY (revision, k))"
        ),
    ]
}

/// Revisions come from a sequence. A program that knows only the first layout locks only the counter's row: a new
/// generation ends it.
fn second_layout(tables: &TableNames) -> Vec<String> {
    let TableNames { meta, order, .. } = tables;
    let sequence = sequence(tables);
    vec![
        format!("CREATE SEQUENCE IF NOT EXISTS {sequence} MINVALUE 1"),
        // First, so that they write nothing more behind what the sequence is set to.
        format!("UPDATE {meta} SET generation = generation + 1 WHERE server <> ''"),
        format!(
            "SELECT setval('{sequence}', GREATEST(m.revision, {})) FROM {meta} m WHERE m.revision > 0",
            order.position
        ),
    ]
}

fn sequence(tables: &TableNames) -> String {
    format!("\"{}_order\"", tables.namespace)
}

/// The same as `session_setup`, for one transaction.
const TRANSACTION_SETUP: &str = "SELECT set_config('lock_timeout', '2s', true), \
    set_config('statement_timeout', '5s', true), set_config('idle_in_transaction_session_timeout', '1s', true), \
    set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true), \
    set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true), \
    set_config('enable_mergejoin', 'off', true), set_config('enable_sort', 'off', true), \
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END; ";

/// Two locks of one registry, which is known by its counter's table: `LOCK_QUEUE` is held by the one ordered writer, and
/// `LOCK_GATE` as well while it reads and changes entries.
const LOCK_QUEUE: u32 = 0x4556_4b51;
const LOCK_GATE: u32 = 0x4556_4b47;

fn order(tables: &TableNames) -> OrderStatements {
    let lock = |how: &str, which: u32| {
        format!("SELECT pg_advisory_xact_lock{how}({which}, '{}'::regclass::oid::int); ", tables.meta)
    };
    let sequence = sequence(tables);
    // A sequence begins with its first number, not given yet.
    let position = format!(
        "GREATEST(m.revision, (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}))"
    );
    OrderStatements {
        prepare: TRANSACTION_SETUP.to_owned(),
        queue: lock("", LOCK_QUEUE),
        close_gate: lock("", LOCK_GATE),
        pass_gate: lock("_shared", LOCK_GATE),
        reading: ("", ""),
        sequence: Some(RevisionSequence {
            draw: format!("nextval('{sequence}')"),
            move_on: (format!("SELECT setval('{sequence}', "), ")".to_owned()),
            keep_base: format!(
                "SELECT set_config('{BASE_SETTING}', ({position})::text, true)::bigint FROM {} m; ",
                tables.meta
            ),
            hot: HotForm::Together,
        }),
        position,
        remove: vec![format!("DROP SEQUENCE IF EXISTS {sequence}")],
        running: None,
    }
}

/// The state of the server. A replication client that only copies the server once, or reads logical changes, never
/// takes over; a user who may not see the kinds counts them all, unless some are synchronous. A standby that has only
/// just connected, and has reported nothing yet, counts as asynchronous even if it is synchronous.
///
/// A timeline identifies a history: a restored or promoted server has another one. A table that was restored from a
/// dump has another number.
const SERVER: &str = "SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE \
    (SELECT system_identifier::text FROM pg_control_system()) || '/' || \
    left(pg_walfile_name(pg_current_wal_lsn()), 8) END, \
    (pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on')::int::bigint, \
    (current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on')::int::bigint, \
    (current_setting('synchronous_standby_names') <> '' AND \
     current_setting('synchronous_commit') <> 'local')::int::bigint, \
    (SELECT count(*) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup' \
     AND application_name IS DISTINCT FROM 'pg_basebackup' \
     AND (sync_state = 'async' AND flush_lsn IS NOT NULL OR current_setting('synchronous_standby_names') = '' \
          OR current_setting('synchronous_commit') = 'local') \
     AND pid NOT IN (SELECT active_pid FROM pg_replication_slots \
                     WHERE slot_type = 'logical' AND active_pid IS NOT NULL)), \
    coalesce(to_regclass(";

async fn inspect(link: &mut SqlConnection, tables: &TableNames) -> Result<SqlServerInfo, Error> {
    let server = SqlStatement::new(&DIALECT, SERVER).with(SqlArg::Text(&tables.meta));
    let row = link.ask_one(server.then(")::oid::bigint, 0)")).await?;
    let [read_only, durable, waits, standbys] = [row.int(1)?, row.int(2)?, row.int(3)?, row.int(4)?];
    let (class, lacks) = match (durable, waits, standbys) {
        (0, ..) => (DurabilityClass::C, "fsync or full_page_writes is off"),
        // A standby that takes over may lack the last commits.
        (_, _, 1..) => {
            (DurabilityClass::B, "a standby follows that is not named in synchronous_standby_names")
        }
        _ => (DurabilityClass::A, ""),
    };
    let identity = format!("{}/{}", row.text(0)?, row.int(5)?);
    Ok(SqlServerInfo {
        identity: Some(identity),
        writable: read_only == 0,
        class,
        weakness: lacks,
        refusal: None,
    })
}
