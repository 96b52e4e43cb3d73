//! Reads the values of single settings.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel::Network;
use evenkeel_core::time::{SpanLimits, TimeSpan};

use crate::exit::CliError;

pub(super) fn needed<T>(value: Option<T>, what: &str) -> Result<T, CliError> {
    value.ok_or_else(|| CliError::usage(format!("say {what}")))
}

pub(super) fn at_least_one(flag: &str, value: Option<u32>, default: u32) -> Result<u32, CliError> {
    match value.unwrap_or(default) {
        0 => Err(CliError::usage(format!("{flag} is 0: it must be at least 1"))),
        n => Ok(n),
    }
}

/// One of a few words, or the default.
pub(super) fn choice<T: Copy, const N: usize>(
    flag: &str,
    word: Option<&str>,
    words: [(&str, T); N],
    default: T,
) -> Result<T, CliError> {
    let Some(word) = word else { return Ok(default) };
    words.into_iter().find(|(name, _)| *name == word).map(|(_, value)| value).ok_or_else(|| {
        let names = words.map(|(name, _)| name);
        let (last, first) = names.split_last().unwrap_or((&"", &[]));
        CliError::usage(format!("{flag} is {word:?}: write {} or {last}", first.join(", ")))
    })
}

pub(super) fn secrets(folder: PathBuf) -> Result<PathBuf, CliError> {
    let shown = folder.display();
    let meta = std::fs::metadata(&folder).map_err(|e| {
        CliError::usage(format!(
            "--secrets {shown}: cannot be read ({e}): make the folder with `mkdir -m 700 {shown}`, or leave the flag out"
        ))
    })?;
    if !meta.is_dir() {
        return Err(CliError::usage(format!(
            "--secrets {shown}: it is no folder: name one that holds a file for each secret"
        )));
    }
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o002 != 0 {
        return Err(CliError::usage(format!(
            "--secrets {shown}: everybody on this host may put files there (mode {mode:03o}): chmod 700 {shown}"
        )));
    }
    Ok(folder)
}

/// A host name or an address without a port, as in a request. Names are compared whole: a caller that may choose a part
/// of a name could point it at this node.
pub(super) fn allowed(text: &str) -> Result<String, CliError> {
    let host = text.trim().trim_end_matches('.');
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if let Ok(IpAddr::V6(ip)) = bare.parse() {
        return Ok(format!("[{ip}]"));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    match !host.is_empty() && host.chars().all(is_name) {
        true => Ok(host.to_owned()),
        false => Err(CliError::usage(format!(
            "--allowed-host is {text:?}: write a host name without port or wildcard, like jobs.example.org"
        ))),
    }
}

/// The networks of a flag.
pub(super) fn networks(flag: &str, texts: &[String]) -> Result<Vec<Network>, CliError> {
    let networks = texts.iter().map(|text| text.trim().parse());
    networks.collect::<Result<_, _>>().map_err(|e| CliError::usage(format!("{flag}: {e}")))
}

/// An origin as browsers send it: scheme, host and, if it is not the usual one, port.
pub(super) fn origin(text: &str) -> Result<String, CliError> {
    let text = text.trim();
    let named = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:[]".contains(c);
    match named.is_some_and(|named| !named.is_empty() && named.chars().all(is_part)) {
        true => Ok(text.to_owned()),
        false => Err(CliError::usage(format!(
            "--allowed-origin is {text:?}: write https://HOST or https://HOST:PORT in lower case, without a path"
        ))),
    }
}

/// `HOST:PORT`, where the host is a name or an address.
pub(super) fn advertised(text: &str) -> Result<(), CliError> {
    let parts = text.rsplit_once(':').filter(|(host, _)| {
        let name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        let address = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        !host.is_empty() && (host.chars().all(name) || address.is_some_and(|a| a.parse::<IpAddr>().is_ok()))
    });
    match parts.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(port) if port != 0 => Ok(()),
        _ => Err(CliError::usage(format!("--advertise is {text:?}: write IP:PORT, like 10.0.0.7:7700"))),
    }
}

/// Parses the span of a flag.
pub(super) fn span(flag: &str, text: &str, limits: SpanLimits) -> Result<Duration, CliError> {
    TimeSpan::parse(flag, text, limits).map(Duration::from).map_err(|e| CliError::usage(e.to_string()))
}
