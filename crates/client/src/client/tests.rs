//! How the client reaches nodes, repeats requests, and what it says where none answers.

use std::io::Write;
use std::net::TcpListener;

use super::*;
use crate::requests::{ClaimQuery, DrainBody, JobListQuery, RunNowBody};

fn no_trust() -> Arc<ClientConfig> {
    ServerTrust::default().client_config().expect("TLS")
}

/// Answers each caller with one of these and hangs up; stops listening after the last. Ends once all are used.
fn answering(answers: Vec<&'static str>) -> (ApiClient, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("bound"));
    let client = ApiClient {
        agent: agent("", (CONNECT, Some(ANSWER)), &no_trust()),
        bases: vec![base.clone()],
        chosen: OnceCell::from(ChosenNode { base, has_own_key: false }),
        key: ClientKey::None,
        trust: no_trust(),
        allow_plain_http: false,
        caller: String::new(),
        wanted: None,
    };
    (client, answer_each(listener, answers))
}

/// Answers one caller after the other with one of these, and ends.
fn answer_each<A: AsRef<str> + Send + 'static>(
    listener: TcpListener,
    answers: impl IntoIterator<Item = A> + Send + 'static,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for answer in answers {
            let (mut caller, _) = listener.accept().expect("a caller");
            let mut asked = [0; 4096];
            let _ = caller.read(&mut asked).expect("what it wants");
            caller.write_all(answer.as_ref().as_bytes()).expect("it listens");
        }
    })
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n17";
const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n1";

/// Answers a health check, then any request; ends after both.
fn living(status: &str) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}", listener.local_addr().expect("bound"));
    let health = answer("200 OK", "", &format!("{{\"status\":\"{status}\"}}"));
    (base, answer_each(listener, [health, answer("200 OK", "", "17")]))
}

fn with_key(base: String) -> ApiClient {
    let chosen = OnceCell::from(ChosenNode { base: base.clone(), has_own_key: false });
    let (trust, key) = (no_trust(), ClientKey::Given(KEY.to_owned()));
    let agent = agent("", (CONNECT, Some(ANSWER)), &trust);
    ApiClient {
        agent,
        bases: vec![base],
        chosen,
        key,
        trust,
        allow_plain_http: false,
        caller: String::new(),
        wanted: None,
    }
}

fn of(servers: Vec<String>) -> ApiClient {
    ApiClient::new(ClientSettings { servers, ..ClientSettings::default() }).expect("addresses")
}

#[test]
fn the_first_node_that_answers_is_asked_and_a_frozen_one_is_passed_over() {
    // The system accepts its connections, and no program reads them.
    let frozen = TcpListener::bind("127.0.0.1:0").expect("a port");
    let frozen_at = format!("http://{}", frozen.local_addr().expect("bound"));
    let (base, callers) = living("member");
    // No program listens on the first port.
    let client = of(vec!["http://127.0.0.1:1".into(), frozen_at.clone(), format!("{base}/")]);
    assert_eq!(client.get::<u32>("/nodes").expect("an answer"), 17);
    callers.join().expect("it was asked twice");
    let alone = of(vec![frozen_at.clone()]).get::<u32>("/nodes").expect_err("nobody answers");
    assert_eq!(alone.kind, ClientErrorKind::Unreachable);
    assert!(alone.message.starts_with(&format!("no node answers at {frozen_at}")), "{}", alone.message);
}

#[test]
fn a_node_that_is_no_member_is_asked_where_no_other_answers() {
    let (base, callers) = living("not a member");
    assert_eq!(of(vec![base, "http://127.0.0.1:1".into()]).get::<u32>("/nodes").expect("an answer"), 17);
    callers.join().expect("it was asked twice");

    let ((left_out, at), (base, callers)) = (listener(), living("member"));
    let left_out = server(vec![answer("200 OK", "", "{\"status\":\"leaving\"}")], left_out);
    assert_eq!(of(vec![format!("http://{at}"), base]).get::<u32>("/nodes").expect("an answer"), 17);
    callers.join().expect("it was asked twice");
    assert_eq!(left_out.join().expect("it was asked").len(), 1, "only for its health");
}

#[test]
fn a_question_whose_answer_was_cut_is_asked_again() {
    let (client, callers) = answering(vec!["", "HTTP/1.1 2", HALF, WHOLE]);
    assert_eq!(client.get::<u32>("/nodes").expect("an answer"), 17);
    callers.join().expect("all came");
}

const KEY: &str = "correct-horse-battery";

fn answer(status: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{more}\r\n{body}")
}

/// Reads a request with its body.
fn whole_request(caller: &mut impl Read) -> String {
    let (mut asked, mut piece) = (String::new(), [0; 4096]);
    loop {
        let n = caller.read(&mut piece).expect("what it wants");
        asked.push_str(&String::from_utf8_lossy(&piece[..n]));
        let length =
            asked.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let body = asked.split_once("\r\n\r\n").map(|(_, body)| body.len());
        if n == 0 || body.is_some_and(|body| body >= length.unwrap_or(0)) {
            return asked;
        }
    }
}

/// Answers each caller with one of these; returns the requests.
fn server(answers: Vec<String>, listener: TcpListener) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let requests = answers.iter().map(|answer| {
            let (mut caller, _) = listener.accept().expect("a caller");
            let asked = whole_request(&mut caller);
            caller.write_all(answer.as_bytes()).expect("it listens");
            asked
        });
        requests.collect()
    })
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

#[test]
fn the_key_follows_a_leader_that_the_named_server_lists_as_a_member() {
    let ((named, at), (leader, other)) = (listener(), listener());
    let standby = answer("503 Service Unavailable", &format!("evenkeel-leader: http://{other}\r\n"), "{}");
    let nodes = answer("200 OK", "", &format!("{{\"nodes\":[{{\"name\":\"b\",\"address\":\"{other}\"}}]}}"));
    let (named, leader) =
        (server(vec![standby, nodes], named), server(vec![answer("200 OK", "", "17")], leader));
    let client = with_key(format!("http://{at}"));
    assert_eq!(client.post::<u32>("/jobs/a/run", &()).expect("the leader answers"), 17);
    let requests = leader.join().expect("it was asked");
    assert!(
        requests[0].starts_with("POST /api/v1/jobs/a/run ") && requests[0].contains(KEY),
        "{}",
        requests[0]
    );
    let asked = named.join().expect("it was asked");
    assert!(asked[1].starts_with("GET /api/v1/nodes "), "{}", asked[1]);
}

#[test]
fn nothing_is_sent_to_where_a_lying_server_leads() {
    for nodes in [
        answer("200 OK", "", "{\"nodes\":[{\"name\":\"b\",\"address\":\"127.0.0.1:1\"}]}"),
        answer("200 OK", "", "{\"nodes\":[]}"),
        answer("200 OK", "", "[]"),
        answer("503 Service Unavailable", "", "{}"),
    ] {
        let ((named, at), (thief, other)) = (listener(), listener());
        let lie = answer("503 Service Unavailable", &format!("evenkeel-leader: http://{other}\r\n"), "{}");
        let named = server(vec![lie, nodes], named);
        let client = with_key(format!("http://{at}"));
        let refused = client.post::<u32>("/jobs/a/run", &()).expect_err("it lies");
        assert_eq!(refused.kind, ClientErrorKind::Denied);
        assert!(refused.message.contains("nothing was sent there"), "{}", refused.message);
        named.join().expect("it was asked");
        thief.set_nonblocking(true).expect("a socket");
        let came = thief.accept().map(|_| ()).map_err(|e| e.kind());
        assert_eq!(came, Err(std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn a_lead_to_another_scheme_or_into_an_address_is_not_followed() {
    for lead in [
        "ftp://127.0.0.1:1",
        "http://10.0.0.7:1",
        "http://127.0.0.1:1@127.0.0.1:2",
        "127.0.0.1:1",
        "http://127.0.0.1:1/x",
        "",
    ] {
        let (named, at) = listener();
        let lie = answer("200 OK", &format!("evenkeel-leader: {lead}\r\n"), "17");
        let nodes = answer("200 OK", "", "{\"nodes\":[{\"address\":\"127.0.0.1:1\"}]}");
        // The key goes unencrypted to no other host, whatever the list says.
        let has_scheme = lead.starts_with("http://127.");
        let named = server([Some(lie), has_scheme.then_some(nodes)].into_iter().flatten().collect(), named);
        let client = with_key(format!("http://{at}"));
        assert_eq!(client.get::<u32>("/nodes").expect_err("it lies").kind, ClientErrorKind::Denied, "{lead}");
        named.join().expect("it was asked");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let ((named, at), (thief, other)) = (listener(), listener());
    let named =
        server(vec![answer("307 Temporary Redirect", &format!("location: http://{other}/\r\n"), "")], named);
    let client = with_key(format!("http://{at}"));
    assert_eq!(client.get::<u32>("/nodes").expect_err("it is no answer").kind, ClientErrorKind::Failed);
    named.join().expect("it was asked");
    thief.set_nonblocking(true).expect("a socket");
    assert!(thief.accept().is_err());
}

#[test]
fn an_order_whose_answer_was_cut_is_not_given_twice() {
    for cut in ["", "HTTP/1.1 2", HALF] {
        order_whose_answer_is_cut(cut);
    }
}

fn order_whose_answer_is_cut(cut: &'static str) {
    let (client, callers) = answering(vec![cut]);
    let failed = client.post::<u32>("/jobs/a/run", &()).expect_err("nobody answered");
    assert_eq!(failed.kind, ClientErrorKind::Unknown);
    assert!(failed.message.contains("not known whether that was done"), "{}", failed.message);
    callers.join().expect("it came");
}

#[test]
fn a_health_check_that_was_cut_is_repeated_so_that_the_node_can_prove_its_key() {
    let (listener, address) = listener();
    let port = listener.local_addr().expect("bound").port();
    let node = std::thread::spawn(move || {
        let request = |answer: &dyn Fn(&str) -> String| {
            let (mut caller, _) = listener.accept().expect("a caller");
            let mut asked = vec![0; 4096];
            let n = caller.read(&mut asked).expect("what it wants");
            let asked = String::from_utf8_lossy(&asked[..n]).into_owned();
            caller.write_all(answer(&asked).as_bytes()).expect("it listens");
            asked
        };
        // Its program was replaced just now.
        request(&|_| String::new());
        request(&|asked| {
            let challenge = asked.lines().find_map(|line| line.strip_prefix(&format!("{CHALLENGE}: ")));
            let key = ClusterKey::new(KEY.to_owned());
            let proof = key.proof(port, challenge.expect("a challenge").trim());
            answer("200 OK", &format!("{PROOF}: {proof}\r\n"), "{\"status\":\"member\"}")
        });
        request(&|_| answer("200 OK", "", "17"))
    });
    let mut client = of(vec![format!("http://{address}")]);
    client.key = ClientKey::Own(ClusterKey::new(KEY.to_owned()));
    assert_eq!(client.get::<u32>("/nodes").expect("an answer"), 17);
    let asked = node.join().expect("it was asked three times");
    assert!(asked.to_ascii_lowercase().contains(&format!("authorization: bearer {KEY}")), "{asked}");
}

#[test]
fn an_operation_sends_its_path_its_query_and_its_body() {
    let (listener, address) = listener();
    let health = || answer("200 OK", "", "{\"status\":\"member\"}");
    let page = answer("200 OK", "", "{\"jobs\":[],\"after\":null}");
    let done = answer("200 OK", "", "{\"done\":true}");
    let node = server(vec![health(), page, done.clone(), done], listener);
    let client = of(vec![format!("http://{address}")]);
    let query = JobListQuery { find: "a b".to_owned(), limit: Some(7), ..JobListQuery::default() };
    assert_eq!(client.list_jobs(&query).expect("an answer").jobs, []);
    client.drain_node("n1", &DrainBody { force: true }).expect("it is done");
    client.switch_job("team/report", "pause", &ClaimQuery::default()).expect("it is done");
    let asked = node.join().expect("it was asked");
    assert!(asked[1].starts_with("GET /api/v1/jobs?find=a%20b&limit=7 "), "{}", asked[1]);
    assert!(asked[2].starts_with("POST /api/v1/nodes/n1/drain "), "{}", asked[2]);
    assert!(asked[2].ends_with("{\"force\":true}"), "{}", asked[2]);
    assert!(asked[3].starts_with("POST /api/v1/jobs/team%2Freport/pause "), "{}", asked[3]);
    assert!(asked[3].ends_with("{}"), "{}", asked[3]);
}

#[test]
fn what_was_not_given_is_not_sent_so_that_nodes_of_earlier_versions_understand() {
    let (listener, address) = listener();
    let asked = answer(
        "200 OK",
        "",
        "{\"run\":\"a:ask-1:0\",\"asked\":\"2026-01-01T00:00:00.000Z\",\"applied\":\"created\"}",
    );
    let node = server(vec![answer("200 OK", "", "{\"status\":\"member\"}"), asked], listener);
    let client = of(vec![format!("http://{address}")]);
    client.run_job("a", &RunNowBody::default()).expect("it is requested");
    let asked = node.join().expect("it was asked");
    assert!(asked[1].ends_with("\r\n\r\n{}"), "{}", asked[1]);
}

#[test]
fn a_change_carries_what_its_caller_wants_of_the_object_and_a_read_does_not() {
    let (node, at) = listener();
    let stale = answer("412 Precondition Failed", "", "{\"detail\":\"it has version 9\"}");
    let done = || answer("200 OK", "", "17");
    let node = server(vec![done(), done(), done(), stale, done()], node);
    let client = with_key(format!("http://{at}"));
    let read = client.only_if(Precondition::Version(vec![7, 8]));
    assert_eq!(read.put::<u32>("/jobs/a", &()).expect("done"), 17);
    assert_eq!(read.get::<u32>("/jobs/a").expect("read"), 17);
    assert_eq!(client.only_if(Precondition::Absent).put::<u32>("/jobs/a", &()).expect("done"), 17);
    let refused = client.only_if(Precondition::Exists).delete::<u32>("/jobs/a").expect_err("stale");
    assert_eq!((refused.kind, refused.message.as_str()), (ClientErrorKind::Conflict, "it has version 9"));
    assert_eq!(client.delete::<u32>("/jobs/a").expect("done"), 17, "the client itself is as before");
    let requests = node.join().expect("it was asked");
    let conditions = requests.iter().map(|request| {
        let mut lines = request.lines().map(str::to_ascii_lowercase);
        lines.find(|line| line.starts_with("if-")).unwrap_or_default()
    });
    assert_eq!(
        conditions.collect::<Vec<_>>(),
        ["if-match: \"7\", \"8\"", "", "if-none-match: *", "if-match: *", ""]
    );
}
