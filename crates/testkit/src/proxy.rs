//! A TCP proxy that misbehaves on request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Sits between clients and a server on the loopback interface.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    target: u16,
    /// New connections are closed at once, and existing ones were.
    cut: AtomicBool,
    /// What the server sends is kept back.
    held: AtomicBool,
    /// Every so-manieth request that contains the word loses its reply, and the connection is cut. 0: none.
    fault_every: AtomicU64,
    fault_word: Mutex<Vec<u8>>,
    words_seen: AtomicU64,
    replies_lost: AtomicU64,
    ended: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
    /// The request at which a connection is stopped on its way to the server. Empty: none.
    trap: Mutex<Vec<u8>>,
    /// How many bytes before it are stopped with it; `u64::MAX`: all that came with it.
    trap_lead: AtomicU64,
    /// What has been caught since the trap was set. Kept back for as long as it is there.
    caught: Mutex<Option<Vec<u8>>>,
}

impl Proxy {
    /// A proxy in front of `port`.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback interface has a free port");
        let own_port = listener.local_addr().expect("a bound socket has an address").port();
        let state = Arc::new(State { target: port, ..State::default() });
        let theirs = Arc::clone(&state);
        thread::spawn(move || accept(&listener, &theirs));
        Self { port: own_port, state }
    }

    /// Where clients of Redis connect.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections and refuses new ones.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
        self.state.close_all();
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.state.cut.store(false, Ordering::SeqCst);
    }

    /// Keeps back what the server sends, until told otherwise.
    pub fn hold(&self, held: bool) {
        self.state.held.store(held, Ordering::SeqCst);
    }

    /// From now on every so-manieth burst of requests is delivered, its replies are thrown away, and the connection is
    /// cut. 0 stops it.
    pub fn lose_replies_every(&self, bursts: u64) {
        self.lose_replies_to(b"EVALSHA", bursts);
    }

    /// The same for bursts that contain these bytes.
    pub fn lose_replies_to(&self, word: &[u8], bursts: u64) {
        if let Ok(mut fault_word) = self.state.fault_word.lock() {
            *fault_word = word.to_vec();
        }
        self.state.fault_every.store(bursts, Ordering::SeqCst);
    }

    /// Keeps back the next request that contains these bytes, and all that its connection sends after it, until
    /// [`Proxy::release`]. Other connections go on.
    pub fn trap(&self, request: &[u8]) {
        self.state.trap_lead.store(u64::MAX, Ordering::SeqCst);
        self.state.set_trap(request);
    }

    /// The same, but what came with the request and ahead of it is delivered, except for so many bytes: a transaction whose end
    /// does not arrive.
    pub fn trap_from(&self, request: &[u8], lead: u64) {
        self.state.trap_lead.store(lead, Ordering::SeqCst);
        self.state.set_trap(request);
    }

    /// What the trap has caught so far, if anything.
    pub fn caught(&self) -> Option<Vec<u8>> {
        self.state.caught.lock().ok()?.clone()
    }

    /// Delivers what was caught, and catches no more.
    pub fn release(&self) {
        self.state.set_trap(b"");
        if let Ok(mut caught) = self.state.caught.lock() {
            *caught = None;
        }
    }

    /// How many calls were delivered without their reply.
    pub fn replies_lost(&self) -> u64 {
        self.state.replies_lost.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        self.state.close_all();
        // Wakes the accepting thread, which then sees that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl State {
    fn close_all(&self) {
        for stream in self.open.lock().map(|mut open| std::mem::take(&mut *open)).unwrap_or_default() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn faulty_words(&self, bytes: &[u8]) -> u64 {
        self.fault_word.lock().map_or(0, |word| if word.is_empty() { 0 } else { count(bytes, &word) })
    }

    fn over(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn set_trap(&self, request: &[u8]) {
        if let Ok(mut trap) = self.trap.lock() {
            *trap = request.to_vec();
        }
    }

    /// From which of these bytes on they are what the trap waits for, if they are; then nobody else is caught.
    fn falls_into_trap(&self, bytes: &[u8]) -> Option<usize> {
        let (Ok(mut trap), Ok(mut caught)) = (self.trap.lock(), self.caught.lock()) else { return None };
        if trap.is_empty() {
            return None;
        }
        let at = bytes.windows(trap.len()).position(|window| window == trap.as_slice())?;
        let lead = usize::try_from(self.trap_lead.load(Ordering::SeqCst)).unwrap_or(usize::MAX);
        trap.clear();
        *caught = Some(Vec::new());
        Some(at.saturating_sub(lead))
    }

    /// Keeps back these bytes and what follows them until they are released.
    fn keep_back(&self, bytes: &[u8], from: &mut TcpStream) -> Vec<u8> {
        let mut kept = bytes.to_vec();
        let mut buffer = vec![0; 64 * 1024];
        let _ = from.set_read_timeout(Some(Duration::from_millis(5)));
        while !self.over() {
            match self.caught.lock().as_deref_mut() {
                Ok(Some(caught)) => caught.clone_from(&kept),
                _ => break,
            }
            if let Ok(length) = from.read(&mut buffer) {
                kept.extend_from_slice(&buffer[..length]);
                if length == 0 {
                    // It has gone; what it sent before that stays sent.
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let _ = from.set_read_timeout(None);
        kept
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    while let Ok((client, _)) = listener.accept() {
        if state.over() {
            return;
        }
        if state.cut.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(server) = TcpStream::connect(("127.0.0.1", state.target)) else { continue };
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        if let (Ok(one), Ok(other), Ok(mut open)) =
            (client.try_clone(), server.try_clone(), state.open.lock())
        {
            // Those that have ended in the meantime need no closing.
            open.retain(|stream| stream.peer_addr().is_ok());
            open.extend([one, other]);
        }
        connect(client, server, state);
    }
}

fn connect(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    let losing = Arc::new(AtomicBool::new(false));
    let (Ok(mut from_client), Ok(mut to_server)) = (client.try_clone(), server.try_clone()) else { return };
    let (state_up, losing_up) = (Arc::clone(state), Arc::clone(&losing));
    thread::spawn(move || {
        pump(&mut from_client, &mut to_server, |bytes, from, to| {
            if let Some(at) = state_up.falls_into_trap(bytes) {
                to.write_all(&bytes[..at]).ok()?;
                return Some(state_up.keep_back(&bytes[at..], from));
            }
            let every = state_up.fault_every.load(Ordering::SeqCst);
            let scripts = if every > 0 { state_up.faulty_words(bytes) } else { 0 };
            if scripts > 0 {
                let seen = state_up.words_seen.fetch_add(1, Ordering::SeqCst) + 1;
                if losing_up.load(Ordering::SeqCst) || seen.is_multiple_of(every) {
                    state_up.replies_lost.fetch_add(scripts, Ordering::SeqCst);
                    losing_up.store(true, Ordering::SeqCst);
                }
            }
            Some(bytes.to_vec())
        });
    });
    let (mut from_server, mut to_client, state) = (server, client, Arc::clone(state));
    thread::spawn(move || {
        pump(&mut from_server, &mut to_client, |bytes, _, _| {
            while state.held.load(Ordering::SeqCst) && !state.over() {
                thread::sleep(Duration::from_millis(1));
            }
            (!losing.load(Ordering::SeqCst)).then(|| bytes.to_vec())
        });
    });
}

/// Copies what `pass` lets through until an end closes, or it says no; then closes both.
fn pump(
    from: &mut TcpStream,
    to: &mut TcpStream,
    pass: impl Fn(&[u8], &mut TcpStream, &mut TcpStream) -> Option<Vec<u8>>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let Some(passed) = pass(&buffer[..length], from, to) else { break };
        if to.write_all(&passed).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn count(bytes: &[u8], word: &[u8]) -> u64 {
    bytes.windows(word.len()).filter(|window| *window == word).count() as u64
}
