//! Answers in the kernel after the end of the server (`after-death = "answer"`).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::sys::signal::Signal;

use super::link::Link;
use super::{
    KERNEL, at, config, free_port, has_program, program_on, refused, start, start_at,
    until_in_kernel,
};
use crate::faults::{SYNTHESISED, ipv4_only, wait_for};
use crate::kit::script::Script;
use crate::kit::server::Server;
use crate::nat64::shell;

const STAYS: &str = "after-death = \"answer\"\n";
const QUERY: &str = "www.example AAAA";

/// Ends a server in this way, and waits until it has ended.
fn end(mut server: Server, signal: Signal) {
    server.signal(signal);
    server.wait();
}

#[test]
fn answers_are_given_until_their_ends_or_the_next_server() {
    Link::run(|link| {
        let script = Script::start(&[]);
        script.others(domain::base::iana::Rtype::A, "$ 3600 A 192.0.2.33");
        script.on("short.example A", "short.example 5 A 192.0.2.33");
        let upstream = ipv4_only();
        let tables = format!("{KERNEL}{STAYS}");
        let (query, short) = (QUERY, "short.example AAAA");
        let (mut server, port) = start(script.address(), "user = \"nobody\"", &tables);
        until_in_kernel(link, &server, port, query);
        // A living server keeps its device.
        let (code, said) = refused(&[], &config(free_port(), "", &tables));
        assert!(code == Some(2) && said.contains("cannot attach to v1"), "{said}");
        until_in_kernel(link, &server, port, query);
        until_in_kernel(link, &server, port, short);
        server.signal(Signal::SIGKILL);
        server.wait();
        // The short one ends with its TTL, the long one stays.
        wait_for("the end of the answer", || !link.is_answered(at(port), short));
        let reply = link.ask_text(at(port), query);
        assert_eq!(reply.answer[0].data, SYNTHESISED);
        assert!(has_program());
        // Who cannot look up what was left may leave nothing.
        let restricted = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"];
        let own = config(free_port(), "user = \"root\"", &tables);
        let (code, said) = refused(&restricted, &own);
        assert!(
            code == Some(2) && said.contains("kernel.after-death: a program that stays"),
            "{said}"
        );
        // The next one has answers of its own, and goes with what it has attached.
        let (mut next, port) = start(upstream.address(), "", KERNEL);
        until_in_kernel(link, &next, port, query);
        next.signal(Signal::SIGTERM);
        next.wait();
        wait_for("the program is detached", || !has_program());
        // One that stays takes the place of one that stayed.
        let (mut first, _) = start(script.address(), "", &tables);
        first.signal(Signal::SIGTERM);
        first.wait();
        assert!(has_program());
        let (second, port) = start(upstream.address(), "", &tables);
        assert_eq!(until_in_kernel(link, &second, port, query).answer[0].data, SYNTHESISED);
    });
}

#[test]
fn a_start_with_other_settings_ends_what_was_left() {
    Link::run(|link| {
        let upstream = ipv4_only();
        let stays = format!("{KERNEL}{STAYS}");
        let (off, all) = (KERNEL.replace("cache", "off"), KERNEL.replace("cache", "all"));
        // Whether the next server has a program, and whether it has the addresses of the one before.
        let table = [(&all[..], true, false), (&off[..], false, false), ("", false, true)];
        for (next, has_own, at_same) in table {
            let (first, port) = start(upstream.address(), "", &stays);
            until_in_kernel(link, &first, port, QUERY);
            end(first, Signal::SIGKILL);
            let left = program_on("v1").expect("it stays");
            let port = if at_same { port } else { free_port() };
            let second = start_at(port, upstream.address(), "", next);
            let now = program_on("v1");
            assert!(now.is_some() == has_own && now.as_ref() != Some(&left), "{next}: {now:?}");
            let reply = link.ask_text(at(port), QUERY);
            assert_eq!(reply.answer[0].data, SYNTHESISED, "{next}");
            end(second, Signal::SIGTERM);
            wait_for("the program is detached", || !has_program());
        }
        // What answers at other addresses may be another server's.
        let (first, _) = start(upstream.address(), "", &stays);
        end(first, Signal::SIGTERM);
        let _other = start(upstream.address(), "", "");
        assert!(has_program());
    });
}

#[test]
fn both_modes_of_xdp_follow_each_other() {
    Link::run(|link| {
        let upstream = ipv4_only();
        let native = format!("{KERNEL}{STAYS}");
        let generic = format!("{native}xdp = \"generic\"\n");
        for tables in [&generic, &native, &generic, &generic] {
            let (server, port) = start(upstream.address(), "", tables);
            let reply = until_in_kernel(link, &server, port, QUERY);
            assert_eq!(reply.answer[0].data, SYNTHESISED);
            let device = std::process::Command::new("ip").args(["link", "show", "v1"]).output();
            let said = String::from_utf8_lossy(&device.expect("ip").stdout).into_owned();
            assert_eq!(said.contains("xdpgeneric"), tables == &generic, "{said}");
            end(server, Signal::SIGKILL);
            assert_eq!(link.ask_text(at(port), QUERY).answer[0].data, SYNTHESISED);
        }
        let last = KERNEL.to_owned() + "xdp = \"generic\"\n";
        let (server, port) = start(upstream.address(), "", &last);
        until_in_kernel(link, &server, port, QUERY);
        end(server, Signal::SIGTERM);
        wait_for("the program is detached", || !has_program());
    });
}

#[test]
fn all_devices_keep_their_programs_until_the_next_server() {
    Link::run(|link| {
        let pair = ["link add w1 type veth peer name w0", "link set w0 up", "link set w1 up"];
        pair.iter().for_each(|command| shell(&format!("ip {command}")).expect("root may"));
        let upstream = ipv4_only();
        let both = KERNEL.replace("\"v1\"", "\"v1\", \"w1\"");
        let stay = format!("{both}{STAYS}");
        let programs = || ["v1", "w1"].map(program_on);
        let (first, port) = start(upstream.address(), "user = \"nobody\"", &stay);
        until_in_kernel(link, &first, port, QUERY);
        end(first, Signal::SIGKILL);
        let left = programs();
        assert!(left[0].is_some() && left[0] == left[1], "{left:?}");
        // A name that every user can take is no sign that the server lives.
        let index = nix::net::if_::if_nametoindex("v1").expect("it is there");
        let name = SocketAddr::from_abstract_name(format!("dnsdyno/xdp/{index}"));
        let _taken = UnixDatagram::bind_addr(&name.expect("a name")).expect("nobody has it");
        let (second, port) = start(upstream.address(), "", &stay);
        until_in_kernel(link, &second, port, QUERY);
        let of_second = programs();
        assert!(of_second[0].is_some() && of_second[0] == of_second[1], "{of_second:?}");
        assert_ne!(left, of_second);
        end(second, Signal::SIGKILL);
        let (third, _) = start(upstream.address(), "", &both);
        assert_ne!(programs(), of_second);
        end(third, Signal::SIGTERM);
        wait_for("both are detached", || programs().iter().all(Option::is_none));
        // A server that does not start leaves nothing.
        let missing = stay.replace("w1", "none0");
        let (code, said) = refused(&[], &config(free_port(), "", &missing));
        assert!(code == Some(2) && said.contains("none0"), "{said}");
        assert!(programs().iter().all(Option::is_none));
    });
}
