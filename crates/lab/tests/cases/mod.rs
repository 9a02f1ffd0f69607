//! The cases, by name; each returns an exit code.

pub(crate) mod authority;
mod end;
mod hosts;
mod servers;

use lab::{Entered, Lab};

use crate::skipped;

/// A case: it runs outside the lab and enters it itself when it needs to.
type Case = fn() -> u8;

pub(crate) const CASES: &[(&str, Case)] = &[
    ("hosts_reach_each_other", || within(hosts::reach_each_other)),
    ("links_are_what_was_asked_for", || within(hosts::links_are_what_was_asked_for)),
    ("processes_start_and_stop", || within(hosts::processes_start_and_stop)),
    ("a_missing_core_is_named", || within(hosts::a_missing_core_is_named)),
    ("unbound_serves", || within_or(|lab| servers::starts(lab, "unbound"))),
    ("dns64d_serves", || within_or(|lab| servers::starts(lab, "dns64d"))),
    ("dns64d_forward_serves", || within_or(|lab| servers::starts(lab, "dns64d-forward+unbound"))),
    ("dns64_threads_serves", || within_or(|lab| servers::starts(lab, "dns64-threads"))),
    ("pdns_recursor_serves", || within_or(|lab| servers::starts(lab, "pdns-recursor"))),
    ("dnsmasq_serves", || within_or(|lab| servers::starts(lab, "dnsmasq"))),
    ("knot_resolver_serves", || within_or(|lab| servers::starts(lab, "knot-resolver"))),
    ("authdns_serves", || within_or(|lab| servers::starts(lab, "authdns"))),
    ("pdns_serves", || within_or(|lab| servers::starts(lab, "pdns"))),
    ("yadifa_serves", || within_or(|lab| servers::starts(lab, "yadifa"))),
    ("dnsdist_serves", || within_or(|lab| servers::starts(lab, "dnsdist+unbound"))),
    ("nginx_serves", || within_or(|lab| servers::starts(lab, "nginx+unbound"))),
    ("haproxy_serves", || within_or(|lab| servers::starts(lab, "haproxy+unbound"))),
    ("bind9_serves", || within_or(|lab| servers::starts(lab, "bind9"))),
    ("nsd_serves", || within_or(|lab| servers::starts(lab, "nsd"))),
    ("knot_serves", || within_or(|lab| servers::starts(lab, "knot"))),
    ("dns64d_cache_is_switched", || within_or(|lab| servers::cache_is_switched(lab, "dns64d"))),
    ("unbound_cache_is_switched", || within_or(|lab| servers::cache_is_switched(lab, "unbound"))),
    ("bind9_cache_is_switched", || within_or(|lab| servers::cache_is_switched(lab, "bind9"))),
    ("pdns_recursor_cache_is_switched", || {
        within_or(|lab| servers::cache_is_switched(lab, "pdns-recursor"))
    }),
    ("knot_resolver_cache_is_switched", || {
        within_or(|lab| servers::cache_is_switched(lab, "knot-resolver"))
    }),
    ("buffers_are_equal", servers::buffers_are_equal),
    ("zones_load", || within_or(servers::zones_load)),
    ("a_custom_server_serves", || within(servers::a_custom_server_serves)),
    ("a_strangers_daemon_serves", || within(servers::a_strangers_daemon_serves)),
    ("a_bad_server_says_why", || within(servers::a_bad_server_says_why)),
    ("an_occupied_port_is_shown", || within_or(servers::an_occupied_port_is_shown)),
    ("sigkill_leaves_nothing", end::sigkill_leaves_nothing),
    ("interrupts_reach_the_inside", end::interrupts_reach_the_inside),
    ("exit_codes_come_out", end::exit_codes_come_out),
];

/// Cases that only other cases run.
const HELPERS: &[(&str, Case)] = &[
    ("helper_hang", || within(end::hang)),
    ("helper_wait_for_interrupt", || within(end::wait_for_interrupt)),
    ("helper_exit_42", || match lab::enter() {
        Ok(Entered::Inside(_)) => 42,
        Ok(Entered::Outside(code)) => code,
        Err(e) => skipped(e),
    }),
];

/// Runs the case `name`; returns the exit code of the process, 1 for an unknown name.
pub(crate) fn run(name: &str) -> u8 {
    let mut all = CASES.iter().chain(HELPERS);
    match all.find(|(n, _)| *n == name) {
        Some((_, case)) => case(),
        None => {
            eprintln!("no case `{name}`");
            1
        }
    }
}

/// Runs `case` inside the lab. A panic is a failure.
fn within(case: fn(&Lab)) -> u8 {
    within_or(|lab| {
        case(lab);
        0
    })
}

/// The same for a case that may find that it cannot be tried.
fn within_or(case: impl FnOnce(&Lab) -> u8) -> u8 {
    match lab::enter() {
        Ok(Entered::Outside(code)) => code,
        Ok(Entered::Inside(lab)) => case(&lab),
        Err(e) => skipped(e),
    }
}
