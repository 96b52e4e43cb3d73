//! The MySQL and MariaDB baseline.

super::sql::rows!(
    sqlx::MySqlConnection,
    "LONGBLOB",
    |_| "?".to_owned(),
    "ON DUPLICATE KEY UPDATE value = VALUES(value), revision = VALUES(revision)"
);
