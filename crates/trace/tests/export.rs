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

/// Returns the table of a capture of these packets, one per millisecond.
fn table(packets: &[Vec<u8>]) -> SerializedFileReader<File> {
    table_of(capture(FORMS[1], 101, packets))
}

fn table_of(bytes: Vec<u8>) -> SerializedFileReader<File> {
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
    // Rows are in the order of time.
    contains(0, &["dns_qname: \"n1.example", "dns_qtype: 1,", "ip_src: \"10.0.0.1\""]);
    contains(
        0,
        &["dns_labels: 2", "dns_tld: \"example\"", "prot_src_port: 4000", "prot_dst_port: 53"],
    );
    contains(0, &["ip_version: 4", "prot: 17", "edns_udp: 1232", "dns_rcode: 3"]);
    contains(
        0,
        &["dns_proc_time: 4,", "proc_time_ns: 4000000", "edns_options: null", "cut: false"],
    );
    contains(1, &["dns_qtype: 16", "ip_version: 6", "dns_rcode: null", "dns_res_len: null"]);
    contains(2, &["dns_qtype: 15", "prot: 6", "ip_src: \"10.0.0.9\"", "proc_time_ns: 3000000"]);
    contains(
        3,
        &[
            "dns_qname: \"n65537.example",
            "dns_req_len: null",
            "dns_rcode: 0",
            "dns_proc_time: null",
        ],
    );
}

/// A reply whose later fragments are missing belongs to its query, also if the capture goes on for minutes.
#[test]
fn a_cut_reply_has_the_row_of_its_query() {
    let mut long = reply(query(1, Qtype::A), 0);
    long.resize(2_000, 0);
    let mut first = udp(false, 1, true, &long);
    first.truncate(1_500);
    first[2..4].copy_from_slice(&1_500u16.to_be_bytes());
    // More fragments follow.
    first[6] = 0x20;
    let mut packets = vec![udp(false, 1, false, &query(1, Qtype::A)), first];
    packets.extend((2..20).map(|n| udp(false, 2, false, &query(n, Qtype::A))));
    let mut bytes = capture(FORMS[1], 101, &packets);
    // A packet each ten seconds from the third one on.
    let mut place = 24;
    for number in 0..packets.len() as u32 {
        let seconds = common::START as u32 + number.saturating_sub(1) * 10;
        bytes[place..place + 4].copy_from_slice(&seconds.to_le_bytes());
        place += 16 + packets[number as usize].len();
    }
    let rows: Vec<_> = table_of(bytes)
        .get_row_iter(None)
        .expect("rows")
        .map(|row| row.expect("a row").to_string())
        .collect();
    let own: Vec<_> = rows.iter().filter(|row| row.contains("\"n1.example")).collect();
    assert_eq!((rows.len(), own.len()), (19, 1), "{own:#?}");
    for part in ["proc_time_ns: 1000000", "dns_rcode: 0", "cut: true"] {
        assert!(own[0].contains(part), "{part} in {}", own[0]);
    }
}

/// Options, the client subnet and extended errors are columns; lists have all their elements.
#[test]
fn options_of_edns_have_columns() {
    use wire::{Edns, Name, QueryTemplate};
    let name: Name = "a.example".parse().expect("a name");
    let options = vec![(8, vec![0, 1, 24, 0, 192, 0, 2]), (10, vec![1; 8])];
    let edns = Edns { options, ..Edns::default() };
    let query = QueryTemplate::new(&name, Qtype::A, true, false, Some(&edns)).bytes().to_vec();
    let edns = Edns { options: vec![(15, vec![0, 22]), (15, vec![0, 23])], ..Edns::default() };
    let answer = QueryTemplate::new(&name, Qtype::A, true, false, Some(&edns)).bytes().to_vec();
    let table = table(&[
        udp(false, 1, false, &query),
        udp(false, 1, true, &reply([&query[..2], &answer[2..]].concat(), 2)),
    ]);
    let row =
        table.get_row_iter(None).expect("rows").next().expect("one").expect("a row").to_string();
    for part in ["edns_options: [8, 10]", "edns_ecs: \"192.0.2.0/24\"", "edns_ext_error: [22, 23]"]
    {
        assert!(row.contains(part), "{part} in {row}");
    }
    let group = &table.metadata().row_groups()[0];
    assert!(matches!(group.column(0).compression(), parquet::basic::Compression::ZSTD(_)));
    assert_eq!(group.sorting_columns().map(|columns| columns[0].column_idx), Some(1));
}

#[test]
fn many_rows_make_several_row_groups() {
    let packets: Vec<_> =
        (0..66_000).map(|number| udp(false, 1, false, &query(number, Qtype::A))).collect();
    let table = table(&packets);
    let rows: Vec<_> = table.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [65_536, 66_000 - 65_536]);
}

#[test]
fn many_queries_wait_for_their_replies_at_once() {
    const COUNT: u32 = 140_000;
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut bytes = words(&[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 101]);
    for back in [false, true] {
        for number in 0..COUNT {
            let query = query(number, Qtype::A);
            let message = if back { reply(query, 0) } else { query };
            let packet = udp(false, number as u16, back, &message);
            let len = packet.len() as u32;
            bytes.extend(words(&[1_700_000_000 + u32::from(back), 0, len, len]));
            bytes.extend(packet);
        }
    }
    assert_eq!(table_of(bytes).metadata().file_metadata().num_rows(), i64::from(COUNT));
}
