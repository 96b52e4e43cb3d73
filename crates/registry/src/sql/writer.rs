//! The one task of a process that writes: whatever waits goes into one transaction, and is answered after `COMMIT`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::registry::{Change, Granted, Outcome, Revision};
use evenkeel_core::time::{Millis, Wall};
use sqlx::Error;
use tokio::sync::watch;

use super::book::{Answer, Book, Verdict};
use super::fault::{self, Remedy};
use super::ledger::Ledger;
use super::link::{Link, late};
use super::sight::{self, LOOK, Sight};
use super::statement::Statement;
use super::{Adopted, BYTES_MAX, Config, Limits, PATIENCE, layout};
use crate::RegistryError;
use crate::queue::{Ask, Asker, Most, Queue, Trouble, queue};

/// How much goes into one transaction of the server's: more of it waits for the next.
const MOST: Most = Most { txns: 1_000, bytes: BYTES_MAX };

/// How often a transaction is tried while nothing was made.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(10);

/// How long a connection may need to say that it is still there. The server gives up those that say nothing for longer,
/// with whatever they have locked.
const QUIET: Duration = Duration::from_secs(2);

/// Starts the task, which rings `bell` after each commit.
pub(super) fn start(
    (link, sight): (Link, Sight),
    config: Arc<Config>,
    limits: Limits,
    adopted: Arc<Adopted>,
    bell: Arc<watch::Sender<Revision>>,
) -> Asker {
    let (asker, queue) = queue(MOST);
    let trouble = queue.trouble.clone();
    let link = Some(link);
    let desk =
        Desk { link, config, limits, adopted, sight, end: None, trouble, bell, kept: Revision::default() };
    tokio::spawn(desk.run(queue));
    asker
}

/// Why nothing is done any more for a node of before.
const REPLACED: &str = "the registry was given a new generation, as after a restore: start this node again";

/// What the task works with.
struct Desk {
    link: Option<Link>,
    config: Arc<Config>,
    limits: Limits,
    adopted: Arc<Adopted>,
    /// What was seen of its clock.
    sight: Sight,
    /// Why nothing is done any more.
    end: Option<End>,
    trouble: Arc<Trouble>,
    bell: Arc<watch::Sender<Revision>>,
    /// The last revision that was answered here.
    kept: Revision,
}

/// The end of it, for good.
struct End {
    why: RegistryError,
    /// Whether whoever connects next must find a higher generation, and does not yet.
    to_raise: bool,
}

/// What a group came to.
struct Done {
    answers: Vec<Answer>,
    revision: Revision,
    now: i64,
    next_end: Option<Millis>,
}

/// How far the order has gone, as far as is known here.
#[derive(Clone, Copy)]
struct Known {
    /// What nothing but a restore takes back.
    kept: Revision,
    /// What the server has told somebody here.
    heard: Revision,
}

/// Why a group was not done.
enum Failed {
    /// Before anything was committed.
    Before(Error),
    /// When it was: nobody knows.
    After(Error),
    /// Before anything was sent, and for good.
    Gone(RegistryError),
    /// Before anything was written: the order stands there, before what was answered.
    Back(Revision),
    /// Before anything was written: somebody saw the server go back, and began a new generation.
    Replaced,
}

impl Desk {
    async fn run(mut self, mut queue: Queue) {
        loop {
            match tokio::time::timeout(LOOK, queue.wait()).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.listen().await;
                    continue;
                }
            }
            let group = queue.take();
            self.serve(group).await;
        }
    }

    /// Looks whether the server is still there, how its order stands and what its clock says while nobody asks for
    /// anything.
    async fn listen(&mut self) {
        if self.end.as_ref().is_some_and(|end| end.to_raise) {
            self.serve(Vec::new()).await;
        }
        let Some(link) = &mut self.link else {
            // Now, for whoever asks next should not wait for it; and whoever is told of trouble should be told of its end.
            if self.end.is_none() {
                self.serve(Vec::new()).await;
            }
            return;
        };
        let (known, asked) = (*self.bell.borrow(), sight::mono());
        match tokio::time::timeout(QUIET, look(link, &self.config)).await {
            Ok(Ok(Looked { revision, generation, now })) => {
                let ours = revision >= known && generation <= i64::from(self.limits.facts.generation);
                match self.sight.look(now, asked, sight::mono()) {
                    Some(sight) if ours => self.sight = sight,
                    _ => self.serve(Vec::new()).await,
                }
            }
            _ => self.link = None,
        }
    }

    /// Does a group, or each of it apart where something in it is at fault.
    async fn serve(&mut self, group: Vec<Ask>) {
        let Some((group, error)) = self.serve_together(group).await else { return };
        if group.len() < 2 {
            self.fail(group, &error);
            return;
        }
        for ask in group {
            if let Some((alone, error)) = self.serve_together(vec![ask]).await {
                self.fail(alone, &error);
            }
        }
    }

    /// Does a group and answers it. Gives it back where something in it is at fault.
    async fn serve_together(&mut self, group: Vec<Ask>) -> Option<(Vec<Ask>, RegistryError)> {
        for left in (0..TRIES).rev() {
            let tried = self.try_once(&group).await;
            let error = match tried {
                Ok(done) => {
                    self.trouble.set(None);
                    self.bell.send_if_modified(|rung| {
                        done.revision > std::mem::replace(rung, done.revision.max(*rung))
                    });
                    done.answer(group);
                    return None;
                }
                Err(Failed::Gone(error)) => {
                    self.link = None;
                    self.fail(group, &error);
                    return None;
                }
                Err(Failed::Back(revision)) => {
                    let error = self.end_back_at(revision).await;
                    self.fail(group, &error);
                    return None;
                }
                Err(Failed::Replaced) => {
                    self.link = None;
                    let why = RegistryError::Fatal(REPLACED.into());
                    self.end.get_or_insert_with(|| End { why: why.clone(), to_raise: false });
                    self.fail(group, &why);
                    return None;
                }
                Err(Failed::After(error)) => {
                    self.link = None;
                    self.fail(group, &self.explain(&error));
                    return None;
                }
                Err(Failed::Before(error)) => error,
            };
            let remedy = fault::remedy(&error);
            if remedy == Remedy::Reconnect || !self.roll_back().await {
                self.link = None;
            }
            match remedy {
                Remedy::Again if left > 0 => tokio::time::sleep(PAUSE).await,
                // Once: a server that is away is told of at once.
                Remedy::Reconnect if left == TRIES - 1 => {}
                Remedy::Apart => return Some((group, self.explain(&error))),
                _ => {
                    self.fail(group, &self.explain(&error));
                    return None;
                }
            }
        }
        None
    }

    fn fail(&self, group: Vec<Ask>, error: &RegistryError) {
        self.trouble.set(Some(error));
        group.into_iter().for_each(|ask| ask.fail(error));
    }

    /// Leaves the transaction, if there is one; `false` when the connection is no good any more.
    async fn roll_back(&mut self) -> bool {
        let Some(link) = &mut self.link else { return true };
        tokio::time::timeout(QUIET, link.say("ROLLBACK")).await.is_ok_and(|said| said.is_ok())
    }

    async fn try_once(&mut self, group: &[Ask]) -> Result<Done, Failed> {
        if self.end.is_some() {
            return Err(Failed::Gone(self.over().await));
        }
        if self.link.is_none() {
            self.link = Some(self.connect().await.map_err(Failed::Gone)?);
        }
        let Some(link) = &mut self.link else { return Err(Failed::Before(Error::WorkerCrashed)) };
        let mut ledger = Ledger { link, dialect: self.config.dialect, tables: &self.config.tables };
        let heard = *self.bell.borrow();
        let known = Known { kept: if self.config.dialect.keeps_first { heard } else { self.kept }, heard };
        let work =
            tokio::time::timeout(PATIENCE, make(&mut ledger, self.limits, &self.sight, group, known)).await;
        let (done, sight) = match work {
            Ok(done) => done?,
            // Whatever was begun ends with the connection.
            Err(_) => return Err(Failed::Gone(self.explain(&late("no answer", PATIENCE)))),
        };
        match tokio::time::timeout(PATIENCE, ledger.link.say("COMMIT")).await {
            Ok(Ok(())) => {
                // Not before: what nobody has seen to yet must not pass for seen.
                self.sight = sight;
                self.kept = self.kept.max(done.revision);
                Ok(done)
            }
            // The server has said that it undid everything.
            Ok(Err(error)) if fault::remedy(&error) == Remedy::Again => Err(Failed::Before(error)),
            Ok(Err(error)) => Err(Failed::After(error)),
            Err(_) => Err(Failed::After(late("no answer", PATIENCE))),
        }
    }

    /// A new connection to the server that was adopted; the end when there is another.
    async fn connect(&mut self) -> Result<Link, RegistryError> {
        let come = self.config.come_back(&self.adopted).await;
        if let Err(why @ RegistryError::Fatal(_)) = &come {
            self.end.get_or_insert_with(|| End { why: why.clone(), to_raise: false });
        }
        come
    }

    /// The server went back in time, as from a copy of its data. It does not know, so who has noticed raises the
    /// generation: what was given since that copy must not be given again.
    async fn end_back_at(&mut self, revision: Revision) -> RegistryError {
        let known = *self.bell.borrow();
        let why =
            format!("the registry went back from revision {known} to {revision}: start this node again");
        self.end.get_or_insert(End { why: RegistryError::Fatal(why), to_raise: true });
        if !self.roll_back().await {
            self.link = None;
        }
        self.over().await
    }

    /// Why nothing is done any more; sees first to what is left to do.
    async fn over(&mut self) -> RegistryError {
        if self.end.as_ref().is_some_and(|end| end.to_raise) {
            if self.link.is_none() {
                self.link = self.connect().await.ok();
            }
            if let Some(link) = &mut self.link {
                let raise = layout::raise(link, &self.config, self.limits.facts.generation);
                let raised = tokio::time::timeout(PATIENCE, raise).await.is_ok_and(|raised| raised.is_ok());
                self.end.iter_mut().for_each(|end| end.to_raise = !raised);
            }
        }
        self.link = None;
        let stopped = || RegistryError::Fatal("the registry's writer has stopped".into());
        self.end.as_ref().map_or_else(stopped, |end| end.why.clone())
    }

    fn explain(&self, error: &Error) -> RegistryError {
        fault::explain(&self.config.place, error)
    }
}

/// Does a group's work in a transaction, all but its `COMMIT`.
async fn make(
    ledger: &mut Ledger<'_>,
    limits: Limits,
    sight: &Sight,
    group: &[Ask],
    known: Known,
) -> Result<(Done, Sight), Failed> {
    let (found, generation) = ledger.begin().await.map_err(Failed::Before)?;
    if found.revision < known.kept {
        return Err(Failed::Back(found.revision));
    }
    let mut before = found.clone();
    if before.revision < known.heard {
        // Some heard of what the server then lost with its life, unanswered. No number is given twice, and they list again.
        before.revision = Revision(known.heard.0 + 1);
        before.forgotten = before.revision;
    }
    if generation > i64::from(limits.facts.generation) {
        return Err(Failed::Replaced);
    }
    let read = ledger.read(limits, before, sight, group).await;
    let (mut book, seen) = read.map_err(Failed::Before)?;
    book.sweep();
    let mut answers: Vec<_> = group.iter().map(|ask| book.work(ask)).collect();
    fill(ledger, &mut answers).await.map_err(Failed::Before)?;
    ledger.write(&mut book, &found).await.map_err(Failed::Before)?;
    let granted = answers.iter().any(|answer| matches!(answer, Answer::Granted(Some(_))));
    let Book { now, meta, .. } = book;
    let next_end = if granted { ledger.next_end(now).await.map_err(Failed::Before)? } else { None };
    let next_end = next_end.map(|end| end.max(sight::soonest(meta.clock, now)));
    Ok((Done { answers, revision: meta.revision, now, next_end }, seen))
}

/// Where the order stands, of which generation it is, and the time by the server's clock.
struct Looked {
    revision: Revision,
    generation: i64,
    now: i64,
}

async fn look(link: &mut Link, config: &Config) -> Result<Looked, Error> {
    let select = format!("SELECT revision, generation, {} FROM ", config.dialect.tongue.now);
    let row = link.row(Statement::new(config.dialect, select).then(&config.tables.meta)).await?;
    Ok(Looked { revision: row.revision(0)?, generation: row.int(1)?, now: row.int(2)? })
}

/// Gets the values that refusals are to tell. Nothing has been written yet, so the table has them as they were found.
async fn fill(ledger: &mut Ledger<'_>, answers: &mut [Answer]) -> Result<(), Error> {
    let told = answers.iter_mut().filter_map(|answer| match answer {
        Answer::Verdicts(verdicts) => Some(verdicts),
        Answer::Granted(_) | Answer::Closed => None,
    });
    let refused = told.flatten().filter_map(|verdict| match verdict {
        Verdict::Refused(found, _) => Some(found),
        Verdict::Made(_) => None,
    });
    let mut bare: Vec<_> = refused
        .flatten()
        .filter_map(|(key, head)| head.as_mut().filter(|head| head.value.is_none()).map(|head| (&*key, head)))
        .collect();
    let keys: BTreeSet<_> = bare.iter().map(|(key, _)| (*key).clone()).collect();
    let values = ledger.values(&keys.into_iter().collect::<Vec<_>>()).await?;
    for (key, head) in &mut bare {
        head.value = Some(values.get(*key).cloned().ok_or(Error::RowNotFound)?);
    }
    Ok(())
}

impl Done {
    /// Whoever asked may be gone: then nobody hears.
    fn answer(self, group: Vec<Ask>) {
        let Self { answers, now, next_end, .. } = self;
        let granted = |(lease, ttl)| Granted { lease, ttl, clock: Some(Wall(now)), next_end };
        for (ask, answer) in group.into_iter().zip(answers) {
            match (ask, answer) {
                (Ask::Open(_, reply), Answer::Granted(Some(lease))) => drop(reply.send(Ok(granted(lease)))),
                (Ask::Renew(_, reply), Answer::Granted(lease)) => drop(reply.send(Ok(lease.map(granted)))),
                (Ask::Close(_, reply), Answer::Closed) => drop(reply.send(Ok(()))),
                (Ask::Commit(_, reply), Answer::Verdicts(verdicts)) => {
                    reply.send(verdicts.into_iter().map(outcome).collect());
                }
                (ask, _) => {
                    ask.fail(&RegistryError::Fatal("the registry's writer answered another question".into()));
                }
            }
        }
    }
}

fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Made(revision) => Outcome::Applied(revision),
        Verdict::Refused(found, revision) => {
            let change = |(key, head): (_, Option<super::book::Head>)| Change {
                key,
                entry: head.and_then(super::book::Head::entry),
                revision,
            };
            Outcome::Refused(found.into_iter().map(change).collect())
        }
    }
}
