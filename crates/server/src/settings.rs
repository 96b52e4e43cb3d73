//! A node's settings: read from a file, overridden by the environment and by flags, then resolved or refused.

mod commands;
mod heartbeat;
mod login;
mod notify;
mod tls;
mod values;

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use evenkeel::{OutgoingHeartbeat, Retention};
use evenkeel_core::ids::NodeName;
use evenkeel_core::node::Quota;
use evenkeel_core::time::{Millis, SpanLimits};
use serde::Deserialize;

use crate::bounded;
use crate::exit::CliError;
use crate::key::KeyFile;
use crate::logging::LogFormat;
use crate::otlp::OtlpEndpoints;
use crate::proxies::TrustedProxies;
use crate::text_input::{self, ReadTarget, TextFormat};
use commands::CommandSettings;
use heartbeat::HeartbeatConfig;
use login::LoginArgs;
pub(crate) use login::{CALLBACK, LoginSettings};
use notify::NotifierConfig;
pub(crate) use tls::TlsSettings;
use tls::WrittenTls;
use values::{advertised, allowed, at_least_one, choice, needed, networks, origin, secrets, span};

/// The default port (S0-06).
pub(crate) const PORT: u16 = 7700;
/// The size limit of a settings file, far above any real one.
const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;
/// The minimum lease term: shorter leases end by mere scheduling noise.
const TTL_LIMITS: SpanLimits = SpanLimits::new(Millis::secs(2), Millis::secs(3_600));
/// The longest wait for a name: longer than any lease.
const WAIT_LIMITS: SpanLimits = SpanLimits::new(Millis::secs(1), Millis::secs(24 * 3_600));
/// The minimum retention of the audit log, and of the counts of fires.
const KEEP_LIMITS: SpanLimits = SpanLimits::ANY.at_least(Millis::secs(24 * 3_600));

/// The settings as written: by flag, in the environment, or in the file.
#[derive(Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsArgs {
    /// The address of the registry: sqlite:PATH, or an engine, such as etcd://HOST,HOST,HOST or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "URL", env = "EVENKEEL_REGISTRY", hide_env_values = true)]
    pub(crate) registry: Option<String>,
    /// The node's name, unique in the cluster
    #[arg(long, value_name = "NAME", env = "EVENKEEL_NAME")]
    pub(crate) name: Option<String>,
    /// The port of the HTTP interface; 7700 by default
    #[arg(long, env = "EVENKEEL_PORT", value_parser = port)]
    pub(crate) port: Option<PortSetting>,
    /// The node's data folder; each node needs its own
    #[arg(long, value_name = "DIR", env = "EVENKEEL_DATA")]
    pub(crate) data: Option<PathBuf>,
    /// The address to listen on; 127.0.0.1 by default; an address beyond loopback requires a cluster key
    #[arg(long, value_name = "IP", env = "EVENKEEL_LISTEN")]
    pub(crate) listen: Option<IpAddr>,
    /// The address at which other nodes and people reach this node; by default the address that it listens on
    #[arg(long, value_name = "IP:PORT", env = "EVENKEEL_ADVERTISE")]
    pub(crate) advertise: Option<String>,
    /// Further host names of this node that callers may use, such as the name of a load balancer; give several with commas or by repeating the flag
    #[arg(long, value_name = "NAME", env = "EVENKEEL_ALLOWED_HOST", value_delimiter = ',')]
    #[serde(default)]
    pub(crate) allowed_host: Vec<String>,
    /// Networks of proxies that are believed what they say of their callers (X-Forwarded-For, -Host, -Proto); give several with commas or by repeating the flag
    #[arg(long, value_name = "CIDR", env = "EVENKEEL_TRUSTED_PROXY", value_delimiter = ',')]
    #[serde(default)]
    pub(crate) trusted_proxy: Vec<String>,
    /// Origins of pages elsewhere that may use this node with a key, such as https://tools.example.org; give several with commas or by repeating the flag
    #[arg(long, value_name = "ORIGIN", env = "EVENKEEL_ALLOWED_ORIGIN", value_delimiter = ',')]
    #[serde(default)]
    pub(crate) allowed_origin: Vec<String>,
    /// The OpenID Connect provider by which people log in, such as https://id.example.org/realms/all
    #[arg(long, value_name = "URL", env = "EVENKEEL_OIDC_ISSUER")]
    pub(crate) oidc_issuer: Option<String>,
    /// This cluster's name as a client of the provider
    #[arg(long, value_name = "ID", env = "EVENKEEL_OIDC_CLIENT_ID")]
    pub(crate) oidc_client_id: Option<String>,
    /// The file with the client's secret, its first line; without it the client is a public one
    #[arg(long, value_name = "FILE", env = "EVENKEEL_OIDC_CLIENT_SECRET_FILE")]
    pub(crate) oidc_client_secret_file: Option<PathBuf>,
    /// What the provider is asked to say of people; "openid profile email" by default
    #[arg(long, value_name = "SCOPES", env = "EVENKEEL_OIDC_SCOPES")]
    pub(crate) oidc_scopes: Option<String>,
    /// The claim that names a person in the audit log; sub by default, which never changes
    #[arg(long, value_name = "CLAIM", env = "EVENKEEL_OIDC_USER_CLAIM")]
    pub(crate) oidc_user_claim: Option<String>,
    /// The claim with a person's groups; groups by default
    #[arg(long, value_name = "CLAIM", env = "EVENKEEL_OIDC_GROUPS_CLAIM")]
    pub(crate) oidc_groups_claim: Option<String>,
    /// What the login page calls the provider; its host by default
    #[arg(long, value_name = "TEXT", env = "EVENKEEL_OIDC_LABEL")]
    pub(crate) oidc_label: Option<String>,
    /// The address to which the provider sends people back, if it is another than that at which they use this node: it ends with /login/oidc/callback
    #[arg(long, value_name = "URL", env = "EVENKEEL_OIDC_REDIRECT_URL")]
    pub(crate) oidc_redirect_url: Option<String>,
    /// A PEM file with the certificate of the provider, or of the authority that signed it. What this host trusts is trusted too
    #[arg(long, value_name = "FILE", env = "EVENKEEL_OIDC_CA_FILE")]
    pub(crate) oidc_ca_file: Option<PathBuf>,
    /// How long a session lasts that began with the provider; 12h by default, 7d at most
    #[arg(long, value_name = "TIME", env = "EVENKEEL_OIDC_SESSION")]
    pub(crate) oidc_session: Option<String>,
    /// The header in which trusted proxies name the person for whom they vouch, such as X-Forwarded-User; they have to remove what their callers send
    #[arg(long, value_name = "HEADER", env = "EVENKEEL_PROXY_USER_HEADER")]
    pub(crate) proxy_user_header: Option<String>,
    /// The header in which they name the person's groups, with commas between them, such as X-Forwarded-Groups
    #[arg(long, value_name = "HEADER", env = "EVENKEEL_PROXY_GROUPS_HEADER")]
    pub(crate) proxy_groups_header: Option<String>,
    /// The role of a group's members, for people of the login provider or of a proxy: GROUP=ROLE, GROUP=ROLE:NAMESPACE or GROUP=ROLE:NAMESPACE:LABELS for jobs with these labels; the group * is everyone; give several with commas or by repeating the flag
    #[arg(long, value_name = "GROUP=ROLE", env = "EVENKEEL_GROUP_ROLE", value_delimiter = ',')]
    #[serde(default)]
    pub(crate) group_role: Vec<String>,
    /// A socket on which the node answers programs of its own user and of root without a key; no other user may be able to write to its folder
    #[arg(long, value_name = "PATH", env = "EVENKEEL_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// The file with the cluster's key; every caller must send this key. By default the key of this user on this host, which the first node makes
    #[arg(long, value_name = "FILE", env = "EVENKEEL_CLUSTER_KEY_FILE")]
    pub(crate) cluster_key_file: Option<PathBuf>,
    /// The file with the cluster's identity, which is made if it is missing; all nodes of a cluster have the same. By default identity.json in the user's state folder
    #[arg(long, value_name = "FILE", env = "EVENKEEL_IDENTITY")]
    pub(crate) identity: Option<PathBuf>,
    /// A join token of the cluster, or a file with one: the node gets the cluster's identity for it, unless this host has it already
    #[arg(long, value_name = "TOKEN", env = "EVENKEEL_JOIN", hide_env_values = true)]
    pub(crate) join: Option<String>,
    /// Which callers must use https: auto (all but those on this host), on (all) or off (other nodes only); auto by default
    #[arg(long, value_name = "WHEN", env = "EVENKEEL_TLS")]
    pub(crate) tls: Option<String>,
    /// A certificate for people and proxies instead of the node's own, in PEM, with those between it and its authority; it is read again when it changes
    #[arg(long, value_name = "FILE", env = "EVENKEEL_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE", env = "EVENKEEL_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The term of the node's lease; 15s by default, at least 2s
    #[arg(long, value_name = "TIME", env = "EVENKEEL_TTL")]
    pub(crate) ttl: Option<String>,
    /// How long the node waits for its name while a living node has it, as an earlier life does whose data folder is gone; one and a half terms of the lease by default
    #[arg(long, value_name = "TIME", env = "EVENKEEL_WAIT_FOR_NAME")]
    pub(crate) wait_for_name: Option<String>,
    /// How many failed nodes the remaining nodes can replace; 1 by default
    #[arg(long, value_name = "N", env = "EVENKEEL_TOLERANCE")]
    pub(crate) tolerance: Option<u32>,
    /// The quota that the node uses: now (from the members that it knows now) or larger (the larger of that and the quota of its last listing); now by default
    #[arg(long, value_name = "WHICH", env = "EVENKEEL_QUOTA")]
    pub(crate) quota: Option<String>,
    /// The number of owned jobs above which the node raises the alarm; 100 by default
    #[arg(long, value_name = "N", env = "EVENKEEL_ALARM")]
    pub(crate) alarm: Option<u32>,
    /// The maximum number of concurrent runs; 64 by default
    #[arg(long, value_name = "N", env = "EVENKEEL_SLOTS")]
    pub(crate) slots: Option<u32>,
    /// Labels by which jobs can select the node, such as gpu or zone=eu; give several with commas or by repeating the flag
    #[arg(long, value_name = "LABEL", env = "EVENKEEL_LABEL", value_delimiter = ',')]
    #[serde(default)]
    pub(crate) label: Vec<String>,
    /// The address of the history: sqlite:PATH, or one history for all nodes at postgres://USER@HOST/DATABASE or mysql://…; by default a file beside the registry's file, or in the data folder
    #[arg(long, value_name = "URL", env = "EVENKEEL_HISTORY", hide_env_values = true)]
    pub(crate) history: Option<String>,
    /// The maximum number of bytes of output stored for one attempt; 10485760 by default
    #[arg(long, value_name = "BYTES", env = "EVENKEEL_OUTPUT_MAX")]
    pub(crate) output_max: Option<u64>,
    /// The maximum number of bytes of output stored for a command in a second, with bursts of ten seconds' worth; 1048576 by default, 0 for no limit
    #[arg(long, value_name = "BYTES", env = "EVENKEEL_OUTPUT_RATE")]
    pub(crate) output_rate: Option<u64>,
    /// How long entries of the audit log are stored; 400d by default, at least 1d
    #[arg(long, value_name = "TIME", env = "EVENKEEL_AUDIT_KEEP")]
    pub(crate) audit_keep: Option<String>,
    /// How long the counts of fires by hour, day and job are stored; 400d by default, at least 1d
    #[arg(long, value_name = "TIME", env = "EVENKEEL_SUMMARY_KEEP")]
    pub(crate) summary_keep: Option<String>,
    /// Non-public networks that http jobs may reach, such as 10.0.0.0/8; give several with commas or by repeating the flag
    #[arg(long, value_name = "CIDR", env = "EVENKEEL_HTTP_ALLOW", value_delimiter = ',')]
    #[serde(default)]
    pub(crate) http_allow: Vec<String>,
    /// The folder of the secrets that jobs may name, one file each; only the node's user and group may read the files
    #[arg(long, value_name = "DIR", env = "EVENKEEL_SECRETS")]
    pub(crate) secrets: Option<PathBuf>,
    /// Whether commands get cgroups: auto (if the host allows the node to create them) or off (limits.together of jobs is then ignored); auto by default
    #[arg(long, value_name = "WHEN", env = "EVENKEEL_CGROUPS")]
    pub(crate) cgroups: Option<String>,
    /// Whether the node is killed by its guard when it hangs, so that other nodes take its jobs over before its lease ends: on or off; on by default, and off for dev
    #[arg(long, value_name = "WHEN", env = "EVENKEEL_WATCHDOG")]
    pub(crate) watchdog: Option<String>,
    /// The users as which commands may run: own (the node's), any, or names; give several with commas or by repeating the flag; by default own, but not root
    #[arg(long, value_name = "USERS", env = "EVENKEEL_COMMAND_USERS", value_delimiter = ',')]
    #[serde(default)]
    pub(crate) command_users: Vec<String>,
    /// The permission bits that files made by commands lack, in octal; 077 by default
    #[arg(long, value_name = "OCTAL", env = "EVENKEEL_COMMAND_UMASK")]
    pub(crate) command_umask: Option<String>,
    /// Whether commands can gain no privileges by programs such as sudo: on or off; on by default
    #[arg(long, value_name = "WHEN", env = "EVENKEEL_NO_NEW_PRIVILEGES")]
    pub(crate) no_new_privileges: Option<String>,
    /// The format of the log: text or json; text by default
    #[arg(long, value_name = "FORMAT", env = "EVENKEEL_LOG_FORMAT")]
    pub(crate) log_format: Option<String>,
    /// The address of an OpenTelemetry collector that takes OTLP over HTTP, to which traces of runs and the log are sent, such as http://localhost:4318; that of OTEL_EXPORTER_OTLP_ENDPOINT by default, or none
    #[arg(long, value_name = "URL", env = "EVENKEEL_OTLP_ENDPOINT", hide_env_values = true)]
    pub(crate) otlp_endpoint: Option<String>,
    /// Whom to tell of which events; only in the file.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) notify: Vec<NotifierConfig>,
    /// Where the node says that it works; only in the file.
    #[arg(skip)]
    pub(crate) heartbeat: Option<HeartbeatConfig>,
}

/// A port; none where the environment says something else by the name of its variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct PortSetting(Option<u16>);

impl From<u16> for PortSetting {
    fn from(port: u16) -> Self {
        Self(Some(port))
    }
}

/// Parses a port. Kubernetes sets `EVENKEEL_PORT` to an address in each container beside a Service called evenkeel;
/// that is no setting of this node.
fn port(text: &str) -> Result<PortSetting, String> {
    if ["tcp://", "udp://", "sctp://"].iter().any(|scheme| text.starts_with(scheme)) {
        eprintln!(
            "evenkeel: EVENKEEL_PORT={text} is ignored: Kubernetes sets it for a Service called evenkeel; give the port with --port, \
             or set enableServiceLinks: false"
        );
        return Ok(PortSetting(None));
    }
    text.parse()
        .map(|port| PortSetting(Some(port)))
        .map_err(|_| "write a number from 0 to 65535, as 7700".to_owned())
}

/// Without the addresses, which may have passwords in them.
impl fmt::Debug for SettingsArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The resolved settings.
pub(crate) struct ServerSettings {
    /// The configuration of the node itself; its address is set once the port is bound.
    pub(crate) node: evenkeel::Config,
    /// The address to listen on.
    pub(crate) listen: SocketAddr,
    /// The socket for programs on this host.
    pub(crate) socket: Option<PathBuf>,
    /// The address at which others reach it, if it is another one.
    pub(crate) advertise: Option<String>,
    /// Its further host names.
    pub(crate) hosts: Vec<String>,
    /// The origins of pages elsewhere that may use it.
    pub(crate) origins: BTreeSet<String>,
    /// The proxies that are believed.
    pub(crate) proxies: TrustedProxies,
    /// By what else than keys, tokens and passwords people log in.
    pub(crate) login: LoginSettings,
    /// How connections are secured.
    pub(crate) tls: TlsSettings,
    /// The monitor to which the node says that it works.
    pub(crate) heartbeat: Option<OutgoingHeartbeat>,
    /// The collector of OpenTelemetry, to which traces and the log are sent.
    pub(crate) collector: OtlpEndpoints,
    /// The keys of which callers must send one; `None` for the user's own.
    key: Option<KeyFile>,
}

impl ServerSettings {
    /// The keys of which callers must send one; the user's own is made if it is missing.
    ///
    /// # Errors
    /// The user's own key can be neither read nor made.
    pub(crate) fn take_key(&mut self) -> Result<KeyFile, CliError> {
        self.key.take().map_or_else(KeyFile::own, Ok)
    }
}

/// Without the cluster's key.
impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meant").field("node", &self.node).finish_non_exhaustive()
    }
}

impl SettingsArgs {
    /// Reads a settings file.
    ///
    /// # Errors
    /// The file cannot be read or has an unknown key; the text has the line.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let shown = path.display();
        let text = bounded::text(path, SETTINGS_BYTES_MAX)
            .map_err(|e| CliError::unreadable(format!("settings {shown}"), e))?;
        let text = text_input::plain(text);
        text_input::read(TextFormat::Toml, &text, ReadTarget::Settings)
            .map_err(|e| CliError::usage(format!("settings {shown}:{}: {}", e.line, e.text)))
    }

    /// These settings, completed by those of `below`.
    #[must_use]
    pub(crate) fn merged_over(self, below: Self) -> Self {
        Self {
            registry: self.registry.or(below.registry),
            name: self.name.or(below.name),
            port: self.port.filter(|port| port.0.is_some()).or(below.port),
            data: self.data.or(below.data),
            listen: self.listen.or(below.listen),
            advertise: self.advertise.or(below.advertise),
            allowed_host: given(self.allowed_host, below.allowed_host),
            trusted_proxy: given(self.trusted_proxy, below.trusted_proxy),
            allowed_origin: given(self.allowed_origin, below.allowed_origin),
            oidc_issuer: self.oidc_issuer.or(below.oidc_issuer),
            oidc_client_id: self.oidc_client_id.or(below.oidc_client_id),
            oidc_client_secret_file: self.oidc_client_secret_file.or(below.oidc_client_secret_file),
            oidc_scopes: self.oidc_scopes.or(below.oidc_scopes),
            oidc_user_claim: self.oidc_user_claim.or(below.oidc_user_claim),
            oidc_groups_claim: self.oidc_groups_claim.or(below.oidc_groups_claim),
            oidc_label: self.oidc_label.or(below.oidc_label),
            oidc_redirect_url: self.oidc_redirect_url.or(below.oidc_redirect_url),
            oidc_ca_file: self.oidc_ca_file.or(below.oidc_ca_file),
            oidc_session: self.oidc_session.or(below.oidc_session),
            proxy_user_header: self.proxy_user_header.or(below.proxy_user_header),
            proxy_groups_header: self.proxy_groups_header.or(below.proxy_groups_header),
            group_role: given(self.group_role, below.group_role),
            socket: self.socket.or(below.socket),
            cluster_key_file: self.cluster_key_file.or(below.cluster_key_file),
            identity: self.identity.or(below.identity),
            join: self.join.or(below.join),
            tls: self.tls.or(below.tls),
            tls_cert: self.tls_cert.or(below.tls_cert),
            tls_key: self.tls_key.or(below.tls_key),
            ttl: self.ttl.or(below.ttl),
            wait_for_name: self.wait_for_name.or(below.wait_for_name),
            tolerance: self.tolerance.or(below.tolerance),
            quota: self.quota.or(below.quota),
            alarm: self.alarm.or(below.alarm),
            slots: self.slots.or(below.slots),
            label: given(self.label, below.label),
            history: self.history.or(below.history),
            output_max: self.output_max.or(below.output_max),
            output_rate: self.output_rate.or(below.output_rate),
            audit_keep: self.audit_keep.or(below.audit_keep),
            summary_keep: self.summary_keep.or(below.summary_keep),
            http_allow: given(self.http_allow, below.http_allow),
            secrets: self.secrets.or(below.secrets),
            cgroups: self.cgroups.or(below.cgroups),
            watchdog: self.watchdog.or(below.watchdog),
            command_users: given(self.command_users, below.command_users),
            command_umask: self.command_umask.or(below.command_umask),
            no_new_privileges: self.no_new_privileges.or(below.no_new_privileges),
            log_format: self.log_format.or(below.log_format),
            otlp_endpoint: self.otlp_endpoint.or(below.otlp_endpoint),
            notify: given(self.notify, below.notify),
            heartbeat: self.heartbeat.or(below.heartbeat),
        }
    }

    /// The format of the log.
    ///
    /// # Errors
    /// There is no such format; the text has the fix.
    pub(crate) fn log_format(&self) -> Result<LogFormat, CliError> {
        let words = [("text", LogFormat::Text), ("json", LogFormat::Json)];
        let word = self.log_format.as_deref().filter(|word| !word.is_empty());
        choice("--log-format", word, words, LogFormat::Text)
    }

    /// How much of output, of the audit log and of the counts of fires is kept.
    fn retention(&self) -> Result<Retention, CliError> {
        let mut retention = Retention::default();
        retention.output = self.output_max.unwrap_or(retention.output);
        retention.output_rate =
            self.output_rate.map_or(retention.output_rate, |rate| Some(rate).filter(|rate| *rate > 0));
        if let Some(text) = &self.audit_keep {
            retention.audit = span("--audit-keep", text, KEEP_LIMITS)?;
        }
        if let Some(text) = &self.summary_keep {
            retention.summary = span("--summary-keep", text, KEEP_LIMITS)?;
        }
        Ok(retention)
    }

    /// Resolves the settings.
    ///
    /// # Errors
    /// A setting is missing or invalid; the text has the fix.
    pub(crate) fn resolve(mut self) -> Result<ServerSettings, CliError> {
        let (login, retention) = (LoginArgs::taken(&mut self).resolve()?, self.retention()?);
        let tls = self.taken_tls();
        let name = needed(self.name, "--name NAME: what the node is called in the cluster")?;
        let name: NodeName = name.parse().map_err(|e| CliError::usage(format!("--name: {e}")))?;
        let registry = needed(
            self.registry,
            "--registry URL: the address of the registry, sqlite:PATH or an engine such as etcd://HOST,HOST,HOST",
        )?;
        let data = self.data.filter(|data| !data.as_os_str().is_empty());
        let data = needed(data, "--data DIR: the node's own folder")?;
        let mut node = evenkeel::Config::new(name, registry, data);
        node.retention = retention;
        if let Some(text) = self.ttl {
            node.ttl = span("--ttl", &text, TTL_LIMITS)?;
        }
        if let Some(text) = self.wait_for_name {
            node.wait_for_name = span("--wait-for-name", &text, WAIT_LIMITS)?;
        }
        node.tolerance = at_least_one("--tolerance", self.tolerance, node.tolerance)?;
        node.quota = choice(
            "--quota",
            self.quota.as_deref(),
            [("now", Quota::Now), ("larger", Quota::Larger)],
            Quota::Now,
        )?;
        node.alarm = at_least_one("--alarm", self.alarm, node.alarm)?;
        node.slots = at_least_one("--slots", self.slots, node.slots)?;
        node.labels = self.label.join(",").parse().map_err(|e| CliError::usage(format!("--label: {e}")))?;
        node.history = self.history;
        node.cgroups = choice("--cgroups", self.cgroups.as_deref(), [("auto", true), ("off", false)], true)?;
        node.watchdog = choice("--watchdog", self.watchdog.as_deref(), [("on", true), ("off", false)], true)?;
        node.commands = CommandSettings {
            users: &self.command_users,
            umask: self.command_umask.as_deref(),
            no_new_privileges: self.no_new_privileges.as_deref(),
        }
        .resolve()?;
        node.secrets = self.secrets.map(secrets).transpose()?;
        node.notify = self.notify.into_iter().map(NotifierConfig::resolve).collect::<Result<_, _>>()?;
        node.http_allow = networks("--http-allow", &self.http_allow)?;
        let proxies = TrustedProxies::new(networks("--trusted-proxy", &self.trusted_proxy)?);
        let origins = self.allowed_origin.iter().map(|text| origin(text)).collect::<Result<_, _>>()?;
        node.home = home();
        let listen = SocketAddr::new(
            self.listen.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            self.port.and_then(|port| port.0).unwrap_or(PORT),
        );
        let key = self.cluster_key_file.map(KeyFile::open).transpose()?;
        check_listen(listen, self.advertise.as_deref(), key.as_ref())?;
        let hosts = self.allowed_host.iter().map(|host| allowed(host)).collect::<Result<_, _>>()?;
        let collector =
            OtlpEndpoints::resolve(self.otlp_endpoint.as_deref(), |name| std::env::var(name).ok())?;
        Ok(ServerSettings {
            node,
            listen,
            socket: self.socket,
            advertise: self.advertise,
            hosts,
            origins,
            proxies,
            login,
            tls: tls.resolve()?,
            heartbeat: self.heartbeat.map(HeartbeatConfig::resolve).transpose()?,
            collector,
            key,
        })
    }
}

impl SettingsArgs {
    /// Takes the settings of TLS out.
    fn taken_tls(&mut self) -> WrittenTls {
        WrittenTls {
            mode: self.tls.take(),
            identity: self.identity.take(),
            join: self.join.take(),
            certificate: self.tls_cert.take(),
            key: self.tls_key.take(),
        }
    }
}

/// The list of a setting, or the one below it.
fn given<T>(list: Vec<T>, below: Vec<T>) -> Vec<T> {
    if list.is_empty() { below } else { list }
}

/// Refuses to listen beyond loopback without a key, or where others could not reach the node.
fn check_listen(listen: SocketAddr, advertise: Option<&str>, key: Option<&KeyFile>) -> Result<(), CliError> {
    if !listen.ip().is_loopback() && key.is_none() {
        return Err(CliError::usage(format!(
            "--listen {} lets others in, so a key is needed: make one with `(umask 077; head -c 32 /dev/urandom | base64 > key)`, \
             give it to every node with --cluster-key-file key, or listen on 127.0.0.1",
            listen.ip()
        )));
    }
    if let Some(address) = advertise {
        advertised(address)?;
    } else if listen.ip().is_unspecified() {
        return Err(CliError::usage(format!(
            "--listen {} is no address that others can reach: say it with --advertise IP:PORT",
            listen.ip()
        )));
    }
    Ok(())
}

/// The folder this program is installed in, the same on every node (S0-04).
pub(crate) fn home() -> String {
    let folder = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
    folder.map(|folder| folder.display().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
