//! What is set for the whole cluster, and who is taken for online by hand.

use alloc::format;

use super::{Turn, answer, refuse};
use crate::effect::Event;
use crate::input::{Answer, Refusal, Setting};
use crate::keys;
use crate::local::Subject;
use crate::record::encode;
use crate::registry::{Txn, Write};
use crate::rules::health;
use crate::scene::{Decisions, News, Scene};
use crate::words::NodeName;

/// The longest beat, in seconds.
const BEAT_MAX: u32 = 3_600;
/// The most strikes.
const STRIKES_MAX: u32 = 100;

/// Sets one thing.
pub(super) fn configure(scene: &Scene<'_>, setting: Setting) -> Turn {
    let known = scene.view.settings_entry();
    let old = scene.view.settings();
    let mut new = old.clone();
    match setting {
        Setting::Planner(planner) => new.planner = planner,
        Setting::Beat(secs) if secs == old.beat => {}
        Setting::Beat(secs) if (1..=BEAT_MAX).contains(&secs) => {
            if !scene.clock_agrees() {
                let text = "this node's clock differs from the registry's, and beats are numbered by it: ask another node";
                return refuse(Refusal::Conflict, text.into());
            }
            new = old.with_beat(secs, scene.now.wall);
        }
        Setting::Beat(secs) => {
            return refuse(Refusal::Invalid, format!("beat is {secs} s, allowed are 1 to {BEAT_MAX}"));
        }
        Setting::Strikes(strikes) if (1..=STRIKES_MAX).contains(&strikes) => new.strikes = strikes,
        Setting::Strikes(strikes) => {
            return refuse(Refusal::Invalid, format!("strikes is {strikes}, allowed are 1 to {STRIKES_MAX}"));
        }
        Setting::Handover(handover) => new.handover = handover,
    }
    if new == old {
        return answer(Answer::Done);
    }
    new.seq = old.seq + 1;
    let key = keys::settings();
    let guards = [known.guard(key.clone())].into();
    let writes = [Write::Put { key, value: encode(&new), owner: None }].into();
    Turn::Commit("configure", Txn { guards, writes })
}

/// Takes a node for online again; its strikes up to now are forgiven.
pub(super) fn activate(scene: &Scene<'_>, node: &NodeName, subject: Subject, out: &mut Decisions) -> Turn {
    let life = scene.view.members().map(|(member, _)| member).filter(|member| member.node == *node).last();
    let Some(life) = life else {
        return refuse(Refusal::NotFound, format!("there is no node {node}: start it, and it is online"));
    };
    if !scene.view.is_offline(life) {
        return answer(Answer::Done);
    }
    let beat = scene.view.settings().beat_of(scene.now.wall);
    let (guard, write) = health::offline_write(scene, life, false, beat);
    out.news.push(News { subject, sent: false, event: Event::Online(node.clone()) });
    Turn::Commit("activate", Txn { guards: [guard].into(), writes: [write].into() })
}
