//! Servers of a test on loopback.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wire::{Name, Qtype, QueryTemplate};

use super::command::Held;

/// A server on a port of 127.0.0.1, ended when dropped.
pub(crate) struct Server {
    pub(crate) child: Held,
    pub(crate) address: String,
    pub(crate) dir: tempfile::TempDir,
}

/// Starts a command in a folder, and waits until it answers for a name with NOERROR.
pub(crate) fn serve(
    dir: tempfile::TempDir,
    command: &[String],
    port: u16,
    name: &str,
    qtype: Qtype,
) -> Server {
    let log = std::fs::File::create(dir.path().join("log")).expect("creates");
    let mut server = Command::new(&command[0]);
    server.args(&command[1..]).current_dir(dir.path()).stdin(Stdio::null());
    server.stdout(log.try_clone().expect("a file")).stderr(log);
    let child = server.spawn().expect("starts");
    let server = Server { child: Held(child), address: format!("127.0.0.1:{port}"), dir };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
    socket.connect(&server.address).expect("connects");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("sets");
    let limit = Instant::now() + Duration::from_secs(60);
    let mut reply = [0; 4096];
    // Refused while nobody listens.
    while socket.send(&query(name, qtype, 1)).is_err()
        || !socket.recv(&mut reply).is_ok_and(|n| n > 12 && reply[3] & 15 == 0)
    {
        let log = std::fs::read_to_string(server.dir.path().join("log")).unwrap_or_default();
        assert!(Instant::now() < limit, "{command:?} does not answer: {log}");
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

/// A query with this id.
pub(crate) fn query(name: &str, qtype: Qtype, id: u16) -> Vec<u8> {
    let name: Name = name.parse().expect("a name");
    let mut query = QueryTemplate::new(&name, qtype, true, false, None).bytes().to_vec();
    query[..2].copy_from_slice(&id.to_be_bytes());
    query
}
