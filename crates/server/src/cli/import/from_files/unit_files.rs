//! Reads units of systemd with what stands beside them.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::input::text;
use crate::exit::CliError;
use crate::import::systemd::{self, UnitTexts};

/// The units at a path, and the timers that are meant.
///
/// # Errors
/// A file cannot be read.
pub(super) fn read(path: &Path) -> Result<(UnitTexts, Vec<String>), CliError> {
    if path == Path::new("-") {
        let units = systemd::units_of_cat(&text(path)?);
        let timers = timers(&units);
        return Ok((units, timers));
    }
    let is_folder = fs::metadata(path).map_err(|e| CliError::unreadable(path.display(), e))?.is_dir();
    let folder = if is_folder { path } else { path.parent().unwrap_or(path) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut units = folder_units(folder)?;
    if is_folder {
        let timers = timers(&units);
        return Ok((units, timers));
    }
    let name = file_name(path);
    if !name.ends_with(".timer") {
        let said =
            format!("{}: give a timer, as backup.timer; its service is read beside it", path.display());
        return Err(CliError::invalid(said));
    }
    if !units.contains_key(&name) {
        units.insert(name.clone(), text(path)?);
    }
    Ok((units, vec![name]))
}

fn timers(units: &UnitTexts) -> Vec<String> {
    units.keys().filter(|name| name.ends_with(".timer")).cloned().collect()
}

/// Every timer and service of a folder, each with its drop-ins behind it.
fn folder_units(folder: &Path) -> Result<UnitTexts, CliError> {
    let mut units = UnitTexts::new();
    for path in sorted(folder)? {
        let name = file_name(&path);
        if path.is_file() && (name.ends_with(".timer") || name.ends_with(".service")) {
            let mut unit = text(&path)?;
            let drop_ins = folder.join(format!("{name}.d"));
            if drop_ins.is_dir() {
                for file in sorted(&drop_ins)?.into_iter().filter(|file| file_name(file).ends_with(".conf")) {
                    unit.push('\n');
                    unit.push_str(&text(&file)?);
                }
            }
            units.insert(name, unit);
        }
    }
    Ok(units)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let wrong = |e| CliError::unreadable(folder.display(), e);
    let entries = fs::read_dir(folder).map_err(wrong)?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
