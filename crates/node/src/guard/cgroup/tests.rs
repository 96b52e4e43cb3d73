//! The unified tree as plain folders, in which the test writes every file that the kernel would have; and the older
//! kind as this host has it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use evenkeel_core::job::Limits;
use evenkeel_core::time::Millis;
use tempfile::TempDir;

use super::*;

const SERVICE: &str = "system.slice/evenkeel.service";

/// A unified tree, delegated to a service in which these processes are.
struct FakeCgroupTree {
    folder: TempDir,
    data: TempDir,
}

impl FakeCgroupTree {
    fn new(controllers: &str, processes: &[Pid]) -> Self {
        let fake = Self { folder: tempfile::tempdir().unwrap(), data: tempfile::tempdir().unwrap() };
        fs::create_dir_all(fake.own()).unwrap();
        let processes: String = processes.iter().map(|pid| format!("{}\n", pid.as_raw_nonzero())).collect();
        for (file, text) in
            [("cgroup.controllers", controllers), ("cgroup.subtree_control", ""), (PROCS, &processes)]
        {
            fs::write(fake.own().join(file), text).unwrap();
        }
        fake
    }

    fn own(&self) -> PathBuf {
        self.folder.path().join(SERVICE)
    }

    fn mounts(&self, below: &str) -> CgroupMounts {
        let mount = format!(
            "30 23 0:26 / {} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
            self.folder.path().display()
        );
        CgroupMounts {
            mounts: format!("22 1 0:2 / /proc rw - proc proc rw\n{mount}"),
            own: format!("0::/{SERVICE}{below}\n"),
        }
    }

    fn open(&self) -> Cgroups {
        Cgroups::open(&self.mounts(""), self.data.path(), &[me()]).unwrap()
    }

    /// The cgroup of the next run, with files that only a kernel makes.
    fn kernel_made(&self, cgroups: &Cgroups, files: &[(&str, &str)]) -> PathBuf {
        let next = format!("run-{}.{}", cgroups.since.0, cgroups.named + 1);
        let dir = self.own().join(name(self.data.path()).unwrap()).join(next);
        fs::create_dir_all(&dir).unwrap();
        files.iter().for_each(|(file, text)| fs::write(dir.join(file), text).unwrap());
        dir
    }
}

fn me() -> Pid {
    rustix::process::getpid()
}

fn totals(text: &str) -> RunLimitValues {
    serde_json::from_str::<Limits>(&format!("{{\"together\":{text}}}")).unwrap().read().unwrap().together
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn in_the_unified_tree_the_node_stands_aside_and_runs_are_bounded() {
    let fake = FakeCgroupTree::new("cpuset cpu io memory pids", &[me()]);
    let mut cgroups = fake.open();
    assert_eq!(cgroups.lacking(), None);
    assert_eq!(read(fake.own().join(NODE_CGROUP).join(PROCS)), me().as_raw_nonzero().to_string());
    let folder = fake.own().join(name(fake.data.path()).unwrap());
    for dir in [&fake.own(), &folder] {
        assert_eq!(read(dir.join("cgroup.subtree_control")), "+pids +memory +cpu");
    }
    let kernels = [("memory.swap.max", "max"), ("memory.oom.group", "0")];
    let dir = fake.kernel_made(&cgroups, &kernels);
    let all = totals(r#"{"memory":"512M","cores":1.5,"processes":50}"#);
    let cgroup = cgroups.enclose(None, all).unwrap().unwrap();
    assert_eq!(cgroup.entry_files(), [dir.join(PROCS)], "all is in one tree");
    for (file, text) in [
        ("memory.max", "536870912"),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
        ("cpu.max", "150000 100000"),
        ("pids.max", "50"),
    ] {
        assert_eq!(read(dir.join(file)), text, "{file}");
    }
    // A limit that is not set is not enforced.
    let cgroup = cgroups.enclose(None, RunLimitValues::default()).unwrap().unwrap();
    assert!(inside(&folder).len() == 2 && fs::read_dir(&cgroup.dirs[0]).unwrap().next().is_none());
    cgroups.leave(cgroup);
    assert_eq!(inside(&folder), [dir]);
}

#[test]
fn one_that_is_created_ahead_gets_the_limits_of_its_run() {
    let fake = FakeCgroupTree::new("cpu memory pids", &[me()]);
    let mut cgroups = fake.open();
    assert!(cgroups.can_create_ahead() && !Cgroups::none().can_create_ahead());
    let dir = fake.kernel_made(&cgroups, &[("memory.oom.group", "0")]);
    let ahead = cgroups.create_ahead().unwrap();
    assert!(!ahead.is_bounded() && ahead.dirs == [dir.clone()] && !dir.join("pids.max").exists());
    let entry_files = ahead.entry_files();
    let cgroup = cgroups.enclose(Some(ahead), totals(r#"{"processes":9}"#)).unwrap().unwrap();
    assert_eq!((&cgroup.entry_files(), cgroup.is_bounded()), (&entry_files, true), "it is in there already");
    assert_eq!((read(dir.join("pids.max")), read(dir.join("memory.oom.group"))), ("9".into(), "1".into()));
    // A run without limits takes it as it is, and the next one has another.
    let ahead = cgroups.create_ahead().unwrap();
    let next = ahead.dirs.clone();
    let cgroup = cgroups.enclose(Some(ahead), RunLimitValues::default()).unwrap().unwrap();
    assert!(cgroup.dirs == next && next != [dir] && !cgroup.is_bounded());
    // Where a limit cannot be kept it is given up, and removed.
    let fake = FakeCgroupTree::new("pids", &[me()]);
    let mut cgroups = fake.open();
    let ahead = cgroups.create_ahead().unwrap();
    assert!(cgroups.enclose(Some(ahead), totals(r#"{"cores":1}"#)).is_err());
    assert!(!cgroups.tidy() && inside(&fake.own().join(name(fake.data.path()).unwrap())).is_empty());
}

#[test]
fn who_stands_aside_already_is_found_where_it_was() {
    let fake = FakeCgroupTree::new("cpu memory pids", &[]);
    fs::write(fake.own().join("cgroup.subtree_control"), "cpu memory pids").unwrap();
    let told = fake.mounts(&format!("/{NODE_CGROUP}"));
    let cgroups = Cgroups::open(&told, fake.data.path(), &[me()]).unwrap();
    assert_eq!(cgroups.folders, fake.open().folders);
    assert!(!fake.own().join(NODE_CGROUP).exists(), "nobody has to be moved");
}

#[test]
fn a_limit_that_cannot_be_kept_is_told_with_what_to_do() {
    let stranger = Pid::INIT;
    let fake = FakeCgroupTree::new("cpu memory pids", &[me(), stranger]);
    let mut cgroups = fake.open();
    let lacking = cgroups.lacking().unwrap();
    assert!(
        lacking.starts_with("no cgroup for pids, memory, cpu") && lacking.contains("process 1 is in it"),
        "{lacking}"
    );
    let why = cgroups.enclose(None, totals(r#"{"cores":1}"#)).unwrap_err();
    assert!(why.starts_with("limits.together.cores cannot be kept on this node: no cgroup for cpu"), "{why}");
    assert!(why.contains("Delegate=yes") && why.contains("--cgroups off"), "{why}");
    assert!(cgroups.enclose(None, RunLimitValues::default()).unwrap().is_none(), "others start without");
    // One controller is missing, and only a run that needs it is refused.
    let fake = FakeCgroupTree::new("memory pids", &[me()]);
    let mut cgroups = fake.open();
    assert!(
        cgroups.enclose(None, totals(r#"{"cores":1}"#)).unwrap_err().contains("the kernel has none here")
    );
    assert!(cgroups.enclose(None, totals(r#"{"processes":9}"#)).unwrap().is_some());
    // Off: nothing is refused, and nothing created.
    assert!(Cgroups::none().enclose(None, totals(r#"{"cores":1}"#)).unwrap().is_none());
}

#[test]
fn what_the_kernel_tells_of_memory_is_told() {
    let fake = FakeCgroupTree::new("cpu memory pids", &[me()]);
    let mut cgroups = fake.open();
    let dir = fake.kernel_made(&cgroups, &[("memory.events", "low 0\nhigh 0\nmax 9\noom 0\noom_kill 0\n")]);
    let cgroup = cgroups.enclose(None, totals(r#"{"memory":"512M"}"#)).unwrap().unwrap();
    assert_eq!(cgroup.out_of_memory(), None);
    fs::write(dir.join("memory.events"), "max 9\noom 3\noom_kill 1\noom_group_kill 1\n").unwrap();
    assert_eq!(cgroup.out_of_memory().unwrap(), "out of memory: over its limit of 512 MiB");
    fs::write(dir.join("memory.events"), "max 0\noom 0\noom_kill 1\n").unwrap();
    assert!(cgroup.out_of_memory().unwrap().contains("its host"), "somebody else took it");
    for (bytes, text) in
        [(1 << 40, "1 TiB"), (1536 << 20, "1536 MiB"), (3 << 10, "3 KiB"), (1000, "1000 bytes")]
    {
        assert_eq!(size(bytes), text);
    }
}

#[test]
fn the_unified_tree_is_killed_at_once_and_tells_of_all_below() {
    let fake = FakeCgroupTree::new("cpu memory pids", &[me()]);
    let mut cgroups = fake.open();
    let files = [("cgroup.kill", ""), ("cgroup.events", "populated 1\nfrozen 0\n"), ("pids.max", "max")];
    let dir = fake.kernel_made(&cgroups, &files);
    let cgroup = cgroups.enclose(None, RunLimitValues::default()).unwrap().unwrap();
    assert!(!cgroup.is_empty());
    cgroup.kill();
    assert_eq!((read(dir.join("cgroup.kill")).as_str(), read(dir.join("pids.max")).as_str()), ("1", "max"));
    assert!(!cgroups.end_left(), "somebody lives there");
    fs::write(dir.join("cgroup.events"), "populated 0\nfrozen 0\n").unwrap();
    assert!(cgroup.is_empty() && cgroups.end_left());
    assert!(end_all(&fake.mounts(""), fake.data.path()), "so says whoever did not open it");
}

fn sleeper() -> Child {
    Command::new("sleep").arg("600").process_group(0).spawn().unwrap()
}

#[test]
fn an_older_kernel_has_each_process_killed_and_no_more_of_them() {
    let fake = FakeCgroupTree::new("cpu memory pids", &[me()]);
    let mut cgroups = fake.open();
    let (mut one, mut below) = (sleeper(), sleeper());
    let dir = fake.kernel_made(&cgroups, &[("pids.max", "max"), (PROCS, &one.id().to_string())]);
    fs::create_dir(dir.join("below")).unwrap();
    fs::write(dir.join("below").join(PROCS), below.id().to_string()).unwrap();
    let cgroup = cgroups.enclose(None, RunLimitValues::default()).unwrap().unwrap();
    assert!(!cgroup.is_empty());
    let mut asked = Vec::new();
    cgroup.ask(|pid| {
        asked.push(pid);
        false
    });
    assert_eq!(asked, [Pid::from_child(&one), Pid::from_child(&below)]);
    cgroup.kill();
    assert_eq!(read(dir.join("pids.max")), "0");
    for child in [&mut one, &mut below] {
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
    // An unreadable cgroup does not count as empty.
    fs::remove_file(dir.join(PROCS)).unwrap();
    fs::create_dir(dir.join(PROCS)).unwrap();
    assert!(!cgroup.is_empty());
}

#[test]
fn places_are_read_from_what_the_kernel_says() {
    let mounts = "22 1 0:2 / /proc rw - proc proc rw\n\
                  31 30 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
                  32 30 0:28 /docker/ab /a\\040b/cpu,cpuacct ro shared:5 master:1 - cgroup cgroup rw,cpu,cpuacct\n\
                  33 30 0:29 / /cg/memory rw - cgroup cgroup rw,memory\n\
                  34 30 0:29 / /again/memory rw - cgroup cgroup rw,memory\n\
                  35 30 0:30 / /cg/pids rw - cgroup cgroup rw,pids\n";
    let own = "9:name=systemd:/x\n4:memory:/y/z\n3:cpu,cpuacct:/docker/ab/c\n2:pids:/../out\n";
    let told = CgroupMounts { mounts: mounts.to_owned(), own: own.to_owned() };
    let tree =
        |own: &str, controller| CgroupTree { own: own.into(), unified: false, controllers: vec![controller] };
    // That of `pids` is above what can be seen from here.
    assert_eq!(
        tree::trees(&told),
        [tree("/a b/cpu,cpuacct/c", Controller::Cpu), tree("/cg/memory/y/z", Controller::Memory)]
    );
}

/// The first tree of the older kind in which this process may make cgroups.
fn older() -> Option<PathBuf> {
    let trees = tree::trees(&CgroupMounts::read().unwrap());
    let pids =
        trees.into_iter().find(|tree| !tree.unified && tree.controllers.contains(&Controller::Pids))?;
    let dir = pids.own.join(format!("evenkeel-test-{}", std::process::id()));
    fs::create_dir(&dir).ok().map(|()| dir)
}

#[test]
fn a_tree_of_the_older_kind_is_killed_however_it_forks() {
    let Some(dir) = older() else {
        eprintln!("SKIPPED: no cgroup of version 1 that counts processes can be made here");
        return;
    };
    // Each generation leaves its session and its parent, and has two more, up to 256: faster than they are looked for.
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("fork.sh");
    let text = "[ $1 -gt 7 ] && exec sleep 600\nn=$(($1+1))\nsetsid sh $0 $n &\nsetsid sh $0 $n &\n";
    fs::write(&script, text).unwrap();
    let enter = "echo $$ > $0/cgroup.procs && exec sh $1 0";
    let mut first = Command::new("sh").args(["-c", enter]).args([&dir, &script]).spawn().unwrap();
    let now = || crate::clock::now().mono;
    let patience = now() + Millis::secs(60);
    while members(&dir).len() < 20 {
        assert!(now() < patience, "it forks");
        std::thread::yield_now();
    }
    let mut looks = 0;
    while !is_empty(&dir) {
        assert!(now() < patience, "{looks} looks, and still there: {:?}", members::processes(&dir));
        kill(&dir, None);
        looks += 1;
    }
    let _ = first.wait();
    while let Err(e) = remove(&dir) {
        assert!(now() < patience, "{e}");
        std::thread::yield_now();
    }
}
