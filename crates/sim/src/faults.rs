//! The kinds of faults, by name, and their counts.

macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident: $($(#[$kind_doc:meta])* $kind:ident = $text:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$kind_doc])* $kind,)*
        }

        impl $name {
            /// All kinds of faults.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$kind => $text,)* })
            }
        }
    };
}
pub(crate) use kinds;

kinds! {
    /// A kind of fault.
    SimFault:
    /// A request never reaches the registry.
    RequestLost = "request lost",
    /// A request was carried out and its answer never comes.
    ReplyLost = "reply lost",
    /// A message takes seconds, so that others overtake it, or its sender has given it up.
    Slow = "message slow",
    /// News is lost silently.
    NewsLost = "news lost",
    /// News that comes twice.
    NewsDoubled = "news doubled",
    /// News that comes seconds late, and all later news after it.
    NewsLate = "news late",
    /// Newer news overtakes older news.
    NewsOvertaken = "news overtaken",
    /// The feed ends and has to be resumed.
    FeedEnds = "feed ends",
    /// A process takes long to start.
    StartLate = "start late",
    /// An executor cannot start a process.
    StartFails = "start fails",
    /// The history accepts no verdicts for a while.
    HistoryAway = "history away",
    /// A node cannot reach the registry for a while.
    Cut = "node cut off",
    /// A node's requests arrive, but nothing comes back for a while.
    HalfCut = "node half cut off",
    /// No node can reach the registry for a while.
    RegistryAway = "registry away",
    /// A node's process is killed.
    Crash = "crash",
    /// A node's host loses power.
    Reboot = "reboot",
    /// A node's process is stopped for a while; its guard process goes on.
    Pause = "pause",
    /// A node's process is stopped, and its guard kills it.
    Hang = "node hangs",
    /// A node's wall clock steps forward.
    ClockForward = "clock forward",
    /// A node's wall clock steps back.
    ClockBack = "clock back",
    /// A node's clock since boot is fast or slow.
    Drift = "clock drift",
    /// A node's disk is full for a while.
    Unable = "node unable",
    /// A call between nodes, or its answer, never arrives.
    PeerLost = "call lost",
    /// A call between nodes, or its answer, takes seconds.
    PeerSlow = "call slow",
    /// A call between nodes arrives twice.
    PeerDoubled = "call doubled",
    /// A node cannot reach another one for a while, though both may reach the registry.
    PeerCut = "pair cut",
    /// A node cannot be reached by any other one for a while, though it reaches the registry.
    PeerAlone = "node alone",
    /// A node is cut off from the registry for a while and its peers still reach it.
    OnlyPeers = "only peers",
    /// The serving leader's process is stopped for longer than its lease.
    LeaderPause = "leader paused",
    /// A node's wall clock is off by up to a minute and a half.
    Skew = "clock skewed",
    /// A node's process continues in another program, with its runs.
    Upgrade = "upgrade",
    /// Another version of the program is put into a node's file.
    Version = "version",
    /// A node's guard process dies soon after the node's process, once it has ended the runs.
    GuardDies = "guard dies too",
    /// A guard takes seconds to remove the member of its node's dead process.
    GuardSlow = "guard slow",
    /// A guard does not know whether it has removed the member, and tries again.
    RemovalUnanswered = "removal unanswered",
    /// The registry is rewound to an earlier state.
    BackInTime = "back in time",
    /// The same while no node's process is up, in a way that the registry cannot detect.
    PutBack = "put back as it was",
}

impl SimFault {
    /// The faults of hosts and of the links to the registry.
    #[must_use]
    pub fn of_hosts() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|fault| *fault <= Self::Unable).collect()
    }

    /// The faults between nodes.
    #[must_use]
    pub fn of_peers() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|fault| (Self::PeerLost..=Self::Skew).contains(fault)).collect()
    }
}

/// The number of occurrences of each fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts(std::collections::BTreeMap<SimFault, u64>);

impl FaultCounts {
    /// Adds one occurrence of a fault.
    pub fn count(&mut self, fault: SimFault) {
        *self.0.entry(fault).or_default() += 1;
    }

    /// Adds the counts of another world.
    pub fn add(&mut self, other: &Self) {
        for (fault, count) in &other.0 {
            *self.0.entry(*fault).or_default() += count;
        }
    }

    /// The number of occurrences of a fault.
    #[must_use]
    pub fn of(&self, fault: SimFault) -> u64 {
        self.0.get(&fault).copied().unwrap_or(0)
    }
}

/// The faults of single messages and starts, with their rates in a thousand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    rates: std::collections::BTreeMap<SimFault, u32>,
    /// The maximum transit time of a message without faults, in milliseconds.
    pub delay: i64,
}

impl FaultRates {
    /// No faults; messages take up to this many milliseconds.
    #[must_use]
    pub fn calm(delay: i64) -> Self {
        Self { rates: std::collections::BTreeMap::new(), delay }
    }

    /// Adds a fault with this rate in a thousand.
    #[must_use]
    pub fn with(mut self, fault: SimFault, per_mille: u32) -> Self {
        self.rates.insert(fault, per_mille);
        self
    }

    /// The rate of a fault, in a thousand.
    #[must_use]
    pub fn rate(&self, fault: SimFault) -> u32 {
        self.rates.get(&fault).copied().unwrap_or(0)
    }
}
