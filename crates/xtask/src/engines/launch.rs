//! How each engine is started: an ordinary process on loopback that is light and yet loses nothing when it is killed.

use anyhow::{Context as _, Result, bail};
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where an engine lives while it runs.
pub(super) struct EngineSite {
    pub(super) folder: PathBuf,
    pub(super) port: u16,
    /// More ports, for those that need them.
    pub(super) others: Vec<u16>,
}

/// Where ports of engines are looked for.
const SERVER_PORTS: std::ops::Range<u16> = 10_000..32_000;
/// How many ports three servers need that also talk to each other.
const PORTS: usize = 9;

/// An engine that was started.
pub(super) struct StartedEngine {
    /// Its processes, and the folder of each.
    pub(super) children: Vec<(Child, PathBuf)>,
    pub(super) url: String,
    /// What is to be done once, when it answers.
    pub(super) prepare: fn(&EngineSite) -> Result<()>,
}

impl EngineSite {
    /// A folder that exists, and ports that are free now. They lie below those that the system gives to clients, so only another
    /// server can take one before the engine does; [`super::running::start`] starts the engine with other ports then.
    pub(super) fn new(folder: PathBuf) -> Result<Self> {
        let mut listeners: Vec<TcpListener> = Vec::new();
        while listeners.len() < PORTS {
            let port = SERVER_PORTS.start
                + (RandomState::new().build_hasher().finish() % SERVER_PORTS.len() as u64) as u16;
            listeners.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
        }
        let ports = listeners.iter().map(|it| Ok(it.local_addr()?.port())).collect::<Result<Vec<_>>>()?;
        Ok(Self { folder, port: ports[0], others: ports[1..].to_vec() })
    }

    /// Its ports, as [`EngineSite::read`] reads them.
    pub(super) fn ports(&self) -> String {
        let ports = std::iter::once(&self.port).chain(&self.others).map(u16::to_string);
        ports.collect::<Vec<_>>().join(" ")
    }

    /// A place that was remembered by its folder and [`EngineSite::ports`].
    pub(super) fn read(folder: PathBuf, ports: &str) -> Option<Self> {
        let mut ports = ports.split(' ').map(|port| port.parse().ok());
        Some(Self { folder, port: ports.next()??, others: ports.collect::<Option<_>>()? })
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<String> {
        std::fs::write(self.folder.join(name), text)?;
        Ok(self.path(name))
    }

    /// Starts a process whose words go to the log, and remembers how.
    pub(super) fn spawn(&self, command: &mut Command) -> Result<(Child, PathBuf)> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line: Vec<&[u8]> = words.map(OsStr::as_bytes).collect();
        std::fs::write(line_of(&self.folder), line.join(&0))?;
        Ok((spawn_in(&self.folder, command)?, self.folder.clone()))
    }

    /// Says something to the engine and looks whether the answer begins as it should.
    pub(super) fn answers(&self, question: &str, answer: &str) -> bool {
        let patience = Duration::from_secs(2);
        let talk = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, self.port).into(), patience)?;
            stream.set_read_timeout(Some(patience))?;
            stream.write_all(question.as_bytes())?;
            let mut heard = vec![0; answer.len()];
            stream.read_exact(&mut heard)?;
            Ok(heard == answer.as_bytes())
        };
        talk().unwrap_or(false)
    }
}

pub(super) fn log(folder: &Path) -> PathBuf {
    folder.join("log")
}

fn line_of(folder: &Path) -> PathBuf {
    folder.join("command")
}

fn spawn_in(folder: &Path, command: &mut Command) -> Result<Child> {
    let words = std::fs::File::options().create(true).append(true).open(log(folder))?;
    let command = command.current_dir(folder).stdin(Stdio::null()).stdout(words.try_clone()?).stderr(words);
    // Ctrl-C is for the command that started it: the next one finds it as it is.
    Ok(command.process_group(0).spawn()?)
}

/// Starts the same process in its folder again.
pub(super) fn spawn_again(folder: &Path) -> Result<Child> {
    let line = std::fs::read(line_of(folder))?;
    let mut words = line.split(|byte| *byte == 0).map(OsStr::from_bytes);
    let program = words.next().context("nobody knows how it was started")?;
    spawn_in(folder, Command::new(program).args(words))
}

/// A program on the path, or where Debian hides those of the administrator.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Runs something to its end.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let out = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    if !out.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&out.stderr).trim_end());
    }
    Ok(())
}

pub(super) fn no_preparation(_: &EngineSite) -> Result<()> {
    Ok(())
}

pub(super) fn etcd(place: &EngineSite) -> Result<StartedEngine> {
    let child = etcd_member(place, "test", &format!("test=http://127.0.0.1:{}", place.others[0]))?;
    let url = format!("etcd://127.0.0.1:{}", place.port);
    Ok(StartedEngine { children: vec![child], url, prepare: no_preparation })
}

/// One member of a cluster that is written `NAME=URL,…`.
pub(super) fn etcd_member(place: &EngineSite, name: &str, cluster: &str) -> Result<(Child, PathBuf)> {
    let (client, peer) =
        (format!("http://127.0.0.1:{}", place.port), format!("http://127.0.0.1:{}", place.others[0]));
    let options = [
        ("--name", name),
        ("--data-dir", &place.path("data")),
        ("--listen-client-urls", &client),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", &peer),
        ("--initial-advertise-peer-urls", &peer),
        ("--initial-cluster", cluster),
    ];
    place.spawn(Command::new("etcd").args(options.map(|(name, value)| format!("{name}={value}"))))
}

pub(super) fn etcd_answers(place: &EngineSite) -> bool {
    let question = "GET /health HTTP/1.0\r\n\r\n";
    place.answers(question, "HTTP/1.0 200") || place.answers(question, "HTTP/1.1 200")
}

/// Where Debian keeps it.
pub(super) fn zookeeper_jar() -> Option<PathBuf> {
    let jar = PathBuf::from("/usr/share/java/zookeeper.jar");
    (jar.is_file() && on_path("java").is_some()).then_some(jar)
}

pub(super) fn zookeeper(place: &EngineSite) -> Result<StartedEngine> {
    let child = zookeeper_member(place, "ZooKeeperServerMain", "")?;
    let url = format!("zookeeper://127.0.0.1:{}", place.port);
    Ok(StartedEngine { children: vec![child], url, prepare: no_preparation })
}

pub(super) fn zookeeper_answers(place: &EngineSite) -> bool {
    place.answers("ruok", "imok") && place.answers("srvr", "Zookeeper version")
}

/// One server, which `more` of its configuration makes one of several.
pub(super) fn zookeeper_member(place: &EngineSite, main: &str, more: &str) -> Result<(Child, PathBuf)> {
    let jar = zookeeper_jar().context("zookeeper.jar is gone")?;
    let config = format!(
        "tickTime=250\nmaxSessionTimeout=86400000\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
         forceSync=yes\npreAllocSize=1024\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{more}",
        place.path("data"),
        place.port
    );
    let config = place.write("zoo.cfg", &config)?;
    let light = [
        // It takes so much only when tests have left so much behind.
        "-Xmx512m",
        "-Xms32m",
        "-Xss512k",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
    ];
    let mut java = Command::new("java");
    java.args(light).arg("-cp").arg(jar).args([&format!("org.apache.zookeeper.server.{main}"), &config]);
    place.spawn(&mut java)
}

pub(super) fn redis(place: &EngineSite) -> Result<StartedEngine> {
    let config = format!(
        "port {}\nbind 127.0.0.1\ndir {}\nappendonly yes\nappendfsync always\nsave \"\"\n",
        place.port,
        place.path("")
    );
    let config = place.write("redis.conf", &config)?;
    let child = place.spawn(Command::new("redis-server").arg(config))?;
    let url = format!("redis://127.0.0.1:{}/0", place.port);
    Ok(StartedEngine { children: vec![child], url, prepare: no_preparation })
}

pub(super) fn redis_answers(place: &EngineSite) -> bool {
    place.answers("PING\r\n", "+PONG")
}

pub(super) fn mysql(place: &EngineSite) -> Result<StartedEngine> {
    let data = format!("--datadir={}", place.path("data"));
    let user = format!("--user={}", whoami()?);
    let temporary = format!("--tmpdir={}", place.path(""));
    let install = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"];
    run(Command::new("mariadb-install-db").args(install).args([&data, &user, &temporary]))?;
    let port = format!("--port={}", place.port);
    let socket = format!("--socket={}", place.path("socket"));
    let pid = format!("--pid-file={}", place.path("pid"));
    let durable = ["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"];
    let light = [
        "--innodb-buffer-pool-size=32M",
        "--innodb-log-file-size=32M",
        "--performance-schema=OFF",
        "--max-connections=400",
        "--skip-name-resolve",
    ];
    let mut server = Command::new(on_path("mariadbd").context("mariadbd is gone")?);
    server.args([
        "--no-defaults",
        "--bind-address=127.0.0.1",
        &data,
        &user,
        &temporary,
        &port,
        &socket,
        &pid,
    ]);
    let child = place.spawn(server.args(durable).args(light))?;
    let prepare = |place: &EngineSite| mysql_client(place, "CREATE DATABASE IF NOT EXISTS evenkeel");
    let url = format!("mysql://root@127.0.0.1:{}/evenkeel", place.port);
    Ok(StartedEngine { children: vec![child], url, prepare })
}

pub(super) fn mysql_answers(place: &EngineSite) -> bool {
    mysql_client(place, "SELECT 1").is_ok()
}

fn mysql_client(place: &EngineSite, sql: &str) -> Result<()> {
    let port = format!("--port={}", place.port);
    run(Command::new("mariadb").args(["--no-defaults", "--host=127.0.0.1", &port, "--user=root", "-e", sql]))
}

/// One of PostgreSQL's programs, which Debian keeps apart by version.
pub(super) fn postgres_program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path());
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest =
        versions.filter(|path| path.join("bin").join(name).is_file()).max_by_key(|path| number(path));
    newest
        .map(|path| path.join("bin").join(name))
        .or_else(|| on_path(name).filter(|_| on_path("initdb").is_some()))
}

pub(super) fn postgres(place: &EngineSite) -> Result<StartedEngine> {
    let data = place.path("data");
    if is_superuser()? {
        // PostgreSQL refuses to run as root, and its package brings a user for it.
        run(Command::new("chown").arg("postgres:").arg(&place.folder))?;
    }
    let program = |name| postgres_program(name).with_context(|| format!("{name} is gone"));
    let initdb = ["--auth=trust", "--username=evenkeel", "--encoding=UTF8", "--no-locale", "--no-sync"];
    run(postgres_command(&program("initdb")?)?
        .args(initdb)
        .arg(format!("--pgdata={data}"))
        .current_dir(&place.folder))?;
    let settings = [
        format!("port={}", place.port),
        format!("unix_socket_directories={}", place.folder.display()),
        "listen_addresses=127.0.0.1".to_owned(),
        "fsync=on".to_owned(),
        "synchronous_commit=on".to_owned(),
        "max_connections=200".to_owned(),
        "shared_buffers=32MB".to_owned(),
        "max_wal_size=256MB".to_owned(),
    ];
    let mut server = postgres_command(&program("postgres")?)?;
    server.arg("-D").arg(&data).args(settings.iter().flat_map(|setting| ["-c", setting]));
    let child = place.spawn(&mut server)?;
    let url = format!("postgres://evenkeel@127.0.0.1:{}/postgres", place.port);
    Ok(StartedEngine { children: vec![child], url, prepare: no_preparation })
}

pub(super) fn postgres_answers(place: &EngineSite) -> bool {
    let port = place.port.to_string();
    let ready = postgres_program("pg_isready")
        .map(|program| run(Command::new(program).args(["--quiet", "--host=127.0.0.1", "--port", &port])));
    ready.is_some_and(|ready| ready.is_ok())
}

/// A command that runs as somebody whom PostgreSQL accepts, in the same process.
fn postgres_command(program: &Path) -> Result<Command> {
    if !is_superuser()? {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program);
    Ok(command)
}

fn is_superuser() -> Result<bool> {
    Ok(whoami()? == "root")
}

fn whoami() -> Result<String> {
    let out = Command::new("id").arg("-un").output().context("id cannot be started")?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
