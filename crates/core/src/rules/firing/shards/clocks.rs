//! Compares the clock of this node with the registry's before it claims shards.

use super::RunStateWriter;

use crate::effect::Event;
use crate::rule_context::{RuleAction, RuleOutput};
use crate::time::Millis;
use crate::view::ShardTerms;

impl RunStateWriter<'_> {
    /// Whether the clocks agree as well as the job demands (S2-25, law 6); if not, the job is looked at when they do.
    pub(super) fn clock_agrees(&self, shards: &ShardTerms, out: &mut RuleOutput) -> bool {
        let agrees = self.knows_time(shards);
        if !agrees {
            out.add(RuleAction::Announce(Event::ClockDiffers(self.most_difference(shards))));
            out.add(RuleAction::JobAwaitsTrust(self.sharded.job.id));
        }
        agrees
    }

    pub(super) fn knows_time(&self, shards: &ShardTerms) -> bool {
        let ctx = self.context();
        let difference = ctx.local.lease.difference(ctx.now);
        difference.is_none_or(|by| by <= self.most_difference(shards))
    }

    pub(super) fn most_difference(&self, shards: &ShardTerms) -> Millis {
        let own = self.context().local.settings.max_clock_skew;
        shards.max_clock_skew.unwrap_or(Millis(i64::MAX)).min(own)
    }
}
