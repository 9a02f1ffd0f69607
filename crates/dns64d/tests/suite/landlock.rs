//! After its start dns64d uses the files of its configuration and no others.

use std::fs;

use crate::faults::{dns64d, ipv4_only, is_right, wait_for};

#[test]
fn files_elsewhere_cannot_be_read_unless_the_configuration_says_so() {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let file = elsewhere.path().join("authorities.pem");
    // There is no certificate in it, which is another error than that it cannot be read.
    fs::write(&file, "").expect("writes");
    for restrict in [true, false] {
        let upstream = ipv4_only();
        let before = format!("server.restrict-files = {restrict}\n");
        let server = dns64d(&[&upstream], &before);
        if restrict && server.log().contains("the kernel has no Landlock") {
            return skip::because("no Landlock");
        }
        let tls = format!(
            "{before}[[forward]]\nzones = [\"a.example\"]\nservers = [\"127.0.0.1:1\"]\ntransport = \"tls\"\n\
             tls-authorities = \"{}\"",
            file.display()
        );
        server.reload(&[upstream.address()], &tls);
        wait_for("the reload", || server.log().contains("nothing was changed"));
        let denied = server.log().contains("Permission denied");
        assert_eq!(denied, restrict, "{}", server.log());
        // Its own configuration can be read again.
        server.reload(&[upstream.address()], &format!("{before}limits.slip = 3"));
        wait_for("the next reload", || server.log().contains("configuration read again"));
        assert!(is_right(&server.ask("www.example AAAA")));
    }
}
