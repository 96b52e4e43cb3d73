//! Debian's packages of the engines: only what is missing, only as root, and without starting a service.

use super::kinds::EngineKind;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What Debian's packages ask before they start a service, and the answer that forbids it.
const POLICY: &str = "/usr/sbin/policy-rc.d";
const FORBID: &str =
    "#!/bin/sh\n# Written by `cargo xtask engines install`, for as long as it runs.\nexit 101\n";

/// Programs that are not engines, each with its package: `promtool` checks metrics and the rules for alerts.
const TOOLS: [(&str, &str); 1] = [("promtool", "prometheus")];

/// Installs the engines that are missing.
pub(super) fn install(kinds: &[&'static EngineKind]) -> Result<()> {
    let missing = kinds.iter().filter(|kind| (kind.program)().is_none());
    install_packages(missing.map(|kind| kind.package).collect(), "engine")
}

/// Installs the other programs that tests use, where they are missing.
pub(super) fn install_tools() -> Result<()> {
    let missing = TOOLS.iter().filter(|(program, _)| super::launch::on_path(program).is_none());
    install_packages(missing.map(|(_, package)| *package).collect(), "tool")
}

/// Installs Debian's packages; `kind` is what they are.
fn install_packages(mut packages: Vec<&'static str>, kind: &str) -> Result<()> {
    if packages.is_empty() {
        println!("every {kind} is installed");
        return Ok(());
    }
    packages.dedup();
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_root() || super::launch::on_path("apt-get").is_none() {
        bail!("these are not installed: {}; as root on Debian this gets them: {line}", packages.join(", "));
    }
    println!("installing Debian's {}, which will not be started as services", packages.join(", "));
    let policy = ServicePolicy::forbid()?;
    let got = apt(&line).or_else(|_| apt("apt-get update").and_then(|()| apt(&line)));
    policy.restore()?;
    got
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
}

fn apt(line: &str) -> Result<()> {
    println!("$ {line}");
    let mut words = line.split(' ');
    let out = Command::new(words.next().unwrap_or_default())
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("apt-get cannot be started")?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        bail!("this failed: {line}\n{}", said.trim_end());
    }
    Ok(())
}

/// The rule for starting services, ours while this lives and as it was afterwards.
struct ServicePolicy(Option<PathBuf>);

impl ServicePolicy {
    fn forbid() -> Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = Path::new(POLICY);
        let kept = path.with_extension("d.kept");
        // An install that was cut short left its own rule, and the one before beside it.
        if std::fs::read_to_string(path).is_ok_and(|text| text == FORBID) {
            std::fs::remove_file(path).with_context(|| format!("{POLICY} cannot be removed"))?;
            if kept.exists() {
                std::fs::rename(&kept, path).with_context(|| format!("{POLICY} cannot be restored"))?;
            }
        }
        let before = path.exists().then_some(kept);
        if let Some(kept) = &before {
            std::fs::rename(path, kept).with_context(|| format!("{POLICY} cannot be set aside"))?;
        }
        let policy = Self(before);
        std::fs::write(path, FORBID).with_context(|| format!("{POLICY} cannot be written"))?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
        Ok(policy)
    }

    fn restore(&self) -> Result<()> {
        let path = Path::new(POLICY);
        match &self.0 {
            Some(kept) if kept.exists() => std::fs::rename(kept, path),
            Some(_) => Ok(()),
            None if path.exists() => std::fs::remove_file(path),
            None => Ok(()),
        }
        .with_context(|| format!("{POLICY} cannot be restored"))
    }
}

impl Drop for ServicePolicy {
    fn drop(&mut self) {
        // Nothing is left to do after `restore`, except where it was never reached.
        if let Err(error) = self.restore() {
            eprintln!("xtask: {error:#}");
        }
    }
}
