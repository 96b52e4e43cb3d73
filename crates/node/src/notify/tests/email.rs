//! E-mail, against a small server on loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::*;

/// The lines that the server received in a conversation, the mail among them.
type SmtpTranscript = Vec<String>;

/// A server that answers with `verdict` where a line begins with `at`, and normally otherwise; only the first
/// conversations, as many as there are verdicts.
fn server(verdicts: &[(&'static str, &'static str)]) -> (String, Receiver<SmtpTranscript>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("smtp://{}", socket.local_addr().unwrap());
    let (heard, talks) = channel();
    let verdicts = verdicts.to_vec();
    thread::spawn(move || {
        let mut verdicts = verdicts.into_iter();
        for stream in socket.incoming() {
            let said = talk(stream.unwrap(), verdicts.next().unwrap_or_default());
            if heard.send(said).is_err() {
                return;
            }
        }
    });
    (address, talks)
}

fn talk(stream: TcpStream, (at, verdict): (&str, &str)) -> SmtpTranscript {
    let mut reader = BufReader::new(stream);
    let mut said = Vec::new();
    let answer = |reader: &mut BufReader<TcpStream>, line: &str, usual: &str| {
        let text = if !at.is_empty() && line.starts_with(at) { verdict } else { usual };
        reader.get_mut().write_all(format!("{text}\r\n").as_bytes()).is_ok()
    };
    let mut go_on = answer(&mut reader, "greeting", "220 mail.test");
    let mut in_mail = false;
    while go_on {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            break;
        }
        let line = line.trim_end().to_owned();
        said.push(line.clone());
        go_on = match line.as_str() {
            "." => {
                in_mail = false;
                answer(&mut reader, "mail", "250 taken")
            }
            _ if in_mail => true,
            "DATA" => {
                in_mail = true;
                answer(&mut reader, &line, "354 go on")
            }
            "QUIT" => {
                answer(&mut reader, &line, "221 bye");
                false
            }
            line if line.starts_with("EHLO") => answer(&mut reader, line, "250-mail.test\r\n250 AUTH PLAIN"),
            line if line.starts_with("AUTH") => answer(&mut reader, line, "235 welcome"),
            line => answer(&mut reader, line, "250 ok"),
        };
    }
    said
}

fn email(server: &str, login: Option<(String, SecretSource)>) -> Notifier {
    let to = vec!["ops@example.org".to_owned(), "Boss <boss@example.org>".to_owned()];
    let email = Email::new(to, "evenkeel@example.org".into(), server, login).unwrap();
    made(&["alarm"], NotifyChannel::Email(Box::new(email)))
}

/// proves: S1-26
#[tokio::test]
async fn a_mail_goes_to_all_addresses_and_is_tried_again_when_the_server_is_busy() {
    let (address, talks) = server(&[("MAIL", "451 come again"), ("mail", "452 no room"), ("", "")]);
    let mut telling = NotifierFixture::new(vec![email(&address, None)]).await;
    telling.notify(1_000, &ALARM);
    for _ in 0..2 {
        talks.recv_timeout(PATIENCE).unwrap();
    }
    let said = talks.recv_timeout(PATIENCE).unwrap();
    for line in [
        "MAIL FROM:<evenkeel@example.org>",
        "RCPT TO:<ops@example.org>",
        "RCPT TO:<boss@example.org>",
        "Subject: [evenkeel] alarm a",
        "alarm: holds 11 jobs, threshold is 10",
        "node: a",
    ] {
        assert!(said.iter().any(|told| told.starts_with(line)), "{line}: {said:?}");
    }
    assert!(!said.iter().any(|told| told.starts_with("AUTH")), "nobody logs in: {said:?}");
}

#[tokio::test]
async fn a_login_is_made_and_its_password_is_told_to_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "tide-and-keel\n").unwrap();
    let login = || Some(("evenkeel".to_owned(), SecretSource::File(file.clone())));
    let (address, talks) = server(&[("", "")]);
    let mut telling = NotifierFixture::new(vec![email(&address, login())]).await;
    telling.notify(1_000, &ALARM);
    let said = talks.recv_timeout(PATIENCE).unwrap();
    // The base64 of NUL evenkeel NUL tide-and-keel.
    assert!(said.contains(&"AUTH PLAIN AGV2ZW5rZWVsAHRpZGUtYW5kLWtlZWw=".to_owned()), "{said:?}");

    let (address, _talks) = server(&[("AUTH", "535 tide-and-keel is wrong"); 3]);
    let notifier = email(&address, login());
    assert!(!format!("{notifier:?}").contains("tide-and-keel"));
    let mut telling = NotifierFixture::new(vec![notifier]).await;
    telling.notify(1_000, &ALARM);
    let complaint = telling.failure_event().await.text;
    assert!(complaint.contains("is wrong") && !complaint.contains("tide-and-keel"), "{complaint}");

    std::fs::remove_file(&file).unwrap();
    let mut telling = NotifierFixture::new(vec![email(&address, login())]).await;
    telling.notify(1_000, &ALARM);
    let complaint = telling.failure_event().await.text;
    assert!(complaint.contains("the password file"), "{complaint}");
}

#[tokio::test]
async fn a_server_that_refuses_hangs_or_is_not_there_is_complained_of() {
    let (refusing, _talks) = server(&[("RCPT", "550 no such user"); 3]);
    let (closed, _more) = server(&[("greeting", "554 not for you"); 3]);
    // Takes connections and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!("smtp://{}", mute.local_addr().unwrap());
    let unused = "smtp://127.0.0.1:1".to_owned();
    for (address, says) in [
        (refusing, "no such user"),
        (closed, "not for you"),
        (hanging, "did not answer in time"),
        (unused, "refused"),
    ] {
        let mut notifier = email(&address, None);
        if says == "did not answer in time" {
            notifier.timeout = Duration::from_millis(300);
        }
        let mut telling = NotifierFixture::new(vec![notifier]).await;
        telling.notify(1_000, &ALARM);
        let complaint = telling.failure_event().await.text;
        let server = address.trim_start_matches("smtp://");
        assert!(complaint.starts_with(&format!("email by {server} did not get alarm of a")), "{complaint}");
        assert!(complaint.contains(says), "{says}: {complaint}");
    }
}

#[test]
fn a_password_goes_only_over_tls_to_another_host() {
    let email = |server: &str, login: bool| {
        let login = login.then(|| ("u".to_owned(), SecretSource::Variable("EVENKEEL_NONE".into())));
        let email = Email::new(vec!["a@example.org".into()], "a@example.org".into(), server, login).unwrap();
        email.security()
    };
    assert_eq!(email("smtp://127.0.0.1:25", true), "None");
    assert_eq!(email("smtp://localhost", true), "None");
    assert_eq!(email("smtp://mail.example.org", false), "Opportunistic");
    assert_eq!(email("smtp://mail.example.org", true), "Required");
    assert_eq!(email("smtps://mail.example.org", true), "Wrapper");
    assert_eq!(email("smtps://localhost", false), "Wrapper");
}
