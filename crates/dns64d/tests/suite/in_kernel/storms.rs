//! Many reloads in a row, and a device that goes, while programs in the kernel answer.

use nix::sys::signal::Signal;

use super::link::Link;
use super::resolving::{ALL, QUICK, script};
use super::{KERNEL, at, config, has_program, start, until_in_kernel};
use crate::faults::wait_for;
use crate::nat64::shell;

const RELOADS: usize = 40;
/// Two prefixes, and what is synthesised by each.
const PREFIXES: [(&str, &str); 2] = [
    ("dns64 = [{ prefix = \"2001:db8:64::/96\" }]\n", "2001:db8:64::c000:221"),
    ("dns64 = [{ prefix = \"2001:db8:65::/96\" }]\n", "2001:db8:65::c000:221"),
];
/// The same of the last reload.
const LAST: (&str, &str) =
    ("dns64 = [{ prefix = \"2001:db8:66::/96\" }]\n", "2001:db8:66::c000:221");

#[test]
fn a_storm_of_reloads_ends_with_the_last_rules() {
    for mode in [KERNEL, ALL].map(|mode| format!("{QUICK}{mode}")) {
        let mode = &mode[..];
        Link::run_with(script, |link, upstream| {
            let settings = |round: usize| PREFIXES[round % 2].0.to_owned();
            let (mut server, port) = start(upstream.address(), "", mode);
            until_in_kernel(link, &server, port, "www.example AAAA");
            for round in 0..RELOADS {
                let text = settings(round) + &config(port, "", mode);
                server.reload(&[upstream.address()], &text);
                // Rules of before or after, never a mixture or nothing; half of the names are new.
                for name in ["www", &format!("n{round}")] {
                    let reply = link.ask_text(at(port), &format!("{name}.example AAAA"));
                    let data = reply.answer.first().map(|record| &record.data[..]);
                    let of_rules = PREFIXES.iter().any(|(_, address)| data == Some(*address));
                    assert!(of_rules, "{mode} round {round}, {name}: {reply:?}");
                }
            }
            // Rules that no reload before had: those may still be under way.
            let (rules, last) = LAST;
            server.reload(&[upstream.address()], &(rules.to_owned() + &config(port, "", mode)));
            wait_for("the last rules", || {
                link.ask_text(at(port), "www.example AAAA").answer[0].data == last
            });
            assert!(has_program());
            let reply = until_in_kernel(link, &server, port, "www.example AAAA");
            assert_eq!(reply.answer[0].data, last);
            for number in 0..RELOADS {
                let reply = link.ask_text(at(port), &format!("n{number}.example AAAA"));
                assert_eq!(reply.answer[0].data, last, "nothing of former rules is kept");
            }
            server.signal(Signal::SIGTERM);
            server.wait();
            wait_for("the program is detached", || !has_program());
        });
    }
}

#[test]
fn a_device_that_goes_takes_no_server_with_it() {
    Link::run_with(script, |link, upstream| {
        // Soon, since the server waits at its end until it has given up what waits for upstream.
        let soon = "[upstream]\nfirst-timeout = \"500ms\"\ngive-up-after = \"1s\"\n";
        let (mut server, port) = start(upstream.address(), "", &format!("{soon}{ALL}"));
        until_in_kernel(link, &server, port, "www.example AAAA");
        // Queries that wait for upstream lose it with the device.
        upstream.on("held.example AAAA", "hold");
        let waiting = link.ask_at_once(at(port), "held.example AAAA", 20);
        wait_for("a query to upstream", || {
            upstream.asked().iter().any(|asked| asked.name == "held.example")
        });
        shell("ip link del v1").expect("root may");
        drop(waiting);
        wait_for("the server lives", || server.http("/metrics").starts_with("HTTP/1.1 200"));
        server.signal(Signal::SIGTERM);
        server.wait();
    });
}
