//! The commands of a scenario, one a line. Each lets enough time pass until the cluster is calm again.

use std::collections::BTreeMap;
use std::str::FromStr;

use evenkeel_core::ids::{JobName, NodeName};
use evenkeel_core::input;
use evenkeel_core::job::{CatchUp, Delivery, JobFile, Placement, Pool, Work};
use evenkeel_core::node::{Quota, Settings, Spread};
use evenkeel_core::record::Layouts;
use evenkeel_core::registry::DurabilityClass;
use evenkeel_core::sharding_strategy::{NodeOrder, ShardingStrategy};
use evenkeel_core::time::Millis;

use super::ScenarioRunner;
use crate::world::clock::SimClock;

/// The term of a lease in scenarios.
const TTL: u32 = 4_000;
/// The time after which no message is in transit.
const CALM: i64 = 2_500;
/// The additional distance of the other nodes when one is to win.
const FAR: i64 = 300;

/// One command: its verb, its subject, and settings such as `M=10`.
pub(super) struct ScenarioCommand {
    pub(super) verb: String,
    pub(super) words: Vec<String>,
    pub(super) settings: BTreeMap<String, String>,
}

impl FromStr for ScenarioCommand {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let verb = words.next().ok_or("an empty line is no command")?;
        let (mut plain, mut settings) = (Vec::new(), BTreeMap::new());
        for word in words {
            match word.split_once('=') {
                Some((key, value)) => {
                    settings.insert(key.to_owned(), value.replace('_', " "));
                }
                None => plain.push(word),
            }
        }
        Ok(Self { verb, words: plain, settings })
    }
}

impl ScenarioCommand {
    pub(super) fn run(&self, scenario: &mut ScenarioRunner) -> Result<String, String> {
        match self.verb.as_str() {
            // start A M=10 n=1 spread=even quota=larger
            "start" => self.start(scenario)?,
            // jobs 9 winner=A takes=60000
            "jobs" => self.jobs(scenario)?,
            // job NAME every=1s takes=300 delivery=at_least_once by=A
            "job" => self.job(scenario)?,
            // run A 7: manual runs of the first seven jobs that A owns
            "run" => self.run_held(scenario)?,
            // pause|resume|enable|disable|delete JOB by=A, claim A, lock|unlock NAME by=A,
            // drain|undrain|cordon|uncordon|activate NODE by=A
            "pause" | "resume" | "enable" | "disable" | "delete" | "claim" | "drain" | "undrain"
            | "cordon" | "uncordon" | "lock" | "unlock" | "ask" | "leave" | "switch" | "shards"
            | "shutdown" | "beat" | "activate" => self.command(scenario)?,
            "crash" => scenario.world.crash_out_of_reach(&self.node(0)?),
            "kill-process" => scenario.world.crash(&self.node(0)?),
            "restart" => scenario.world.start(&self.node(0)?),
            "stop" => scenario.world.pause(&self.node(0)?),
            "continue" => scenario.world.resume(&self.node(0)?),
            "deaf" => scenario.world.withhold_news(&self.node(0)?, true),
            "hear" => scenario.world.withhold_news(&self.node(0)?, false),
            "far" => scenario.world.set_far(&self.node(0)?, FAR),
            "near" => scenario.world.set_far(&self.node(0)?, 0),
            "sample" => self.sample(scenario)?,
            "set" => self.set(scenario)?,
            "cut" | "mend" => self.cut(scenario)?,
            "link" => self.link(scenario)?,
            "clock" => self.clock(scenario)?,
            "able" => scenario.world.set_able(&self.node(0)?, self.word(1)? == "yes"),
            "wait" => scenario.world.run_for(self.number(0)?),
            "at" => self.at(scenario)?,
            "until" => self.until(scenario)?,
            "beats" => return Ok(scenario.beats()),
            "loads" => return Ok(scenario.loads()),
            "plan" => return Ok(scenario.plan(&self.job_name()?)),
            "plans" => return Ok(scenario.plans(&self.job_name()?)),
            "fires" => return Ok(scenario.fires(&self.job_name()?)),
            "health" => return Ok(scenario.health()),
            "knows" => return Ok(scenario.knows(&self.node(0)?)),
            "serving" => return Ok(scenario.serving()),
            "acts" => return Ok(scenario.acts(&self.words.join(" "))),
            "talk" => return Ok(scenario.calls()),
            "show" => return Ok(scenario.state()),
            "log" => return Ok(scenario.log()),
            "verdicts" => return Ok(scenario.verdicts()),
            // shares JOB: the leader, the shard assignments, and the run states
            "shares" => return self.shard_assignments(scenario),
            // events: the events of nodes since the last output
            "events" => return Ok(scenario.events(false)),
            "session" => return Ok(scenario.events(true)),
            "answers" => return Ok(scenario.answers()),
            verb => return Err(format!("no command is called {verb}")),
        }
        if !["wait", "at", "until"].contains(&self.verb.as_str()) {
            scenario.world.run_for(if self.settings.contains_key("now") { 0 } else { CALM });
        }
        Ok(String::new())
    }

    pub(super) fn word(&self, index: usize) -> Result<&str, String> {
        self.words.get(index).map(String::as_str).ok_or_else(|| format!("word {} is missing", index + 1))
    }

    pub(super) fn node(&self, index: usize) -> Result<NodeName, String> {
        self.word(index)?.parse().map_err(|e| format!("{e}"))
    }

    fn job_name(&self) -> Result<JobName, String> {
        self.word(0)?.parse().map_err(|e| format!("{e}"))
    }

    pub(super) fn number(&self, index: usize) -> Result<i64, String> {
        self.word(index)?.parse().map_err(|e| format!("{e}"))
    }

    fn setting(&self, key: &str, default: &str) -> String {
        self.settings.get(key).cloned().unwrap_or_else(|| default.to_owned())
    }

    fn count(&self, key: &str, default: u32) -> Result<u32, String> {
        self.setting(key, &default.to_string()).parse().map_err(|e| format!("{key}: {e}"))
    }

    fn shard_assignments(&self, scenario: &ScenarioRunner) -> Result<String, String> {
        Ok(scenario.world.shard_assignments(&self.word(0)?.parse().map_err(|e| format!("{e}"))?))
    }

    /// The node that gets the command: `by=A`, or the first online one.
    pub(super) fn asked(&self, scenario: &ScenarioRunner, key: &str) -> Result<NodeName, String> {
        match self.settings.get(key) {
            Some(name) => name.parse().map_err(|e| format!("{e}")),
            None => {
                let mut alive = scenario.world.names().filter(|n| scenario.world.node(n).is_some());
                alive.next().cloned().ok_or_else(|| "no node lives".to_owned())
            }
        }
    }

    fn start(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let settings = Settings {
            name: self.node(0)?,
            predecessor: None,
            address: format!("{}:7700", self.setting("host", self.word(0)?)),
            home: String::new(),
            version: String::new(),
            ttl: Millis(i64::from(self.count("ttl", TTL)?)),
            tolerance: self.count("n", 1)?,
            alarm: self.count("M", 1_000)?,
            slots: self.count("slots", 1_000)?,
            labels: evenkeel_core::labels::Labels::default(),
            lacking: String::new(),
            spread: if self.setting("spread", "first come") == "even" {
                Spread::Even
            } else {
                Spread::FirstCome
            },
            quota: if self.setting("quota", "now") == "larger" { Quota::Larger } else { Quota::Now },
            lead_max: Millis(1_000),
            lead_min: Millis(1_000),
            max_clock_skew: Millis(500),
            rescan: Millis(i64::from(self.count("rescan", 600_000)?)),
            early: Millis(0),
            notice: Millis(i64::from(self.count("notice", 0)?)),
            operations_max: 4_096,
            class: DurabilityClass::A,
            generation: 1,
            knows: Layouts::OWN,
        };
        scenario.world.add(settings, SimClock::new(0));
        Ok(())
    }

    /// Makes jobs with manual runs only, requested at the winner, with all other nodes further away.
    fn jobs(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let winner = self.asked(scenario, "winner")?;
        for _ in 0..self.number(0)? {
            scenario.made += 1;
            let name = format!("j{}", scenario.made);
            let job = JobFile::new(name.parse().map_err(|e| format!("{e}"))?, "", self.work("60000"));
            self.favoured(scenario, &winner, input::Command::Apply(vec![job]));
        }
        Ok(())
    }

    fn job(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let asked = self.asked(scenario, "by")?;
        let name: JobName = self.word(0)?.parse().map_err(|e| format!("{e}"))?;
        let every = self.settings.get("every").map(|span| format!("@every {span}")).unwrap_or_default();
        let mut job = JobFile::new(name.clone(), &every, self.work("2"));
        if self.setting("delivery", "at most once") == "at least once" {
            job.delivery = Delivery::AtLeastOnce;
        }
        if let Some(grace) = self.settings.get("grace") {
            job.misfire_grace = Some(grace.parse().map_err(|e| format!("grace: {e}"))?);
        }
        if self.words.iter().any(|word| word == "dispatched") {
            job.placement = Placement::Dispatched;
        }
        if let Some((pool, most)) = self.settings.get("pool").and_then(|pool| pool.split_once(':')) {
            let name = pool.parse().map_err(|e| format!("pool: {e}"))?;
            job.pool = Some(Pool { name, limit: most.parse().map_err(|e| format!("pool: {e}"))? });
        }
        if self.settings.contains_key("shards") {
            self.sharded(&mut job)?;
        }
        let ask = scenario.world.ask(&asked, input::Command::Apply(vec![job]));
        scenario.awaited.push((format!("job {name}"), ask));
        Ok(())
    }

    /// The settings of sharded jobs: `shards=4 strategy=rotate order=descending static host wait=5 unmonitored`.
    fn sharded(&self, job: &mut JobFile) -> Result<(), String> {
        let says = |word: &str| self.words.iter().any(|said| said == word);
        job.placement = Placement::Sharded;
        job.shards = self.count("shards", 1)?;
        job.strategy = match self.setting("strategy", "average").as_str() {
            "rotate" => ShardingStrategy::Rotate,
            "odd even" => ShardingStrategy::OddEven,
            _ => ShardingStrategy::Average,
        };
        job.order = if says("descending") { NodeOrder::Descending } else { NodeOrder::Ascending };
        (job.sticky_shards, job.one_per_host, job.monitor_execution) =
            (says("static"), says("host"), !says("unmonitored"));
        job.enabled = !says("disabled");
        job.reshard_timeout = self.count("wait", 10)?.into();
        job.catch_up = if says("skip") { CatchUp::Skip } else { CatchUp::Latest };
        job.shard_parameters = self
            .settings
            .get("parameters")
            .into_iter()
            .flat_map(|all| all.split(','))
            .map(str::to_owned)
            .collect();
        Ok(())
    }

    /// `switch JOB NODE pause|resume|disable|enable|shutdown`, `shards JOB 0-3 on|off`.
    fn switch(&self) -> Result<input::Command, String> {
        let job: JobName = self.word(0)?.parse().map_err(|e| format!("{e}"))?;
        if self.verb == "shards" {
            let shards = self.word(1)?.parse().map_err(|e| format!("{e}"))?;
            return Ok(input::Command::Shards(job, shards, self.word(2)? == "on"));
        }
        find_verb(input::Command::on_job(&job, Some(&self.node(1)?)), self.word(2)?)
    }

    fn work(&self, takes: &str) -> Work {
        Work::Command(vec!["run".to_owned(), self.setting("takes", takes)])
    }

    fn favoured(&self, scenario: &mut ScenarioRunner, winner: &NodeName, command: input::Command) {
        let others: Vec<NodeName> = scenario.world.names().filter(|n| *n != winner).cloned().collect();
        others.iter().for_each(|name| scenario.world.set_far(name, FAR));
        scenario.world.ask(winner, command);
        scenario.world.run_for(CALM);
        others.iter().for_each(|name| scenario.world.set_far(name, 0));
    }

    fn run_held(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let name = self.node(0)?;
        let count = usize::try_from(self.number(1)?).unwrap_or(0);
        let jobs: Vec<JobName> = scenario.world.jobs_of(&name).into_iter().take(count).collect();
        for job in jobs {
            let request = format!("r{}", scenario.world.steps()).parse().map_err(|e| format!("{e}"))?;
            scenario.world.ask(&name, input::Command::RunNow(job, request));
        }
        Ok(())
    }

    fn command(&self, scenario: &mut ScenarioRunner) -> Result<(), String> {
        let job = || self.word(0)?.parse::<JobName>().map_err(|e| format!("{e}"));
        let lock = || self.word(0)?.parse().map_err(|e| format!("{e}"));
        let command = match self.verb.as_str() {
            "pause" | "resume" | "enable" | "disable" | "shutdown" => {
                find_verb(input::Command::on_job(&job()?, None), &self.verb)?
            }
            "delete" => input::Command::Delete(job()?),
            "drain" | "undrain" | "cordon" | "uncordon" | "activate" => {
                find_verb(input::Command::on_node(&self.node(0)?), &self.verb)?
            }
            "switch" | "shards" => self.switch()?,
            "ask" if self.words.len() > 2 => input::Command::RunWith(
                job()?,
                self.word(1)?.parse().map_err(|e| format!("{e}"))?,
                input::RunOptions { node: Some(self.node(2)?), ..input::RunOptions::default() }.into(),
            ),
            "ask" => input::Command::RunNow(job()?, self.word(1)?.parse().map_err(|e| format!("{e}"))?),
            "lock" => input::Command::Lock(lock()?),
            "unlock" => input::Command::Unlock(lock()?),
            "beat" => input::Command::Beat(self.word(0)?.parse().map_err(|e| format!("{e}"))?),
            "leave" => input::Command::Leave,
            _ => input::Command::Claim,
        };
        let asked = match self.verb.as_str() {
            "leave" | "claim" => self.node(0)?,
            _ => self.asked(scenario, "by")?,
        };
        let what = format!("{} {}", self.verb, self.words.join(" "));
        let ask = scenario.world.ask(&asked, command);
        scenario.awaited.push((format!("{asked} {}", what.trim_end()), ask));
        Ok(())
    }
}

/// The command with this verb.
fn find_verb(commands: Vec<input::Command>, verb: &str) -> Result<input::Command, String> {
    let has_verb = |command: &input::Command| command.describe().is_some_and(|said| said.verb == verb);
    commands.into_iter().find(has_verb).ok_or_else(|| format!("no command here is called {verb}"))
}
