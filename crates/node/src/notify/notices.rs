//! Sends notices about jobs to the notifiers that they name, or that want every such notice.

use evenkeel_core::effect::Event;
use evenkeel_core::ids::NotifierName;
use evenkeel_core::job::{Notify, Occasion};
use evenkeel_core::time::Now;

use super::message::Message;
use super::receipt::Receipt;
use super::window::DedupDecision;
use super::{Notifiers, log_event};
use crate::history::{HistoryWrite, Notice, NoticePolicy};

impl Notifiers {
    /// The occasions that notifiers want for every job without a setting of its own.
    pub(crate) fn occasions(&self) -> &[Occasion] {
        &self.occasions
    }

    /// The notice policy of a job with this setting.
    pub(crate) fn policy(&self, notify: Option<&Notify>, node: &str) -> Option<Box<NoticePolicy>> {
        NoticePolicy::of(notify, &self.occasions, node)
    }

    /// Queues a notice for the notifiers that the job names. If it names none, or an unknown one, it goes to the
    /// notifiers that want its kind.
    pub(crate) fn send_notice(&mut self, now: Now, node: &str, notice: &Notice) {
        let kind = notice.occasion.kind();
        let is_known = |name: &&NotifierName| self.all.iter().any(|(n, ..)| n.name.as_ref() == Some(*name));
        let unknown: Vec<&str> =
            notice.to.iter().filter(|name| !is_known(name)).map(NotifierName::as_str).collect();
        let anybody = notice.to.is_empty() || !unknown.is_empty();
        let chosen: Vec<usize> = (0..self.all.len())
            .filter(|n| {
                let notifier = &self.all[*n].0;
                let named = notifier.name.as_ref().is_some_and(|name| notice.to.contains(name));
                named || (anybody && notifier.wants(kind))
            })
            .collect();
        self.report_missing_notifiers(now, node, notice, &unknown, chosen.len());
        let receipt = Receipt::new(chosen.len().max(1), notice.seq, self.history.clone());
        if chosen.is_empty() {
            receipt.done();
        }
        let message = Message::of_notice(node, notice);
        for n in chosen {
            let (_, window, worker) = &mut self.all[n];
            match window.ask(now.mono, kind, &message.subject) {
                DedupDecision::Send { suppressed } => {
                    worker.put(Message { suppressed, ..message.clone() }, Some(receipt.clone()));
                }
                DedupDecision::Suppress => receipt.done(),
            }
        }
    }

    /// Reports the unknown notifiers that should have sent a notice.
    fn report_missing_notifiers(&self, now: Now, node: &str, notice: &Notice, unknown: &[&str], told: usize) {
        let (job, kind) = (&notice.job, notice.occasion.kind());
        let text = match unknown {
            [first, ..] => {
                let names = unknown.join(", ");
                let instead = match told {
                    0 => "nobody was told",
                    _ => "others were told",
                };
                format!(
                    "job {job} wants {names} to be told of {kind}, and no notifier of this node is called so: write name = \
                     \"{first}\" in a [[notify]] of its settings; {instead}"
                )
            }
            [] if told == 0 && notice.must => format!(
                "job {job} wants {kind} to be told, and no notifier of this node asks for it: write on = [\"{kind}\"] in a \
                 [[notify]] of its settings, or name one in the job"
            ),
            [] => return,
        };
        let report = Event::NotifyFailed(text).report();
        log_event(&report);
        self.history.put(HistoryWrite::event(now.wall, node.to_owned(), &report));
    }
}
