//! Three hosts in network namespaces of their own, joined by a switch in a fourth, and what can be done to the wires.
//!
//! Each namespace lives as long as the process that holds it, and that one as long as its standard input is open: however
//! this process ends, the network goes with it. The host's own network is never touched, and nothing leads out.

use std::fs::read_link;
use std::io;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::NAMES;
use crate::process::until;

/// Where a node's packets to another one go while they are cut: to a network card that nobody has.
const NOWHERE: &str = "02:00:00:00:00:ee";

/// The switch and the hosts.
pub(crate) struct TestNetwork {
    hub: NetworkNamespace,
    hosts: Vec<NetworkNamespace>,
}

/// A network namespace.
struct NetworkNamespace {
    holder: Child,
    /// Its end is the holder's end.
    _open: ChildStdin,
}

/// Packets from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkPath {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl NetworkPath {
    pub(crate) fn back(self) -> Self {
        Self { from: self.to, to: self.from }
    }

    /// All there are.
    pub(crate) fn all() -> Vec<Self> {
        let ways = |from| (0..NAMES.len()).filter(move |to| *to != from).map(move |to| Self { from, to });
        (0..NAMES.len()).flat_map(ways).collect()
    }
}

/// A host's address.
pub(crate) fn address(host: usize) -> String {
    format!("10.77.0.{}", host + 1)
}

impl TestNetwork {
    /// Lays it.
    ///
    /// # Errors
    /// This machine does not let us: the text says what it refused.
    pub(crate) fn lay() -> Result<Self, String> {
        let network = Self {
            hub: NetworkNamespace::new()?,
            hosts: NAMES.iter().map(|_| NetworkNamespace::new()).collect::<Result<_, _>>()?,
        };
        network.hub.ip("link add hub type bridge")?;
        network.hub.ip("address add 10.77.0.254/24 dev hub")?;
        network.hub.ip("link set hub up")?;
        for (at, host) in network.hosts.iter().enumerate() {
            let pid = host.holder.id();
            network.hub.ip(&format!("link add port{at} type veth peer name wire netns {pid}"))?;
            network.hub.ip(&format!("link set port{at} master hub"))?;
            network.hub.ip(&format!("link set port{at} up"))?;
            host.ip(&format!("address add {}/24 dev wire", address(at)))?;
            host.ip("link set wire up")?;
            host.ip("link set lo up")?;
        }
        Ok(network)
    }

    /// The command as a process of that host.
    pub(crate) fn on_host(&self, host: usize, command: &Command) -> Command {
        self.hosts[host].inside(command)
    }

    /// The command as a process beside the switch, from where everybody is reached whatever is cut.
    pub(crate) fn on_hub(&self, command: &Command) -> Command {
        self.hub.inside(command)
    }

    /// Lets the packets of these ways vanish, without a word to who sends them.
    pub(crate) fn cut(&self, ways: &[NetworkPath]) {
        for NetworkPath { from, to } in ways {
            let done = self.hosts[*from]
                .ip(&format!("neighbour replace {} lladdr {NOWHERE} dev wire nud permanent", address(*to)));
            done.expect("a way is cut");
        }
    }

    /// Lets them arrive again.
    pub(crate) fn mend(&self, ways: &[NetworkPath]) {
        for NetworkPath { from, to } in ways {
            let done = self.hosts[*from].ip(&format!("neighbour del {} dev wire", address(*to)));
            done.expect("a way is mended");
        }
    }
}

impl NetworkNamespace {
    fn new() -> Result<Self, String> {
        let why = |error: io::Error| format!("`unshare` does not start: {error}");
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut holder = command.spawn().map_err(why)?;
        let open = holder.stdin.take().expect("it is piped");
        let ours = read_link("/proc/self/ns/net").map_err(why)?;
        let theirs = format!("/proc/{}/ns/net", holder.id());
        let made = until("there is a network namespace, or none is given", || {
            let ended = holder.try_wait().expect("it is ours").is_some();
            let apart = read_link(&theirs).is_ok_and(|theirs| theirs != ours);
            (ended || apart).then_some(!ended)
        });
        if made {
            Ok(Self { holder, _open: open })
        } else {
            Err("`unshare --net` is refused: it takes root".into())
        }
    }

    /// Does something with its network.
    fn ip(&self, args: &str) -> Result<(), String> {
        let mut ip = Command::new("ip");
        ip.args(args.split(' ')).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let done = self.inside(&ip).output();
        let done = done.map_err(|error| format!("`nsenter` does not start: {error}"))?;
        let said = String::from_utf8_lossy(&done.stderr);
        if done.status.success() { Ok(()) } else { Err(format!("`ip {args}`: {}", said.trim())) }
    }

    /// The same command in here. `nsenter` becomes it, so that its number as a process is the command's.
    fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg("--target").arg(self.holder.id().to_string()).arg("--net").arg("--");
        inside.arg(command.get_program()).args(command.get_args());
        inside.env_clear().stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            inside.env(name, value.unwrap_or_default());
        }
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        inside
    }
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
