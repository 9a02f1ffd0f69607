//! Change to an ordinary user once the sockets are bound.

use anyhow::{Context, anyhow};
use nix::unistd::{Uid, User, geteuid, setgroups, setresgid, setresuid};

/// Changes to `user` permanently; does nothing for an empty name.
///
/// # Errors
/// When the user does not exist, or the process may not change to it.
pub(crate) fn drop_to(user: &str) -> anyhow::Result<()> {
    if user.is_empty() {
        if geteuid().is_root() {
            tracing::warn!("running as root: set server.user to change to an ordinary user");
        }
        return Ok(());
    }
    let found = User::from_name(user)
        .with_context(|| format!("cannot look up the user {user}"))?
        .ok_or_else(|| {
        anyhow!(
            "server.user: the user {user} does not exist: create it, or leave the setting empty"
        )
    })?;
    if found.uid == geteuid() {
        return Ok(());
    }
    let context = || {
        format!("server.user: cannot change to {user}: start as root, or leave the setting empty")
    };
    setgroups(&[found.gid]).with_context(context)?;
    setresgid(found.gid, found.gid, found.gid).with_context(context)?;
    setresuid(found.uid, found.uid, found.uid).with_context(context)?;
    // It must not be possible to get the privileges back.
    if found.uid != Uid::from_raw(0) && nix::unistd::seteuid(Uid::from_raw(0)).is_ok() {
        return Err(anyhow!("server.user: the process still has the privileges of root"));
    }
    Ok(())
}
