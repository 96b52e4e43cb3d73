//! The node's side of its guard: starts the guard, talks to it, and replaces it when it dies.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use evenkeel_core::effect::StopReason;
use evenkeel_core::input::RunOutcome;
use evenkeel_core::time::Wall;
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::cgroup::{self, CgroupMounts};
use super::handoff::{GuardHandoff, GuardProcess, GuardTransfer};
use super::preparing::{PreparedStart, PreparingStarts};
use super::report::format_variable;
use super::role::{LOCK, NO_CGROUPS, ROLE};
use super::starts::{StartDecision, StartQueue};
use super::wire::{AttemptId, DATA, GuardEvent, GuardRequest, LaunchSpec, LineReader, to_line};
use super::{environment, orphans};
use crate::clock;
use crate::executor::{AttemptResult, ExecutorEvent};

/// How long after a failure to start a guard it is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long to wait for killed groups to end.
const BURIAL: Duration = Duration::from_secs(5);
/// How often they are checked meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A guard process that is ready.
pub(crate) struct GuardConnection {
    pub(super) process: GuardProcess,
    pub(super) requests: ChildStdin,
    pub(super) events: ChildStdout,
    pub(super) lines: LineReader,
    /// Which limits of whole runs it cannot enforce, and why.
    pub(crate) lacking: Option<String>,
}

impl GuardConnection {
    /// Starts a guard and waits until it has the data folder for itself: until then runs of the folder's last life may
    /// still be ending.
    pub(crate) async fn start(
        program: Option<&Path>,
        data: &Path,
        cgroups: bool,
        patience: Duration,
    ) -> Result<Self, String> {
        let program = program.map_or(OsStr::new("/proc/self/exe"), Path::as_os_str);
        let mut command = Command::new(program);
        // They may hold passwords, which must not reach any run's environment.
        environment::withhold_own(command.as_std_mut());
        let mut process = command
            .arg0("evenkeel-guard")
            .arg(data)
            .args((!cgroups).then_some(NO_CGROUPS))
            .env(ROLE, "guard")
            .envs(format_variable())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(false)
            .spawn()
            .map_err(|e| format!("{} cannot be started: {e}", program.display()))?;
        let (Some(orders), Some(words)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("its pipes are missing".to_string());
        };
        let mut guard = Self {
            process: GuardProcess::Started(process),
            requests: orders,
            events: words,
            lines: LineReader::default(),
            lacking: None,
        };
        match timeout(patience, guard.receive()).await {
            Ok(Some(words)) => match words.into_iter().next() {
                Some(GuardEvent::Ready { lacking }) => {
                    guard.lacking = lacking;
                    Ok(guard)
                }
                _ => Err("it speaks out of turn".to_string()),
            },
            Ok(None) => Err("it ended at once: see its message on standard error".to_string()),
            Err(_) => Err(format!(
                "{} is held by the guard of an earlier life, whose runs have not ended: end them, or use another --data",
                data.join(LOCK).display()
            )),
        }
    }

    /// The next events; `None` when the guard is gone. May be dropped at any point.
    async fn receive(&mut self) -> Option<Vec<GuardEvent>> {
        let mut piece = [0; 16 * 1024];
        loop {
            let n = self.events.read(&mut piece).await.ok().filter(|n| *n > 0)?;
            let words = self.lines.take(&piece[..n]);
            let words: Vec<GuardEvent> = words.into_iter().collect::<Result<_, _>>().ok()?;
            if !words.is_empty() {
                return Some(words);
            }
        }
    }
}

/// The state of an attempt that the guard has.
pub(super) struct GuardedAttempt {
    pub(super) group: Option<i32>,
    pub(super) started: Wall,
}

/// Why the client stops serving a guard.
enum ServeEnd {
    /// The guard is gone.
    Gone,
    /// It was inherited from an earlier program and has no run left.
    Idle,
    /// There are no more requests.
    Done,
}

/// Keeps one guard alive for as long as there are requests.
pub(crate) struct GuardClient {
    program: Option<PathBuf>,
    data: PathBuf,
    /// The data folder's absolute path, for the environment of runs: two nodes may be given the same relative path.
    whose: String,
    /// Whether runs get cgroups.
    cgroups: bool,
    /// How long a guard may take to answer, and how long its start may take.
    patience: Duration,
    requests: mpsc::UnboundedReceiver<GuardRequest>,
    /// Requests to hand the guard over.
    handoffs: mpsc::Receiver<oneshot::Sender<GuardTransfer>>,
    node_events: mpsc::UnboundedSender<ExecutorEvent>,
    /// Whether the guard was started by an earlier program of this process.
    is_inherited: bool,
    running: BTreeMap<AttemptId, GuardedAttempt>,
    trust: Option<GuardRequest>,
    /// What a guard needs to remove the node's member.
    member: Option<GuardRequest>,
    /// Starts that have not been sent to the guard yet.
    starts: StartQueue,
    /// Starts whose secrets are being read.
    preparing: PreparingStarts,
    /// Bytes that the guard has yet to read.
    unsent: Vec<u8>,
    /// Until when the guard must have answered.
    answer_by: Option<Instant>,
}

impl GuardClient {
    pub(crate) fn new(
        program: Option<PathBuf>,
        (data, cgroups): (PathBuf, bool),
        patience: Duration,
        orders: mpsc::UnboundedReceiver<GuardRequest>,
        passing: mpsc::Receiver<oneshot::Sender<GuardTransfer>>,
        news: mpsc::UnboundedSender<ExecutorEvent>,
    ) -> Self {
        let whose = data.canonicalize().unwrap_or_else(|_| data.clone()).display().to_string();
        Self {
            program,
            data,
            whose,
            cgroups,
            patience,
            requests: orders,
            handoffs: passing,
            node_events: news,
            is_inherited: false,
            running: BTreeMap::new(),
            trust: None,
            member: None,
            starts: StartQueue::default(),
            preparing: PreparingStarts::default(),
            unsent: Vec::new(),
            answer_by: None,
        }
    }

    /// Continues with an inherited guard. It keeps its program until its runs have ended.
    pub(crate) fn resume(mut self, kept: GuardHandoff) -> Self {
        let (runs, trust) = kept.into_parts();
        (self.is_inherited, self.trust) = (true, trust);
        self.running.extend(runs);
        self
    }

    /// Serves until there are no more requests; then the guard ends what still runs, and itself.
    pub(crate) async fn run(mut self, mut guard: GuardConnection) {
        loop {
            match self.serve(&mut guard).await {
                ServeEnd::Done => break,
                ServeEnd::Idle => retire(guard).await,
                ServeEnd::Gone => {
                    tracing::error!(
                        "the guard process is gone: its runs are ended and another one is started"
                    );
                    self.kill_guard(guard).await;
                }
            }
            self.is_inherited = false;
            guard = match self.replace().await {
                Some(guard) => guard,
                None => return,
            };
            let known = self.trust.clone().into_iter().chain(self.member.clone());
            known.for_each(|request| self.handle_request(request));
        }
        retire(guard).await;
    }

    /// Talks with the guard until there is a reason not to.
    async fn serve(&mut self, guard: &mut GuardConnection) -> ServeEnd {
        loop {
            self.send_starts();
            if self.is_inherited && self.running.is_empty() && self.is_all_sent() {
                return ServeEnd::Idle;
            }
            let late = self.answer_by.unwrap_or_else(|| clock::deadline_after(Duration::ZERO));
            let GuardConnection { requests: stdin, events: words, lines, .. } = guard;
            let mut piece = [0; 16 * 1024];
            tokio::select! {
                biased;
                read = words.read(&mut piece) => match read {
                    Ok(n) if n > 0 => {
                        for word in lines.take::<GuardEvent>(&piece[..n]) {
                            let Ok(word) = word else { return ServeEnd::Gone };
                            self.handle_event(word);
                        }
                    }
                    _ => return ServeEnd::Gone,
                },
                order = self.requests.recv() => match order {
                    Some(order) => self.handle_request(order),
                    None => return ServeEnd::Done,
                },
                written = stdin.write(&self.unsent), if !self.unsent.is_empty() => match written {
                    Ok(n) if n > 0 => drop(self.unsent.drain(..n)),
                    _ => return ServeEnd::Gone,
                },
                Some(prepared) = self.preparing.next(), if !self.preparing.is_empty() => self.go_on(prepared),
                // Requests come first, so a guard that is handed over has all of them.
                Some(to) = self.handoffs.recv(), if self.is_all_sent() => self.hand_off(guard, to).await,
                () = sleep_until(late), if self.answer_by.is_some() => {
                    tracing::error!("the guard process has not answered for {:?}", self.patience);
                    return ServeEnd::Gone;
                }
            }
        }
    }

    /// Hands the guard over, and waits in case it comes back.
    async fn hand_off(&mut self, guard: &GuardConnection, to: oneshot::Sender<GuardTransfer>) {
        let (go_on, back) = oneshot::channel();
        match guard.hand_off(self.running.iter(), self.trust.clone(), go_on) {
            Ok(passing) => {
                // The caller may have given up waiting: then it comes back at once.
                drop(to.send(passing));
                // It comes back by being dropped, without a message.
                let _ = back.await;
                self.answer_by = self.answer_by.map(|_| clock::deadline_after(self.patience));
            }
            Err(e) => tracing::warn!("the guard process cannot be passed on: {e}"),
        }
    }

    fn handle_request(&mut self, order: GuardRequest) {
        match order {
            GuardRequest::Trust { .. } => {
                self.unsent.extend(to_line(&order));
                self.answer_by.get_or_insert_with(|| clock::deadline_after(self.patience));
                self.trust = Some(order);
            }
            GuardRequest::Member(_) => {
                self.unsent.extend(to_line(&order));
                self.member = Some(order);
            }
            GuardRequest::Heartbeat { .. } | GuardRequest::Part => self.unsent.extend(to_line(&order)),
            GuardRequest::Start(launch) => self.starts.put(launch),
            GuardRequest::Stop { ref run, .. } => {
                self.unsent.extend(to_line(&order));
                let begun = self.preparing.drop_run(run);
                begun.iter().for_each(|id| self.starts.answered(id));
                let dropped = self.starts.drop_run(run);
                self.refuse(begun.into_iter().chain(dropped));
            }
        }
    }

    /// Sends as many of the waiting starts as the guard may have at once.
    fn send_starts(&mut self) {
        while let Some(next) = self.starts.next(clock::now()) {
            match next {
                StartDecision::Late(id) => self.refuse([id]),
                StartDecision::Start(launch) if launch.setting.secrets.is_some() => {
                    self.preparing.put(launch);
                }
                StartDecision::Start(launch) => self.send_start(launch),
            }
        }
    }

    fn send_start(&mut self, mut launch: Box<LaunchSpec>) {
        launch.environment.insert(DATA.to_owned(), self.whose.clone());
        let (id, started) = (launch.id.clone(), clock::now().wall);
        self.unsent.extend(to_line(&GuardRequest::Start(launch)));
        self.running.insert(id, GuardedAttempt { group: None, started });
    }

    /// Sends a start whose secrets were read, or reports that it failed.
    fn go_on(&mut self, prepared: PreparedStart) {
        match prepared {
            Ok(launch) => self.send_start(launch),
            Err((id, reason)) => {
                self.starts.answered(&id);
                let failed = AttemptResult::failed_attempt(id.run, id.attempt, reason);
                self.report(ExecutorEvent::Ended(failed));
            }
        }
    }

    /// Whether the guard has every request.
    fn is_all_sent(&self) -> bool {
        self.unsent.is_empty() && self.starts.is_empty() && self.preparing.is_empty()
    }

    /// Reports that these do not start.
    fn refuse(&self, starts: impl IntoIterator<Item = AttemptId>) {
        for AttemptId { run, attempt } in starts {
            self.report(ExecutorEvent::NotStarted { run, attempt });
        }
    }

    fn handle_event(&mut self, word: GuardEvent) {
        match word {
            GuardEvent::Ready { .. } => {}
            GuardEvent::Trusted => self.answer_by = None,
            GuardEvent::Started { id, group, at } => {
                self.starts.answered(&id);
                if let Some(run) = self.running.get_mut(&id) {
                    *run = GuardedAttempt { group: Some(group), started: Wall(at) };
                }
            }
            GuardEvent::NotStarted { id } => {
                self.starts.answered(&id);
                self.running.remove(&id);
                self.refuse([id]);
            }
            GuardEvent::Ended { id, end } => {
                self.starts.answered(&id);
                let Some(GuardedAttempt { started, .. }) = self.running.remove(&id) else { return };
                let ended = match (end.stopped, end.code) {
                    (Some(reason), _) => RunOutcome::Stopped(reason),
                    (None, Some(0)) => RunOutcome::Succeeded,
                    (None, code) => RunOutcome::Failed(code.and_then(|code| u8::try_from(code).ok())),
                };
                self.report(ExecutorEvent::Ended(AttemptResult {
                    run: id.run,
                    attempt: id.attempt,
                    ended,
                    reason: end.reason.into(),
                    code: end.code,
                    output: end.output,
                    started,
                    at: Wall(end.at),
                }));
            }
        }
    }

    fn report(&self, news: ExecutorEvent) {
        // A node that is gone needs no events.
        let _ = self.node_events.send(news);
    }

    /// Kills a guard and every run it had: no process of theirs may live on unguarded.
    async fn kill_guard(&mut self, mut guard: GuardConnection) {
        guard.process.kill();
        guard.process.wait().await;
        (self.unsent, self.answer_by) = (Vec::new(), None);
        let waiting = self.starts.clear().into_iter().chain(self.preparing.clear());
        let waiting: Vec<AttemptId> = waiting.collect();
        self.refuse(waiting);
        let groups = self.running.values().filter_map(|run| Pid::from_raw(run.group?));
        let mut groups: Vec<Pid> = groups.collect();
        let deadline = clock::deadline_after(BURIAL);
        while !groups.is_empty() && clock::deadline_after(Duration::ZERO) < deadline {
            groups.retain(|group| rustix::process::kill_process_group(*group, Signal::KILL).is_ok());
            let _ = timeout_at(deadline, sleep(LOOK_AGAIN)).await;
        }
        let (runs, whose): (Vec<AttemptId>, _) = (self.running.keys().cloned().collect(), self.whose.clone());
        let looked = tokio::task::spawn_blocking(move || orphans::kill_everywhere(&runs, &whose)).await;
        if let Ok(Err(e)) = looked {
            tracing::warn!("what a killed guard's runs left outside their groups cannot be looked for: {e}");
        }
        let deadline = clock::deadline_after(BURIAL);
        while self.cgroups
            && !CgroupMounts::read().is_ok_and(|told| cgroup::end_all(&told, &self.data))
            && clock::deadline_after(Duration::ZERO) < deadline
        {
            sleep(LOOK_AGAIN).await;
        }
        for (id, GuardedAttempt { started, .. }) in std::mem::take(&mut self.running) {
            self.report(ExecutorEvent::Ended(AttemptResult {
                run: id.run,
                attempt: id.attempt,
                ended: RunOutcome::Stopped(StopReason::Fenced),
                reason: "the guard process was gone".into(),
                code: None,
                output: 0,
                started,
                at: clock::now().wall,
            }));
        }
    }

    /// Starts guards until one is ready; meanwhile nothing starts. `None` when there are no more requests.
    async fn replace(&mut self) -> Option<GuardConnection> {
        let mut able = true;
        loop {
            match GuardConnection::start(self.program.as_deref(), &self.data, self.cgroups, self.patience)
                .await
            {
                Ok(guard) => {
                    if !able {
                        self.report(ExecutorEvent::Able(true));
                    }
                    return Some(guard);
                }
                Err(e) => tracing::error!("the guard process did not come up: {e}"),
            }
            if able {
                able = false;
                self.report(ExecutorEvent::Able(false));
            }
            let retry = clock::deadline_after(RETRY);
            while let Ok(order) = timeout_at(retry, self.requests.recv()).await {
                match order? {
                    GuardRequest::Start(launch) => self.refuse([launch.id]),
                    trust @ GuardRequest::Trust { .. } => self.trust = Some(trust),
                    member @ GuardRequest::Member(_) => self.member = Some(member),
                    GuardRequest::Stop { .. } | GuardRequest::Heartbeat { .. } | GuardRequest::Part => {}
                }
            }
        }
    }
}

/// Lets a guard end: it does when its pipe closes. It need not find out that this process lives on.
async fn retire(guard: GuardConnection) {
    let GuardConnection { mut process, requests: mut orders, .. } = guard;
    // A guard that does not read is ended by what follows.
    let _ = timeout(BURIAL, orders.write_all(&to_line(&GuardRequest::Part))).await;
    drop(orders);
    if timeout(BURIAL, process.wait()).await.is_err() {
        tracing::warn!(
            "the old guard process does not end within {BURIAL:?}, and no other one can start before: end it"
        );
    }
}
