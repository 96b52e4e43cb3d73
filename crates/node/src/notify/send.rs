//! Sends a message once: by a request, a command, or a mail.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evenkeel_core::time::{Millis, Mono};
use rustix::process::{Pid, Signal, kill_process_group};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::NotifyChannel;
use super::message::Message;
use crate::clock;

/// How often a program is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Checks whether an address can be posted to.
pub(super) fn check(url: &str) -> Result<(), String> {
    let spoken = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let uri = url.parse::<Uri>().ok().filter(spoken);
    uri.map(|_| ())
        .ok_or_else(|| format!("webhook {url:?} is no address: write http://HOST:PORT/PATH, or https://…"))
}

/// The host of an address; the rest may be a secret.
pub(super) fn host(url: &str) -> String {
    let uri = url.parse::<Uri>().ok();
    let usual = if url.starts_with("https:") { 443 } else { 80 };
    let host = uri.as_ref().and_then(|uri| Some((uri.host()?, uri.port_u16().unwrap_or(usual))));
    host.map_or_else(String::new, |(host, port)| format!("{host}:{port}"))
}

/// Sends a message once. An error is a text.
pub(super) fn send(means: &NotifyChannel, message: &Message, timeout: Duration) -> Result<(), String> {
    match means {
        NotifyChannel::Webhook(url) => post(url, message, timeout, trusted),
        NotifyChannel::Command(argv) => start(argv, message, timeout),
        NotifyChannel::Email(email) => email.send(message, timeout),
    }
}

/// The certificates that this host trusts.
fn trusted() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// Posts it; `roots` are needed only for TLS.
pub(super) fn post(
    url: &str,
    message: &Message,
    timeout: Duration,
    roots: impl FnOnce() -> Vec<CertificateDer<'static>>,
) -> Result<(), String> {
    let roots = if url.starts_with("https:") { roots() } else { Vec::new() };
    let roots = roots.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_global(Some(timeout))
        .max_redirects(0)
        .proxy(None)
        .build();
    let agent: Agent = config.into();
    let request = agent
        .post(url)
        .header("content-type", "application/json")
        .header("user-agent", concat!("evenkeel/", env!("CARGO_PKG_VERSION")));
    let status = request.send(message.json()).map_err(|e| e.to_string())?.status();
    if status.is_success() { Ok(()) } else { Err(format!("it answers with status {}", status.as_u16())) }
}

fn start(argv: &[String], message: &Message, timeout: Duration) -> Result<(), String> {
    let (program, arguments) = argv.split_first().ok_or("the command is empty")?;
    let mut command = Command::new(program);
    crate::guard::withhold_own(&mut command);
    command.args(arguments).envs(message.environment()).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("it cannot be started: {e}"))?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read its input chose not to.
        let _ = input.write_all(&message.json());
    }
    let until = clock::now().mono + Millis(i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX / 2));
    match wait(&mut child, until).map_err(|e| e.to_string())? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("it ended with {status}")),
        None => {
            end(&mut child);
            Err(format!("it did not end within {timeout:?}"))
        }
    }
}

fn wait(child: &mut Child, until: Mono) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if clock::now().mono >= until {
            return Ok(None);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Kills the program and whatever it started.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}
