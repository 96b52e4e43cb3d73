//! Sends a message once: by a request, a command, or a mail.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use evenkeel_core::time::{Millis, Mono};
use rustix::process::{Pid, Signal, kill_process_group};
use rustls::pki_types::CertificateDer;

use super::NotifyChannel;
use super::exchange;
use super::message::Message;
use super::webhook::Webhook;
use crate::clock;

/// How often a program is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Sends a message once. An error is a text.
pub(super) fn send(means: &NotifyChannel, message: &Message, timeout: Duration) -> Result<(), String> {
    match means {
        NotifyChannel::Webhook(hook) => post(hook, message, timeout, exchange::trusted),
        NotifyChannel::Command(argv) => start(argv, message, timeout),
        NotifyChannel::Email(email) => email.send(message, timeout),
    }
}

/// Posts it; `roots` are needed only for TLS. An error has neither the address nor the secret.
pub(super) fn post(
    hook: &Webhook,
    message: &Message,
    timeout: Duration,
    roots: impl FnOnce() -> Vec<CertificateDer<'static>>,
) -> Result<(), String> {
    let (secret, shape) = (hook.read_secret()?, hook.shape());
    let request = shape.request(hook.url(), secret.as_deref(), message, clock::now().wall);
    // Before an answer is cut, or a part of a secret could be left; and after, since JSON can write a secret in other ways.
    let (status, answer) = exchange::post(&request, secret.as_deref(), timeout, roots)?;
    let judged = shape.judge(status, &answer);
    judged.map_err(|why| exchange::redacted(why, &request.url, secret.as_deref()))
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
