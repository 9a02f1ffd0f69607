use proptest::prelude::*;

use super::*;
use crate::stream::{self, UpdateReader};

fn read(text: &[u8]) -> Result<Vec<Update>, String> {
    let mut reader = UpdateReader::new(text, Path::new("u")).map_err(|e| e.to_string())?;
    let mut all = Vec::new();
    while let Some(update) = reader.next_update().map_err(|e| e.to_string())? {
        all.push(update);
    }
    Ok(all)
}

const SCRIPT: &str = "; made by hand\nserver 127.0.0.1 53\nzone test.\nttl 1m\n\
    prereq nxdomain a.test\nprereq yxrrset b.test. IN NS\n\
    prereq yxrrset c.test A 192.0.2.7\nupdate add a.test. 30 IN A 192.0.2.1\n\
    add a.test TXT \"x; y\" z\nsend\n\nupdate delete b.test. 0 IN NS ns1.b.test.\n\
    del c.test\nupdate delete d.test. AAAA\n\n";

#[test]
fn scripts_of_nsupdate_are_read() {
    let updates = read(SCRIPT.as_bytes()).unwrap();
    assert_eq!(updates.len(), 2);
    let operations: Vec<_> = updates[0].operations().map(|(_, o)| o).collect();
    let text = Operation::Add { rtype: 16, ttl: 60, data: b"\x04x; y\x01z" };
    assert_eq!(operations, [Operation::Add { rtype: 1, ttl: 30, data: &[192, 0, 2, 1] }, text]);
    let last = updates[0].prerequisites().last().unwrap();
    let record = Prerequisite::Record { rtype: 1, data: &[192, 0, 2, 7] };
    assert_eq!((updates[0].prerequisites().count(), last), (3, (&b"\x01c\x04test\0"[..], record)));
    let operations: Vec<_> = updates[1].operations().map(|(_, o)| o).collect();
    let ns1 = b"\x03ns1\x01b\x04test\0";
    assert_eq!(operations[0], Operation::DeleteRecord { rtype: 2, data: ns1 });
    assert_eq!(operations[1..], [Operation::DeleteName, Operation::DeleteRrset { rtype: 28 }]);
}

#[test]
fn a_script_means_what_nsupdate_means() {
    let script = "ZONE test.\nUPDATE Add dk.test. 60 TXT v=DKIM1;k=rsa (x) \"a;b\"\nNXDOMAIN a.test\nSEND\n\
        update add b.test 5 A 192.0.2.1\n\nadd unsent.test 5 A 192.0.2.1\nquit\nadd late.test 5 A 192.0.2.1\nsend\n";
    let mut reader = UpdateReader::new(script.as_bytes(), Path::new("u")).unwrap();
    let unsent = reader.unsent();
    let mut all = Vec::new();
    while let Some(update) = reader.next_update().unwrap() {
        all.push(update);
    }
    assert_eq!(all.len(), 2);
    let text = b"\x0dv=DKIM1;k=rsa\x03(x)\x03a;b";
    let added = Operation::Add { rtype: 16, ttl: 60, data: text };
    assert_eq!(all[0].operations().next().unwrap().1, added);
    assert_eq!(all[0].prerequisites().next().unwrap().1, Prerequisite::NameAbsent);
    assert!(unsent.note().unwrap().starts_with("1 line is not sent"));
}

#[test]
fn the_zone_is_that_of_the_end_and_words_that_change_nothing_are_skipped() {
    let script = b"; caf\xe9\ncheck-names off\nversion\nclass CLASS1\nttl 9\nadd a.test TXT \"caf\xe9\" \xc3\xa9\n\
        zone test\nsend\ndel b.test 0 IN\nzone other\nttl none\nsend\nadd c.test TXT x\nsend\n";
    let mut reader = UpdateReader::new(&script[..], Path::new("u")).unwrap();
    let [first, second] = [(); 2].map(|()| reader.next_update().unwrap().unwrap());
    assert_eq!(
        (first.zone().to_string(), second.zone().to_string()),
        ("test".into(), "other".into())
    );
    let added = Operation::Add { rtype: 16, ttl: 9, data: b"\x04caf\xe9\x02\xc3\xa9" };
    assert_eq!(first.operations().next().unwrap().1, added);
    assert_eq!(second.operations().next().unwrap().1, Operation::DeleteName);
    let error = reader.next_update().unwrap_err().to_string();
    assert!(error.starts_with("u:13:12: `TXT` is not a TTL"), "{error}");
}

#[test]
fn the_server_of_a_script_is_the_one_that_it_names() {
    let server = |text: &str| server(text.as_bytes(), Path::new("u")).map_err(|e| e.to_string());
    let named = |host: &str, port| Ok(Some((host.to_owned(), port)));
    assert_eq!(
        server("zone test\n Server ns.test 5300 \r\nsend\nserver ns.test 5300\n"),
        named("ns.test", 5300)
    );
    assert_eq!(server("server ::1\nquit\nserver ::2\n"), named("::1", 53));
    assert_eq!(server("; server ::1\nadd server 5 A 192.0.2.1\n"), Ok(None));
    for text in ["server", "server ::1 x", "server ::1\nserver ::2"] {
        assert!(server(text).is_err(), "{text}");
    }
}

#[test]
fn both_forms_read_back() {
    let updates = read(SCRIPT.as_bytes()).unwrap();
    let (mut script, mut binary) = (Vec::new(), Vec::new());
    begin(&mut script, "again").unwrap();
    stream::begin(&mut binary).unwrap();
    for update in &updates {
        write(&mut script, update).unwrap();
        stream::write(&mut binary, update).unwrap();
    }
    assert_eq!(read(&script).unwrap(), updates);
    assert_eq!(read(&binary).unwrap(), updates);
    let error = read(&binary[..binary.len() - 1]).unwrap_err();
    assert!(error.starts_with("u: update 2, octet ") && error.contains("end"), "{error}");
}

#[test]
fn errors_have_their_place() {
    for (text, message) in [
        ("# no comment", "u:1:1: `#` is not known"),
        ("zone test\nupdat add", "u:2:1: `updat` is not known"),
        ("update delete a.test\nsend", "u:2:1: the zone is not known yet"),
        ("zone a..b", "u:1:6: `a..b` is not a name"),
        ("zone test\nupdate add a.test 60 A 192.0.2.256", "u:2:24: "),
        ("zone test\nupdate add a.test A 192.0.2.1", "u:2:19: `A` is not a TTL"),
        (
            "zone test\nupdate add a.test 2147483648 A 192.0.2.1",
            "u:2:19: `2147483648` is not a TTL",
        ),
        ("zone test\nupdate add a.test 60 AX 1", "u:2:22: `AX` is not a record type"),
        ("zone test\nprereq nx a.test", "u:2:8: `nx` is not a prerequisite"),
        ("zone test\nprereq nxrrset a.test A 192.0.2.1", "u:2:25: `192.0.2.1` is not accepted"),
        ("zone test\nkey lab x", "u:2:1: give the key with --key"),
        ("zone test\n gsstsig", "u:2:2: GSS-TSIG is not supported"),
    ] {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text: String, octets: Vec<u8>) {
        let _ = read(text.as_bytes());
        let _ = read(format!("zone test\nupdate {text}").as_bytes());
        let _ = read(&[stream::MAGIC, &octets].concat());
    }
}
