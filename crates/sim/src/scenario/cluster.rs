//! Commands about the cluster: loads, settings, links, clocks, and waits for a time or a fact.

use evenkeel_core::ids::NodeName;
use evenkeel_core::input::{self, ClusterSetting};
use evenkeel_core::load::{HostLoad, Utilization};
use evenkeel_core::node::Spread;
use evenkeel_core::record::{Handover, PlannerKind};

use super::ScenarioRunner;
use super::command::ScenarioCommand;
use crate::world::RegistryLink;

/// The maximum wait for a fact, in milliseconds.
const PATIENCE: i64 = 300_000;

impl ScenarioCommand {
    /// `sample A cpu=90 mem=50`: sets the load of A's host, in percent; a missing value is not known.
    pub(super) fn sample(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let part = |key: &str| match self.settings.get(key) {
            None => Ok(None),
            Some(text) => {
                let percent: f64 = text.parse().map_err(|e| format!("{key}: {e}"))?;
                Ok::<_, String>(Utilization::measured(percent / 100.0))
            }
        };
        let sample = HostLoad { cpu: part("cpu")?, memory: part("mem")? };
        scenario.world.sample(&self.node(0)?, sample);
        Ok(())
    }

    /// `set planner=leader beat=60 strikes=3 handover=waited by=A`.
    pub(super) fn set(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let asked = self.asked(scenario, "by")?;
        for (key, value) in self.settings.iter().filter(|(key, _)| !["by", "now"].contains(&key.as_str())) {
            let number = || value.parse::<u32>().map_err(|e| format!("{key}: {e}"));
            let setting = match (key.as_str(), value.as_str()) {
                ("planner", "leader") => ClusterSetting::Planner(PlannerKind::Leader),
                ("planner", "beat") => ClusterSetting::Planner(PlannerKind::Beat),
                ("handover", "waited") => ClusterSetting::Handover(Handover::Waited),
                ("handover", "fenced") => ClusterSetting::Handover(Handover::Fenced),
                ("spread", "first_come") => ClusterSetting::Spread(Spread::FirstCome),
                ("spread", "even") => ClusterSetting::Spread(Spread::Even),
                ("beat", _) => ClusterSetting::Beat(number()?),
                ("strikes", _) => ClusterSetting::Strikes(number()?),
                _ => return Err(format!("nothing of the cluster is called {key}={value}")),
            };
            let ask = scenario.world.ask(&asked, input::Command::Configure(setting));
            scenario.awaited.push((format!("{asked} set {key}={value}"), ask));
        }
        Ok(())
    }

    /// `cut A B C`: nothing gets from A to B or C; `cut all`; `mend A B`, `mend all`.
    pub(super) fn cut(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let nodes: Vec<NodeName> = scenario.world.names().cloned().collect();
        let pairs: Vec<(NodeName, NodeName)> = if self.word(0)? == "all" {
            let others = |from| nodes.iter().filter(move |to| *to != from).map(move |to| (from, to));
            nodes.iter().flat_map(others).map(|(from, to)| (from.clone(), to.clone())).collect()
        } else {
            let to = (1..self.words.len()).map(|at| Ok((self.node(0)?, self.node(at)?)));
            to.collect::<Result<_, String>>()?
        };
        for (from, to) in pairs {
            match self.verb.as_str() {
                "cut" => scenario.world.cut(&from, &to),
                _ => scenario.world.mend(&from, &to),
            }
        }
        Ok(())
    }

    /// `link A down`: cuts A off from the registry; `half`: its requests arrive, answers do not; `up`.
    pub(super) fn link(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let link = match self.word(1)? {
            "up" => RegistryLink::Up,
            "half" => RegistryLink::Half,
            "down" => RegistryLink::Down,
            other => return Err(format!("a link is up, half or down, not {other}")),
        };
        scenario.world.set_link(&self.node(0)?, link, true);
        Ok(())
    }

    /// `clock A 60000`: steps A's wall clock by this many milliseconds; `clock A right`.
    pub(super) fn clock(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        if self.word(1)? == "right" {
            scenario.world.correct_clock(&self.node(0)?);
        } else {
            scenario.world.step_clock(&self.node(0)?, self.number(1)?);
        }
        Ok(())
    }

    /// `at 60.4`: lets time pass until this many seconds after the beginning.
    pub(super) fn at(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let (whole, part) = self.word(0)?.split_once('.').unwrap_or((self.word(0)?, "0"));
        let ms: i64 = format!("{whole}{part:0<3}").parse().map_err(|e| format!("{e}"))?;
        if ms < scenario.world.now() {
            return Err(format!("it is {} ms already", scenario.world.now()));
        }
        scenario.world.run_until(ms);
        Ok(())
    }

    /// `until take the beat of A applied`: lets time pass, a millisecond at a time, until that is in the trace.
    pub(super) fn until(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let words = self.words.join(" ");
        let mut seen = scenario.world.trace().text().len();
        let last = scenario.world.now() + PATIENCE;
        while scenario.world.now() < last && scenario.world.broken().is_none() {
            scenario.world.run_for(1);
            let text = scenario.world.trace().text();
            let plain = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
            if text.iter().skip(seen).any(|line| plain(line).contains(&words)) {
                return Ok(());
            }
            seen = text.len();
        }
        Err(format!("`{words}` did not happen within {} s", PATIENCE / 1_000))
    }
}
