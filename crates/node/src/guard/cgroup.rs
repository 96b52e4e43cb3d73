//! Cgroups: each run gets its own, where the node may create any.
//!
//! A run's processes cannot leave the cgroup, whatever their session or parent, so ending the cgroup overlooks none.
//! And the kernel enforces the limits of all of them together. The guard creates it, the shim enters it, and the guard
//! removes it once it is empty. What a killed guard left behind is ended by the next guard of the same data folder,
//! before that reports that it is ready.
//!
//! A cgroup may be created ahead of its run, for a shim that stands by in it. No cgroup has two runs: the kernel's counts
//! in it are those of one.

mod folder;
mod members;
#[cfg(test)]
mod tests;
mod tree;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evenkeel_core::job::RunLimitValues;
use evenkeel_core::time::Mono;
use rustix::process::{Pid, Signal};

use super::report::report;
use crate::clock;
use folder::{CgroupFolder, wanted};
use members::{PROCS, TASKS, in_dir, inside, is_empty, kill, members, remove};
use tree::{CgroupTree, Controller, NODE_CGROUP};

pub(crate) use tree::CgroupMounts;

/// The kernel charges memory in batches, so a full cgroup may lack this much of its limit.
const CHARGED_AT_ONCE: u64 = 1 << 20;

/// Creates and removes the cgroups of a node's runs.
#[derive(Debug)]
pub(crate) struct Cgroups {
    /// A folder in each tree; the first one knows which processes a run has.
    folders: Vec<CgroupFolder>,
    /// The controllers that no tree offers, and why.
    missing: Vec<(Controller, String)>,
    /// The cgroups that could not be removed yet: the kernel may hold one a little longer than its processes.
    remains: Vec<PathBuf>,
    /// In the name of each cgroup, so that none has the name of one that an earlier guard left.
    since: Mono,
    /// How many have got a name.
    named: u64,
}

/// The cgroup of one run.
#[derive(Debug, Default)]
pub(super) struct Cgroup {
    /// Its folder in each tree with one of its limits; the first one lists its processes.
    dirs: Vec<PathBuf>,
    /// The file in each of them through which a process enters.
    entry_files: Vec<PathBuf>,
    /// Whether there are limits of the whole run.
    bounded: bool,
    /// The folder that counts its processes.
    pids: Option<PathBuf>,
    /// The folder that accounts its memory, whether in the unified tree, and its limit.
    memory: Option<(PathBuf, bool, Option<u64>)>,
}

impl Cgroups {
    /// No cgroups: runs start without, and limits of whole runs are not enforced.
    pub(crate) fn none() -> Self {
        Self::within(Vec::new(), Vec::new())
    }

    fn within(folders: Vec<CgroupFolder>, missing: Vec<(Controller, String)>) -> Self {
        Self { folders, missing, remains: Vec::new(), since: clock::now().mono, named: 0 }
    }

    /// Finds out where cgroups can be created, and moves the processes `us` aside where that is needed.
    pub(crate) fn open(told: &CgroupMounts, data: &Path, us: &[Pid]) -> io::Result<Self> {
        let name = name(data)?;
        let (mut folders, mut missing) = (Vec::new(), Vec::new());
        for tree in tree::trees(told) {
            match tree.prepare(&name, us) {
                Ok(folder) => folders.push(folder),
                Err(why) => missing.extend(tree.controllers.iter().map(|it| (*it, why.clone()))),
            }
        }
        let unseen = "the kernel has none here, or none is mounted";
        for controller in Controller::ALL {
            let is_in = folders.iter().any(|folder: &CgroupFolder| folder.controllers.contains(&controller));
            if !is_in && missing.iter().all(|(it, _)| *it != controller) {
                missing.push((controller, unseen.to_string()));
            }
        }
        missing.sort_by_key(|(it, _)| *it);
        Ok(Self::within(folders, missing))
    }

    /// Why not every limit can be enforced, with the fix; `None` when each can.
    pub(crate) fn lacking(&self) -> Option<String> {
        let (controller, why) = self.missing.first()?;
        let names: Vec<&str> = self.missing.iter().map(|(it, _)| it.name()).collect();
        Some(format!("no cgroup for {} ({}: {why})", names.join(", "), controller.name()))
    }

    /// Kills what the runs of earlier guards of this folder left; returns whether all of it has ended.
    pub(crate) fn end_left(&self) -> bool {
        let left: Vec<PathBuf> = self.folders.iter().flat_map(|folder| inside(&folder.path)).collect();
        for dir in &left {
            kill(dir, None);
            let _ = remove(dir);
        }
        left.iter().all(|dir| is_empty(dir))
    }

    /// Whether a shim gains by entering a cgroup ahead of its run: those of the older kind can be entered at once.
    pub(super) fn can_create_ahead(&self) -> bool {
        self.folders.first().is_some_and(|folder| folder.unified)
    }

    /// Creates a cgroup for a run that is not known yet.
    ///
    /// # Errors
    /// There can be none.
    pub(super) fn create_ahead(&mut self) -> io::Result<Cgroup> {
        let name = self.next_name();
        let folder = self.folders.first().ok_or(ErrorKind::NotFound)?;
        let (dir, none) = (folder.path.join(name), RunLimitValues::default());
        let mut made = Cgroup::default();
        made.add(dir.clone(), folder, none);
        if let Err(e) = folder.furnish(&dir, none) {
            self.leave(made);
            return Err(e);
        }
        Ok(made)
    }

    /// Creates the cgroup of a run, or sets the limits of the one that was created ahead of it.
    ///
    /// # Errors
    /// A limit cannot be enforced; the text says why and what to do. A cgroup that was created ahead is given up.
    pub(super) fn enclose(
        &mut self,
        ahead: Option<Cgroup>,
        totals: RunLimitValues,
    ) -> Result<Option<Cgroup>, String> {
        self.tidy();
        let wanted = wanted(totals);
        if let Some((field, (controller, why))) = wanted.iter().find_map(|(controller, field)| {
            Some((field, self.missing.iter().find(|(missing, _)| missing == controller)?))
        }) {
            let why = format!(
                "limits.together.{field} cannot be kept on this node: no cgroup for {} ({why}): run the node as root or as a \
                 service with Delegate=yes, or start it with --cgroups off, which runs such jobs without these limits",
                controller.name()
            );
            self.remains.extend(ahead.into_iter().flat_map(|cgroup| cgroup.dirs));
            return Err(why);
        }
        if wanted.is_empty() && ahead.is_some() {
            return Ok(ahead);
        }
        let name = ahead.as_ref().and_then(Cgroup::name).unwrap_or_else(|| self.next_name());
        let matters = |folder: &CgroupFolder| wanted.iter().any(|(it, _)| folder.controllers.contains(it));
        let mut made = Cgroup { bounded: !wanted.is_empty(), ..Cgroup::default() };
        for (n, folder) in self.folders.iter().enumerate() {
            if n > 0 && !matters(folder) {
                continue;
            }
            let dir = folder.path.join(&name);
            match folder.furnish(&dir, totals) {
                Ok(()) => made.add(dir, folder, totals),
                Err(e) => {
                    made.add(dir, folder, totals);
                    self.leave(made);
                    if wanted.is_empty() {
                        report(format_args!("a run gets no cgroup: {e}"));
                        return Ok(None);
                    }
                    return Err(format!("limits.together cannot be set: {e}"));
                }
            }
        }
        Ok(Some(made).filter(|made| !made.dirs.is_empty()))
    }

    /// The name of the next cgroup, in each tree.
    fn next_name(&mut self) -> OsString {
        self.named += 1;
        format!("run-{}.{}", self.since.0, self.named).into()
    }

    /// Removes an empty cgroup.
    pub(super) fn leave(&mut self, cgroup: Cgroup) {
        self.remains.extend(cgroup.dirs);
        self.tidy();
    }

    /// Removes what can be removed by now; returns whether something remains.
    pub(super) fn tidy(&mut self) -> bool {
        self.remains.retain(|dir| remove(dir).is_err());
        !self.remains.is_empty()
    }

    /// Removes the node's folders when the guard ends, after all its runs have.
    pub(super) fn close(&mut self) {
        self.tidy();
        for folder in &self.folders {
            // If it cannot be removed now, the next guard finds it.
            let _ = fs::remove_dir(&folder.path);
        }
    }
}

/// Kills what is left of the runs of a folder whose guard is gone; returns whether all of it has ended.
pub(crate) fn end_all(told: &CgroupMounts, data: &Path) -> bool {
    // Without the name its own cgroups are unknown; the caller retries for a while only.
    let Ok(name) = name(data) else { return false };
    let runs = tree::trees(told).into_iter().flat_map(|tree| inside(&tree.own.join(&name)));
    let runs: Vec<PathBuf> = runs.collect();
    runs.iter().for_each(|dir| kill(dir, None));
    runs.iter().all(|dir| is_empty(dir))
}

/// The name of a data folder's cgroups: the folder's identity, whatever its path.
fn name(data: &Path) -> io::Result<String> {
    let data = fs::metadata(data)?;
    Ok(format!("evenkeel-{:x}-{:x}", data.dev(), data.ino()))
}

impl CgroupTree {
    /// Creates the node's folder in this tree.
    fn prepare(&self, name: &str, us: &[Pid]) -> Result<CgroupFolder, String> {
        let path = self.own.join(name);
        let cannot = |e: io::Error| format!("{} cannot be written: {e}", self.own.display());
        if self.unified && !self.controllers.is_empty() {
            self.move_aside(us)?;
        }
        match fs::create_dir(&path) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(cannot(e)),
            _ => {}
        }
        if self.unified {
            pass_down(&path, &self.controllers).map_err(cannot)?;
        }
        Ok(CgroupFolder { path, unified: self.unified, controllers: self.controllers.clone() })
    }

    /// Moves these processes aside: a cgroup of the unified tree can limit its children only if it is empty itself.
    fn move_aside(&self, us: &[Pid]) -> Result<(), String> {
        let cannot = |e: io::Error| format!("{} cannot be written: {e}", self.own.display());
        let passed = fs::read_to_string(self.own.join("cgroup.subtree_control")).unwrap_or_default();
        let passed = Controller::named(&passed, ' ');
        if self.controllers.iter().all(|it| passed.contains(it)) {
            return Ok(());
        }
        let here = in_dir(&self.own);
        if let Some(other) = here.iter().find(|pid| !us.contains(pid)) {
            return Err(format!(
                "{} is not the node's alone, process {} is in it as well: start the node as a service with Delegate=yes",
                self.own.display(),
                other.as_raw_nonzero()
            ));
        }
        let aside = self.own.join(NODE_CGROUP);
        match fs::create_dir(&aside) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(cannot(e)),
            _ => {}
        }
        for pid in here {
            fs::write(aside.join(PROCS), pid.as_raw_nonzero().to_string()).map_err(cannot)?;
        }
        pass_down(&self.own, &self.controllers).map_err(cannot)
    }
}

/// Enables the controllers for the children of a cgroup.
fn pass_down(dir: &Path, controllers: &[Controller]) -> io::Result<()> {
    let names: Vec<String> = controllers.iter().map(|it| format!("+{}", it.name())).collect();
    match names.is_empty() {
        true => Ok(()),
        false => fs::write(dir.join("cgroup.subtree_control"), names.join(" ")),
    }
}

impl Cgroup {
    fn add(&mut self, dir: PathBuf, folder: &CgroupFolder, totals: RunLimitValues) {
        if folder.controllers.contains(&Controller::Pids) {
            self.pids = Some(dir.clone());
        }
        if folder.controllers.contains(&Controller::Memory) {
            self.memory = Some((dir.clone(), folder.unified, totals.memory));
        }
        self.entry_files.push(dir.join(if folder.unified { PROCS } else { TASKS }));
        self.dirs.push(dir);
    }

    /// Its name in each tree.
    fn name(&self) -> Option<OsString> {
        Some(self.dirs.first()?.file_name()?.to_owned())
    }

    /// Whether the run has limits that a process outside of the cgroup would escape.
    pub(super) fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// The files through which a process with one thread enters the cgroup.
    pub(super) fn entry_files(&self) -> Vec<PathBuf> {
        self.entry_files.clone()
    }

    /// Whether the cgroup is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.dirs.first().is_none_or(|dir| is_empty(dir))
    }

    /// Sends the stop signal to the processes that `is_to_be` selects.
    pub(super) fn ask(&self, mut is_to_be: impl FnMut(Pid) -> bool) {
        for member in self.dirs.first().map(|dir| members(dir)).unwrap_or_default() {
            if is_to_be(member.pid) {
                member.signal(Signal::TERM);
            }
        }
    }

    /// Kills all its processes.
    pub(super) fn kill(&self) {
        if let Some(dir) = self.dirs.first() {
            kill(dir, self.pids.as_deref());
        }
    }

    /// Whether the kernel killed a process of it because memory ran out, in words.
    pub(super) fn out_of_memory(&self) -> Option<String> {
        let (dir, unified, limit) = self.memory.as_ref()?;
        let (events, over) = match unified {
            true => ("memory.events", number(dir, "memory.events", "oom ") > 0),
            // The kernel's count of failures stays at zero where swap is limited too, but the memory was full.
            false => {
                let most = number(dir, "memory.max_usage_in_bytes", "").saturating_add(CHARGED_AT_ONCE);
                ("memory.oom_control", limit.is_some_and(|limit| most >= limit))
            }
        };
        if number(dir, events, "oom_kill ") == 0 {
            return None;
        }
        Some(match limit.filter(|_| over) {
            Some(limit) => format!("out of memory: over its limit of {}", size(limit)),
            None => "out of memory: its host, or what its node may use of it, had none left".to_string(),
        })
    }
}

/// The number behind this word in a file.
fn number(dir: &Path, file: &str, word: &str) -> u64 {
    let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok()).unwrap_or(0)
}

/// A number of bytes in the largest unit that divides it.
fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(bits, _)| bytes.trailing_zeros() >= *bits);
    whole.map_or_else(|| format!("{bytes} bytes"), |(bits, unit)| format!("{} {unit}", bytes >> bits))
}
