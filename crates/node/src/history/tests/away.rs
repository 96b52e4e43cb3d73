//! A history on a server that is unreachable, refuses, or is set up by several nodes at once.

use super::*;
use evenkeel_registry::EngineUrl;
use proxy::{Proxy, ProxyMode};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

#[expect(dead_code, reason = "other tests ask more of it")]
#[path = "../../../../registry/tests/common/proxy.rs"]
mod proxy;

/// The servers that the tests' settings name.
fn servers() -> Vec<String> {
    ["POSTGRES", "MYSQL"].into_iter().filter_map(conformance::server_url).collect()
}

fn location(url: &str) -> HistoryLocation {
    println!("on {}", evenkeel_registry::redacted(url));
    HistoryLocation::of(Some(url), "memory:", Path::new("/")).unwrap()
}

/// proves: I47
#[tokio::test]
async fn a_database_that_is_away_takes_what_waited_when_it_is_back() {
    for url in servers() {
        let host = EngineUrl::parse(&url).unwrap().single_address().unwrap().to_string();
        let proxy = Proxy::start(host.parse().unwrap()).await;
        let place =
            location(&conformance::with_fresh_namespace(&url.replace(&host, &proxy.at().to_string())));
        let (told, mut news) = mpsc::unbounded_channel();
        let (history, reader) =
            History::open(place, "a", Retention::default(), told, Arc::default()).await.unwrap();
        let runs = ["j:1000:0", "j:2000:0"].map(|run| run.parse::<RunId>().unwrap());
        let recorded = |run: &RunId| Some(HistoryEvent::Recorded { run: run.clone(), attempt: 1 });
        history.put(lost("j:1000:0"));
        assert_eq!(news.recv().await, recorded(&runs[0]));
        assert_eq!(reader.run(runs[0].clone()).await.unwrap().len(), 1);

        // A connection that was cut is not reported: there is another one.
        let mut other = TcpStream::connect(proxy.at()).await.unwrap();
        proxy.set(ProxyMode::Closed);
        // All are cut at once, so when this one has ended history's has as well. How it ends is all the same.
        let _ = other.read_to_end(&mut Vec::new()).await;
        proxy.set(ProxyMode::Open);
        assert_eq!(reader.run(runs[0].clone()).await.unwrap().len(), 1);
        history.put(lost("j:2000:0"));
        assert_eq!(news.recv().await, recorded(&runs[1]));

        proxy.set(ProxyMode::Closed);
        let many: Vec<String> = (0..50).map(|n| format!("k:{n}:0")).collect();
        many.iter().for_each(|run| history.put(lost(run)));
        assert_eq!(news.recv().await, Some(HistoryEvent::Writable(false)));
        let why = reader.run(runs[0].clone()).await.unwrap_err().to_string();
        assert!(why.contains("cannot be reached"), "{why}");
        assert!(news.try_recv().is_err(), "nothing is acknowledged");
        proxy.set(ProxyMode::Open);
        for run in &many {
            assert_eq!(news.recv().await, recorded(&run.parse().unwrap()));
        }
        assert_eq!(news.recv().await, Some(HistoryEvent::Writable(true)));
        let all = reader.runs(RunFilter::default()).await.unwrap();
        assert_eq!(all.len(), 52);
        history.close(Duration::from_secs(120)).await;
    }
}

#[tokio::test]
async fn nodes_that_start_at_once_make_the_tables_once() {
    for url in servers() {
        let place = location(&conformance::with_fresh_namespace(&url));
        let open = async |name: &'static str| {
            let (told, mut news) = mpsc::unbounded_channel();
            let opened = History::open(place.clone(), name, Retention::default(), told, Arc::default());
            let (history, _) = opened.await.unwrap();
            history.put(lost(&format!("{name}:1000:0")));
            news.recv().await.unwrap();
            history.close(Duration::from_secs(120)).await;
        };
        tokio::join!(open("a"), open("b"), open("c"), open("d"), open("e"));
        let reader = reader_of(place);
        assert_eq!(reader.runs(RunFilter::default()).await.unwrap().len(), 5);
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_refused_with_the_fix_and_without_its_password() {
    for url in servers() {
        let refused = async |place: HistoryLocation| {
            let (told, _) = mpsc::unbounded_channel();
            match History::open(place, "a", Retention::default(), told, Arc::default()).await {
                Ok(_) => panic!("it should have been refused"),
                Err(why) => why,
            }
        };
        let fresh = conformance::with_fresh_namespace(&url);
        let mut link = HistoryConnection::open(&location(&fresh)).await.unwrap();
        let newer = link.statement(format!("UPDATE {} SET layout = 99", link.table("history")));
        assert_eq!(link.run(newer).await.unwrap(), 1);
        let why = refused(location(&fresh)).await;
        assert!(why.contains("run at least that version"), "{why}");
        // A missing table is an error like any other, and locked rows are not skipped.
        let gone = link.statement(format!("DELETE FROM {}", link.table("history")));
        link.run(gone).await.unwrap();
        assert!(link.lock().await.is_err());

        let host = EngineUrl::parse(&url).unwrap().single_address().unwrap().to_string();
        let scheme = url.split_once(':').unwrap().0;
        let why = refused(location(&format!("{scheme}://nobody:hunter2@{host}/nowhere"))).await;
        assert!(why.starts_with(&format!("history {scheme}://nobody:***@")), "{why}");
        assert!(why.contains("mend its URL") || why.contains("create it"), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
        // A port without a listener.
        let why = refused(location(&format!("{scheme}://u:hunter2@127.0.0.1:1/d"))).await;
        assert!(why.contains("cannot be reached") && !why.contains("hunter2"), "{why}");
    }
}
