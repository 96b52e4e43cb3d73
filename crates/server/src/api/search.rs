//! Searches output for a text: of one attempt, or of the latest runs of a job.
//!
//! The node that gets the request reads the output piece by piece, its own and that of others, and keeps only the
//! current line. It reads each byte once. Runs, bytes and time of a search are limited, and so are concurrent searches.

mod limiter;

use evenkeel_client::requests::LogSearchQuery;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use evenkeel::{RunFilter, RunRecord};
use evenkeel_core::ids::{JobName, NodeName};
use memchr::memmem::Finder;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::jobs::unknown;
use super::row_limit::row_limit;
use super::{ApiError, App, attempts, fanout};
use crate::peer::LogPieceQuery;
use crate::queries;
pub(crate) use limiter::SearchLimiter;

/// Longer lines are searched, and shown, as several.
const LINE_MAX: usize = 64 * 1024;
/// The length limit of the text, in bytes.
const TEXT_MAX: usize = 1_000;
/// The maximum and the default number of attempts to search.
const RUNS_MAX: u32 = 500;
const RUNS: u32 = 20;
/// The maximum number of lines in one response.
const LINES_MAX: usize = 10_000;
/// The maximum amount of output searched for one response, in MiB.
const MIB_MAX: usize = 256;
/// The time limit of one search.
const SEARCH_MAX: Duration = Duration::from_secs(30);

/// The text to find.
#[derive(Clone, Debug)]
pub(super) struct SearchText(Finder<'static>);

impl SearchText {
    /// # Errors
    /// It is empty, too long, or has a line break, so that no line contains it.
    pub(super) fn of(text: &str) -> Result<Self, ApiError> {
        if text.is_empty() || text.len() > TEXT_MAX || text.contains('\n') {
            let why = format!("grep is {} bytes: give a text of one line, 1 to {TEXT_MAX} bytes", text.len());
            return Err(ApiError::invalid(why));
        }
        Ok(Self(Finder::new(text).into_owned()))
    }

    /// What every line contains.
    fn any() -> Self {
        Self(Finder::new("").into_owned())
    }

    /// Runs in time linear in the line, whatever the text is.
    fn is_in(&self, line: &[u8]) -> bool {
        self.0.find(line).is_some()
    }
}

/// Buffers the current line, and passes on the lines that contain the text.
struct LineFilter {
    text: SearchText,
    line: Vec<u8>,
}

impl LineFilter {
    fn of(text: SearchText) -> Self {
        Self { text, line: Vec::new() }
    }

    /// The lines that this piece completes and that contain the text, each with its line end.
    fn take(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            for part in part.chunks(LINE_MAX) {
                self.line.extend_from_slice(part);
                if part.ends_with(b"\n") || self.line.len() >= LINE_MAX {
                    found.extend(self.end());
                }
            }
        }
        found
    }

    /// The last line, if there is one and it contains the text: no more of it comes.
    fn end(&mut self) -> Option<Vec<u8>> {
        let mut line = std::mem::take(&mut self.line);
        if line.is_empty() || !self.text.is_in(line.strip_suffix(b"\n").unwrap_or(&line)) {
            return None;
        }
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        Some(line)
    }
}

/// Only the lines of the body that contain the text.
pub(super) fn lines(body: Body, text: SearchText) -> Body {
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(async move {
        let (mut pieces, mut sieve) = (body.into_data_stream(), LineFilter::of(text));
        while let Some(piece) = pieces.next().await {
            let found = match piece {
                Ok(piece) => sieve.take(&piece).concat(),
                Err(e) => return drop(send.send(Err(std::io::Error::other(e))).await),
            };
            // Also if nothing was found: the caller may have disconnected meanwhile.
            if send.is_closed() || (!found.is_empty() && send.send(Ok(Bytes::from(found))).await.is_err()) {
                return;
            }
        }
        if let Some(last) = sieve.end() {
            let _ = send.send(Ok(Bytes::from(last))).await;
        }
    });
    Body::from_stream(ReceiverStream::new(receive))
}

/// The lines of a job's latest runs that contain a text, each after the run and the attempt that wrote it.
pub(super) async fn job(
    State(app): State<App>,
    job: Result<Path<JobName>, PathRejection>,
    asked: Result<Query<LogSearchQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let (Path(job), Query(asked)) = (job?, asked?);
    let text = asked.grep.as_deref().map_or_else(|| Ok(SearchText::any()), SearchText::of)?;
    let limit = row_limit("runs", asked.runs, (RUNS, RUNS_MAX))?;
    let filter = RunFilter { job: Some(job.clone()), limit, ..RunFilter::default() };
    let fanout::MergedPage { rows, missing, .. } = fanout::runs(&app, filter, None).await?;
    if rows.is_empty() && queries::job(&app.handle, &job).is_none() {
        return Err(unknown(&app.handle, &job));
    }
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(async move {
        let Ok(_turn) = app.searches.0.clone().acquire_owned().await else { return };
        let mut search = LogSearch { app, text, send: send.clone(), lines: LINES_MAX, bytes: MIB_MAX << 20 };
        // Without a timeout, the caller has all lines, or enough, or has disconnected.
        if tokio::time::timeout(SEARCH_MAX, search.through(&rows, &missing)).await.is_err() {
            let late = format!("[no more than {} s are searched]\n", SEARCH_MAX.as_secs());
            let _ = send.try_send(Ok(Bytes::from(late)));
        }
    });
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((kind, Body::from_stream(ReceiverStream::new(receive))).into_response())
}

/// A search through several attempts.
struct LogSearch {
    app: App,
    text: SearchText,
    send: mpsc::Sender<Result<Bytes, std::io::Error>>,
    /// How many more lines may be shown, and how many bytes searched.
    lines: usize,
    bytes: usize,
}

impl LogSearch {
    async fn through(&mut self, rows: &[RunRecord], missing: &[NodeName]) -> Option<()> {
        for record in rows.iter().filter(|record| record.started.is_some()) {
            let name = format!("{}#{}: ", record.run, record.attempt);
            if let Err(why) = self.attempt(record, &name).await? {
                self.send_line(format!("{name}[its output cannot be read: {why}]\n").into_bytes()).await?;
            }
        }
        for node in missing {
            self.send_line(
                format!("[node {node} did not answer: its runs are not looked through]\n").into_bytes(),
            )
            .await?;
        }
        Some(())
    }

    async fn attempt(&mut self, record: &RunRecord, name: &str) -> Option<Result<(), String>> {
        let node = record.node.split('@').next().unwrap_or_default();
        let own = self.app.handle.name().as_str();
        if node != own && queries::names(&self.app.handle).iter().all(|other| other.as_str() != node) {
            return Some(Err(format!("node {node} is away")));
        }
        let piece = LogPieceQuery { attempt: record.attempt, offset: 0, follow: false };
        let body = match attempts::output_of(&self.app, &record.node, &record.run, piece).await {
            Ok(body) => body,
            Err(error) => return Some(Err(error.message())),
        };
        let (mut pieces, mut sieve) = (body.into_data_stream(), LineFilter::of(self.text.clone()));
        loop {
            let (found, over) = match pieces.next().await {
                Some(Ok(piece)) if piece.len() > self.bytes => {
                    self.send_line(format!("[no more than {MIB_MAX} MiB are looked through]\n").into_bytes())
                        .await?;
                    return None;
                }
                Some(Ok(piece)) => {
                    self.bytes -= piece.len();
                    (sieve.take(&piece), false)
                }
                Some(Err(e)) => return Some(Err(e.to_string())),
                None => (sieve.end().into_iter().collect(), true),
            };
            for line in found {
                if self.lines == 0 {
                    self.send_line(format!("[no more than {LINES_MAX} lines are shown]\n").into_bytes())
                        .await?;
                    return None;
                }
                self.lines -= 1;
                self.send_line([name.as_bytes(), &line].concat()).await?;
            }
            if over {
                return Some(Ok(()));
            }
            if self.send.is_closed() {
                return None;
            }
        }
    }

    async fn send_line(&self, line: Vec<u8>) -> Option<()> {
        self.send.send(Ok(Bytes::from(line))).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieved(pieces: &[&[u8]], text: &str) -> Vec<String> {
        let mut sieve = LineFilter::of(SearchText::of(text).expect("a text"));
        let mut found: Vec<Vec<u8>> = pieces.iter().flat_map(|piece| sieve.take(piece)).collect();
        found.extend(sieve.end());
        found.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn lines_are_found_wherever_pieces_are_cut() {
        let whole = b"one error\ntwo\nthe last error".as_slice();
        let expected = ["one error\n", "the last error\n"];
        assert_eq!(sieved(&[whole], "error"), expected);
        for cut in 0..whole.len() {
            let (a, b) = whole.split_at(cut);
            assert_eq!(sieved(&[a, b], "error"), expected, "cut at {cut}");
        }
        assert_eq!(sieved(&[b"a\xff error\n"], "error"), ["a\u{fffd} error\n"]);
        assert!(sieved(&[b"", b"\n\n"], "error").is_empty());
        let mut every = LineFilter::of(SearchText::any());
        assert_eq!(every.take(b"a\n\nb"), [b"a\n".to_vec(), b"\n".to_vec()]);
        assert_eq!(every.end(), Some(b"b\n".to_vec()));
        assert_eq!(every.end(), None);
    }

    /// proves: I47
    #[test]
    fn a_line_without_end_takes_no_more_memory_than_a_long_one() {
        let mut sieve = LineFilter::of(SearchText::of("x").expect("a text"));
        let mut found = 0;
        for _ in 0..100 {
            found += sieve.take(&[b'x'; 50_000]).len();
            assert!(sieve.line.len() < LINE_MAX && sieve.line.capacity() <= 4 * LINE_MAX);
        }
        assert!((5_000_000 / (2 * LINE_MAX)..=5_000_000 / LINE_MAX).contains(&found), "{found}");
    }

    /// The slowest input, a quarter of what one search may read. A search that reads each byte once for each byte of
    /// the text takes a thousand times as long, which is hours.
    #[test]
    fn a_search_takes_no_longer_for_a_long_text() {
        let mut sieve =
            LineFilter::of(SearchText::of(&format!("{}b", "a".repeat(TEXT_MAX - 1))).expect("a text"));
        let piece = vec![b'a'; 1 << 20];
        for _ in 0..MIB_MAX / 4 {
            assert!(sieve.take(&piece).is_empty());
        }
    }

    #[test]
    fn a_text_that_is_in_no_line_is_refused() {
        assert!(SearchText::of("").is_err() && SearchText::of("a\nb").is_err());
        assert!(SearchText::of(&"x".repeat(1_001)).is_err() && SearchText::of(&"x".repeat(1_000)).is_ok());
    }
}
