//! Maps an SQL server's errors to remedies and registry errors.

use sqlx::Error;

use crate::RegistryError;

/// The remedy for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SqlRemedy {
    /// Nothing was made: retry in the same connection.
    Retry,
    /// The connection cannot be used any more: open a new one.
    Reconnect,
    /// A part of what was sent is at fault: send the parts separately.
    Split,
    /// It will not get better by itself.
    GiveUp,
}

/// The server's code for an error: SQLSTATE, and MySQL's own number where it has one.
fn code(error: &Error) -> Option<(String, u16)> {
    let error = error.as_database_error()?;
    #[cfg(feature = "mysql")]
    let number = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().map_or(0, |it| it.number());
    #[cfg(not(feature = "mysql"))]
    let number = 0;
    Some((error.code().unwrap_or_default().into_owned(), number))
}

/// The remedy for an error that came before the commit.
pub(super) fn remedy(error: &Error) -> SqlRemedy {
    let Some((state, number)) = code(error) else {
        return match error {
            Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed => SqlRemedy::Reconnect,
            Error::Encode(_) => SqlRemedy::Split,
            _ => SqlRemedy::GiveUp,
        };
    };
    match (state.as_str(), number) {
        // Serialization failure, deadlock, lock not available in time.
        ("40001" | "40P01" | "55P03", _) | (_, 1205 | 1213) => SqlRemedy::Retry,
        _ if state.starts_with("08") || state.starts_with("57P") || state == "25P03" => SqlRemedy::Reconnect,
        // Read-only by now: another server may have taken its place behind the same name, or it is being shut down.
        ("25006", _) | (_, 1290 | 1792 | 1836) => SqlRemedy::Reconnect,
        (_, 1053 | 1077 | 1152 | 1158..=1161 | 1184 | 1317 | 1927 | 3169 | 4031) => SqlRemedy::Reconnect,
        // Data that the server does not accept, or a statement that is too long for it.
        (_, 1153 | 1301 | 1406 | 1366) => SqlRemedy::Split,
        _ if state.starts_with("22") || state.starts_with("54") || state.starts_with("21") => {
            SqlRemedy::Split
        }
        _ => SqlRemedy::GiveUp,
    }
}

/// Whether the server has said that it made nothing, and its connection is good.
pub(super) fn is_rolled_back(error: &Error) -> bool {
    error.as_database_error().is_some() && remedy(error) != SqlRemedy::Reconnect
}

/// Whether the table of the query does not exist.
pub(super) fn is_missing_table(error: &Error) -> bool {
    code(error).is_some_and(|(state, number)| state == "42P01" || number == 1146)
}

/// Whether another client created the same thing at the same time.
pub(super) fn is_already_exists(error: &Error) -> bool {
    code(error).is_some_and(|(state, number)| {
        matches!(state.as_str(), "23505" | "42P07" | "42710") || matches!(number, 1050 | 1061)
    })
}

const SECRET: &str = "cannot be spoken to in secret: see tls, ca, cert and key in its URL";

/// A restore of the cluster's own backup needs an empty place.
const RESTORE: &str = "restore the database from a backup with its own tools";

/// Describes an error and its fix. `place` names what is stored there, and its URL without a password.
pub fn explain(place: &str, error: &Error) -> RegistryError {
    use RegistryError::{Fatal, Refused, Unavailable};
    let say = |what: &str| format!("{place} {what} ({error})");
    let Some((state, number)) = code(error) else {
        return match error {
            Error::Tls(_) => Refused(say(SECRET)),
            // The error of an untrusted certificate.
            Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => Refused(say(SECRET)),
            Error::Configuration(_) => Refused(say("cannot be used with these settings: mend its URL")),
            Error::Io(_) | Error::Protocol(_) | Error::WorkerCrashed => Unavailable(say(
                "cannot be reached: see whether the server runs and this host may speak to it",
            )),
            Error::RowNotFound => Fatal(say(&format!("has lost its counter: {RESTORE}"))),
            _ => Fatal(say(&format!("holds what evenkeel did not write: {RESTORE}"))),
        };
    };
    match (state.as_str(), number) {
        _ if state.starts_with("28") => Refused(say("does not know this user or password: mend its URL")),
        (_, 1044 | 1045 | 1698) => Refused(say("does not know this user or password: mend its URL")),
        ("3D000", _) | (_, 1049) => Refused(say("has no such database: create it")),
        ("42501" | "3F000", _) | (_, 1142 | 1143 | 1227 | 1370) => {
            Refused(say("does not let this user do that: see its rights in docs/engines.md"))
        }
        ("42P01", _) | (_, 1146) => Fatal(say(&format!("has lost a table: {RESTORE}"))),
        ("25006", _) | (_, 1290 | 1792 | 1836) => {
            Unavailable(say("is read-only here: point the URL at the server that is written to"))
        }
        ("53300", _) => Unavailable(say(
            "takes no more connections: each node has two, so raise max_connections of the server to twice the number of nodes \
             and some more, or put PgBouncer in transaction mode before it and write ?notify=off, with which each has one",
        )),
        (_, 1040 | 1203 | 1226) => Unavailable(say(
            "takes no more connections: each node has one, so raise max_connections of the server, or max_user_connections \
             of the user, above the number of nodes",
        )),
        _ if state.starts_with("53") || matches!(number, 1021 | 1041 | 1114) => {
            Unavailable(say("has no room left: free disk or memory of the server"))
        }
        (_, 1665) => Refused(say("writes its binary log by statement: set binlog_format to ROW or MIXED")),
        _ => Unavailable(say("did not do what it was asked")),
    }
}
