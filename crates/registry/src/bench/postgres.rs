//! The PostgreSQL baseline client.

super::sql::rows!(
    sqlx::PgConnection,
    "BYTEA",
    |nth| format!("${nth}"),
    "ON CONFLICT (k) DO UPDATE SET value = excluded.value, revision = excluded.revision"
);
