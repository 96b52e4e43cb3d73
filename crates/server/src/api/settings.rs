//! The settings of the whole cluster: `/api/v1/cluster/settings`, and the layout of the registry data.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use evenkeel::clock;
use evenkeel_core::eligibility::Leadership;
use evenkeel_core::ids::Member;
use evenkeel_core::input::{Answer, ClusterSetting, Command, Refusal};
use evenkeel_core::time::{Now, TimeSpan};

use super::audited::AuditedRequest;
use super::body::EmptyBody;
use super::error::read_body;
use super::{ApiError, App};
use crate::text_input::ReadTarget;
use evenkeel_client::types::{LayoutRow, LeaderUnknown, SettingsChange, SettingsRow, moment};

pub(super) async fn show(State(app): State<App>) -> Json<SettingsRow> {
    Json(row(&app))
}

/// Sets the given settings one by one; each is a transaction of its own.
pub(super) async fn set(
    State(app): State<App>,
    asked: AuditedRequest,
    body: Bytes,
) -> Result<Json<SettingsRow>, ApiError> {
    let SettingsChange { planner, beat, strikes, handover, spread } = read_body(&body, ReadTarget::Body)?;
    let too_long = |_| ApiError::from((Refusal::Invalid, "the longest beat is 1h".to_owned()));
    let beat = beat.map(|beat| u32::try_from(beat.as_secs())).transpose().map_err(too_long)?;
    let settings = [
        beat.map(ClusterSetting::Beat),
        strikes.map(ClusterSetting::Strikes),
        handover.map(ClusterSetting::Handover),
        spread.map(ClusterSetting::Spread),
        // Last, since this node may be on standby from then on.
        planner.map(ClusterSetting::Planner),
    ];
    let mut shown = row(&app);
    for setting in settings.into_iter().flatten() {
        if let Answer::Refused(refusal, message) = asked.ask(&app, Command::Configure(setting)).await {
            return Err((refusal, message).into());
        }
        match setting {
            ClusterSetting::Beat(beat) => shown.beat = TimeSpan::secs(beat.into()),
            ClusterSetting::Strikes(strikes) => shown.strikes = strikes,
            ClusterSetting::Handover(handover) => shown.handover = handover,
            ClusterSetting::Spread(spread) => shown.spread = spread,
            ClusterSetting::Planner(planner) => shown.planner = planner,
        }
    }
    Ok(Json(shown))
}

/// Raises the layout of the registry data to the newest that this node knows, if all nodes know it.
pub(super) async fn finalize(
    State(app): State<App>,
    asked: AuditedRequest,
    _: EmptyBody,
) -> Result<Json<LayoutRow>, ApiError> {
    match asked.ask(&app, Command::FinalizeUpgrade).await {
        Answer::Layout(layout, applied) => Ok(Json(LayoutRow { layout, applied })),
        Answer::Refused(refusal, message) => Err((refusal, message).into()),
        other => Err(ApiError::internal(format!("an odd answer: {other:?}"))),
    }
}

fn row(app: &App) -> SettingsRow {
    let now = clock::now();
    app.handle.with_node(|node| {
        let settings = node.view().settings();
        let (leader, leader_unknown) = leader(node.leadership(now.mono), now);
        SettingsRow {
            planner: settings.planner,
            beat: TimeSpan::secs(settings.beat.into()),
            strikes: settings.strikes,
            handover: settings.handover,
            spread: settings.spread,
            leader,
            leader_unknown,
        }
    })
}

/// The leader by name, or the last known one if the present one cannot be known.
fn leader(leadership: Leadership, now: Now) -> (Option<String>, Option<LeaderUnknown>) {
    let name = |member: Member| member.node.to_string();
    match leadership {
        Leadership::Known(leader) => (leader.map(name), None),
        Leadership::Unknown { last, since } => {
            let since = since.map(|since| moment(now.wall - (now.mono - since)));
            (None, Some(LeaderUnknown { last: last.map(name), since }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table;
    use evenkeel_core::record::ClusterSettings;
    use evenkeel_core::time::{Mono, Wall};

    fn shown(leadership: Leadership) -> SettingsRow {
        let ClusterSettings { planner, beat, strikes, handover, spread, .. } = ClusterSettings::default();
        let (leader, leader_unknown) = leader(leadership, Now { mono: Mono(70_000), wall: Wall(70_000) });
        SettingsRow {
            planner,
            beat: TimeSpan::secs(beat.into()),
            strikes,
            handover,
            spread,
            leader,
            leader_unknown,
        }
    }

    /// proves: S4-13
    #[test]
    fn a_node_that_cannot_know_who_leads_says_so_and_whom_it_knew_last() {
        let me = Member { node: "n1".parse().expect("a name"), incarnation: 7 };
        let known = shown(Leadership::Known(Some(me.clone())));
        assert_eq!((known.leader.as_deref(), &known.leader_unknown), (Some("n1"), &None));
        let unknown = shown(Leadership::Unknown { last: Some(me), since: Some(Mono(10_000)) });
        let wanted =
            LeaderUnknown { last: Some("n1".into()), since: Some("1970-01-01T00:00:10.000Z".into()) };
        assert_eq!((&unknown.leader, &unknown.leader_unknown), (&None, &Some(wanted)));
        let text = table(&[unknown]);
        assert!(text.contains("unknown since 1970-01-01") && text.contains("last known n1"), "{text}");
    }
}
