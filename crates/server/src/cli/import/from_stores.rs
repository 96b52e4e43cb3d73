//! Imports from the live stores of other schedulers: ElasticJob's ZooKeeper and XXL-JOB's MySQL.

use std::path::PathBuf;

use clap::Args;

use crate::exit::CliError;
use crate::import::{ImportSource, Imported};

/// Where a living ElasticJob keeps its jobs.
#[derive(Debug, Args)]
pub(super) struct ZookeeperArgs {
    /// Read the jobs where ElasticJob keeps them: the servers of its ZooKeeper, as HOST:PORT,HOST:PORT; nothing is written there
    #[arg(long, value_name = "SERVERS", requires = "zookeeper_namespace")]
    pub(super) zookeeper: Option<String>,
    /// ElasticJob's namespace, the node below which its jobs are
    #[arg(long, value_name = "NAMESPACE", requires = "zookeeper")]
    zookeeper_namespace: Option<String>,
    /// A file with ElasticJob's setting `digest`, which is USER:PASSWORD, if others may not read its nodes
    #[arg(long, value_name = "FILE", requires = "zookeeper")]
    zookeeper_digest_file: Option<PathBuf>,
}

/// Where a living XXL-JOB keeps its jobs.
#[derive(Debug, Args)]
pub(super) struct MysqlArgs {
    /// Read the tables where XXL-JOB keeps them: mysql://USER@HOST:PORT/DATABASE, with ?ssl-mode=VERIFY_IDENTITY&ssl-ca=FILE if
    /// the server has to prove itself; nothing is written there
    #[arg(long, value_name = "URL")]
    pub(super) mysql: Option<String>,
    /// A file with the user's password; without it EVENKEEL_IMPORT_PASSWORD counts, if it is set
    #[arg(long, value_name = "FILE", requires = "mysql")]
    mysql_password_file: Option<PathBuf>,
}

#[cfg(feature = "zookeeper")]
impl ZookeeperArgs {
    /// Reads the jobs from these servers. What an import knows besides is made of the place's name by `source`.
    ///
    /// # Errors
    /// The servers do not answer or refuse to, there is no such namespace, or it has no jobs.
    pub(super) fn read(
        &self,
        servers: &str,
        source: impl FnOnce(String) -> Result<ImportSource, CliError>,
    ) -> Result<Imported, CliError> {
        use crate::import::elasticjob::{live, zookeeper};
        let namespace = self.zookeeper_namespace.clone().unwrap_or_default();
        let source = source(format!("{servers}/{}", namespace.trim_matches('/')))?;
        let store =
            zookeeper::ElasticJobStore { servers: servers.to_owned(), namespace, digest: self.digest()? };
        let trees = wait(&format!("ZooKeeper at {servers} is read"), zookeeper::read(&store))?;
        if trees.is_empty() {
            return Err(CliError::invalid(format!("namespace {:?} has no jobs", store.namespace)));
        }
        Ok(live::convert(trees, &store.namespace, &source))
    }

    fn digest(&self) -> Result<Option<String>, CliError> {
        /// Far above any user and password.
        const BYTES_MAX: u64 = 4 * 1024;
        let Some(file) = &self.zookeeper_digest_file else { return Ok(None) };
        let text = crate::bounded::text(file, BYTES_MAX)
            .map_err(|error| CliError::unreadable_input(file.display(), &error))?;
        let digest = text.trim_end_matches(['\r', '\n']).to_owned();
        match digest.split_once(':') {
            Some((user, _)) if !user.is_empty() => Ok(Some(digest)),
            _ => Err(CliError::usage(format!("{}: it does not hold USER:PASSWORD", file.display()))),
        }
    }
}

#[cfg(feature = "mysql")]
impl MysqlArgs {
    /// Reads the jobs from this server. What an import knows besides is made of the place's name by `source`.
    ///
    /// # Errors
    /// The server does not answer or refuses the user, or there is no such database or table, or no job in it.
    pub(super) fn read(
        &self,
        url: &str,
        source: impl FnOnce(String) -> Result<ImportSource, CliError>,
    ) -> Result<Imported, CliError> {
        use crate::import::xxl_job::{self, mysql};
        let password = mysql::password(self.mysql_password_file.as_deref())?;
        let store = mysql::XxlJobStore::new(url, password.as_deref())?;
        let source = source(store.shown())?;
        let tables = wait(&format!("MySQL at {} is read", store.shown()), store.read())?;
        xxl_job::convert(&tables, &source)
    }
}

#[cfg(not(feature = "zookeeper"))]
impl ZookeeperArgs {
    /// Refuses: this program has no client for it.
    ///
    /// # Errors
    /// Always.
    pub(super) fn read(
        &self,
        _: &str,
        _: impl FnOnce(String) -> Result<ImportSource, CliError>,
    ) -> Result<Imported, CliError> {
        let Self { zookeeper_namespace: _, zookeeper_digest_file: _, .. } = self;
        Err(CliError::usage(
            "this program was built without the feature zookeeper: import the texts of config nodes",
        ))
    }
}

#[cfg(not(feature = "mysql"))]
impl MysqlArgs {
    /// Refuses: this program has no client for it.
    ///
    /// # Errors
    /// Always.
    pub(super) fn read(
        &self,
        _: &str,
        _: impl FnOnce(String) -> Result<ImportSource, CliError>,
    ) -> Result<Imported, CliError> {
        let Self { mysql_password_file: _, .. } = self;
        Err(CliError::usage("this program was built without the feature mysql: import what mysqldump prints"))
    }
}

/// Waits for a store, and shows that it is waited for.
#[cfg(any(feature = "zookeeper", feature = "mysql"))]
fn wait<T>(what: &str, work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let failed = |e| CliError::new(crate::exit::ExitKind::Failed, format!("no runtime: {e}"));
    let runtime = runtime.map_err(failed)?;
    let read = runtime.block_on(crate::output::shown_while(what, work));
    runtime.shutdown_background();
    read
}
