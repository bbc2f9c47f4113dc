//! A PostgreSQL server of one's own: Debian's programs, a folder and a port for it alone, gone when the process is that
//! started it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::free_port;

/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// A server that keeps what it confirms, as the product requires it.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    folder: PathBuf,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    supervisor: Child,
    /// None when it has been told to end.
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    pid: String,
}

impl Postgres {
    /// Starts one and waits until it answers.
    pub fn start() -> Self {
        Self::with_settings(&[])
    }

    /// The server that all tests of this process share, and the name of a new database on it: a copy of the one whose address
    /// `model` was given when the server had started.
    pub fn shared(model: impl FnOnce(&str)) -> (&'static Self, String) {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let server = SHARED.get_or_init(|| {
            let server = Self::start();
            server.execute("postgres", "CREATE DATABASE model").expect("it has room");
            model(&server.url("model"));
            server
        });
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let copy = format!("CREATE DATABASE {name} TEMPLATE model");
        server.execute("postgres", &copy).expect("nobody uses the model any more");
        (server, name)
    }

    /// A server of a test's own, for doing to it what the others would not like. It ends with the process.
    pub fn alone() -> &'static Self {
        Box::leak(Box::new(Self::start()))
    }

    /// Starts one with these settings beside the usual ones: `["fsync=off"]`.
    ///
    /// # Panics
    /// If no server can be started.
    pub fn with_settings(settings: &[&str]) -> Self {
        Self::within(&std::env::temp_dir(), settings)
    }

    /// The same with its files somewhere below this folder, which anybody may write to.
    ///
    /// # Panics
    /// If no server can be started.
    pub fn within(parent: &Path, settings: &[&str]) -> Self {
        let programs = programs();
        let template = parent.join("maitred-postgres-XXXXXXXX");
        let folder = output(as_owner(Command::new("mktemp")).arg("-d").arg(template));
        let initdb = programs.join("initdb");
        let arguments = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        output(as_owner(Command::new(initdb)).args(arguments).arg(&folder));
        let port = free_port();
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
            .expect("there is a shell");
        let to = supervisor.stdin.take();
        let from = BufReader::new(supervisor.stdout.take().expect("it is piped"));
        let server = Self {
            port,
            folder: folder.into(),
            line: Mutex::new(Line { supervisor, to, from, pid: String::new() }),
        };
        server.restart();
        server
    }

    /// Makes the server speak TLS with this certificate and key, in PEM.
    ///
    /// # Panics
    /// If its folder is gone.
    pub fn speak_tls(&self, certificate: &str, key: &str) {
        let owner = std::fs::metadata(&self.folder).expect("its folder is there");
        for (name, pem) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.folder.join(name);
            std::fs::write(&path, pem).expect("its folder is writable");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
            std::os::unix::fs::chown(&path, Some(owner.uid()), Some(owner.gid())).expect("it is ours");
        }
        for sql in ["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"] {
            self.execute("postgres", sql).expect("it answers");
        }
    }

    /// Its process id.
    ///
    /// # Panics
    /// If it does not run.
    pub fn id(&self) -> u32 {
        self.pid().parse().expect("it has been started")
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where clients of a database connect.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Executes statements on a connection of its own.
    ///
    /// # Errors
    /// If the server cannot be reached, or refuses them.
    pub fn execute(&self, database: &str, sql: &str) -> io::Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let version = 3_u32 << 16;
        let startup = format!("user\0postgres\0database\0{database}\0\0");
        let mut request = message(&[&version.to_be_bytes(), startup.as_bytes()]);
        request.push(b'Q');
        request.extend(message(&[sql.as_bytes(), b"\0"]));
        request.push(b'X');
        request.extend(message(&[]));
        stream.write_all(&request)?;
        read_answers(&mut BufReader::new(stream))
    }

    /// Kills the server as a power cut would.
    pub fn kill(&self) {
        self.signal("KILL");
    }

    fn pid(&self) -> String {
        self.line.lock().expect("nobody panics with it").pid.clone()
    }

    /// Sends the server a signal.
    fn signal(&self, signal: &str) {
        let pid = self.pid();
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
        let pid = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("it runs");
        assert!(!children.trim().is_empty(), "a server has processes");
        output(Command::new("kill").arg(format!("-{signal}")).args(children.split_whitespace()));
    }

    /// Starts the server again if it has ended by itself, and waits until it answers.
    pub fn revive(&self) {
        if !runs(&self.pid()) {
            self.restart();
        }
    }

    /// Starts the server again after it was killed, and waits until it answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn restart(&self) {
        let give_up = Instant::now() + Duration::from_secs(30);
        let mut line = self.line.lock().expect("nobody panics with it");
        loop {
            line.to
                .as_mut()
                .expect("it was not told to end")
                .write_all(b"start\n")
                .expect("the supervisor reads");
            let mut pid = String::new();
            line.from.read_line(&mut pid).expect("the supervisor answers");
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

impl Drop for Postgres {
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
        let id =
            |which| output(Command::new("id").args([which, "postgres"])).parse().expect("an id is a number");
        command.uid(id("-u")).gid(id("-g"));
    }
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A message of the protocol without its type: its length, and what it says.
fn message(parts: &[&[u8]]) -> Vec<u8> {
    let length = 4 + parts.iter().map(|part| part.len()).sum::<usize>();
    let length = u32::try_from(length).expect("a message is short");
    [&length.to_be_bytes(), parts.concat().as_slice()].concat()
}

/// Reads until the server has closed the connection; what it refused first is the error.
fn read_answers(reader: &mut impl Read) -> io::Result<()> {
    let (mut ready, mut refused) = (0, None);
    loop {
        let mut head = [0; 5];
        match reader.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            // Ready for the statements, and ready after them: otherwise it went away in the middle.
            Err(error) => {
                return if ready == 2 && refused.is_none() { Ok(()) } else { Err(refused.unwrap_or(error)) };
            }
        }
        let [kind, length @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes(length).saturating_sub(4) as usize];
        reader.read_exact(&mut body)?;
        match kind {
            b'Z' => ready += 1,
            b'E' => refused = refused.or_else(|| Some(io::Error::other(message_of(&body)))),
            _ => {}
        }
    }
}

/// The human-readable field of an error: fields are a letter and a text each.
fn message_of(error: &[u8]) -> String {
    let fields = error.split(|byte| *byte == 0);
    let text = fields.filter_map(|field| field.strip_prefix(b"M")).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
