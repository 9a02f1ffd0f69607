//! Files of populations, version 1: a line, then numbers of variable length (LEB128) and octets.
//!
//! ```text
//! "dnsdyno population 1\n"
//! clients  messages  queries  period (ns)
//! client   { family (4 or 6)  octets }                                        for each client
//! message  { length  octets }                                                 for each message, with the id 0
//! query    { time since the query before (ns)  client  message }              for each query, in the order of time
//! ```
//!
//! The file is compressed by gzip, which also has its checksum. A reader refuses what is not exactly this.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use measure::Nanos;

use super::{Entry, MAX_CLIENTS, MAX_OCTETS, MAX_QUERIES, MESSAGE_COST, Population};
use crate::capture::CaptureError;

/// First line of the file, with the version of its form.
pub(super) const MAGIC: &[u8] = b"dnsdyno population 1\n";
/// Shortest and longest message, in octets.
const MESSAGE_SIZES: std::ops::RangeInclusive<usize> = 12..=65_535;
/// Octets of the longest number, at seven bits each.
const MAX_NUMBER: usize = 10;
/// Largest number of items for which room is made before they are read.
const MAX_ROOM: usize = 1 << 16;

impl Population {
    /// Writes a file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(GzEncoder::new(out, Compression::default()));
        out.write_all(MAGIC)?;
        let counts = [self.clients.len(), self.messages.len(), self.queries.len()];
        for number in counts.map(|count| count as u64).into_iter().chain([self.period.0]) {
            put(number, &mut out)?;
        }
        for client in &self.clients {
            match client {
                IpAddr::V4(v4) => out.write_all(&[&[4][..], &v4.octets()].concat())?,
                IpAddr::V6(v6) => out.write_all(&[&[6][..], &v6.octets()].concat())?,
            }
        }
        for message in &self.messages {
            put(message.len() as u64, &mut out)?;
            out.write_all(message)?;
        }
        let mut last = Nanos::ZERO;
        for entry in &self.queries {
            for number in [entry.at.since(last).0, entry.client.into(), entry.message.into()] {
                put(number, &mut out)?;
            }
            last = entry.at;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()
    }

    /// Reads the decompressed content after the first line of a file.
    ///
    /// # Errors
    /// If the file cannot be read, is cut short or damaged.
    pub fn read(source: impl Read, path: &Path) -> Result<Self, CaptureError> {
        let at = MAGIC.len() as u64;
        let mut file = Reader { source: BufReader::new(source), at, queries: 0 };
        file.population().map_err(|fault| {
            let what = match fault {
                ModelFault::Broken(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    "is cut short".to_owned()
                }
                ModelFault::Broken(error) => format!("cannot be read ({error})"),
                ModelFault::Damaged(what) => format!("is damaged ({what})"),
            };
            let (path, at, queries) = (path.to_owned(), file.at, file.queries);
            CaptureError::Population { path, what, at, queries }
        })
    }
}

/// Appends a number, seven bits to an octet, the lowest first.
fn put(mut number: u64, out: &mut impl Write) -> io::Result<()> {
    let (mut octets, mut len) = ([0; MAX_NUMBER], 0);
    loop {
        octets[len] = number as u8 & 0x7f | if number > 0x7f { 0x80 } else { 0 };
        (number, len) = (number >> 7, len + 1);
        if number == 0 {
            return out.write_all(&octets[..len]);
        }
    }
}

/// An error without its place.
enum ModelFault {
    Broken(io::Error),
    Damaged(String),
}

impl From<io::Error> for ModelFault {
    fn from(error: io::Error) -> Self {
        ModelFault::Broken(error)
    }
}

/// A file that is being read.
struct Reader<R> {
    source: R,
    /// Number of octets read, in the decompressed file.
    at: u64,
    /// Number of queries read so far.
    queries: u64,
}

impl<R: Read> Reader<R> {
    fn population(&mut self) -> Result<Population, ModelFault> {
        let clients = self.count("clients", MAX_CLIENTS)?;
        let messages = self.count("messages", MAX_QUERIES)?;
        let queries = self.count("queries", MAX_QUERIES)?;
        let mut population = Population { period: Nanos(self.number()?), ..Population::default() };
        population.clients.reserve(clients.min(MAX_ROOM));
        for _ in 0..clients {
            population.clients.push(self.address()?);
        }
        let mut octets = 0;
        population.messages.reserve(messages.min(MAX_ROOM));
        for _ in 0..messages {
            let message = self.message()?;
            octets += message.len() + MESSAGE_COST;
            if octets > MAX_OCTETS {
                return damaged(format!(
                    "messages that take more than {MAX_OCTETS} octets of memory"
                ));
            }
            population.messages.push(message);
        }
        population.queries.reserve(queries.min(MAX_ROOM));
        let mut at = 0u64;
        for _ in 0..queries {
            let gap = self.number()?;
            let Some(next) = at.checked_add(gap).filter(|at| *at < population.period.0) else {
                return damaged(format!("a query after the period of {} ns", population.period.0));
            };
            at = next;
            let client = self.below("client", clients)?;
            let message = self.below("message", messages)?;
            population.queries.push(Entry { at: Nanos(at), client, message });
            self.queries += 1;
        }
        match self.source.read(&mut [0])? {
            0 => Ok(population),
            _ => damaged("octets after the last query".to_owned()),
        }
    }

    /// Reads a number of things, of which there may be `most`.
    fn count(&mut self, what: &str, most: usize) -> Result<usize, ModelFault> {
        let number = self.number()?;
        match usize::try_from(number) {
            Ok(count) if count <= most => Ok(count),
            _ => damaged(format!("{number} {what}; there may be {most}")),
        }
    }

    /// Reads an index below `count`.
    fn below(&mut self, what: &str, count: usize) -> Result<u32, ModelFault> {
        let number = self.number()?;
        match u32::try_from(number) {
            Ok(place) if (place as usize) < count => Ok(place),
            _ => damaged(format!("{what} {number} of {count}, counted from 0")),
        }
    }

    fn address(&mut self) -> Result<IpAddr, ModelFault> {
        match self.octets::<1>()?[0] {
            4 => Ok(self.octets::<4>()?.into()),
            6 => Ok(self.octets::<16>()?.into()),
            other => damaged(format!("an address of the family {other}; it is 4 or 6")),
        }
    }

    fn message(&mut self) -> Result<Box<[u8]>, ModelFault> {
        let number = self.number()?;
        let len = usize::try_from(number).ok().filter(|len| MESSAGE_SIZES.contains(len));
        let Some(len) = len else {
            let (least, most) = (MESSAGE_SIZES.start(), MESSAGE_SIZES.end());
            return damaged(format!("a message of {number} octets; it has {least} to {most}"));
        };
        let mut message = vec![0; len];
        self.source.read_exact(&mut message)?;
        self.at += len as u64;
        if message[..2] != [0, 0] {
            return damaged("a message with an id other than 0".to_owned());
        }
        Ok(message.into())
    }

    fn number(&mut self) -> Result<u64, ModelFault> {
        let mut number = 0u64;
        for place in 0..MAX_NUMBER as u32 {
            let octet = self.octets::<1>()?[0];
            let bits = u64::from(octet & 0x7f);
            // The tenth octet has one bit.
            if bits.leading_zeros() < 7 * place && place > 8 {
                break;
            }
            number |= bits << (7 * place);
            if octet & 0x80 == 0 {
                return Ok(number);
            }
        }
        damaged("a number of more than 64 bits".to_owned())
    }

    fn octets<const N: usize>(&mut self) -> Result<[u8; N], ModelFault> {
        let mut octets = [0; N];
        self.source.read_exact(&mut octets)?;
        self.at += N as u64;
        Ok(octets)
    }
}

fn damaged<T>(what: String) -> Result<T, ModelFault> {
    Err(ModelFault::Damaged(what))
}
