//! Writes transactions as a table with the columns of ENTRADA 2 (`docs/notes/records.md` has the list): as CSV, or as JSON Lines.
//!
//! Rows have the order in which the transactions end, so that memory stays constant. One table, `COLUMNS`, has the name and
//! the value of each column.

use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use wire::message::flag;

use crate::transactions::{Transaction, TransactionHalf};

/// A column: its name, and its value for a transaction, which is null if its message or the OPT record is missing.
type Column = (&'static str, fn(&Transaction) -> Value);

/// The columns, in the order of a line.
const COLUMNS: [Column; 37] = [
    ("dns_id", |t| t.first().map(|half| half.header.id).into()),
    ("time", |t| t.first().map(time).into()),
    ("dns_qname", |t| t.question.map(|(name, ..)| name.to_string()).into()),
    ("dns_tld", |t| t.question.and_then(|(name, ..)| tld(&name)).into()),
    ("dns_labels", |t| t.question.map(|(name, ..)| name.labels().count()).into()),
    ("dns_qtype", |t| t.question.map(|(_, qtype, _)| qtype.0).into()),
    ("dns_qclass", |t| t.question.map(|(_, _, qclass)| qclass.0).into()),
    ("ip_version", |t| if matches!(t.client.ip(), IpAddr::V4(_)) { 4 } else { 6 }.into()),
    ("prot", |t| if t.tcp { 6 } else { 17 }.into()),
    ("ip_src", |t| t.client.ip().to_string().into()),
    ("prot_src_port", |t| t.client.port().into()),
    ("ip_dst", |t| t.server.ip().to_string().into()),
    ("prot_dst_port", |t| t.server.port().into()),
    ("dns_opcode", |t| t.first().map(|half| half.header.opcode().0).into()),
    ("dns_rcode", |t| t.reply.map(|reply| reply.rcode).into()),
    ("dns_aa", |t| set(t.reply.as_ref(), flag::AA)),
    ("dns_tc", |t| set(t.reply.as_ref(), flag::TC)),
    ("dns_rd", |t| set(t.first(), flag::RD)),
    ("dns_ra", |t| set(t.reply.as_ref(), flag::RA)),
    ("dns_ad", |t| set(t.reply.as_ref(), flag::AD)),
    ("dns_cd", |t| set(t.first(), flag::CD)),
    ("dns_qdcount", |t| t.first().map(|half| half.header.counts[0]).into()),
    ("dns_ancount", |t| t.reply.map(|reply| reply.header.counts[1]).into()),
    ("dns_nscount", |t| t.reply.map(|reply| reply.header.counts[2]).into()),
    ("dns_arcount", |t| t.reply.map(|reply| reply.header.counts[3]).into()),
    ("dns_req_len", |t| t.query.map(|query| query.len).into()),
    ("dns_res_len", |t| t.reply.map(|reply| reply.len).into()),
    ("dns_proc_time", |t| waited(t).map(|nanos| nanos / 1_000_000).into()),
    ("proc_time_ns", |t| waited(t).into()),
    ("edns_udp", |t| t.query.and_then(|query| query.opt).map(|opt| opt.udp_size).into()),
    ("edns_version", |t| t.query.and_then(|query| query.opt).map(|opt| opt.version).into()),
    ("edns_do", |t| t.query.and_then(|query| query.opt).map(|opt| opt.dnssec_ok).into()),
    ("edns_options", |t| t.query.map(|query| query.options.codes().to_vec()).into()),
    ("edns_ecs", |t| t.query.and_then(|q| q.options.subnet).map(|net| net.to_string()).into()),
    ("edns_ext_error", |t| t.reply.map(|reply| reply.options.errors().to_vec()).into()),
    ("cut", |t| halves(t).any(|half| half.cut).into()),
    ("frag", |t| halves(t).any(|half| half.fragmented).into()),
];

/// Returns the messages of a transaction.
fn halves(transaction: &Transaction) -> impl Iterator<Item = &TransactionHalf> {
    transaction.query.iter().chain(&transaction.reply)
}

/// Returns the time of a message, with microseconds, in the form of RFC 3339.
fn time(half: &TransactionHalf) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(half.at.0);
    humantime::format_rfc3339_micros(at).to_string()
}

/// Returns whether a message has a flag.
fn set(half: Option<&TransactionHalf>, bit: u16) -> Value {
    half.map(|half| half.header.flags & bit != 0).into()
}

/// Returns the time from the query to the reply in nanoseconds.
fn waited(transaction: &Transaction) -> Option<u64> {
    Some(transaction.reply?.at.since(transaction.query?.at).0)
}

/// Returns the last label of a name as text; `None` for the root.
fn tld(name: &wire::Name) -> Option<String> {
    let label = name.labels().last()?;
    wire::Name::ROOT.prepend(label).ok().map(|name| name.to_string().to_ascii_lowercase())
}

/// A writer of the table.
pub struct Export<W: Write> {
    form: Form<W>,
    /// Number of rows so far.
    pub written: u64,
}

/// The format of a table, and its destination.
enum Form<W: Write> {
    /// A row with the names, then the rows; a null value is empty.
    Csv(Box<csv::Writer<W>>),
    /// An object for each row.
    JsonLines(BufWriter<W>),
}

impl<W: Write> Export<W> {
    /// Starts a table as CSV.
    ///
    /// # Errors
    /// If writing fails.
    pub fn csv(out: W) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(COLUMNS.map(|(name, _)| name))?;
        Ok(Export { form: Form::Csv(Box::new(writer)), written: 0 })
    }

    /// Starts a table as JSON Lines.
    pub fn json_lines(out: W) -> Self {
        Export { form: Form::JsonLines(BufWriter::new(out)), written: 0 }
    }

    /// Writes a transaction.
    ///
    /// # Errors
    /// If writing fails.
    pub fn add(&mut self, transaction: &Transaction) -> io::Result<()> {
        self.written += 1;
        match &mut self.form {
            Form::Csv(writer) => {
                for (_, value) in COLUMNS {
                    match value(transaction) {
                        Value::Null => writer.write_field("")?,
                        Value::String(text) => writer.write_field(text)?,
                        other => writer.write_field(other.to_string())?,
                    }
                }
                Ok(writer.write_record(None::<&[u8]>)?)
            }
            Form::JsonLines(out) => {
                for (number, (name, value)) in COLUMNS.iter().enumerate() {
                    let before = if number == 0 { '{' } else { ',' };
                    write!(out, "{before}\"{name}\":{}", value(transaction))?;
                }
                out.write_all(b"}\n")
            }
        }
    }

    /// Writes the rows that are still in memory.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(self) -> io::Result<()> {
        match self.form {
            Form::Csv(mut writer) => writer.flush(),
            Form::JsonLines(mut out) => out.flush(),
        }
    }
}
