//! The baseline of both SQL servers, with the same statements: lock and read the rows of a batch, replace them, commit.

/// Defines the client of one kind of server: `$connection` is its client type, `$places` writes its placeholders,
/// `$replace` is its syntax for replacing rows.
macro_rules! rows {
    ($connection:ty, $blob:literal, $places:expr, $replace:literal) => {
        use std::collections::BTreeMap;

        use sqlx::{AssertSqlSafe, Connection as _};

        use super::{BaselineClient, BenchError, VALUE, row_key};
        use crate::{BoxFuture, EngineUrl};

        pub(super) struct SqlBaseline {
            connection: $connection,
            table: String,
            revision: i64,
            revisions: Vec<i64>,
        }

        /// Placeholders of this many rows of this many columns.
        fn places(rows: usize, columns: usize) -> String {
            let place: fn(usize) -> String = $places;
            let row = |row: usize| {
                let all: Vec<_> = (0..columns).map(|column| place(row * columns + column + 1)).collect();
                format!("({})", all.join(", "))
            };
            (0..rows).map(row).collect::<Vec<_>>().join(", ")
        }

        impl SqlBaseline {
            pub(super) async fn make(url: &EngineUrl, rows: u32) -> Result<Self, BenchError> {
                let (table, shown) = (format!("by_hand_{}", std::process::id()), url.to_string());
                let mut connection = <$connection>::connect(&shown).await?;
                let make = format!(
                    "CREATE TABLE {table} (k VARCHAR(700) PRIMARY KEY, value {} NOT NULL, revision BIGINT NOT NULL)",
                    $blob
                );
                sqlx::raw_sql(AssertSqlSafe(format!("DROP TABLE IF EXISTS {table}"))).execute(&mut connection).await?;
                sqlx::raw_sql(AssertSqlSafe(make)).execute(&mut connection).await?;
                let mut made = Self { connection, table, revision: 0, revisions: vec![0; rows as usize] };
                for first in (0..rows).step_by(1_000) {
                    let some: Vec<_> = (first..rows.min(first + 1_000)).collect();
                    made.replace(&some).await?;
                }
                Ok(made)
            }

            /// Locks the rows and reads their revisions.
            async fn lock_rows(&mut self, rows: &[u32]) -> Result<BTreeMap<String, i64>, BenchError> {
                let (table, places) = (&self.table, places(1, rows.len()));
                let look = format!("SELECT k, revision FROM {table} WHERE k IN {places} FOR UPDATE");
                let mut look = sqlx::query_as(AssertSqlSafe(look));
                for row in rows {
                    look = look.bind(row_key(*row));
                }
                let found: Vec<(String, i64)> = look.fetch_all(&mut self.connection).await?;
                Ok(found.into_iter().collect())
            }

            async fn replace(&mut self, rows: &[u32]) -> Result<(), BenchError> {
                let (table, places) = (&self.table, places(rows.len(), 3));
                let replace = format!(
                    "INSERT INTO {table} (k, value, revision) VALUES {places} {}",
                    $replace
                );
                let mut replace = sqlx::query(AssertSqlSafe(replace));
                for row in rows {
                    replace = replace.bind(row_key(*row)).bind(VALUE.as_slice()).bind(self.revision);
                }
                replace.execute(&mut self.connection).await?;
                rows.iter().for_each(|row| self.revisions[*row as usize] = self.revision);
                Ok(())
            }

            async fn execute(&mut self, text: &'static str) -> Result<(), BenchError> {
                sqlx::raw_sql(text).execute(&mut self.connection).await?;
                Ok(())
            }
        }

        impl BaselineClient for SqlBaseline {
            fn commit<'a>(&'a mut self, pairs: &'a [[u32; 2]]) -> BoxFuture<'a, Result<(), BenchError>> {
                Box::pin(async move {
                    let rows = pairs.as_flattened();
                    self.revision += 1;
                    self.execute("BEGIN").await?;
                    let found = self.lock_rows(rows).await?;
                    if rows.iter().any(|row| found.get(&row_key(*row)) != Some(&self.revisions[*row as usize])) {
                        return Err("a row is not as it was left".into());
                    }
                    self.replace(rows).await?;
                    self.execute("COMMIT").await
                })
            }
        }
    };
}
pub(super) use rows;
