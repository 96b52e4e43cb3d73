//! Connects to the server: addresses, login, encryption, and the server's facts.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::registry::DurabilityClass;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo,
    TlsCertificates,
};

use super::errors;
use crate::encryption::{PemBundle, read_pems};
use crate::health::release;
use crate::{EngineUrl, RegistryError};

/// Redis' usual port.
const PORT: u16 = 6379;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Opens connections.
pub(super) struct RedisConnector {
    /// The URL without secrets.
    url: EngineUrl,
    clients: Vec<Client>,
}

/// The facts that a server reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedisServerInfo {
    /// A new one each time the server starts.
    pub(super) run_id: String,
    /// The id of the history that it continued when it was promoted; zeros when it never was.
    pub(super) replication_id2: String,
    /// Whether its answers are on its disk, and no other server can replace it with less.
    pub(super) is_durable: bool,
}

impl RedisServerInfo {
    /// The durability class. Redis replicates after its answers, so it is never A.
    pub(super) fn class(&self) -> DurabilityClass {
        if self.is_durable { DurabilityClass::B } else { DurabilityClass::C }
    }
}

impl RedisConnector {
    pub(super) fn new(url: &EngineUrl, db: &str) -> Result<Self, RegistryError> {
        let number: i64 = db
            .parse()
            .ok()
            .filter(|db| *db >= 0)
            .ok_or_else(|| url.refusal("names no database: write its number, as in redis://HOST/0"))?;
        let mut login = RedisConnectionInfo::default().set_db(number);
        if let Some(user) = url.user() {
            login = login.set_username(user);
        }
        if let Some(password) = url.password()? {
            login = login.set_password(password);
        }
        let certificates = certificates(url)?;
        let clients = url.addresses().iter().map(|host| {
            let (name, port) = (host.name.clone(), host.port.unwrap_or(PORT));
            let addr = match certificates {
                None => ConnectionAddr::Tcp(name, port),
                Some(_) => ConnectionAddr::TcpTls { host: name, port, insecure: false, tls_params: None },
            };
            // The client would hold back small requests until earlier data is acknowledged.
            let tcp = TcpSettings::default().set_nodelay(true);
            let info = addr.into_connection_info()?.set_redis_settings(login.clone()).set_tcp_settings(tcp);
            match &certificates {
                None => Client::open(info),
                Some(certificates) => Client::build_with_tls(info, certificates.clone()),
            }
        });
        let clients = clients.collect::<Result<_, _>>().map_err(|error| errors::explain(url, &error))?;
        Ok(Self { url: url.clone(), clients })
    }

    /// Maps an error of the client to a registry error.
    pub(super) fn explain(&self, error: &redis::RedisError) -> RegistryError {
        errors::explain(&self.url, error)
    }

    /// Connects to the first address with a server that accepts writes. Each of its answers may take `patience`:
    /// the client's own limit of half a second is less than a sync of a busy disk.
    pub(super) async fn connect(
        &self,
        patience: Duration,
    ) -> Result<(MultiplexedConnection, RedisServerInfo), RegistryError> {
        let mut why = RegistryError::Unavailable("no address of the registry was tried".into());
        for client in &self.clients {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT))
                .set_response_timeout(Some(patience));
            let connected = client.get_multiplexed_async_connection_with_config(&config).await;
            let looked = match connected {
                Ok(mut connection) => self.inspect(&mut connection).await.map(|server| (connection, server)),
                Err(error) => Err(self.explain(&error)),
            };
            match looked {
                Ok(good) => return Ok(good),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Reads the server's facts, and refuses a server that cannot hold a registry.
    pub(super) async fn inspect(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<RedisServerInfo, RegistryError> {
        let asked: Result<String, _> = redis::cmd("INFO").query_async(connection).await;
        let told = InfoReply(asked.map_err(|error| self.explain(&error))?);
        let sync: Result<BTreeMap<String, String>, _> =
            redis::cmd("CONFIG").arg("GET").arg("*appendfsync*").query_async(connection).await;
        let sync = match sync {
            Ok(sync) => sync,
            // Without the right to ask, the lowest class is assumed. A cut connection says nothing about the server.
            Err(error) if errors::is_forbidden(&error) => BTreeMap::new(),
            Err(error) => return Err(self.explain(&error)),
        };
        self.check(&told)?;
        let says = |name: &str, value: &str| sync.get(name).is_some_and(|said| said == value);
        // While the log is rewritten this option turns syncing off, whatever else is set.
        let always = says("appendfsync", "always") && says("no-appendfsync-on-rewrite", "no");
        Ok(RedisServerInfo {
            run_id: told.field("run_id").into(),
            replication_id2: told.field("master_replid2").into(),
            is_durable: always && told.field("aof_enabled") == "1" && told.field("connected_slaves") == "0",
        })
    }

    fn check(&self, told: &InfoReply) -> Result<(), RegistryError> {
        let found = told.field("redis_version");
        if release(found) < Some([6, 2, 0]) {
            return Err(self.url.refusal(&format!("is a Redis {found}: use 6.2 or a later one")));
        }
        if told.field("role") != "master" {
            return Err(RegistryError::Unavailable(format!(
                "registry {} is a replica, which takes no writes: name the primary",
                self.url
            )));
        }
        if told.field("maxmemory") != "0" && told.field("maxmemory_policy").starts_with("allkeys") {
            return Err(self
                .url
                .refusal("may throw away any key when its memory is full: set maxmemory-policy noeviction"));
        }
        Ok(())
    }
}

/// The answer to `INFO`: lines of `name:value`.
pub(super) struct InfoReply(pub(super) String);

impl InfoReply {
    pub(super) fn field(&self, name: &str) -> &str {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| *found == name).map_or("", |(_, value)| value.trim_end())
    }
}

/// The certificates for encryption; `None` without it.
fn certificates(url: &EngineUrl) -> Result<Option<TlsCertificates>, RegistryError> {
    let Some(PemBundle { ca, identity }) = read_pems(url)? else { return Ok(None) };
    let client_tls = identity.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    Ok(Some(TlsCertificates { client_tls, root_cert: ca }))
}
