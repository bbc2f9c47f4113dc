//! Ports that nobody listens on.

use std::net::TcpListener;

/// A port that was free a moment ago. Another process may take it before it is used, so whoever starts a server on it
/// tries again with another.
///
/// # Panics
/// If the loopback interface has no free port.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback interface has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}
