//! What a measurement makes: a folder, registries, nodes and processes; and how all of it is removed.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::bench::{BenchObserver, TemporaryRegistry, is_guard_gone, jobs_held};
use evenkeel::{Config, Functions, Handle, OpenError, clock};
use evenkeel_core::ids::counted;
use tokio::sync::RwLock;
use tokio::time::sleep;

use super::child::ChildNode;
use super::errors::{failed, registry_error};
use crate::exit::{CliError, ExitKind};

/// How long to wait for what takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often to look.
const LOOK: Duration = Duration::from_millis(20);

/// Everything that a measurement made.
pub(super) struct BenchStage {
    /// A folder of its own, below the host's temporary one.
    folder: PathBuf,
    /// The URL beside which registries are made.
    beside: String,
    /// Held while something is made, and whether nothing may be made any more.
    is_closed: RwLock<bool>,
    registries: Mutex<Vec<TemporaryRegistry>>,
    nodes: Mutex<Vec<Handle>>,
    children: Mutex<Vec<ChildNode>>,
    data: Mutex<Vec<PathBuf>>,
    named: AtomicU32,
}

impl BenchStage {
    /// Makes the folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(registry: Option<&str>) -> Result<Self, CliError> {
        let name = format!("evenkeel-bench-{}-{}", std::process::id(), clock::now().wall.0);
        let folder = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&folder).map_err(|e| {
            failed(format!(
                "the folder {} cannot be made ({e}): set TMPDIR to one that you may write to",
                folder.display()
            ))
        })?;
        let beside = format!("sqlite:{}", folder.join("registry.db").display());
        Ok(Self {
            beside: registry.map_or(beside, ToOwned::to_owned),
            folder,
            is_closed: RwLock::default(),
            registries: Mutex::default(),
            nodes: Mutex::default(),
            children: Mutex::default(),
            data: Mutex::default(),
            named: AtomicU32::new(0),
        })
    }

    /// Whether registries are in the memory of one process.
    pub(super) fn is_in_memory(&self) -> bool {
        self.beside.starts_with("memory:")
    }

    /// Makes a registry, and returns its URL and a connection that looks at it.
    ///
    /// # Errors
    /// The engine's.
    pub(super) async fn registry(self: &Arc<Self>) -> Result<(String, BenchObserver), CliError> {
        let stage = self.clone();
        // In a task of its own: whatever is made is known before it is removed, also when the caller has gone.
        let making = tokio::spawn(async move {
            let closed = stage.is_closed.read().await;
            check_open(*closed)?;
            let made = TemporaryRegistry::create(&stage.beside).await.map_err(|e| registry_error(&e))?;
            let url = made.url().to_owned();
            locked(&stage.registries).push(made);
            Ok(url)
        });
        let url = making.await.unwrap_or_else(|panic| Err(failed(panic.to_string())))?;
        let observer = BenchObserver::open(&url).await.map_err(|e| registry_error(&e))?;
        Ok((url, observer))
    }

    /// A data folder for a node, made by the node.
    pub(super) fn data_folder(&self) -> PathBuf {
        let folder = self.folder.join(format!("node-{}", self.named.fetch_add(1, Ordering::Relaxed)));
        locked(&self.data).push(folder.clone());
        folder
    }

    /// The data folder that was named last.
    pub(super) fn last_data_folder(&self) -> PathBuf {
        locked(&self.data).last().cloned().unwrap_or_default()
    }

    /// Opens so many nodes in this process, and waits until all are members.
    ///
    /// # Errors
    /// One of them cannot be opened, or does not become a member.
    pub(super) async fn open_nodes(
        self: &Arc<Self>,
        registry: &str,
        n: u32,
        slots: u32,
        functions: &Functions,
    ) -> Result<Vec<Handle>, CliError> {
        let mut opening = Vec::new();
        for nth in 1..=n {
            let name = format!("n{nth}").parse().map_err(|e| failed(format!("{e}")))?;
            let mut config = Config::new(name, registry, self.data_folder()).with(functions.clone());
            config.slots = slots;
            config.alarm = u32::MAX;
            let stage = self.clone();
            opening.push(tokio::spawn(async move {
                let closed = stage.is_closed.read().await;
                check_open(*closed)?;
                let node = evenkeel::open(config).await.map_err(|e| open_error(&e))?;
                locked(&stage.nodes).push(node.clone());
                Ok(node)
            }));
        }
        let mut nodes = Vec::new();
        for opened in opening {
            nodes.push(opened.await.unwrap_or_else(|panic| Err(failed(panic.to_string())))?);
        }
        let are_members = || nodes.iter().all(|node: &Handle| node.with_node(|node| node.member().is_some()));
        self.until(PATIENCE, "all nodes are members", are_members).await?;
        Ok(nodes)
    }

    /// Waits until these nodes own so many jobs together.
    ///
    /// # Errors
    /// They do not.
    pub(super) async fn until_held(&self, nodes: &[Handle], jobs: u32) -> Result<(), CliError> {
        let patience = PATIENCE + Duration::from_millis(u64::from(jobs));
        let held = || jobs_held(nodes).iter().sum::<usize>();
        let what = format!("the nodes own {}", counted(jobs as usize, "job"));
        self.until(patience, &what, || held() >= jobs as usize).await
    }

    /// Waits until this is so.
    ///
    /// # Errors
    /// It is not so in time.
    pub(super) async fn until(
        &self,
        patience: Duration,
        what: &str,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<(), CliError> {
        let begun = clock::now().mono;
        while !is_so() {
            if (clock::now().mono - begun).0.unsigned_abs() > patience.as_millis() as u64 {
                let waited = patience.as_secs();
                return Err(failed(format!(
                    "after {waited} s it is not yet so that {what}: ask for less, or see the registry"
                )));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// The processes that were started.
    pub(super) fn children(&self) -> MutexGuard<'_, Vec<ChildNode>> {
        locked(&self.children)
    }

    /// Stops all nodes at once, and waits for it.
    pub(super) async fn stop_nodes(&self) {
        let nodes = std::mem::take(&mut *locked(&self.nodes));
        let stopping: Vec<_> =
            nodes.into_iter().map(|node| tokio::spawn(async move { node.stop_now().await })).collect();
        for stopped in stopping {
            let _ = stopped.await;
        }
    }

    /// Ends everything that was started, and removes everything that was made.
    ///
    /// # Errors
    /// Something is left; the text names it.
    pub(super) async fn clean_up(&self) -> Result<(), CliError> {
        // What is being made is waited for, or it would be made after its removal.
        if let Ok(mut closed) = tokio::time::timeout(PATIENCE, self.is_closed.write()).await {
            *closed = true;
        }
        self.stop_nodes().await;
        let mut left = Vec::new();
        self.children().clear();
        // The guard of a killed node still writes to the registry.
        let data = locked(&self.data).clone();
        let gone =
            self.until(PATIENCE, "the guards have ended", || data.iter().all(|data| is_guard_gone(data)));
        left.extend(gone.await.err().map(|error| error.message));
        let registries = std::mem::take(&mut *locked(&self.registries));
        for registry in registries {
            left.extend(registry.remove().await.err().map(|error| error.to_string()));
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            left.push(format!("the folder {} is left behind: {error}", self.folder.display()));
        }
        match left.as_slice() {
            [] => Ok(()),
            left => Err(failed(left.join("; "))),
        }
    }
}

fn check_open(is_closed: bool) -> Result<(), CliError> {
    if is_closed { Err(failed("the measurement is over")) } else { Ok(()) }
}

fn open_error(error: &OpenError) -> CliError {
    match error {
        OpenError::Registry(error) => registry_error(error),
        other => CliError::new(ExitKind::Failed, other.to_string()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
