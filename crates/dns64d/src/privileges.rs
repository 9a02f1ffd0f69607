//! Change to an ordinary user once the sockets are bound.

use anyhow::{Context, anyhow};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

/// Users to which a server started as root changes if none is configured: the first that exists.
const USUAL_USERS: [&str; 2] = ["dns64d", "nobody"];

/// The configured user that means no change.
const UNCHANGED_USER: &str = "root";

/// A user of this host. The C library would load modules of the host to look it up (nsswitch.conf), which a static program cannot do.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl User {
    /// Returns the user with this name in `/etc/passwd`.
    fn of_name(name: &str) -> anyhow::Result<Option<Self>> {
        let text = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let of_line = |line: &str| match line.split(':').collect::<Vec<_>>()[..] {
            [of, _, uid, gid, ..] if of == name => Some(User {
                name: name.to_owned(),
                uid: Uid::from_raw(uid.parse().ok()?),
                gid: Gid::from_raw(gid.parse().ok()?),
            }),
            _ => None,
        };
        Ok(text.lines().find_map(of_line))
    }
}

/// Changes the process to `user` permanently. With the name `root` the process keeps the user that started it. With an
/// empty name a process of root changes to the first of the usual users that exists; if there is none, as in a user
/// namespace, it stays root, with a warning.
///
/// # Errors
/// When the configured user does not exist, or the process may not change to it.
pub(crate) fn drop_to(user: &str) -> anyhow::Result<()> {
    match user {
        "" if geteuid().is_root() => leave_root(),
        "" | UNCHANGED_USER => {}
        user => change_to(user)?,
    }
    Ok(())
}

/// Returns the user under which a server with this setting runs; `None` for the current one.
///
/// # Errors
/// When the configured user does not exist, or this process may not change to it.
pub(crate) fn user_of(user: &str) -> anyhow::Result<Option<User>> {
    let is_root = geteuid().is_root();
    let found = match user {
        "" if is_root => USUAL_USERS.iter().find_map(|user| User::of_name(user).ok().flatten()),
        "" | UNCHANGED_USER => None,
        user => Some(find(user)?).filter(|found| found.uid != geteuid()),
    };
    match found {
        Some(found) if !is_root => Err(anyhow!(
            "server.user: only root can change to {}: start as root, or leave the setting empty",
            found.name
        )),
        found => Ok(found),
    }
}

fn find(user: &str) -> anyhow::Result<User> {
    User::of_name(user)?.ok_or_else(|| {
        anyhow!(
            "server.user: the user {user} does not exist: create it, or write \"root\" to change nothing"
        )
    })
}

/// Changes from root to the first of the usual users that exists, or warns that it cannot.
fn leave_root() {
    let exists = |user: &&&str| matches!(User::of_name(user), Ok(Some(_)));
    let changed = match USUAL_USERS.iter().find(exists) {
        Some(user) => change_to(user).inspect(|()| tracing::info!(user, "no longer root")),
        None => Err(anyhow!("there is no user {}", USUAL_USERS.join(" or "))),
    };
    if let Err(error) = changed {
        tracing::warn!("running as root, since server.user is empty: {error:#}");
    }
}

/// Changes to a user permanently.
fn change_to(user: &str) -> anyhow::Result<()> {
    let found = find(user)?;
    if found.uid == geteuid() {
        return Ok(());
    }
    let context = || {
        format!("server.user: cannot change to {user}: start as root, or leave the setting empty")
    };
    setgroups(&[found.gid]).with_context(context)?;
    setresgid(found.gid, found.gid, found.gid).with_context(context)?;
    setresuid(found.uid, found.uid, found.uid).with_context(context)?;
    // Regaining the privileges must not be possible.
    if found.uid != Uid::from_raw(0) && nix::unistd::seteuid(Uid::from_raw(0)).is_ok() {
        return Err(anyhow!("server.user: the process still has the privileges of root"));
    }
    Ok(())
}
