//! `dns64d --check`: checks of the files, devices and users that the configuration names.
//!
//! A problem that prevents the start is an error. Files that the server needs later, as the user
//! that it changes to, leads to warnings: its unit may give it another user, or make its folders.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use dns64::Config;
use dns64::config::RouteConfig;
use nix::net::if_::if_nametoindex;
use nix::unistd::{AccessFlags, access};
use rustls::client::verify_server_name;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;
use socket2::{Domain, Socket, Type};
use streams::tls::{ALPN_DOT, Identity};
use udp::sys::pin_to_cpus;

use crate::privileges::User;
use crate::upstream_tls::upstream_tls;
use crate::{bind, in_kernel, privileges, route};

/// Bits of permissions to read, to write, and to enter a folder.
const READ: u32 = 4;
const WRITE: u32 = 2;
const ENTER: u32 = 1;

/// Checks the requirements for the start of a server with a configuration: certificates, keys,
/// devices, and paths that no socket can have.
///
/// # Errors
/// The first problem, with its setting.
pub(crate) fn errors(config: &Config) -> anyhow::Result<()> {
    if config.tls.listens() {
        bind::server_tls(&config.tls, &[ALPN_DOT])?;
        check_designation(config)?;
    }
    upstream_tls(config)?;
    for (key, path) in
        [("control.socket", &config.control.socket), ("dnstap.socket", &config.dnstap.socket)]
    {
        SocketAddr::from_pathname(path).context(key)?;
    }
    check_cpus(&config.server.cpus)?;
    let routes = [
        ("server.route.device", &config.server.route.device),
        ("upstream.route.device", &config.upstream.route.device),
    ];
    let kernel = config.kernel.device.iter().filter(|_| config.kernel.is_on());
    let devices = kernel.map(|device| ("kernel.device", device)).chain(routes);
    for (key, device) in devices.filter(|(_, device)| !device.is_empty()) {
        if_nametoindex(device.as_str()).with_context(|| {
            format!("{key}: there is no network interface {device}: write one of `ip link`")
        })?;
    }
    // Another table of routes has addresses of its own; link-local addresses need the number of
    // their interface.
    let is_plain = config.upstream.route.device.is_empty();
    let sources = config.pools().into_iter().flat_map(|pool| pool.source);
    let of_link = |source: &IpAddr| matches!(source, IpAddr::V6(v6) if v6.is_unicast_link_local());
    for source in sources.filter(|source| is_plain && !of_link(source)) {
        UdpSocket::bind((source, 0)).with_context(|| {
            format!("upstream.source: {source} cannot be used: write an address of this host")
        })?;
    }
    Ok(())
}

/// Checks that threads can be pinned to CPUs, in a thread of its own.
fn check_cpus(cpus: &[usize]) -> anyhow::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let pin = || cpus.iter().try_for_each(|&cpu| pin_to_cpus(&[cpu]));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, pin);
        let pinned = thread.context("server.cpus: no thread to check them")?.join();
        pinned.expect("pinning does not panic").context("server.cpus: write CPUs of this host")
    })
}

/// Checks that this host has the addresses that the server listens on.
///
/// # Errors
/// The first address that cannot be bound, with its setting.
fn check_listening(config: &Config) -> anyhow::Result<()> {
    let Config { server, tls, metrics, .. } = config;
    let (own, none) = (&server.route, &RouteConfig::default());
    let all = [
        ("server.listen", &server.listen[..], own, ", or set server.route.freebind"),
        ("tls.dot", &tls.dot, own, ", or set server.route.freebind"),
        ("tls.doh", &tls.doh, own, ", or set server.route.freebind"),
        ("tls.doq", &tls.doq, own, ", or set server.route.freebind"),
        ("metrics.listen", metrics.listen.as_slice(), none, ""),
    ];
    for (key, addresses, route, remedy) in all {
        for &(mut address) in addresses {
            address.set_port(0);
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
            // This user may not be allowed to use the route.
            let prepared = route::prepare(route, socket.as_fd()).is_ok();
            let bound = socket.bind(&address.into());
            let is_missing = bound.is_err_and(|e| e.kind() == io::ErrorKind::AddrNotAvailable);
            ensure!(
                !(prepared && is_missing),
                "{key}: {} is not an address of this host: write one of `ip address`{remedy}",
                address.ip()
            );
        }
    }
    Ok(())
}

/// Works as [`errors`] in a server that runs; its user, or its restriction to folders, may not allow it to read the files of
/// `[tls]` that are new. These need a restart, which then checks them.
///
/// # Errors
/// See [`errors`].
pub(crate) fn errors_of_reload(config: &Config) -> anyhow::Result<()> {
    let mut config = config.clone();
    config.server.route = Default::default(); // of the sockets that were opened at the start
    let is_hidden = |path: &PathBuf| {
        let opened = std::fs::File::open(path);
        opened.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    if config.tls.listens()
        && let Some(path) =
            [&config.tls.certificate, &config.tls.key].into_iter().find(|p| is_hidden(p))
    {
        let path = path.display();
        tracing::warn!("{path} is not checked here; `dns64d --check` checks it");
        return errors(&Config { tls: Default::default(), ..config });
    }
    errors(&config)
}

/// Checks that clients can trust the encrypted transports that they discover (RFC 9462 section
/// 4.2): the certificate has the discovered name and the addresses that they query.
fn check_designation(config: &Config) -> anyhow::Result<()> {
    let Some(name) = config.server.designate.name else { return Ok(()) };
    let identity = Identity::read(&config.tls.certificate, &config.tls.key)?;
    let certificate = ParsedCertificate::try_from(&identity.chain[0]).context("tls.certificate")?;
    let named = name.to_string();
    let host = ServerName::try_from(named.clone()).context("server.designate.name");
    let problem = |key: &str, what: &str| {
        format!(
            "{key}: the certificate (tls.certificate) is not for {what}: get one that is, or remove server.designate"
        )
    };
    verify_server_name(&certificate, &host?)
        .with_context(|| problem("server.designate.name", &named))?;
    for address in config.server.listen.iter().map(|at| at.ip().to_canonical()) {
        verify_server_name(&certificate, &ServerName::from(address))
            .with_context(|| problem("server.listen", &address.to_string()))?;
    }
    Ok(())
}

/// Checks certificates, keys and users; returns warnings about files and folders.
///
/// # Errors
/// The first problem that prevents the start of the server, with its setting.
pub(crate) fn warnings(config: &Config) -> anyhow::Result<Vec<String>> {
    errors(config)?;
    check_listening(config)?;
    let user = privileges::user_of(&config.server.user)?;
    let mut warnings = Vec::new();
    warnings.extend(config.overlapping().into_iter().map(|(outer, inner)| {
        format!("dns64.prefix: {outer} contains {inner}: addresses under both cannot be distinguished, and reverse names belong to the longer one")
    }));
    let interfaces =
        config.dns64.iter().enumerate().map(|(i, block)| (i, block.interface.as_str()));
    let is_missing = |name: &str| !name.is_empty() && if_nametoindex(name).is_err();
    warnings.extend(interfaces.filter(|(_, name)| is_missing(name)).map(|(i, name)| {
        format!("dns64[{i}].interface: there is no network interface {name}: until it is there no prefix is learned")
    }));
    warnings.extend(check_kernel(config)?);
    let name = |user: Option<&User>| {
        user.map_or("this user".to_owned(), |user| format!("the user {}", user.name))
    };
    let who = name(user.as_ref());
    for (key, path) in read_again(config) {
        if !may(user.as_ref(), path, READ) {
            let path = path.display();
            warnings.push(format!(
                "{key}: {path}: {who} cannot read it, so that a reload fails: change its owner or its mode"
            ));
        }
    }
    for (key, path, user) in written(config, user.as_ref()) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let problem = match folder {
            _ if path.is_dir() => "it is a folder: write the path of a file in it",
            folder if !folder.is_dir() => "its folder does not exist: make it",
            folder if !may(user, folder, WRITE | ENTER) => {
                "its folder cannot be written: change its owner or its mode"
            }
            _ => continue,
        };
        let problem = problem.replace("be written", &format!("be written by {}", name(user)));
        warnings.push(format!("{key}: {}: {problem}", path.display()));
    }
    let dnstap = &config.dnstap.socket;
    if config.dnstap.is_on() && !may(user.as_ref(), dnstap, WRITE) {
        warnings.push(format!(
            "dnstap.socket: {}: {who} cannot write it: start its reader, or change its owner or its mode",
            dnstap.display()
        ));
    }
    Ok(warnings)
}

/// Loads the program of `[kernel]`, without attaching it; returns a warning if this user may not, since the unit of the server may
/// give it the right.
///
/// # Errors
/// If the kernel refuses the program.
fn check_kernel(config: &Config) -> anyhow::Result<Option<String>> {
    if !config.kernel.is_on() {
        return Ok(None);
    }
    match in_kernel::load(config, 0) {
        Err(error) if in_kernel::is_not_permitted(&error) => Ok(Some(format!("{error:#}"))),
        loaded => loaded.map(|_| None),
    }
}

/// Returns the files that a reload reads, with their settings.
fn read_again(config: &Config) -> Vec<(String, &PathBuf)> {
    let mut all = Vec::new();
    if config.tls.listens() {
        all.push(("tls.certificate".into(), &config.tls.certificate));
        all.push(("tls.key".into(), &config.tls.key));
    }
    all.extend(config.hosts.files.iter().map(|path| ("hosts.files".into(), path)));
    let leases = config.hosts.leases.iter().filter(|leases| leases.file.exists());
    all.extend(leases.map(|leases| ("hosts.leases".into(), &leases.file)));
    for (place, files) in config.rules_files() {
        all.extend(files.lists.iter().map(|path| (format!("{place}.lists"), path)));
        all.extend(files.zones.iter().map(|path| (format!("{place}.zones"), path)));
    }
    all
}

/// Returns the files that the server makes, with their settings and their users: it changes to
/// `user` after it has made the control socket.
fn written<'a>(
    config: &'a Config,
    user: Option<&'a User>,
) -> Vec<(&'static str, &'a PathBuf, Option<&'a User>)> {
    let all = [
        ("control.socket", &config.control.socket, None),
        ("cache.snapshot", &config.cache.snapshot, user),
    ];
    all.into_iter().filter(|(_, path, _)| !path.as_os_str().is_empty()).collect()
}

/// Returns whether a user, or the current one, may do something with a file or folder and enter the folders above it.
fn may(user: Option<&User>, path: &Path, wanted: u32) -> bool {
    let Some(user) = user else {
        let mut flags = AccessFlags::F_OK;
        flags.set(AccessFlags::R_OK, wanted & READ != 0);
        flags.set(AccessFlags::W_OK, wanted & WRITE != 0);
        flags.set(AccessFlags::X_OK, wanted & ENTER != 0);
        return access(path, flags).is_ok();
    };
    let allows = |path: &Path, wanted: u32| {
        let Ok(file) = std::fs::metadata(path) else { return false };
        let bits = match () {
            () if file.uid() == user.uid.as_raw() => file.mode() >> 6,
            // The user has no other groups.
            () if file.gid() == user.gid.as_raw() => file.mode() >> 3,
            () => file.mode(),
        };
        user.uid.is_root() || bits & wanted == wanted
    };
    let Ok(whole) = path.canonicalize() else { return false };
    allows(&whole, wanted) && whole.ancestors().skip(1).all(|folder| allows(folder, ENTER))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn permissions_are_those_of_the_user() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("writes");
        let set = |path: &Path, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).expect("our own file");
        };
        let own = std::fs::metadata(&file).expect("a file");
        let user =
            |uid: u32, gid: u32| User { name: String::new(), uid: uid.into(), gid: gid.into() };
        let root = user(0, 0);
        let (uid, gid) = (own.uid() + 1, own.gid() + 1);
        for (mode, user, reads) in [
            (0o604, user(uid, gid), true),
            (0o640, user(uid, gid), false),
            (0o640, user(uid, own.gid()), true),
            (0o604, user(uid, own.gid()), false),
            (0o000, root.clone(), true),
        ] {
            set(dir.path(), 0o711);
            set(&file, mode);
            assert_eq!(may(Some(&user), &file, READ), reads, "{mode:o} {user:?}");
            set(dir.path(), 0o700);
            assert_eq!(may(Some(&user), &file, READ), user.uid.is_root(), "{mode:o} {user:?}");
        }
        set(&file, 0o600);
        assert!(may(None, &file, READ) && !may(None, &dir.path().join("none"), READ));
    }
}
