//! A PostgreSQL server for tests: Debian's programs, a folder and a port of its own, gone when the test process is.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Starts the server anew for every line it is sent and says its process id; when the line ends, however that comes about,
/// stops the server at once, frozen or not, and removes its folder. So nothing is left behind by a test that panics or is killed.
const SUPERVISOR: &str = r#"
trap '' HUP INT TERM
programs=$1 folder=$2 server=
shift 2
while read -r _; do
    [ -n "$server" ] && wait "$server" 2>/dev/null
    "$programs/postgres" -D "$folder" "$@" >>"$folder/log" 2>&1 </dev/null &
    server=$!
    echo "$server"
done
kill -CONT "$server"
kill -QUIT "$server"
wait "$server"
rm -rf "$folder"
"#;

pub struct Server {
    port: u16,
    folder: PathBuf,
    line: Mutex<Line>,
}

struct Line {
    supervisor: Child,
    /// None when it has been told to end.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    pid: String,
}

/// The server that all tests of this process share, and the name of a new database on it, with this version's schema.
pub fn shared() -> (&'static Server, String) {
    static SHARED: OnceLock<Server> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let server = SHARED.get_or_init(Server::with_model);
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    server.execute("postgres", &format!("CREATE DATABASE {name} TEMPLATE model")).unwrap();
    (server, name)
}

impl Server {
    /// A server with these settings beside the usual ones.
    pub fn start(settings: &[&str]) -> Self {
        let programs = programs();
        let folder = output(as_owner(Command::new("mktemp")).args(["-d", "-t", "maitred-postgres-XXXXXXXX"]));
        let initdb = programs.join("initdb");
        let arguments = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        output(as_owner(Command::new(initdb)).args(arguments).arg(&folder));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut usual: Vec<String> =
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=250"]
                .map(String::from)
                .into();
        usual.push(format!("port={port}"));
        let settings = usual.iter().map(String::as_str).chain(settings.iter().copied());
        let mut supervisor = as_owner(Command::new("sh"))
            .args(["-c", SUPERVISOR, "supervisor"])
            .args([programs.as_path(), Path::new(&folder)])
            .args(settings.flat_map(|setting| ["-c", setting]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = supervisor.stdin.take();
        let from = BufReader::new(supervisor.stdout.take().unwrap());
        let server = Self {
            port,
            folder: folder.into(),
            line: Mutex::new(Line { supervisor, to, from, pid: String::new() }),
        };
        server.restart();
        server
    }

    /// A server of a test's own, for doing to it what the others would not like.
    pub async fn alone() -> &'static Self {
        let start = || Box::leak(Box::new(Self::start(&[])));
        tokio::task::spawn_blocking(start).await.unwrap()
    }

    fn with_model() -> Self {
        let server = Self::start(&[]);
        server.execute("postgres", "CREATE DATABASE model").unwrap();
        let options = store::postgres::Options::new(&server.url("model")).unwrap();
        blocking(store::Store::migrate(&store::Database::Postgres(options))).unwrap();
        server
    }

    /// Makes the server speak TLS with this certificate and key, in PEM.
    pub fn speak_tls(&self, certificate: &str, key: &str) {
        let owner = std::fs::metadata(&self.folder).unwrap();
        for (name, pem) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.folder.join(name);
            std::fs::write(&path, pem).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        self.execute("postgres", "ALTER SYSTEM SET ssl = on").unwrap();
        self.execute("postgres", "SELECT pg_reload_conf()").unwrap();
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Executes statements past the store.
    pub fn execute(&self, database: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
        let url = self.url(database);
        blocking(async {
            let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
            let connection = tokio::spawn(connection);
            let executed = client.batch_execute(sql).await;
            drop(client);
            let _ = connection.await;
            executed
        })
    }

    /// Kills the server as a power cut would.
    pub fn kill(&self) {
        self.signal("KILL");
    }

    /// Sends the server a signal.
    fn signal(&self, signal: &str) {
        let pid = self.line.lock().unwrap().pid.clone();
        output(Command::new("kill").args([&format!("-{signal}"), &pid]));
    }

    /// Stops the server with all its processes, so that it neither answers nor goes away.
    pub fn freeze(&self) {
        self.signal("STOP");
        self.signal_children("STOP");
    }

    /// Lets it go on; itself last, since as long as it stands still none of its processes can vanish.
    pub fn thaw(&self) {
        self.signal_children("CONT");
        self.signal("CONT");
    }

    fn signal_children(&self, signal: &str) {
        let pid = self.line.lock().unwrap().pid.clone();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        assert!(!children.trim().is_empty(), "a server has processes");
        output(Command::new("kill").arg(format!("-{signal}")).args(children.split_whitespace()));
    }

    /// Starts the server again after it was killed, and waits until it answers.
    pub fn restart(&self) {
        let give_up = Instant::now() + Duration::from_secs(30);
        let mut line = self.line.lock().unwrap();
        loop {
            line.to.as_mut().unwrap().write_all(b"start\n").unwrap();
            let mut pid = String::new();
            line.from.read_line(&mut pid).unwrap();
            line.pid = pid.trim().into();
            // It ends at once while processes of a server that was killed are still there.
            while runs(&line.pid) {
                if self.execute("postgres", "SELECT 1").is_ok() {
                    return;
                }
                assert!(Instant::now() < give_up, "PostgreSQL did not start");
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(Instant::now() < give_up, "PostgreSQL did not start");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(line) = self.line.get_mut() {
            line.to = None;
            let _ = line.supervisor.wait();
        }
    }
}

/// Whether the process is there and has not ended.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Where Debian keeps the programs of the newest version that is installed, or else wherever they are found.
fn programs() -> PathBuf {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = installed
        .map(|version| version.path().join("bin"))
        .filter(|programs| programs.join("initdb").exists())
        .collect();
    versions.sort();
    let elsewhere = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join("initdb").exists())
    };
    let found = versions.pop().or_else(elsewhere);
    found.expect("there is no PostgreSQL server: install the Debian package postgresql")
}

/// PostgreSQL does not run as root: there it runs as the user that Debian's package makes.
fn as_owner(mut command: Command) -> Command {
    command.current_dir("/");
    if output(Command::new("id").arg("-u")) == "0" {
        let id = |which| output(Command::new("id").args([which, "postgres"])).parse().unwrap();
        command.uid(id("-u")).gid(id("-g"));
    }
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs on a thread and a runtime of its own, so that tests may call it from inside theirs.
fn blocking<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    std::thread::scope(|threads| threads.spawn(run).join().unwrap())
}
