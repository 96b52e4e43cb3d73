//! The history's tables on a server, created by whichever node comes first.
//!
//! They are those of the [file](super::schema), with the indexes that servers need to list rows in order.

use evenkeel_registry::RegistryError;
use evenkeel_registry::sql::{SqlConnection, SqlStatement, SqlTarget, TableLayout};

use super::location::HistoryServer;
use super::summary::COUNT_COLUMNS;

/// Creates the tables, or waits for the node that is creating them.
///
/// # Errors
/// The database cannot store every text, a newer program made the tables, or the server failed.
pub(super) async fn prepare(link: &mut SqlConnection, server: &HistoryServer) -> Result<(), RegistryError> {
    if let SqlConnection::Postgres(_) = link {
        refuse_other_alphabets(link, server).await?;
    }
    layout(server).prepare(link).await
}

/// Refuses a server with a limited character set: a text that it cannot store would block all later ones.
async fn refuse_other_alphabets(
    link: &mut SqlConnection,
    server: &HistoryServer,
) -> Result<(), RegistryError> {
    let encoding = link.query_one(SqlStatement::of(true, "SELECT current_setting('server_encoding')")).await;
    let encoding = encoding.and_then(|row| row.text(0));
    let encoding = encoding.map_err(|error| evenkeel_registry::sql::explain(&server.label, &error))?;
    match encoding.as_str() {
        "UTF8" => Ok(()),
        other => Err(RegistryError::Refused(format!(
            "{} is in {other} and cannot hold every text: create it with ENCODING 'UTF8'",
            server.label
        ))),
    }
}

fn layout(server: &HistoryServer) -> TableLayout {
    let tongue = server.target.dialect();
    let name = |what: &str| format!("{0}{1}{what}{0}", tongue.quote, server.prefix);
    let (meta, (ignore, nothing)) = (name("history"), tongue.ignore);
    let words = ColumnTypes::of(&server.target);
    let first = [
        format!(
            "CREATE TABLE IF NOT EXISTS {meta} (one SMALLINT PRIMARY KEY, layout BIGINT NOT NULL,
             busy_until BIGINT NOT NULL) {}",
            words.table
        ),
        format!("INSERT {ignore} INTO {meta} (one, layout, busy_until) VALUES (1, 0, 0) {nothing}"),
    ];
    let steps = vec![
        first_layout(&words, &name),
        audit_layout(&words, &name),
        event_jobs_layout(&words, &name),
        parameters_layout(&words, &name),
        job_versions_layout(&words, &name),
        rollups_layout(&words, &name, &server.prefix),
    ];
    TableLayout { label: server.label.clone(), dialect: tongue, meta, first, steps }
}

/// The column types, and other names in which the servers differ.
struct ColumnTypes {
    /// A short text that is compared byte by byte.
    key: &'static str,
    /// A text of any length, which is not compared.
    prose: &'static str,
    /// The options after a table.
    table: &'static str,
    /// Whether the server has partial indexes.
    partial: bool,
    /// The type of bytes.
    bytes: &'static str,
    /// A text that differs each time.
    fresh: &'static str,
    /// Inserted between `INSERT` and `INTO`, and at the end, to leave an existing row as it is.
    ignore: (&'static str, &'static str),
    /// Whether an index can be created inside `CREATE TABLE`, in one step.
    inside: bool,
}

/// An index of a table.
struct TableIndex {
    name: &'static str,
    columns: &'static str,
    /// The condition of the rows that it has, on servers with partial indexes; empty for all rows.
    rows: &'static str,
}

impl TableIndex {
    /// An index of all rows.
    const fn whole(name: &'static str, columns: &'static str) -> Self {
        Self { name, columns, rows: "" }
    }

    /// An index of some rows where that is possible, and of all rows elsewhere.
    const fn partial(name: &'static str, columns: &'static str, rows: &'static str) -> Self {
        Self { name, columns, rows }
    }
}

impl ColumnTypes {
    fn of(target: &SqlTarget) -> Self {
        match target {
            SqlTarget::Postgres(_) => Self {
                key: "TEXT COLLATE \"C\"",
                prose: "TEXT",
                bytes: "BYTEA",
                fresh: "md5(concat(random(), clock_timestamp()))",
                ignore: target.dialect().ignore,
                table: "",
                partial: true,
                inside: false,
            },
            SqlTarget::MySql(_) => Self {
                key: "VARBINARY(700)",
                prose: "MEDIUMTEXT CHARACTER SET utf8mb4",
                bytes: "VARBINARY(2100)",
                fresh: "uuid()",
                ignore: target.dialect().ignore,
                table: "ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
                partial: false,
                inside: true,
            },
        }
    }

    /// The statements that add a column, if it is not there: a step may be repeated.
    fn add_column(&self, table: &str, plain: &str, column: &str) -> Vec<String> {
        let add = format!("ALTER TABLE {table} ADD COLUMN");
        if !self.inside {
            return vec![format!("{add} IF NOT EXISTS {column}")];
        }
        // MySQL, other than MariaDB, knows no such condition.
        let name = column.split(' ').next().unwrap_or_default();
        vec![
            format!(
                "SET @add_column = (SELECT IF(count(*) = 0, '{add} {column}', 'DO 0') FROM information_schema.columns
                 WHERE table_schema = database() AND table_name = '{plain}' AND column_name = '{name}')"
            ),
            "PREPARE add_column FROM @add_column".to_owned(),
            "EXECUTE add_column".to_owned(),
            "DEALLOCATE PREPARE add_column".to_owned(),
        ]
    }

    /// The statements for a table and its indexes.
    fn table(
        &self,
        name: &impl Fn(&str) -> String,
        table: &str,
        columns: &str,
        indexes: &[TableIndex],
    ) -> Vec<String> {
        let here = name(table);
        let index = |index: &TableIndex| {
            format!(", INDEX {} ({})", name(&format!("{table}_{}", index.name)), index.columns)
        };
        let inside: String = if self.inside { indexes.iter().map(index).collect() } else { String::new() };
        let table_made = format!("CREATE TABLE IF NOT EXISTS {here} ({columns}{inside}) {}", self.table);
        let outside = |index: &TableIndex| {
            let rows = if self.partial { index.rows } else { "" };
            let (index, columns) = (name(&format!("{table}_{}", index.name)), index.columns);
            format!("CREATE INDEX IF NOT EXISTS {index} ON {here} ({columns}) {rows}")
        };
        let outside = indexes.iter().filter(|_| !self.inside).map(outside);
        std::iter::once(table_made).chain(outside).collect()
    }
}

/// All tables but the first one. Successes are by far the most attempts and nobody lists them alone, so they are
/// not in the index of states where that is possible.
fn first_layout(words: &ColumnTypes, name: &impl Fn(&str) -> String) -> Vec<String> {
    let ColumnTypes { key, prose, .. } = words;
    let attempt = format!(
        "seq BIGINT PRIMARY KEY, run {key} NOT NULL, attempt BIGINT NOT NULL, job {key} NOT NULL, shard BIGINT NOT NULL,
         due BIGINT NOT NULL, node {key} NOT NULL, state BIGINT NOT NULL, reason {prose} NOT NULL, code BIGINT,
         token BIGINT, started BIGINT, ended BIGINT, since BIGINT NOT NULL, output BIGINT NOT NULL,
         sent {prose} NOT NULL, UNIQUE (run, attempt)"
    );
    let late = format!(
        "run {key} NOT NULL, attempt BIGINT NOT NULL, node {key} NOT NULL, state BIGINT NOT NULL,
         reason {prose} NOT NULL, heard BIGINT NOT NULL, PRIMARY KEY (run, attempt, node, state)"
    );
    let event = format!(
        "seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, node {key} NOT NULL, kind {key} NOT NULL, text {prose} NOT NULL"
    );
    let load = format!(
        "node {key} NOT NULL, at BIGINT NOT NULL, cpu BIGINT, memory BIGINT, busy BIGINT NOT NULL,
         slots BIGINT NOT NULL, score BIGINT NOT NULL, PRIMARY KEY (node, at)"
    );
    let notice = format!(
        "seq BIGINT PRIMARY KEY, id {key} NOT NULL UNIQUE, node {key} NOT NULL, at BIGINT NOT NULL,
         told BIGINT NOT NULL DEFAULT 0, body {prose} NOT NULL"
    );
    let failing =
        format!("job {key} NOT NULL, shard BIGINT NOT NULL, since BIGINT NOT NULL, PRIMARY KEY (job, shard)");
    let writer = format!(
        "name {key} NOT NULL, life BIGINT NOT NULL, batch BIGINT NOT NULL, at BIGINT NOT NULL, PRIMARY KEY (name, life)"
    );
    let by_time: &[_] = &[TableIndex::whole("at", "at")];
    [
        words.table(
            name,
            "attempt",
            &attempt,
            &[
                TableIndex::whole("of_job", "job, seq"),
                TableIndex::partial("in_state", "state, seq", "WHERE state <> 1"),
            ],
        ),
        words.table(name, "late", &late, &[TableIndex::whole("heard", "heard")]),
        words.table(
            name,
            "event",
            &event,
            &[
                TableIndex::whole("at", "at"),
                TableIndex::whole("of_kind", "kind, seq"),
                TableIndex::whole("of_node", "node, seq"),
            ],
        ),
        words.table(name, "load", &load, by_time),
        words.table(
            name,
            "notice",
            &notice,
            &[
                TableIndex::whole("at", "at"),
                TableIndex::partial("untold", "node, told, seq", "WHERE told = 0"),
            ],
        ),
        words.table(name, "failing", &failing, &[]),
        words.table(name, "writer", &writer, by_time),
    ]
    .concat()
}

/// Layout 2 adds the audit log.
fn audit_layout(words: &ColumnTypes, name: &impl Fn(&str) -> String) -> Vec<String> {
    let ColumnTypes { key, prose, .. } = words;
    let audit = format!(
        "seq BIGINT PRIMARY KEY, id {key} NOT NULL UNIQUE, at BIGINT NOT NULL, node {key} NOT NULL, proof {key} NOT NULL,
         origin {prose} NOT NULL, claims {key} NOT NULL, verb {key} NOT NULL, object {prose} NOT NULL, job {key} NOT NULL,
         about {key} NOT NULL, outcome BIGINT NOT NULL, rev_before BIGINT, rev_after BIGINT, what {prose} NOT NULL,
         request {key} NOT NULL"
    );
    let indexes: &[_] = &[
        TableIndex::whole("at", "at"),
        TableIndex::whole("of_job", "job, seq"),
        TableIndex::whole("of_node", "node, seq"),
        TableIndex::whole("of_node_and_proof", "node, proof, seq"),
        TableIndex::whole("about", "about, seq"),
        TableIndex::whole("of_proof", "proof, seq"),
        TableIndex::whole("of_claims", "claims, seq"),
        TableIndex::partial("open", "outcome, node", "WHERE outcome = 0"),
        TableIndex::whole("of_request", "request, outcome"),
    ];
    words.table(name, "audit", &audit, indexes)
}

/// Layout 3 adds which job an event is about, for the events that are about one.
fn event_jobs_layout(words: &ColumnTypes, name: &impl Fn(&str) -> String) -> Vec<String> {
    let key = words.key;
    let columns = format!("of_event BIGINT PRIMARY KEY, happened BIGINT NOT NULL, job {key} NOT NULL");
    let indexes: &[_] =
        &[TableIndex::whole("happened", "happened"), TableIndex::whole("of_job", "job, of_event")];
    words.table(name, "event_job", &columns, indexes)
}

/// Layout 4 adds the parameters of manual runs.
fn parameters_layout(words: &ColumnTypes, name: &impl Fn(&str) -> String) -> Vec<String> {
    let ColumnTypes { key, prose, .. } = words;
    let columns = format!("fire {key} NOT NULL PRIMARY KEY, at BIGINT NOT NULL, body {prose} NOT NULL");
    words.table(name, "run_parameters", &columns, &[TableIndex::whole("at", "at")])
}

/// Layout 5 adds the versions of jobs.
fn job_versions_layout(words: &ColumnTypes, name: &impl Fn(&str) -> String) -> Vec<String> {
    let ColumnTypes { key, prose, .. } = words;
    let columns = format!(
        "job {key} NOT NULL, version BIGINT NOT NULL, at BIGINT NOT NULL, node {key} NOT NULL, proof {key} NOT NULL,
         origin {prose} NOT NULL, claims {key} NOT NULL, kind {key} NOT NULL, restored BIGINT, declared {prose} NOT NULL,
         replaced BIGINT, PRIMARY KEY (job, version)"
    );
    let indexes: &[_] = &[TableIndex::partial("replaced", "replaced", "WHERE replaced IS NOT NULL")];
    words.table(name, "job_version", &columns, indexes)
}

/// Layout 6 adds the roll-ups, what each attempt counts as in them, and up to which attempt of an earlier layout they have
/// to go.
fn rollups_layout(words: &ColumnTypes, name: &impl Fn(&str) -> String, prefix: &str) -> Vec<String> {
    let ColumnTypes { key, prose, bytes, fresh, .. } = words;
    let counts: String = COUNT_COLUMNS.iter().map(|column| format!("{column} BIGINT NOT NULL, ")).collect();
    let hour =
        format!("namespace {key} NOT NULL, hour BIGINT NOT NULL, {counts} PRIMARY KEY (namespace, hour)");
    let job = format!(
        "day BIGINT NOT NULL, job {key} NOT NULL, hours {bytes} NOT NULL, trouble BIGINT NOT NULL, PRIMARY KEY (day, job)"
    );
    let pending = format!("seq BIGINT PRIMARY KEY, changes {prose} NOT NULL");
    let state =
        format!("one SMALLINT PRIMARY KEY, id {key} NOT NULL, next BIGINT NOT NULL, last BIGINT NOT NULL");
    let (ignore, nothing) = words.ignore;
    let (attempt, rolled) = (name("attempt"), name("rollup_state"));
    [
        words.add_column(&attempt, &format!("{prefix}attempt"), "counted BIGINT NOT NULL DEFAULT 0"),
        words.table(name, "rollup_hour", &hour, &[TableIndex::whole("hour", "hour")]),
        words.table(
            name,
            "rollup_job",
            &job,
            &[
                TableIndex::whole("of_job", "job, day"),
                TableIndex::partial("trouble", "day, trouble", "WHERE trouble > 0"),
            ],
        ),
        words.table(name, "rollup_pending", &pending, &[]),
        words.table(name, "rollup_state", &state, &[]),
        vec![format!(
            "INSERT {ignore} INTO {rolled} (one, id, next, last)
             SELECT 1, {fresh}, 0, coalesce(max(seq), 0) FROM {attempt} {nothing}"
        )],
    ]
    .concat()
}
