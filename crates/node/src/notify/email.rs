//! E-mail notifications, handed to a mail server.

use std::io;
use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message as Mail};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{SmtpTransport, Transport};
use ureq::http::Uri;

use super::message::Message;
use super::secret_source::SecretSource;

/// The most characters of a subject.
const SUBJECT_MAX: usize = 200;

/// The addresses of a mail, and the server that delivers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    to: Vec<String>,
    from: String,
    server: MailServer,
    login: Option<(String, SecretSource)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MailServer {
    host: String,
    port: u16,
    /// TLS from the first byte on.
    wrapped: bool,
}

impl Email {
    /// Sends mails from one address to others by a server, written `smtps://HOST[:PORT]` or `smtp://HOST[:PORT]`.
    ///
    /// # Errors
    /// An address, or the server, is invalid; the text says the fix.
    pub fn new(
        to: Vec<String>,
        from: String,
        server: &str,
        login: Option<(String, SecretSource)>,
    ) -> Result<Self, String> {
        if to.is_empty() {
            return Err("email: say to = [\"somebody@example.org\", …]".to_owned());
        }
        to.iter().chain([&from]).try_for_each(|address| mailbox(address).map(|_| ()))?;
        Ok(Self { to, from, server: MailServer::read(server)?, login })
    }

    /// The server's name, for the log.
    pub(super) fn host(&self) -> String {
        format!("{}:{}", self.server.host, self.server.port)
    }

    /// Hands a mail to the server once. An error is a text without the password.
    pub(super) fn send(&self, message: &Message, timeout: Duration) -> Result<(), String> {
        let mail = self.mail(message)?;
        let transport = SmtpTransport::builder_dangerous(&self.server.host)
            .port(self.server.port)
            .tls(self.tls()?)
            .timeout(Some(timeout));
        let transport = match &self.login {
            Some((user, password)) => {
                transport.credentials(Credentials::new(user.clone(), password.read("password")?))
            }
            None => transport,
        };
        transport.build().send(&mail).map(|_| ()).map_err(|e| self.wrong(&e))
    }

    fn wrong(&self, error: &lettre::transport::smtp::Error) -> String {
        let mut text = error.to_string();
        let mut slow = error.is_timeout();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            // The error kinds of a socket's timeout.
            let kind = inner.downcast_ref::<io::Error>().map(io::Error::kind);
            slow |= matches!(kind, Some(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut));
            let inner_text = inner.to_string();
            if !text.contains(&inner_text) {
                text = format!("{text}: {inner_text}");
            }
            cause = inner.source();
        }
        if slow {
            text = format!("it did not answer in time: {text}");
        }
        // A server may repeat the password in its answer.
        let secret = self.login.as_ref().and_then(|(_, password)| password.read("password").ok());
        secret.filter(|secret| !secret.is_empty()).map_or(text.clone(), |secret| text.replace(&secret, "…"))
    }

    /// Plain on this host; else TLS if the server has it, and always if a password is sent.
    fn tls(&self) -> Result<Tls, String> {
        if self.server.is_here() && !self.server.wrapped {
            return Ok(Tls::None);
        }
        let parameters =
            TlsParameters::new(self.server.host.clone()).map_err(|e| format!("TLS cannot be spoken: {e}"))?;
        Ok(match (self.server.wrapped, self.login.is_some()) {
            (true, _) => Tls::Wrapper(parameters),
            (false, true) => Tls::Required(parameters),
            (false, false) => Tls::Opportunistic(parameters),
        })
    }

    /// How the connection is secured, as a word.
    #[cfg(test)]
    pub(super) fn security(&self) -> String {
        format!("{:?}", self.tls().unwrap())
    }

    fn mail(&self, message: &Message) -> Result<Mail, String> {
        let subject: String = message.title().chars().take(SUBJECT_MAX).collect();
        let mut mail = Mail::builder().from(mailbox(&self.from)?).subject(subject).date_now();
        for to in &self.to {
            mail = mail.to(mailbox(to)?);
        }
        if let Some(id) = &message.id {
            // The same for a repeated notice, so that a mailbox keeps one.
            let id: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '.' }).collect();
            mail = mail.message_id(Some(format!("<{id}@{}.evenkeel>", message.node)));
        } else {
            mail = mail.message_id(None);
        }
        mail.header(ContentType::TEXT_PLAIN)
            .body(message.letter())
            .map_err(|e| format!("no mail can be made of it: {e}"))
    }
}

impl MailServer {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("email: server {text:?} is none: write smtps://HOST or smtp://HOST:PORT");
        let uri = text.parse::<Uri>().map_err(|_| wrong())?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(
                "email: give user and password_file or password_env instead of writing them in server"
                    .to_owned(),
            );
        }
        let wrapped = match uri.scheme_str() {
            Some("smtps") => true,
            Some("smtp") => false,
            _ => return Err(wrong()),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if wrapped { 465 } else { 25 });
        Ok(Self { host, port, wrapped })
    }

    fn is_here(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

fn mailbox(text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|_| format!("email: {text:?} is no address: write somebody@example.org"))
}
