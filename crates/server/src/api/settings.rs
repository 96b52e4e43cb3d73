//! What is set for the whole cluster: `/api/v1/cluster/settings`, and in which layout its tree is written.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use evenkeel_core::input::{Answer, Command, Setting};

use super::body::Nothing;
use super::changes::Asked;
use super::error::read_body;
use super::{ApiError, App};
use crate::rows::{LayoutRow, SettingsRow, Wanted};
use crate::written::Kind;

pub(super) async fn show(State(app): State<App>) -> Json<SettingsRow> {
    Json(row(&app))
}

/// Sets what is named, one after the other; each is a transaction of its own.
pub(super) async fn set(
    State(app): State<App>,
    asked: Asked,
    body: Bytes,
) -> Result<Json<SettingsRow>, ApiError> {
    let Wanted { planner, beat, strikes, handover, spread } = read_body(&body, Kind::Body)?;
    let settings = [
        beat.map(Setting::Beat),
        strikes.map(Setting::Strikes),
        handover.map(Setting::Handover),
        spread.map(Setting::Spread),
        // Last, since the node that is asked may be on standby from then on.
        planner.map(Setting::Planner),
    ];
    let mut shown = row(&app);
    for setting in settings.into_iter().flatten() {
        if let Answer::Refused(refusal, message) = asked.ask(&app, Command::Configure(setting)).await {
            return Err((refusal, message).into());
        }
        match setting {
            Setting::Beat(beat) => shown.beat = beat,
            Setting::Strikes(strikes) => shown.strikes = strikes,
            Setting::Handover(handover) => shown.handover = handover,
            Setting::Spread(spread) => shown.spread = spread,
            Setting::Planner(planner) => shown.planner = planner,
        }
    }
    Ok(Json(shown))
}

/// Lets the tree be written in the newest layout that a node knows, if all of them know it.
pub(super) async fn finalize(
    State(app): State<App>,
    asked: Asked,
    _: Nothing,
) -> Result<Json<LayoutRow>, ApiError> {
    match asked.ask(&app, Command::Finalize).await {
        Answer::Layout(layout, applied) => Ok(Json(LayoutRow { layout, applied })),
        Answer::Refused(refusal, message) => Err((refusal, message).into()),
        other => Err(ApiError::internal(format!("an odd answer: {other:?}"))),
    }
}

fn row(app: &App) -> SettingsRow {
    app.handle.look(|node| {
        let settings = node.view().settings();
        let leader = node.view().leader().map(|leader| leader.node.to_string());
        SettingsRow {
            planner: settings.planner,
            beat: settings.beat,
            strikes: settings.strikes,
            handover: settings.handover,
            spread: settings.spread,
            leader,
        }
    })
}
