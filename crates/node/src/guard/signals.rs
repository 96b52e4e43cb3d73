//! Describes signals in words, for the reason of a run that was ended by one.

use rustix::process::Signal;

const NAMES: &[(Signal, &str)] = &[
    (Signal::HUP, "HUP"),
    (Signal::INT, "INT"),
    (Signal::QUIT, "QUIT"),
    (Signal::ILL, "ILL"),
    (Signal::TRAP, "TRAP"),
    (Signal::ABORT, "ABRT"),
    (Signal::BUS, "BUS"),
    (Signal::FPE, "FPE"),
    (Signal::KILL, "KILL"),
    (Signal::USR1, "USR1"),
    (Signal::SEGV, "SEGV"),
    (Signal::USR2, "USR2"),
    (Signal::PIPE, "PIPE"),
    (Signal::ALARM, "ALRM"),
    (Signal::TERM, "TERM"),
    (Signal::XCPU, "XCPU: its CPU time was used up, see limits.cpu"),
    (Signal::XFSZ, "XFSZ"),
    (Signal::SYS, "SYS"),
];

/// The reason of a run that this signal ended.
pub(super) fn describe(signal: i32) -> String {
    match NAMES.iter().find(|(known, _)| known.as_raw() == signal) {
        Some((_, name)) => format!("ended by signal {signal} ({name})"),
        None => format!("ended by signal {signal}"),
    }
}
