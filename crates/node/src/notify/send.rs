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
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::NotifyChannel;
use super::message::Message;
use super::shape::ShapedRequest;
use super::webhook::Webhook;
use crate::clock;

/// How often a program is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The most bytes of an answer that are read.
const ANSWER_MAX: u64 = 64 * 1024;
/// The fewest bytes of a part of an address that may be a secret; shorter ones are words.
const SECRET_PART_MIN: usize = 12;

/// Sends a message once. An error is a text.
pub(super) fn send(means: &NotifyChannel, message: &Message, timeout: Duration) -> Result<(), String> {
    match means {
        NotifyChannel::Webhook(hook) => post(hook, message, timeout, trusted),
        NotifyChannel::Command(argv) => start(argv, message, timeout),
        NotifyChannel::Email(email) => email.send(message, timeout),
    }
}

/// The certificates that this host trusts.
fn trusted() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// Posts it; `roots` are needed only for TLS. An error has neither the address nor the secret.
pub(super) fn post(
    hook: &Webhook,
    message: &Message,
    timeout: Duration,
    roots: impl FnOnce() -> Vec<CertificateDer<'static>>,
) -> Result<(), String> {
    let secret = hook.read_secret()?;
    let request = hook.shape().request(hook.url(), secret.as_deref(), message, clock::now().wall);
    exchange(&request, timeout, roots)
        .and_then(|(status, answer)| hook.shape().judge(status, &answer))
        .map_err(|why| redacted(why, &request.url, secret.as_deref()))
}

/// Sends a request and reads the answer: its status and its text.
fn exchange(
    request: &ShapedRequest,
    timeout: Duration,
    roots: impl FnOnce() -> Vec<CertificateDer<'static>>,
) -> Result<(u16, String), String> {
    let roots = if request.url.starts_with("https:") { roots() } else { Vec::new() };
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
    let post = agent.post(&request.url).header("user-agent", concat!("evenkeel/", env!("CARGO_PKG_VERSION")));
    let post = request.headers.iter().fold(post, |post, (name, value)| post.header(*name, value));
    let mut answer = post.send(request.body.as_slice()).map_err(|e| e.to_string())?;
    // Where the text matters, one that cannot be read is judged as one that says nothing.
    let text = answer.body_mut().with_config().limit(ANSWER_MAX).read_to_vec().unwrap_or_default();
    Ok((answer.status().as_u16(), String::from_utf8_lossy(&text).into_owned()))
}

/// A text without the secret and the parts of the address: a receiver may repeat them in its answer.
fn redacted(text: String, url: &str, secret: Option<&str>) -> String {
    let rest = url.split_once("://").and_then(|(_, rest)| rest.split_once(['/', '?']));
    let parts = rest.map_or("", |(_, rest)| rest).split(['/', '?', '&']);
    let values = parts.map(|part| part.split_once('=').map_or(part, |(_, value)| value));
    let secrets = secret.into_iter().chain(values.filter(|part| part.len() >= SECRET_PART_MIN));
    secrets.fold(text, |text, secret| text.replace(secret, "…"))
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
