//! The text form of a backup: a header line, a line per entry, and a trailer line with a checksum that reveals an
//! incomplete file.

use std::fmt::Write;

use evenkeel_core::backup::EntryMap;
use evenkeel_core::ids::Member;
use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Revision, Value};
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::BackupError;

/// The version of the text form.
const VERSION: u32 = 1;

/// The registry data of a cluster at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// What the backup is of.
    pub header: BackupHeader,
    /// All copied entries, as they were read.
    pub(super) entries: EntryMap,
}

/// The source of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupHeader {
    /// The layout of the tree.
    pub layout: u32,
    /// The cluster's id.
    pub cluster: String,
    /// The engine's name.
    pub engine: String,
    /// The registry's URL, without its password.
    pub registry: String,
    /// When the backup was taken, by the clock of that host.
    pub taken: Wall,
    /// The generation of fencing tokens.
    pub generation: u16,
    /// The first and the last revision at which entries were read; equal when there were no writes meanwhile.
    pub revisions: (Revision, Revision),
    /// The members at that time. Members are not restored.
    pub members: Vec<Member>,
    /// The registry to which the cluster had been moved, if it had.
    pub moved: Option<String>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct HeaderLine {
    evenkeel_backup: u32,
    layout: u32,
    cluster: String,
    engine: String,
    registry: String,
    /// For people to read.
    taken: String,
    taken_ms: i64,
    generation: u16,
    first_revision: u64,
    last_revision: u64,
    entries: usize,
    members: Vec<Member>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moved_to: Option<String>,
}

/// A line for an entry: its value as text where it is UTF-8, byte by byte where it is not.
#[derive(Serialize, Deserialize)]
struct EntryLine {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

/// The trailer line.
#[derive(Serialize, Deserialize)]
struct TrailerLine {
    end: usize,
    /// The checksum of all lines before this one.
    sha256: String,
}

impl Backup {
    /// The backup as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = self.body();
        let last = TrailerLine { end: self.entries.len(), sha256: sum(text.as_bytes()) };
        text.push_str(&json_line(&last));
        text
    }

    /// The checksum that identifies the backup.
    #[must_use]
    pub fn checksum(&self) -> String {
        sum(self.body().as_bytes()).chars().take(16).collect()
    }

    fn body(&self) -> String {
        let BackupHeader { layout, generation, revisions, .. } = self.header;
        let first = HeaderLine {
            evenkeel_backup: VERSION,
            layout,
            cluster: self.header.cluster.clone(),
            engine: self.header.engine.clone(),
            registry: self.header.registry.clone(),
            taken: self.header.taken.to_string(),
            taken_ms: self.header.taken.0,
            generation,
            first_revision: revisions.0.0,
            last_revision: revisions.1.0,
            entries: self.entries.len(),
            members: self.header.members.clone(),
            moved_to: self.header.moved.clone(),
        };
        let mut text = json_line(&first);
        for (key, value) in &self.entries {
            let (as_text, hex) = match std::str::from_utf8(value) {
                Ok(utf8) => (Some(utf8.to_owned()), None),
                Err(_) => (None, Some(to_hex(value))),
            };
            text.push_str(&json_line(&EntryLine { key: key.to_string(), text: as_text, hex }));
        }
        text
    }

    /// Parses a backup.
    ///
    /// # Errors
    /// The text is no backup, has a later version, or is incomplete.
    pub fn from_text(text: &[u8]) -> Result<Self, BackupError> {
        let invalid = |what: &str| BackupError::Invalid(format!("the backup {what}"));
        let broken = || invalid("is not whole or was changed: take another copy of it");
        let text = std::str::from_utf8(text).map_err(|_| broken())?;
        let first = text.split('\n').next().unwrap_or_default();
        let first: HeaderLine = serde_json::from_str(first)
            .map_err(|_| invalid("is none: give a file that `evenkeel cluster backup` has written"))?;
        if first.evenkeel_backup > VERSION {
            return Err(invalid(&format!(
                "has the form {}, this program knows {VERSION}: use a newer program",
                first.evenkeel_backup
            )));
        }
        let whole = text.strip_suffix('\n').ok_or_else(broken)?;
        let (body, last) = whole.rsplit_once('\n').ok_or_else(broken)?;
        let last: TrailerLine = serde_json::from_str(last).map_err(|_| broken())?;
        if last.sha256 != sum(format!("{body}\n").as_bytes()) {
            return Err(broken());
        }
        let mut entries = EntryMap::new();
        for line in body.split('\n').skip(1) {
            let (key, value) = entry(line).ok_or_else(broken)?;
            if entries.insert(key, value).is_some() {
                return Err(broken());
            }
        }
        if entries.len() != last.end || entries.len() != first.entries {
            return Err(broken());
        }
        let header = BackupHeader {
            layout: first.layout,
            cluster: first.cluster,
            engine: first.engine,
            registry: first.registry,
            taken: Wall(first.taken_ms),
            generation: first.generation,
            revisions: (Revision(first.first_revision), Revision(first.last_revision)),
            members: first.members,
            moved: first.moved_to,
        };
        Ok(Self { header, entries })
    }
}

fn json_line(of: &impl Serialize) -> String {
    // Texts and numbers, which JSON can always express.
    let mut line = serde_json::to_string(of).expect("lines are plain data");
    line.push('\n');
    line
}

fn entry(line: &str) -> Option<(Key, Value)> {
    let EntryLine { key, text, hex } = serde_json::from_str(line).ok()?;
    let value = match (text, hex) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(hex)) => from_hex(&hex)?,
        _ => return None,
    };
    Some((Key::from_stored(key), value.into()))
}

fn sum(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        // Writing into a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|it| it.len() == 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup() -> Backup {
        let header = BackupHeader {
            layout: 1,
            cluster: "c".into(),
            engine: "sqlite".into(),
            registry: "sqlite:r.db".into(),
            taken: Wall(1_763_749_200_000),
            generation: 3,
            revisions: (Revision(7), Revision(9)),
            members: vec!["a@1".parse().unwrap()],
            moved: None,
        };
        let entries = [
            ("job/j/spec", &b"{\"live\":\"line\\nbreak \\u0000\"}"[..]),
            ("run/j/claim", &b"\xff\x00\n"[..]),
            ("strange\nkey \u{1F600}", &b""[..]),
        ];
        let entries = entries.map(|(key, value)| (Key::from_stored(key), Value::from(value)));
        Backup { header, entries: EntryMap::from(entries) }
    }

    #[test]
    fn a_backup_is_read_back_as_it_was_written() {
        let text = backup().to_text();
        assert_eq!(text.lines().count(), 5, "{text}");
        let first = "{\"evenkeel_backup\":1,\"layout\":1,\"cluster\":\"c\",\"engine\":\"sqlite\",";
        assert!(text.starts_with(first), "{text}");
        assert_eq!(Backup::from_text(text.as_bytes()), Ok(backup()));
    }

    #[test]
    fn a_backup_that_is_not_whole_is_refused_wherever_it_ends() {
        let text = backup().to_text();
        for end in 0..text.len() {
            let cut = Backup::from_text(&text.as_bytes()[..end]);
            assert!(matches!(cut, Err(BackupError::Invalid(_))), "cut at {end}");
        }
        let lines: Vec<&str> = text.lines().collect();
        for without in 1..lines.len() {
            let mut fewer = lines.clone();
            fewer.remove(without);
            let fewer = format!("{}\n", fewer.join("\n"));
            assert!(Backup::from_text(fewer.as_bytes()).is_err(), "without line {without}");
        }
    }

    #[test]
    fn a_backup_that_was_changed_is_refused() {
        let text = backup().to_text();
        for at in (0..text.len()).step_by(7) {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            assert!(Backup::from_text(&changed).is_err(), "changed at {at}");
        }
    }

    #[test]
    fn what_is_none_and_what_is_of_later_is_told_so() {
        let why = |text: &str| Backup::from_text(text.as_bytes()).unwrap_err().to_string();
        assert!(why("hello\n").contains("is none"));
        assert!(why("").contains("is none"));
        let later = backup().to_text().replace("\"evenkeel_backup\":1", "\"evenkeel_backup\":2");
        assert!(why(&later).contains("newer program"), "{}", why(&later));
    }
}
