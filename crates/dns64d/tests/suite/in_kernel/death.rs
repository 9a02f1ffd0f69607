//! Answers in the kernel after the end of the server (`after-death = "answer"`).

use nix::sys::signal::Signal;

use super::link::Link;
use super::{KERNEL, at, config, free_port, has_program, refused, start, until_in_kernel};
use crate::faults::{SYNTHESISED, ipv4_only, wait_for};
use crate::kit::script::Script;

const STAYS: &str = "after-death = \"answer\"\n";

#[test]
fn answers_are_given_until_their_ends_or_the_next_server() {
    Link::run(|link| {
        let script = Script::start(&[]);
        script.others(domain::base::iana::Rtype::A, "$ 30 A 192.0.2.33");
        let upstream = ipv4_only();
        let tables = format!("{KERNEL}{STAYS}");
        let query = "www.example AAAA";
        let (mut server, port) = start(script.address(), "user = \"nobody\"", &tables);
        until_in_kernel(link, &server, port, query);
        // A living server keeps its device.
        let (code, said) = refused(&[], &config(free_port(), "", &tables));
        assert!(code == Some(2) && said.contains("cannot attach to v1"), "{said}");
        until_in_kernel(link, &server, port, query);
        server.signal(Signal::SIGKILL);
        server.wait();
        let reply = link.ask_text(at(port), query);
        assert_eq!(reply.answer[0].data, SYNTHESISED);
        wait_for("the end of the answer", || !link.is_answered(at(port), query));
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
