//! Source addresses on a link: a link-local address is one only together with its link, the scope (RFC 4007).

use std::net::{IpAddr, SocketAddr};

/// Returns the address to bind for `source`. A link-local one is on the link of `target`.
pub fn on_link_of(target: SocketAddr, source: IpAddr, port: u16) -> SocketAddr {
    let mut bound = SocketAddr::new(source, port);
    if let (SocketAddr::V6(bound), SocketAddr::V6(target)) = (&mut bound, target)
        && bound.ip().is_unicast_link_local()
    {
        bound.set_scope_id(target.scope_id());
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_link_local_sources_have_a_link() {
        let target = "[fe80::1%7]:53".parse().expect("an address");
        let bound = |source: &str| on_link_of(target, source.parse().expect(source), 9).to_string();
        assert_eq!(bound("fe80::2"), "[fe80::2%7]:9");
        assert_eq!(bound("fd00::2"), "[fd00::2]:9");
        assert_eq!(bound("192.0.2.1"), "192.0.2.1:9");
    }
}
