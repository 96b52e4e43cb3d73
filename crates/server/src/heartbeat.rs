//! The outgoing heartbeat: while this node is a member that may act, it says so to a monitor outside of the cluster.
//!
//! All nodes have the same address, so the monitor raises an alarm when no node of the cluster works. Only that can be
//! noticed from outside alone: of anything less a node that works notifies.

use std::time::Duration;

use evenkeel::OutgoingHeartbeat;

/// How often a node that is no member checks whether it has become one.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Sends heartbeats while `is_member` says that the node may act; it never ends.
pub(crate) async fn keep_beating(heartbeat: OutgoingHeartbeat, is_member: impl Fn() -> bool) {
    let mut failed = false;
    loop {
        if !is_member() {
            tokio::time::sleep(LOOK_AGAIN.min(heartbeat.every())).await;
            continue;
        }
        let sent = heartbeat.clone();
        let sent = tokio::task::spawn_blocking(move || sent.send()).await;
        match sent {
            Ok(Ok(())) if failed => {
                tracing::info!("the heartbeat arrives at {} again", heartbeat.host());
                failed = false;
            }
            Ok(Ok(())) => {}
            Ok(Err(why)) => {
                tracing::warn!("the heartbeat to {} failed: {why}", heartbeat.host());
                failed = true;
            }
            // The runtime ends.
            Err(_) => return,
        }
        tokio::time::sleep(heartbeat.every()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use super::*;

    /// The bound of every wait.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// A monitor that answers with each of these statuses, then with 200; the first lines of requests come out.
    fn monitor(statuses: &'static [u16]) -> (String, Receiver<String>) {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/ping/a-secret", socket.local_addr().expect("its address"));
        let (arrived, beats) = channel();
        thread::spawn(move || {
            for (n, stream) in socket.incoming().enumerate() {
                let mut reader = BufReader::new(stream.expect("a connection"));
                let (mut first, mut line) = (String::new(), String::new());
                reader.read_line(&mut first).expect("a line");
                while reader.read_line(&mut line).expect("a line") > 2 {
                    line.clear();
                }
                let is_wanted = arrived.send(first.trim().to_owned()).is_ok();
                let status = statuses.get(n).unwrap_or(&200);
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                reader.get_mut().write_all(answer.as_bytes()).expect("it is answered");
                if !is_wanted {
                    return;
                }
            }
        });
        (url, beats)
    }

    /// Waits until the node was asked a few times more, and was no member.
    async fn refused_again(refusals: &AtomicUsize) {
        let enough = refusals.load(Ordering::Relaxed) + 3;
        let asked = async {
            while refusals.load(Ordering::Relaxed) < enough {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("it is asked again and again");
    }

    #[tokio::test]
    async fn a_member_sends_heartbeats_also_after_failures_and_a_node_that_is_none_sends_none() {
        let (url, beats) = monitor(&[200, 500, 404]);
        let heartbeat = OutgoingHeartbeat::new(url, Duration::from_millis(20)).expect("it is an address");
        let member = Arc::new(AtomicBool::new(false));
        let refusals = Arc::new(AtomicUsize::new(0));
        let (seen, refused) = (member.clone(), refusals.clone());
        let is_member = move || {
            let is_member = seen.load(Ordering::Relaxed);
            refused.fetch_add(usize::from(!is_member), Ordering::Relaxed);
            is_member
        };
        let beating = tokio::spawn(keep_beating(heartbeat, is_member));
        refused_again(&refusals).await;
        assert!(beats.try_recv().is_err(), "it is no member");
        member.store(true, Ordering::Relaxed);
        let beats = tokio::task::spawn_blocking(move || {
            for _ in 0..5 {
                assert_eq!(beats.recv_timeout(PATIENCE).expect("a beat"), "GET /ping/a-secret HTTP/1.1");
            }
            beats
        });
        let beats = beats.await.expect("all of them");
        member.store(false, Ordering::Relaxed);
        // One that was under way has its answer before the node is asked again whether it is a member.
        refused_again(&refusals).await;
        let _ = beats.try_iter().count();
        refused_again(&refusals).await;
        assert!(beats.try_recv().is_err(), "it is no member any more");
        assert!(!beating.is_finished());
    }

    #[test]
    fn an_answer_but_2xx_is_a_failure_and_the_address_is_never_shown() {
        let (url, _beats) = monitor(&[503, 302]);
        let heartbeat = OutgoingHeartbeat::new(url, Duration::from_secs(60)).expect("it is an address");
        for status in [503, 302] {
            assert_eq!(heartbeat.send(), Err(format!("it answers with status {status}")));
        }
        assert_eq!(heartbeat.send(), Ok(()));
        assert!(!format!("{heartbeat:?}").contains("a-secret"));
        let nowhere = OutgoingHeartbeat::new("http://127.0.0.1:1/a-secret-path".to_owned(), PATIENCE);
        let refused = nowhere.expect("it is an address").send().expect_err("no one is there");
        assert!(!refused.contains("a-secret"), "{refused}");
    }
}
