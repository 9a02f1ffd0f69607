//! Writes transactions as a Parquet table with the columns of ENTRADA 2 (`docs/notes/records.md` has the list).
//!
//! A row group is written after `ROWS` rows, sorted by time, so that memory stays constant. Numbers and names are
//! compressed with zstd. One table, `COLUMNS`, has the name, the type and the value of each column.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use wire::message::flag;

use crate::transactions::{Half, Transaction};

/// Number of rows in a row group.
const ROWS: usize = 1 << 16;

/// The type of a column and the function that returns its value. A value is null if its message or the OPT record is
/// missing.
#[derive(Clone, Copy)]
enum Value {
    /// A time in microseconds since 1970, never null.
    Time(fn(&Transaction) -> i64),
    Long(fn(&Transaction) -> Option<i64>),
    Int(fn(&Transaction) -> Option<i32>),
    Flag(fn(&Transaction) -> Option<bool>),
    Text(fn(&Transaction) -> Option<String>),
    /// A list, null if it is empty.
    Ints(fn(&Transaction) -> &[u16]),
}

use Value::{Flag, Int, Ints, Long, Text, Time};

/// The columns in order.
const COLUMNS: [(&str, Value); 37] = [
    ("dns_id", Int(|t| first(t).map(|half| half.header.id.into()))),
    ("time", Time(|t| first(t).map_or(0, |half| (half.at.0 / 1_000) as i64))),
    ("dns_qname", Text(|t| t.question.map(|(name, ..)| name.to_string()))),
    ("dns_tld", Text(|t| t.question.and_then(|(name, ..)| tld(&name)))),
    ("dns_labels", Int(|t| t.question.map(|(name, ..)| name.labels().count() as i32))),
    ("dns_qtype", Int(|t| t.question.map(|(_, qtype, _)| qtype.0.into()))),
    ("dns_qclass", Int(|t| t.question.map(|(_, _, qclass)| qclass.0.into()))),
    ("ip_version", Int(|t| Some(if matches!(t.client.ip(), IpAddr::V4(_)) { 4 } else { 6 }))),
    ("prot", Int(|t| Some(if t.tcp { 6 } else { 17 }))),
    ("ip_src", Text(|t| Some(t.client.ip().to_string()))),
    ("prot_src_port", Int(|t| Some(t.client.port().into()))),
    ("ip_dst", Text(|t| Some(t.server.ip().to_string()))),
    ("prot_dst_port", Int(|t| Some(t.server.port().into()))),
    ("dns_opcode", Int(|t| first(t).map(|half| half.header.opcode().0.into()))),
    ("dns_rcode", Int(|t| t.reply.map(|reply| reply.rcode.into()))),
    ("dns_aa", Flag(|t| set(t.reply, flag::AA))),
    ("dns_tc", Flag(|t| set(t.reply, flag::TC))),
    ("dns_rd", Flag(|t| set(first(t).copied(), flag::RD))),
    ("dns_ra", Flag(|t| set(t.reply, flag::RA))),
    ("dns_ad", Flag(|t| set(t.reply, flag::AD))),
    ("dns_cd", Flag(|t| set(first(t).copied(), flag::CD))),
    ("dns_qdcount", Int(|t| first(t).map(|half| half.header.counts[0].into()))),
    ("dns_ancount", Int(|t| t.reply.map(|reply| reply.header.counts[1].into()))),
    ("dns_nscount", Int(|t| t.reply.map(|reply| reply.header.counts[2].into()))),
    ("dns_arcount", Int(|t| t.reply.map(|reply| reply.header.counts[3].into()))),
    ("dns_req_len", Int(|t| t.query.map(|query| query.len as i32))),
    ("dns_res_len", Int(|t| t.reply.map(|reply| reply.len as i32))),
    ("dns_proc_time", Int(|t| waited(t).map(|nanos| (nanos / 1_000_000) as i32))),
    ("proc_time_ns", Long(waited)),
    ("edns_udp", Int(|t| t.query?.opt.map(|opt| opt.udp_size.into()))),
    ("edns_version", Int(|t| t.query?.opt.map(|opt| opt.version.into()))),
    ("edns_do", Flag(|t| t.query?.opt.map(|opt| opt.dnssec_ok))),
    ("edns_options", Ints(|t| t.query.as_ref().map_or(&[], |query| query.options.codes()))),
    ("edns_ecs", Text(|t| t.query?.options.subnet.map(|net| net.to_string()))),
    ("edns_ext_error", Ints(|t| t.reply.as_ref().map_or(&[], |reply| reply.options.errors()))),
    ("cut", Flag(|t| Some(halves(t).any(|half| half.cut)))),
    ("frag", Flag(|t| Some(halves(t).any(|half| half.fragmented)))),
];

/// Index of the column by which rows are sorted.
const TIME: i32 = 1;

/// Returns the query, or the reply if there is no query.
fn first(transaction: &Transaction) -> Option<&Half> {
    transaction.first()
}

/// Returns the messages of a transaction.
fn halves(transaction: &Transaction) -> impl Iterator<Item = &Half> {
    transaction.query.iter().chain(&transaction.reply)
}

/// Returns whether a message has a flag.
fn set(half: Option<Half>, bit: u16) -> Option<bool> {
    half.map(|half| half.header.flags & bit != 0)
}

/// Returns the time from the query to the reply in nanoseconds.
fn waited(transaction: &Transaction) -> Option<i64> {
    Some(transaction.reply?.at.since(transaction.query?.at).0 as i64)
}

/// Returns the last label of a name as text; `None` for the root.
fn tld(name: &wire::Name) -> Option<String> {
    let label = name.labels().last()?;
    wire::Name::ROOT.prepend(label).ok().map(|name| name.to_string().to_ascii_lowercase())
}

/// Returns the schema of the table in the text form of Parquet.
fn schema() -> String {
    let column = |(name, value): &(&str, Value)| match value {
        Time(_) => format!("required int64 {name} (TIMESTAMP(MICROS, true));"),
        Long(_) => format!("optional int64 {name};"),
        Int(_) => format!("optional int32 {name};"),
        Flag(_) => format!("optional boolean {name};"),
        Text(_) => format!("optional binary {name} (UTF8);"),
        Ints(_) => format!(
            "optional group {name} (LIST) {{ repeated group list {{ required int32 element; }} }}"
        ),
    };
    let columns: Vec<String> = COLUMNS.iter().map(column).collect();
    format!("message dns {{ {} }}", columns.join(" "))
}

/// A writer of the table.
pub struct Export<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Vec<Transaction>,
    /// Number of rows so far.
    pub written: u64,
}

impl<W: Write + Send> Export<W> {
    /// Starts a table.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(out: W) -> Result<Self, ParquetError> {
        let schema = Arc::new(parse_message_type(&schema())?);
        let by_time = SortingColumn { column_idx: TIME, descending: false, nulls_first: false };
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_sorting_columns(Some(vec![by_time]))
            .build();
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        Ok(Export { file, rows: Vec::new(), written: 0 })
    }

    /// Writes a transaction.
    ///
    /// # Errors
    /// If writing fails.
    pub fn add(&mut self, transaction: &Transaction) -> Result<(), ParquetError> {
        self.rows.push(*transaction);
        self.written += 1;
        if self.rows.len() == ROWS { self.flush() } else { Ok(()) }
    }

    /// Writes the remaining rows and ends the table.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> Result<(), ParquetError> {
        self.flush()?;
        self.file.close().map(drop)
    }

    /// Writes the current rows as a row group.
    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.rows.sort_by_key(|transaction| first(transaction).map(|half| half.at));
        let mut group = self.file.next_row_group()?;
        for (_, value) in COLUMNS {
            write(&mut group, &self.rows, value)?;
        }
        self.rows.clear();
        group.close().map(drop)
    }
}

/// Writes the next column of a row group.
fn write<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Transaction],
    value: Value,
) -> Result<(), ParquetError> {
    match value {
        Time(of) => {
            let times: Vec<_> = rows.iter().map(of).collect();
            put::<Int64Type, W>(group, &times, None, None)
        }
        Long(of) => optional::<Int64Type, W>(group, rows.iter().map(of)),
        Int(of) => optional::<Int32Type, W>(group, rows.iter().map(of)),
        Flag(of) => optional::<BoolType, W>(group, rows.iter().map(of)),
        Text(of) => {
            let texts =
                rows.iter().map(|row| of(row).map(|text| ByteArray::from(text.into_bytes())));
            optional::<ByteArrayType, W>(group, texts)
        }
        Ints(of) => {
            // A list is null, or present with an element; the first element starts a row, the others repeat it.
            let (mut values, mut present, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
            for list in rows.iter().map(of) {
                values.extend(list.iter().map(|&code| i32::from(code)));
                present.extend(std::iter::repeat_n(
                    if list.is_empty() { 0 } else { 2 },
                    list.len().max(1),
                ));
                repeated.extend((0..list.len().max(1)).map(|at| i16::from(at > 0)));
            }
            put::<Int32Type, W>(group, &values, Some(&present), Some(&repeated))
        }
    }
}

/// Writes a column whose values may be null.
fn optional<D: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    all: impl Iterator<Item = Option<D::T>>,
) -> Result<(), ParquetError> {
    let (mut values, mut present) = (Vec::new(), Vec::new());
    for value in all {
        present.push(i16::from(value.is_some()));
        values.extend(value);
    }
    put::<D, W>(group, &values, Some(&present), None)
}

/// Writes a column with its levels.
fn put<D: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[D::T],
    present: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let column = group.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("no such column".into()))?;
    column.typed::<D>().write_batch(values, present, repeated)?;
    column.close()
}
