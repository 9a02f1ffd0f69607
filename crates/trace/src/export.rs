//! Writes transactions as a Parquet table with the column names of ENTRADA (`docs/trace.md` has the list).
//!
//! A row group is written after `ROWS` rows, so that memory stays constant.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use wire::message::flag;

use crate::transactions::{Half, Transaction};

/// Number of rows in a row group.
const ROWS: usize = 1 << 16;

/// The schema of the table, one row per transaction. Optional columns are null if the query, the reply or the OPT
/// record is missing.
pub const SCHEMA: &str = "
message dns_query {
  required int64 time (TIMESTAMP(NANOS, true));
  optional binary qname (UTF8);
  optional int32 qtype;
  optional int32 qclass;
  required binary src (UTF8);
  required int32 srcp;
  required binary dst (UTF8);
  required int32 dstp;
  required int32 ipv;
  required int32 prot;
  required int32 id;
  required int32 opcode;
  required boolean rd;
  required boolean cd;
  required boolean frag;
  optional int32 req_len;
  optional int32 edns_udp;
  optional int32 edns_version;
  optional boolean edns_do;
  optional int32 res_len;
  optional int32 rcode;
  optional boolean aa;
  optional boolean tc;
  optional boolean ra;
  optional boolean ad;
  optional int32 ancount;
  optional int32 nscount;
  optional int32 arcount;
  optional int64 proc_time;
}";

/// The values of a column, and for an optional column the rows that have a value.
struct Column<T> {
    values: Vec<T>,
    present: Vec<i16>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Column { values: Vec::new(), present: Vec::new() }
    }
}

impl<T> Column<T> {
    /// Appends the value of one row.
    fn put(&mut self, value: impl Into<Option<T>>) {
        let value = value.into();
        self.present.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    /// Writes the column as the next column of the row group, and clears it.
    fn write<D: DataType<T = T>>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
        optional: bool,
    ) -> Result<(), ParquetError> {
        let column = group.next_column()?;
        let mut column = column.ok_or_else(|| ParquetError::General("no such column".into()))?;
        let levels = optional.then_some(&self.present[..]);
        column.typed::<D>().write_batch(&self.values, levels, None)?;
        self.values.clear();
        self.present.clear();
        column.close()
    }
}

/// The columns of the current row group, in the order of [`SCHEMA`].
#[derive(Default)]
struct Rows {
    count: usize,
    time: Column<i64>,
    qname: Column<ByteArray>,
    question: [Column<i32>; 2],
    addresses: [Column<ByteArray>; 2],
    ports: [Column<i32>; 2],
    /// The columns ipv, prot, id, opcode.
    numbers: [Column<i32>; 4],
    /// The columns rd, cd, frag.
    flags: [Column<bool>; 3],
    /// The columns req_len, edns_udp, edns_version.
    request: [Column<i32>; 3],
    edns_do: Column<bool>,
    /// The columns res_len, rcode.
    response: [Column<i32>; 2],
    /// The columns aa, tc, ra, ad.
    response_flags: [Column<bool>; 4],
    /// The columns ancount, nscount, arcount.
    counts: [Column<i32>; 3],
    proc_time: Column<i64>,
}

/// A writer of the table.
pub struct Export<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Rows,
    /// Number of rows so far.
    pub written: u64,
}

impl<W: Write + Send> Export<W> {
    /// Starts a table.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(out: W) -> Result<Self, ParquetError> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        Ok(Export { file, rows: Rows::default(), written: 0 })
    }

    /// Writes a transaction.
    ///
    /// # Errors
    /// If writing fails.
    pub fn add(&mut self, transaction: &Transaction) -> Result<(), ParquetError> {
        let Some(first) = transaction.first() else { return Ok(()) };
        self.rows.add(transaction, first);
        self.written += 1;
        if self.rows.count == ROWS { self.flush() } else { Ok(()) }
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
        if self.rows.count == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        self.rows.write(&mut group)?;
        group.close().map(drop)
    }
}

impl Rows {
    /// Appends the row of a transaction; `first` is the query, or the reply if there is no query.
    fn add(&mut self, transaction: &Transaction, first: &Half) {
        self.count += 1;
        self.time.put(first.at.0 as i64);
        let question = transaction.question.as_ref();
        let name = |name: &wire::Name| ByteArray::from(name.to_string().into_bytes());
        self.qname.put(question.map(|(qname, ..)| name(qname)));
        self.question[0].put(question.map(|(_, qtype, _)| i32::from(qtype.0)));
        self.question[1].put(question.map(|(_, _, qclass)| i32::from(qclass.0)));
        for (side, end) in [transaction.client, transaction.server].into_iter().enumerate() {
            self.addresses[side].put(ByteArray::from(end.ip().to_string().into_bytes()));
            self.ports[side].put(i32::from(end.port()));
        }
        let version = if matches!(transaction.client.ip(), IpAddr::V4(_)) { 4 } else { 6 };
        let protocol = if transaction.tcp { 6 } else { 17 };
        let header = first.header;
        let numbers = [version, protocol, i32::from(header.id), i32::from(header.opcode().0)];
        self.numbers.iter_mut().zip(numbers).for_each(|(column, value)| column.put(value));
        let fragmented =
            [transaction.query, transaction.reply].iter().flatten().any(|h| h.fragmented);
        let set = |half: &Half, bit: u16| half.header.flags & bit != 0;
        let flags = [set(first, flag::RD), set(first, flag::CD), fragmented];
        self.flags.iter_mut().zip(flags).for_each(|(column, value)| column.put(value));

        let query = transaction.query.as_ref();
        let opt = query.and_then(|query| query.opt);
        let request = [
            query.map(|query| query.len as i32),
            opt.map(|opt| i32::from(opt.udp_size)),
            opt.map(|opt| i32::from(opt.version)),
        ];
        self.request.iter_mut().zip(request).for_each(|(column, value)| column.put(value));
        self.edns_do.put(opt.map(|opt| opt.dnssec_ok));

        let reply = transaction.reply.as_ref();
        let response =
            [reply.map(|reply| reply.len as i32), reply.map(|reply| i32::from(reply.rcode))];
        self.response.iter_mut().zip(response).for_each(|(column, value)| column.put(value));
        let bits = [flag::AA, flag::TC, flag::RA, flag::AD];
        for (column, bit) in self.response_flags.iter_mut().zip(bits) {
            column.put(reply.map(|reply| set(reply, bit)));
        }
        for (column, section) in self.counts.iter_mut().zip(1..) {
            column.put(reply.map(|reply| i32::from(reply.header.counts[section])));
        }
        let times = query.zip(reply);
        self.proc_time.put(times.map(|(query, reply)| reply.at.since(query.at).0 as i64));
    }

    /// Writes all columns in the order of the schema, and clears them.
    fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        self.time.write::<Int64Type>(group, false)?;
        self.qname.write::<ByteArrayType>(group, true)?;
        self.question.iter_mut().try_for_each(|c| c.write::<Int32Type>(group, true))?;
        for (address, port) in self.addresses.iter_mut().zip(&mut self.ports) {
            address.write::<ByteArrayType>(group, false)?;
            port.write::<Int32Type>(group, false)?;
        }
        self.numbers.iter_mut().try_for_each(|c| c.write::<Int32Type>(group, false))?;
        self.flags.iter_mut().try_for_each(|c| c.write::<BoolType>(group, false))?;
        self.request.iter_mut().try_for_each(|c| c.write::<Int32Type>(group, true))?;
        self.edns_do.write::<BoolType>(group, true)?;
        self.response.iter_mut().try_for_each(|c| c.write::<Int32Type>(group, true))?;
        self.response_flags.iter_mut().try_for_each(|c| c.write::<BoolType>(group, true))?;
        self.counts.iter_mut().try_for_each(|c| c.write::<Int32Type>(group, true))?;
        self.proc_time.write::<Int64Type>(group, true)?;
        self.count = 0;
        Ok(())
    }
}
