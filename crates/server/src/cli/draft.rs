//! A text that a person edits: a private file with notes on top, which is kept where something fails.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::exit::CliError;
use crate::request;

/// What a line of a note begins with. To TOML it is a comment.
pub(super) const NOTE: &str = "#! ";

/// A file in a temporary folder of its own, which only its user can read: a file of defaults of another user, which counts
/// for all job files of a folder, cannot be beside it.
pub(super) struct Draft {
    folder: PathBuf,
    path: PathBuf,
    /// What it held at first.
    original: String,
}

impl Draft {
    /// A new file with this text.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn create(text: &str) -> Result<Self, CliError> {
        let folder = std::env::temp_dir().join(format!("evenkeel-{}", request::fresh()?));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|e| CliError::unwritable(folder.display(), e))?;
        let path = folder.join("job.toml");
        let open = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
        open.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|e| CliError::unwritable(path.display(), e))?;
        Ok(Self { folder, path, original: text.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file by a text with a note above it, a line each. `LINE: ` at the beginning of a line of the note is a
    /// line of the text, and becomes that of the file. Returns all that is written.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, note: &str, text: &str) -> Result<String, CliError> {
        let shift = note.lines().count();
        let note: String = note.lines().map(|line| format!("{NOTE}{}\n", moved(line, shift))).collect();
        let whole = note + text;
        // An editor may have put another file in its place, with its mode.
        fs::write(&self.path, &whole).map_err(|e| CliError::unwritable(self.path.display(), e))?;
        Ok(whole)
    }

    /// All that the file holds, and the same without the note.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(&self) -> Result<(String, String), CliError> {
        let whole = fs::read_to_string(&self.path)
            .map_err(|e| CliError::unreadable_input(self.path.display(), &e))?;
        let text = without_note(&whole);
        Ok((whole, text))
    }

    /// A message about this file, whose lines name no file.
    pub(super) fn relative(&self, message: &str) -> String {
        let prefix = format!("{}:", self.path.display());
        let line = |line: &str| line.strip_prefix(&prefix).unwrap_or(line).to_owned();
        message.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Removes the file, with what an editor left beside it. A folder that is gone, or stays, does no harm.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }

    /// The same failure, which says where the text is; nothing is kept of a text that was not edited.
    pub(super) fn kept(&self, failure: CliError) -> CliError {
        let is_edited = self.read().map_or(true, |(_, text)| text.trim() != self.original.trim());
        if !is_edited {
            self.remove();
            return failure;
        }
        let path = self.path.display();
        let text = format!(
            "{failure}\nthe edited text is kept in {path}: look at the job as it is now, then declare it with \
             `evenkeel job apply -f {path}`, or delete the file"
        );
        CliError::new(failure.exit, text)
    }
}

/// A line of a note whose number of a line counts the note, too.
fn moved(line: &str, shift: usize) -> String {
    let number = line.split_once(':').and_then(|(number, rest)| Some((number.parse::<usize>().ok()?, rest)));
    match number {
        Some((number, rest)) => format!("line {}:{rest}", number + shift),
        None => line.to_owned(),
    }
}

/// A text without the lines of a note at its beginning.
fn without_note(text: &str) -> String {
    let mut lines = text.lines().skip_while(|line| line.starts_with(NOTE.trim_end()));
    let mut rest = String::new();
    lines.by_ref().for_each(|line| {
        rest.push_str(line);
        rest.push('\n');
    });
    rest
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::exit::ExitKind;

    #[test]
    fn a_note_counts_its_own_lines_and_is_no_part_of_the_text() {
        let draft = Draft::create("a = 1\nb = 2\n").expect("a file");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(draft.path()), mode(&draft.folder)), (0o600, 0o700));
        let message = format!("{}:2: b is 3\nand more", draft.path().display());
        let whole = draft.write(&draft.relative(&message), "a = 1\nb = 2\n").expect("written");
        assert_eq!(whole, "#! line 4: b is 3\n#! and more\na = 1\nb = 2\n");
        assert_eq!(draft.read().expect("read"), (whole, "a = 1\nb = 2\n".to_owned()));
        draft.remove();
        assert!(!draft.folder.exists());
    }

    #[test]
    fn only_an_edited_text_is_kept_after_a_failure() {
        let failure = || CliError::new(ExitKind::Conflict, "stale");
        let draft = Draft::create("a = 1\n").expect("a file");
        draft.write("a hint", "a = 1\n").expect("written");
        assert_eq!(draft.kept(failure()).message, "stale");
        assert!(!draft.path().exists());
        let draft = Draft::create("a = 1\n").expect("a file");
        draft.write("a hint", "a = 2\n").expect("written");
        let kept = draft.kept(failure());
        assert!(
            kept.exit == ExitKind::Conflict && kept.message.contains(&draft.path().display().to_string())
        );
        assert!(draft.path().exists());
        draft.remove();
    }
}
