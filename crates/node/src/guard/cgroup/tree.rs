//! Finds the trees in which this process may create cgroups, from the kernel's files on its mounts and its own cgroup.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The cgroup of a node and its guard in the unified tree: a cgroup with limited children may have no process itself.
pub(super) const NODE_CGROUP: &str = "evenkeel.node";

/// A resource that a kernel can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Controller {
    /// The number of processes.
    Pids,
    Memory,
    Cpu,
}

impl Controller {
    pub(super) const ALL: [Self; 3] = [Self::Pids, Self::Memory, Self::Cpu];

    /// The kernel's name of it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pids => "pids",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
        }
    }

    /// The controllers that are named in a list.
    pub(super) fn named(list: &str, separator: char) -> Vec<Self> {
        let named = |it: &Self| list.split(separator).any(|name| name.trim() == it.name());
        Self::ALL.into_iter().filter(named).collect()
    }
}

/// The kernel's files about this process's cgroups.
#[derive(Debug, Default)]
pub(crate) struct CgroupMounts {
    /// The text of `/proc/self/mountinfo`.
    pub(super) mounts: String,
    /// The text of `/proc/self/cgroup`.
    pub(super) own: String,
}

impl CgroupMounts {
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self {
            mounts: fs::read_to_string("/proc/self/mountinfo")?,
            own: fs::read_to_string("/proc/self/cgroup")?,
        })
    }
}

/// A tree of cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgroupTree {
    /// This process's own cgroup in it.
    pub(super) own: PathBuf,
    /// Whether it is the one of version 2.
    pub(super) unified: bool,
    /// The controllers available there.
    pub(super) controllers: Vec<Controller>,
}

/// The mounted trees that this process can see itself in, the unified one first. Each controller is in one of them.
pub(super) fn trees(told: &CgroupMounts) -> Vec<CgroupTree> {
    let mut trees: Vec<CgroupTree> = told.mounts.lines().filter_map(|line| tree(line, &told.own)).collect();
    trees.sort_by_key(|tree| !tree.unified);
    let mut seen = Vec::new();
    for tree in &mut trees {
        // A controller that is mounted twice counts where it is mounted first.
        tree.controllers.retain(|it| !seen.contains(it));
        seen.extend(tree.controllers.iter().copied());
    }
    let mut unified = false;
    trees.retain(|tree| match tree.unified {
        true => !std::mem::replace(&mut unified, true),
        false => !tree.controllers.is_empty(),
    });
    trees
}

/// Parses a line about a mount, if that is a tree of cgroups.
fn tree(line: &str, own: &str) -> Option<CgroupTree> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, at) = (plain(mount.next()?), plain(mount.next()?));
    let mut system = system.split(' ');
    let kind = system.next()?;
    let options = system.nth(1)?;
    let unified = match kind {
        "cgroup2" => true,
        "cgroup" => false,
        _ => return None,
    };
    let mut controllers = Controller::named(options, ',');
    let path = own.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (names, path) = rest.split_once(':')?;
        let is_this = match unified {
            true => number == "0" && names.is_empty(),
            false => controllers.first().is_some_and(|it| names.split(',').any(|name| name == it.name())),
        };
        is_this.then_some(Path::new(path))
    })?;
    let below = path.strip_prefix(&root).ok()?;
    // Outside of the part that this process can see.
    if below.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    // Without a slash at the end when it is the root.
    let mut own: PathBuf = Path::new(&at).join(below).components().collect();
    if unified {
        if own.file_name().is_some_and(|name| name == NODE_CGROUP) {
            own.pop();
        }
        controllers = Controller::named(&fs::read_to_string(own.join("cgroup.controllers")).ok()?, ' ');
    }
    Some(CgroupTree { own, unified, controllers })
}

/// Decodes a path of the kernel's list: blanks and backslashes are three digits.
fn plain(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}
