//! What is remembered from forecast to forecast, under edits of every kind: a forecast with it is the one without.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::calendar::Calendar;
use crate::forecast::{FireForecast, ForecastGroups, ForecastScope};
use crate::ids::JobName;
use crate::job::{Job, JobFile, Placement, Spec, Work};
use crate::keys;
use crate::record::{CalendarRecord, CalendarSpec, MemberInfo, SpecRecord, encode};
use crate::registry::{Txn, Write};
use crate::schedule::ForecastWindow;
use crate::store::Store;
use crate::time::{Mono, Wall};
use crate::view::View;

/// 2026-11-22T00:00:00Z.
const BEGIN: Wall = Wall(1_795_305_600_000);
const RULES: &[&str] = &["@hourly", "*/5 * * * *", "H * * * *", "H/20 H * * *", "@every 7m", "@after 5m", ""];
const NAMES: &[&str] = &["a", "b", "team/a", "team/b", "team/c", "other/a"];

/// How a job is declared.
#[derive(Clone, Debug)]
struct EditedJob {
    rules: usize,
    jitter: bool,
    calendar: bool,
    label: bool,
    enabled: bool,
    paused: bool,
    shards: u32,
    selector: bool,
    broadcast: bool,
}

/// One edit of the registry.
#[derive(Clone, Debug)]
enum ForecastEdit {
    Declare(usize, EditedJob),
    Delete(usize),
    Purge(usize),
    Calendar(Option<u8>),
    Member(u64, bool),
    Forecast,
}

fn declared() -> impl Strategy<Value = EditedJob> {
    let flags = any::<[bool; 5]>();
    (0..RULES.len(), flags, any::<[bool; 2]>(), 1..4_u32, any::<bool>()).prop_map(
        |(rules, [jitter, calendar, label, selector, broadcast], [off, paused], shards, both)| EditedJob {
            rules,
            jitter,
            calendar,
            label,
            enabled: !off || both,
            paused: paused && both,
            shards,
            selector: selector && both,
            broadcast,
        },
    )
}

fn edit() -> impl Strategy<Value = ForecastEdit> {
    prop_oneof![
        6 => (0..NAMES.len(), declared()).prop_map(|(n, job)| ForecastEdit::Declare(n, job)),
        1 => (0..NAMES.len()).prop_map(ForecastEdit::Delete),
        1 => (0..NAMES.len()).prop_map(ForecastEdit::Purge),
        1 => proptest::option::of(0..9_u8).prop_map(ForecastEdit::Calendar),
        1 => (0..3_u64, any::<bool>()).prop_map(|(n, on)| ForecastEdit::Member(n, on)),
        2 => Just(ForecastEdit::Forecast),
    ]
}

fn spec(name: &JobName, version: u64, declared: &EditedJob) -> SpecRecord {
    let mut file = JobFile::new(name.clone(), RULES[declared.rules], Work::Function("f".into()));
    let timed = declared.rules < 5;
    if timed && declared.jitter {
        file.jitter = "10m".into();
    }
    if timed && declared.calendar {
        file.exclude_calendars = ["default/closed".parse().unwrap()].into();
    }
    if declared.label {
        file.labels = serde_json::from_str(r#"{"team":"a"}"#).unwrap();
    }
    if declared.selector {
        file.node_selector = serde_json::from_str(r#"["gpu"]"#).unwrap();
    }
    // `@after` counts from the end of one run.
    if declared.rules != 5 && declared.broadcast {
        file.placement = Placement::Broadcast;
    } else if declared.rules != 5 && declared.shards > 1 {
        (file.placement, file.shards) = (Placement::Sharded, declared.shards);
    }
    file.enabled = declared.enabled;
    let mut spec = Spec::new(Job::parse(file).unwrap(), version, Wall(0));
    spec.paused = declared.paused;
    SpecRecord::Live(Box::new(spec))
}

fn perform(store: &mut Store, version: u64, edit: &ForecastEdit) {
    let put = |key, value| Write::Put { key, value, owner: None };
    let name = |n: usize| -> JobName { NAMES[n].parse().unwrap() };
    let write = match edit {
        ForecastEdit::Declare(n, declared) => {
            put(keys::spec(&name(*n)), encode(&spec(&name(*n), version, declared)))
        }
        ForecastEdit::Delete(n) => put(keys::spec(&name(*n)), encode(&SpecRecord::Deleted { version })),
        ForecastEdit::Purge(n) => Write::Delete { key: keys::spec(&name(*n)) },
        ForecastEdit::Calendar(hour) => {
            let key = keys::calendar(&"closed".parse().unwrap());
            match hour {
                Some(hour) => {
                    let mut calendar = Calendar::new("closed".parse().unwrap());
                    calendar.windows = [format!("0{hour}:00..0{hour}:45")].into();
                    let spec = CalendarSpec { calendar, version, since: Wall(0) };
                    put(key, encode(&CalendarRecord::Live(Box::new(spec))))
                }
                None => Write::Delete { key },
            }
        }
        ForecastEdit::Member(n, on) => {
            let key = keys::node(&format!("n{n}@{n}").parse().unwrap());
            let labels = serde_json::from_str(if *n == 1 { r#"["gpu"]"# } else { "[]" }).unwrap();
            let text = String::new;
            let info = MemberInfo {
                address: text(),
                home: text(),
                slots: 1,
                tolerance: 1,
                alarm: 1,
                version: text(),
                labels,
                lacking: text(),
                knows: 1,
            };
            if *on { put(key, encode(&info)) } else { Write::Delete { key } }
        }
        ForecastEdit::Forecast => return,
    };
    store.commit(Mono(0), &Txn { guards: Vec::new(), writes: [write].into() });
}

/// The forecast, and how many declarations were read for it.
fn forecast(groups: &mut ForecastGroups, view: &View, scope: &ForecastScope) -> (FireForecast, usize) {
    let mut reading = groups.reading(scope);
    while reading.look(view) {}
    let read = reading.read();
    (reading.jobs().forecast(&ForecastWindow::new(BEGIN, 1, 600)), read)
}

fn scopes() -> [ForecastScope; 4] {
    let scope = |namespace: Option<&str>, labels: Option<&str>| ForecastScope {
        namespace: namespace.map(|text| text.parse().unwrap()),
        labels: labels.map(|text| text.parse().unwrap()),
    };
    [
        scope(None, None),
        scope(Some("team"), None),
        scope(None, Some("team=a")),
        scope(Some("default"), Some("!team")),
    ]
}

proptest! {
    #[test]
    fn a_forecast_of_what_is_remembered_is_the_one_of_what_is_read(
        edits in proptest::collection::vec(edit(), 1..60),
    ) {
        let (mut store, mut view) = (Store::default(), View::new("n0".parse().unwrap()));
        let mut groups = ForecastGroups::default();
        perform(&mut store, 0, &ForecastEdit::Member(0, true));
        view.list(Mono(0), &store.list());
        for (version, edit) in (1..).zip(edits.iter().chain([&ForecastEdit::Forecast])) {
            let before = store.revision();
            perform(&mut store, version, edit);
            let changes = store.changes_after(before).unwrap().changes;
            view.absorb_change(Mono(0), &changes);
            if !matches!(edit, ForecastEdit::Forecast) {
                continue;
            }
            for scope in scopes() {
                let (again, _) = forecast(&mut groups, &view, &scope);
                let (anew, _) = forecast(&mut ForecastGroups::default(), &view, &scope);
                prop_assert_eq!(again, anew);
            }
            prop_assert_eq!(forecast(&mut groups, &view, &ForecastScope::default()).1, 0);
        }
    }
}

#[test]
fn only_changed_declarations_are_read_again_and_memory_is_bounded() {
    let job = EditedJob {
        rules: 0,
        jitter: false,
        calendar: true,
        label: false,
        enabled: true,
        paused: false,
        shards: 1,
        selector: false,
        broadcast: false,
    };
    let (mut store, mut view) = (Store::default(), View::new("n0".parse().unwrap()));
    for n in 0..NAMES.len() {
        perform(&mut store, 1, &ForecastEdit::Declare(n, job.clone()));
    }
    perform(&mut store, 1, &ForecastEdit::Member(0, true));
    view.list(Mono(0), &store.list());
    let (mut groups, all) = (ForecastGroups::default(), ForecastScope::default());
    let (first, read) = forecast(&mut groups, &view, &all);
    assert_eq!((first.unpredictable, read), (NAMES.len(), NAMES.len()), "the calendar is missing");
    for edit in [ForecastEdit::Calendar(Some(3)), ForecastEdit::Declare(0, EditedJob { rules: 1, ..job })] {
        let before = store.revision();
        perform(&mut store, 2, &edit);
        view.absorb_change(Mono(0), &store.changes_after(before).unwrap().changes);
    }
    let (again, read) = forecast(&mut groups, &view, &all);
    assert_eq!((again.jobs, again.unpredictable, read), (NAMES.len(), 0, 1));
    for n in 0..2 * super::SPARE {
        let text = format!("{} {} {} * *", n % 60, n / 60 % 24, 1 + n / 1_440);
        let schedule = crate::forecast::tests::text(&text);
        groups.fires_of(&"a".parse().unwrap(), schedule);
    }
    assert_eq!(forecast(&mut groups, &view, &all).1, NAMES.len(), "all was forgotten");
    assert!(groups.texts.len() < 10 && groups.schedules.len() < 10);
}
