//! `dns64d`: a DNS64 server (RFC 6147) as a daemon.
//!
//! Hosts that have only IPv6 query it for AAAA records. If a name has none, dns64d makes one from the name's A record, with an address that leads to the IPv4 host through
//! a NAT64. dns64d is a forwarder: your resolvers resolve and validate.
//!
//! ```text
//! hosts with IPv6 only ──AAAA?──> dns64d ──AAAA?, A?──> your resolvers
//!         │                          └─ 64:ff9b::192.0.2.33
//!         └── to 64:ff9b::192.0.2.33 ──> NAT64 ──> 192.0.2.33
//! ```
//!
//! It has many prefixes, per client and per IPv4 network; everything that RFC 6147 asks for; bounded tables and limits for each client; a cache; TLS, HTTPS and QUIC; a
//! reload without loss; metrics, dnstap and a control socket; and on request programs in the kernel that answer before the sockets.
//!
//! ```text
//! dns64d --print-defaults > dns64d.toml     # every setting with its meaning and default
//! dns64d --config dns64d.toml --check       # the first error with its place
//! dns64d --config dns64d.toml
//! ```
//!
//! A configuration for a network:
//!
//! ```toml
//! [server]
//! listen = ["[2001:db8:1::1]:53"]
//! allow = ["2001:db8:1::/48"]         # by default only this host may send queries
//!
//! [upstream]
//! servers = ["192.0.2.53", "[2001:db8::53]:53"]
//! ```
//!
//! Recipes, answers, limits and operation: [docs/dns64d.md](../../docs/dns64d.md). How fast it is beside other servers: `make demo`, and the
//! [sample run](../../runs/dns64-rfc8219).
//!
//! # Comparison
//!
//! Sources are the servers' code and manuals, and tests of the Debian 12 versions ([rfc-cases.md](rfc-cases.md), `make test`).
//!
//! | | dns64d | Unbound 1.17 | BIND 9.18 | PowerDNS Recursor 4.8 | Knot Resolver 5.6 |
//! |---|---|---|---|---|---|
//! | resolves and validates | no: forwards | yes | yes | yes | yes |
//! | prefixes | many, six lengths | one, six lengths | many, six lengths | one, /96 | one, /96 |
//! | suffix | yes | no | yes | no | no |
//! | per client | yes | no | ACL | Lua | views |
//! | prefix followed (RFC 7050, RFC 8781); fail-over of NAT64s | yes; yes | no | no | no | no |
//! | IPv4 addresses mapped or excluded | yes | no | ACL | no | no |
//! | non-global IPv4 excluded under 64:ff9b::/96 | yes, configurable | no | by ACL | no | no |
//! | AAAA that count as absent (5.1.4) | networks; mixed sets are filtered | names only | networks | no | networks; the whole set |
//! | no synthesis for some names | yes | no | no | Lua | policy |
//! | response policy zones | names only, from files | yes | yes | yes | names only, from files |
//! | synthesis always | names, or all | names, or all | `exclude { any; }` | no | no |
//! | TTL by 5.1.7 | yes | no | yes | no | yes |
//! | error of AAAA, then A (5.1.2) | yes, configurable | yes | no | yes | no |
//! | timeout of AAAA, then A (5.1.3) | yes, configurable | yes | no | yes | no |
//! | NXDOMAIN passes | yes | queries A | yes | yes | yes |
//! | PTR of the prefix | CNAME, in place, local, or passed | in place | CNAME zone | CNAME and PTR | CNAME |
//! | bogus AAAA, valid A | SERVFAIL | synthesised behind a validator that returns SERVFAIL | SERVFAIL | not tested | not tested |
//! | ipv4only.arpa (RFC 8880) | yes | no | yes | not tested | not tested |
//! | HTTPS/SVCB targets (RFC 9460) | AAAA synthesised | no | no | no | no |
//! | parallel A and AAAA queries | option | no | no | no | no |
//! | zones with servers of their own | yes: transport, DNS64, cache | yes | yes | yes | policy |
//! | serve stale / prefetch | options | yes / yes | yes / yes | no / yes | yes / yes |
//! | TLS, HTTPS, QUIC for clients | all, HTTP/3 too | TLS, HTTPS | TLS, HTTPS | no | TLS, HTTPS |
//! | TLS, HTTPS, QUIC to upstream, verified | all, HTTP/3 too; padded | TLS | no | TLS, not verified | TLS |
//! | metrics, control | Prometheus, `dns64d ctl` | unbound-control | statistics channel | Prometheus | Prometheus |

mod args;
mod beat;
mod bind;
mod carrier;
mod check;
mod control;
mod daemon;
mod dnstap;
mod event;
mod files;
mod hosts;
mod in_kernel;
mod kept;
mod landlock;
mod log;
mod metrics;
mod nat64;
mod observer;
mod privileges;
mod reading;
mod route;
mod saver;
mod upstream_tls;
mod worker;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use clap::Parser;
use dns64::{Config, config::DEFAULTS};
use kernel::KernelError;

use args::{Args, Command};
use control::Ctl;

/// An error that ends the program, and its exit code: 2 for a wrong configuration, otherwise 1.
struct Failed(u8, anyhow::Error);

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Failed(1, error)
    }
}

/// Runs the program with the arguments of the process; returns its exit code.
pub fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed(code, error)) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "dns64d: {error:#}");
            ExitCode::from(code)
        }
    }
}

fn run(args: &Args) -> Result<(), Failed> {
    if args.print_defaults {
        print!("{DEFAULTS}");
        return Ok(());
    }
    if let Some(shell) = args.completions {
        args::print_completions(shell);
        return Ok(());
    }
    if let Some(folder) = &args.man {
        return Ok(args::write_man(folder)?);
    }
    if let Some(Command::Ctl(ctl)) = &args.command {
        return control(ctl, args);
    }
    let (text, config) = read(args)?;
    let place = || args.config.display().to_string();
    let checked = match args.check {
        true => check::warnings(&config),
        false => check::errors(&config).map(|()| Vec::new()),
    };
    let checked = checked.and_then(|warnings| Ok((warnings, files::rules(&config)?)));
    let (warnings, rules) = checked.map_err(|error| Failed(2, error.context(place())))?;
    if args.check {
        warnings.iter().for_each(|warning| println!("{}: warning: {warning}", place()));
        println!("{}: no errors found", place());
        return Ok(());
    }
    let result = daemon::run(args, &text, config, rules);
    log::flush();
    result.map_err(|error| match error.is::<KernelError>() {
        // This user or this device does not support [kernel].
        true => Failed(2, error.context(place())),
        false => error.into(),
    })
}

/// Sends a request to a running server.
fn control(ctl: &Ctl, args: &Args) -> Result<(), Failed> {
    let socket = match &ctl.socket {
        Some(socket) => socket.clone(),
        None => read(args)?.1.control.socket,
    };
    if socket.as_os_str().is_empty() {
        let config = args.config.display();
        let why = "control.socket is empty: write a path, and start the server again";
        return Err(Failed(2, anyhow!("{config}: {why}")));
    }
    Ok(ctl.run(&socket, &mut std::io::stdout().lock())?)
}

/// Reads the configuration file of the arguments; returns its text too.
fn read(args: &Args) -> Result<(String, Config), Failed> {
    let path = args.config.display();
    let text = files::config(&args.config).with_context(|| {
        format!("cannot read {path} (`dns64d --print-defaults` prints a first configuration file)")
    });
    let read = text.and_then(|text| {
        let config = Config::parse(&text).with_context(|| path.to_string())?;
        Ok((text, config))
    });
    read.map_err(|error| Failed(2, error))
}
