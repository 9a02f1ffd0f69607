//! Becoming an ordinary user once the sockets are bound.

use anyhow::{Context, anyhow};
use nix::unistd::{Uid, User, geteuid, setgroups, setresgid, setresuid};

/// Becomes `user` for good; nothing to do for an empty name.
///
/// # Errors
/// A user that does not exist, or that we may not become.
pub(crate) fn drop_to(user: &str) -> anyhow::Result<()> {
    if user.is_empty() {
        if geteuid().is_root() {
            tracing::warn!("running as root: set server.user to become an ordinary user");
        }
        return Ok(());
    }
    let found = User::from_name(user)
        .with_context(|| format!("cannot look up the user {user}"))?
        .ok_or_else(|| {
        anyhow!("server.user: there is no user {user}: create it, or leave it empty")
    })?;
    if found.uid == geteuid() {
        return Ok(());
    }
    let context = || format!("server.user: cannot become {user}: start as root, or leave it empty");
    setgroups(&[found.gid]).with_context(context)?;
    setresgid(found.gid, found.gid, found.gid).with_context(context)?;
    setresuid(found.uid, found.uid, found.uid).with_context(context)?;
    // The way back must be closed.
    if found.uid != Uid::from_raw(0) && nix::unistd::seteuid(Uid::from_raw(0)).is_ok() {
        return Err(anyhow!("server.user: the privileges of root are still there"));
    }
    Ok(())
}
