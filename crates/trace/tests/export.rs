//! Tables of captures, read back as JSON and with the reader of CSV.

use std::io::Cursor;

use serde_json::{Value, json};
use trace::export::Export;
use trace::transactions::Transactions;
use trace::{Capture, Dns, Messages};
use wire::{Edns, Name, Qtype, QueryTemplate};

use crate::common;
use crate::common::{FORMS, capture, framed, query, reply, tcp, udp};

/// Returns the rows of a capture of these packets, one per millisecond.
fn table(packets: &[Vec<u8>]) -> Vec<Value> {
    table_of(capture(FORMS[1], 101, packets))
}

/// Returns the rows of a capture.
fn table_of(bytes: Vec<u8>) -> Vec<Value> {
    let mut lines = Vec::new();
    export(bytes, Export::json_lines(&mut lines));
    let lines = String::from_utf8(lines).expect("UTF-8");
    lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// Writes the table of a capture.
fn export(bytes: Vec<u8>, mut export: Export<&mut Vec<u8>>) {
    let mut capture = Capture::new(Box::new(Cursor::new(bytes)), "x".as_ref()).expect("a capture");
    let mut transactions = Transactions::default();
    let mut add = |transaction: &_| export.add(transaction).expect("in memory");
    Messages::new(vec![53])
        .read(&mut capture, |message| {
            if let Some(dns) = Dns::read(message.bytes) {
                transactions.add(message, &dns, &mut add);
            }
        })
        .expect("whole");
    transactions.finish(&mut add);
    export.finish().expect("in memory");
}

/// Checks that a row has these values.
fn assert_has(row: &Value, values: Value) {
    for (name, value) in values.as_object().expect("an object") {
        assert_eq!(&row[name], value, "{name} in {row}");
    }
}

/// A server that cannot read a query answers with the header alone.
#[test]
fn a_reply_without_a_question_belongs_to_the_query_with_its_id() {
    let header = |id: u8| [&[0, id, 0x81, 1][..], &[0; 8]].concat();
    let rows = table(&[
        udp(false, 1, false, &query(1, Qtype::A)),
        udp(false, 2, false, &query(2, Qtype::A)),
        udp(false, 1, true, &header(2)),
        udp(false, 1, true, &header(1)),
    ]);
    let codes: Vec<_> = rows.iter().map(|row| (&row["dns_qname"], &row["dns_rcode"])).collect();
    let wanted = [("n1.example", 1.into()), ("n2.example", Value::Null)];
    for (name, code) in wanted {
        assert!(codes.contains(&(&name.into(), &code)), "{codes:?}");
    }
    assert_eq!(codes.len(), 3, "{codes:?}");
}

#[test]
fn each_transaction_has_a_row() {
    let (a, mx, lost) = (query(1, Qtype::A), query(2, Qtype::MX), query(3, Qtype::TXT));
    let rows = table(&[
        udp(false, 1, false, &a),
        udp(true, 2, false, &lost),
        tcp(9, false, 100, "", &framed(&mx)),
        // A reply with another name than the query, so it matches no query.
        udp(false, 1, true, &reply(query(65_537, Qtype::A), 0)),
        udp(false, 1, true, &reply(a, 3)),
        tcp(9, true, 500, "", &framed(&reply(mx, 0))),
    ]);
    assert_eq!(rows.len(), 4, "{rows:#?}");
    let row = |name: &str| {
        let found =
            rows.iter().find(|row| row["dns_qname"].as_str().is_some_and(|n| n.starts_with(name)));
        found.unwrap_or_else(|| panic!("no row of {name}: {rows:#?}"))
    };
    assert_has(
        row("n1.example"),
        json!({
            "dns_id": 1, "time": "2023-11-14T22:13:20.000000Z", "dns_qtype": 1, "ip_src": "10.0.0.1", "dns_labels": 2,
            "dns_tld": "example", "prot_src_port": 4000, "ip_dst": "192.0.2.53", "prot_dst_port": 53, "ip_version": 4,
            "prot": 17, "edns_udp": 1232, "dns_rcode": 3, "dns_rd": true, "dns_proc_time": 4, "proc_time_ns": 4_000_000,
            "edns_options": [], "edns_ecs": null, "cut": false,
        }),
    );
    assert_has(
        row("n3.example"),
        json!({ "dns_qtype": 16, "ip_version": 6, "dns_rcode": null, "dns_res_len": null, "edns_ext_error": null }),
    );
    assert_has(
        row("n2.example"),
        json!({ "dns_qtype": 15, "prot": 6, "ip_src": "10.0.0.9", "proc_time_ns": 3_000_000 }),
    );
    assert_has(
        row("n65537.example"),
        json!({ "dns_req_len": null, "dns_rcode": 0, "dns_proc_time": null, "edns_options": null }),
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
    let rows = table_of(bytes);
    let is_own = |row: &&Value| row["dns_qname"].as_str().is_some_and(|n| n.starts_with("n1."));
    let own: Vec<_> = rows.iter().filter(is_own).collect();
    assert_eq!((rows.len(), own.len()), (19, 1), "{own:#?}");
    assert_has(own[0], json!({ "proc_time_ns": 1_000_000, "dns_rcode": 0, "cut": true }));
}

/// Options, the client subnet and extended errors are columns; lists have all their elements.
#[test]
fn options_of_edns_have_columns() {
    let name: Name = "a.example".parse().expect("a name");
    let options = vec![(8, vec![0, 1, 24, 0, 192, 0, 2]), (10, vec![1; 8])];
    let edns = Edns { options, ..Edns::default() };
    let query = QueryTemplate::new(&name, Qtype::A, true, false, Some(&edns)).bytes().to_vec();
    let edns = Edns { options: vec![(15, vec![0, 22]), (15, vec![0, 23])], ..Edns::default() };
    let answer = QueryTemplate::new(&name, Qtype::A, true, false, Some(&edns)).bytes().to_vec();
    let rows = table(&[
        udp(false, 1, false, &query),
        udp(false, 1, true, &reply([&query[..2], &answer[2..]].concat(), 2)),
    ]);
    let options =
        json!({ "edns_options": [8, 10], "edns_ecs": "192.0.2.0/24", "edns_ext_error": [22, 23] });
    assert_has(&rows[0], options);
}

/// CSV has the columns of JSON Lines in their order and their values; null is no text.
#[test]
fn csv_has_the_values_of_json_lines() {
    let names = ["a b,c", "quote\"d", "n1"].map(|label| {
        let label = Name::ROOT.prepend(label.as_bytes()).expect("a label");
        QueryTemplate::new(&label, Qtype::A, true, false, None).bytes().to_vec()
    });
    let mut packets: Vec<_> = names.iter().map(|query| udp(false, 1, false, query)).collect();
    packets.push(udp(false, 1, true, &reply(names[0].clone(), 3)));
    let bytes = capture(FORMS[1], 101, &packets);
    let mut text = Vec::new();
    export(bytes.clone(), Export::csv(&mut text).expect("in memory"));
    let rows = table_of(bytes);
    let mut reader = csv::Reader::from_reader(&text[..]);
    let names: Vec<_> = reader.headers().expect("names").iter().map(str::to_owned).collect();
    let object = rows[0].as_object().expect("an object");
    assert!(names.len() == 37 && names.iter().all(|name| object.contains_key(name)), "{names:?}");
    let records: Vec<_> = reader.records().map(|record| record.expect("a row")).collect();
    assert_eq!(records.len(), rows.len());
    for (record, row) in records.iter().zip(&rows) {
        for (field, name) in record.iter().zip(&names) {
            let wanted = match &row[name] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(field, wanted, "{name}");
        }
    }
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
    let rows = table_of(bytes);
    assert_eq!(rows.len(), COUNT as usize);
    assert!(rows.iter().all(|row| row["proc_time_ns"] == 1_000_000_000));
}
