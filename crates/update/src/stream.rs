//! Files of updates: nsupdate scripts, and a binary form that is fast to read.
//!
//! ```text
//!   binary:  "dnsdyno updates 1\n"   length (u16, big-endian) | message   length | message   ...
//! ```
//!
//! The messages have the form of RFC 2136 with the id 0, unsigned, with uncompressed names. The first octets of a file
//! decide on its form.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Update;
use crate::message::MessageError;
use crate::script::{Script, Zones};

/// The first octets of a binary stream.
pub const MAGIC: &[u8] = b"dnsdyno updates 1\n";

/// The reason why a stream of updates cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file cannot be read.
    #[error("cannot read the file of updates {path}: {1}", path = .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// A message of a binary stream is not valid.
    #[error("{}: update {number}, octet {octet}: {source}", path.display())]
    BadMessage {
        /// The path of the file.
        path: PathBuf,
        /// The number of the update, from 1.
        number: u64,
        /// The offset of the message in the file, from 0.
        octet: u64,
        /// The mistake in the message.
        source: MessageError,
    },
    /// A line of a script is not valid.
    #[error("{}:{line}:{column}: {why}", path.display())]
    BadLine {
        /// The path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Column of the mistake, from 1.
        column: usize,
        /// The mistake, and the accepted forms.
        why: String,
    },
    /// The zone of a name in a script could not be looked up at the server.
    #[error("cannot ask {server} for the zone of {name}: {source}")]
    Server {
        /// Address and port of the server.
        server: SocketAddr,
        /// Name whose zone was looked up.
        name: String,
        /// The error of the socket.
        source: io::Error,
    },
}

impl StreamError {
    /// Returns whether the stream is bad, and not the server at which its zone was looked up.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, StreamError::Server { .. })
    }
}

/// Writes the start of a binary stream.
///
/// # Errors
/// If writing to `out` fails.
pub fn begin(out: &mut impl Write) -> io::Result<()> {
    out.write_all(MAGIC)
}

/// Writes an update to a binary stream.
///
/// # Errors
/// If writing to `out` fails.
pub fn write(out: &mut impl Write, update: &Update) -> io::Result<()> {
    let wire = update.to_wire(0);
    out.write_all(&(wire.len() as u16).to_be_bytes())?;
    out.write_all(&wire)
}

/// A reader of updates from a file.
#[derive(Debug)]
pub struct UpdateReader<R> {
    input: R,
    path: PathBuf,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Binary { number: u64, octet: u64 },
    Script(Box<Script>),
}

impl UpdateReader<BufReader<File>> {
    /// Opens a file of updates.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, StreamError> {
        let unreadable = |source| StreamError::Unreadable(path.to_owned(), source);
        let file = File::open(path).map_err(unreadable)?;
        Self::new(BufReader::with_capacity(256 << 10, file), path)
    }
}

/// Updates of a script after its last `send`.
#[derive(Clone, Debug, Default)]
pub struct UnsentUpdates(Arc<AtomicU64>);

impl UnsentUpdates {
    /// Returns a note on updates that were not sent, once the reader is at the end; `None` if all
    /// were.
    pub fn note(&self) -> Option<String> {
        let lines = match self.0.load(Ordering::Relaxed) {
            0 => return None,
            1 => "1 line is not sent".to_owned(),
            lines => format!("{lines} lines are not sent"),
        };
        Some(format!("{lines}: `send` or an empty line is missing after the last one"))
    }
}

impl<R: BufRead> UpdateReader<R> {
    /// Returns a reader of `input`; error messages name `path`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn new(mut input: R, path: &Path) -> Result<Self, StreamError> {
        let path = path.to_owned();
        let start =
            input.fill_buf().map_err(|source| StreamError::Unreadable(path.clone(), source))?;
        let form = if start.starts_with(MAGIC) {
            input.consume(MAGIC.len());
            Form::Binary { number: 0, octet: MAGIC.len() as u64 }
        } else {
            Form::Script(Box::default())
        };
        Ok(UpdateReader { input, path, form })
    }

    /// Lets the reader query a server for the zones of a script without `zone`.
    pub fn asking(mut self, zones: &Zones) -> Self {
        if let Form::Script(script) = &mut self.form {
            script.zones = Some(zones.clone());
        }
        self
    }

    /// Returns the list of updates that are not sent; it is complete after the last update.
    pub fn unsent(&self) -> UnsentUpdates {
        match &self.form {
            Form::Binary { .. } => UnsentUpdates::default(),
            Form::Script(script) => UnsentUpdates(script.unsent.clone()),
        }
    }

    /// Returns the next update; `None` after the last.
    ///
    /// # Errors
    /// The place and the mistake, if the update is not valid.
    pub fn next_update(&mut self) -> Result<Option<Update>, StreamError> {
        match &mut self.form {
            Form::Script(script) => script.next_update(&mut self.input, &self.path),
            Form::Binary { number, octet } => {
                let path = &self.path;
                let unreadable = |source| StreamError::Unreadable(path.clone(), source);
                if self.input.fill_buf().map_err(unreadable)?.is_empty() {
                    return Ok(None);
                }
                *number += 1;
                let bad = |source| {
                    let (number, octet) = (*number, *octet);
                    StreamError::BadMessage { path: path.clone(), number, octet, source }
                };
                let mut length = [0; 2];
                let mut message = Vec::new();
                let read = self.input.read_exact(&mut length).and_then(|()| {
                    message.resize(usize::from(u16::from_be_bytes(length)), 0);
                    self.input.read_exact(&mut message)
                });
                match read {
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                        return Err(bad(MessageError::Length));
                    }
                    Err(source) => return Err(unreadable(source)),
                    Ok(()) => {}
                }
                let update = Update::from_wire(&message).map_err(bad)?;
                *octet += 2 + message.len() as u64;
                Ok(Some(update))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Reads all updates of a script, whose zones a server knows.
    fn read(text: &str, zones: &Zones) -> Result<Vec<Update>, StreamError> {
        let mut reader = UpdateReader::new(text.as_bytes(), Path::new("u"))?.asking(zones);
        std::iter::from_fn(|| reader.next_update().transpose()).collect()
    }

    #[test]
    fn the_server_is_asked_once_for_the_zone_of_names_with_one_parent() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("binds");
        let zones = Zones::of(socket.local_addr().expect("bound"));
        // The first change decides, and DS records are in the zone above.
        let script = "nxdomain x.other\nadd a.test 5 A 192.0.2.1\nsend\nadd B.Test 5 A 192.0.2.1\nsend\n\
            del c.b.test DS\nsend\n";
        let server = std::thread::spawn(move || {
            let mut message = [0; 512];
            let (len, client) = socket.recv_from(&mut message).expect("a query");
            // A reply with the SOA record of `test` in its authority section, whose data no one reads.
            message[2] |= 0x80;
            message[9] = 1;
            let soa = b"\x04test\0\0\x06\0\x01\0\0\0\x05\0\0";
            socket.send_to(&[&message[..len], soa].concat(), client).expect("sends");
        });
        let updates = read(script, &zones).expect("the others need no reply");
        server.join().expect("it ends");
        let zone = |update: &Update| update.zone().to_string();
        assert_eq!(updates.iter().map(zone).collect::<Vec<_>>(), ["test"; 3]);
        // The server is gone; another reader knows the zone.
        assert_eq!(read(script, &zones).expect("it is known").len(), 3);
        let error =
            read("add a.b.test 5 A 192.0.2.1\nsend\n", &zones).expect_err("nobody is there");
        assert!(!error.is_bad_input() && error.to_string().contains("the zone of a.b.test"));
    }
}
