//! Tables of captures, read back with the reader of the Parquet library.

#[allow(dead_code)]
mod common;

use std::fs::File;
use std::io::Cursor;

use common::{FORMS, capture, framed, query, reply, tcp, udp};
use parquet::file::reader::{FileReader, SerializedFileReader};
use trace::export::Export;
use trace::transactions::Transactions;
use trace::{Capture, Dns, Messages};
use wire::Qtype;

/// Returns the table of a capture of these packets.
fn table(packets: &[Vec<u8>]) -> SerializedFileReader<File> {
    let bytes = capture(FORMS[1], 101, packets);
    let mut capture = Capture::new(Box::new(Cursor::new(bytes)), "x".as_ref()).expect("a capture");
    let file = tempfile::tempfile().expect("a place");
    let mut export = Export::new(file.try_clone().expect("a file")).expect("a good schema");
    let mut transactions = Transactions::default();
    let mut add = |transaction: &_| export.add(transaction).expect("room");
    Messages::new(vec![53])
        .read(&mut capture, |message| {
            if let Some(dns) = Dns::read(message.bytes) {
                transactions.add(message, &dns, &mut add);
            }
        })
        .expect("whole");
    transactions.finish(&mut add);
    export.finish().expect("room");
    SerializedFileReader::new(file).expect("a table")
}

#[test]
fn each_transaction_has_a_row() {
    let (a, mx, lost) = (query(1, Qtype::A), query(2, Qtype::MX), query(3, Qtype::TXT));
    let table = table(&[
        udp(false, 1, false, &a),
        udp(true, 2, false, &lost),
        tcp(9, false, 100, "", &framed(&mx)),
        // A reply with another name than the query, so it matches no query.
        udp(false, 1, true, &reply(query(65_537, Qtype::A), 0)),
        udp(false, 1, true, &reply(a, 3)),
        tcp(9, true, 500, "", &framed(&reply(mx, 0))),
    ]);
    let rows = table.get_row_iter(None).expect("rows");
    // `{column: value, ...}`
    let rows: Vec<_> = rows.map(|row| row.expect("a row").to_string()).collect();
    assert_eq!(rows.len(), 4, "{rows:#?}");
    let contains = |row: usize, parts: &[&str]| {
        for part in parts {
            assert!(rows[row].contains(part), "{part} in {}", rows[row]);
        }
    };
    contains(0, &["qname: \"n65537.example", "req_len: null", "rcode: 0", "proc_time: null"]);
    contains(
        1,
        &["qname: \"n1.example", "qtype: 1,", "src: \"10.0.0.1\"", "srcp: 4000", "dstp: 53"],
    );
    contains(1, &["ipv: 4", "prot: 17", "edns_udp: 1232", "rcode: 3", "proc_time: 4000000}"]);
    contains(2, &["qtype: 15", "prot: 6", "src: \"10.0.0.9\"", "proc_time: 3000000"]);
    contains(3, &["qtype: 16", "ipv: 6", "rcode: null", "res_len: null"]);
}

#[test]
fn many_rows_make_several_row_groups() {
    let packets: Vec<_> =
        (0..66_000).map(|number| udp(false, 1, false, &query(number, Qtype::A))).collect();
    let table = table(&packets);
    let rows: Vec<_> = table.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [65_536, 66_000 - 65_536]);
}
