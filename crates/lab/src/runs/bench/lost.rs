//! Lost queries in the AuthDNS' view: whether the server queried it for their names.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use measure::stall::LostQuery;
use wire::{Namespace, reply};

use super::LabBench;
use crate::server::authdns::{Serves, ask_itself};
use crate::testbed::Host;

/// Time to wait for the AuthDNS, which is idle after a trial.
const REPLY_TIMEOUT: Duration = Duration::from_millis(100);

impl LabBench<'_> {
    /// Queries the AuthDNS for the names of lost queries; names that were used twice stay unknown,
    /// since the AuthDNS remembers names without times.
    pub(super) fn ask_for_lost(&self, lost: &mut [LostQuery]) {
        let once = self.names().is_some_and(|names| !names.reuse && names.repeats.is_none());
        if lost.is_empty() || self.authdns.is_none() || !once || self.names_forgotten {
            return;
        }
        if self.testbed.receives_frames() {
            // A program in the kernel remembers no names.
            return;
        }
        let Ok(namespace) = self.namespace() else { return };
        let (client, serves) = match self.server {
            Some(_) => (Host::Dut, Serves::Dut { aaaa_share: 0.0, drilled: false }),
            None => (Host::Tester, Serves::SelfTest),
        };
        let [_, server] = serves.addresses(self.testbed);
        let addresses: Vec<Option<Ipv4Addr>> = lost.iter().map(|lost| lost.address).collect();
        let ask = || remembered(server, &namespace, &addresses);
        let Ok(Ok(seen)) = self.testbed.namespace(client).run(ask) else { return };
        for (lost, seen) in lost.iter_mut().zip(seen) {
            lost.seen_by_authdns = seen;
        }
    }
}

/// Queries an AuthDNS at `server` for the names that it received; `None` for names that it does not
/// report.
fn remembered(
    server: SocketAddr,
    namespace: &Namespace,
    addresses: &[Option<Ipv4Addr>],
) -> io::Result<Vec<Option<bool>>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
    socket.connect(server)?;
    let mut seen = vec![None; addresses.len()];
    for (id, (address, seen)) in (0_u16..).zip(addresses.iter().zip(&mut seen)) {
        let Some(address) = address else { continue };
        let mut message = [0; 512];
        let len = ask_itself(&socket, &namespace.name(*address), id, &mut message)?;
        if reply::id(&message[..len]) == Some(id) {
            *seen = match message[3] & 15 {
                0 => Some(true),
                3 => Some(false),
                _ => None,
            };
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_replies_say_what_was_seen() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let codes = [0, 3, 5];
        let serving = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            for code in codes {
                let (len, peer) = server.recv_from(&mut buffer).unwrap();
                assert_eq!(buffer[len - 4..len], [0, 16, 0, 3], "TXT, CH");
                assert_eq!(&buffer[12..28], b"\x0f010-000-000-007");
                (buffer[2], buffer[3]) = (0x80, code);
                server.send_to(&buffer[..len], peer).unwrap();
            }
        });
        let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().unwrap());
        let name = Some(Ipv4Addr::new(10, 0, 0, 7));
        let seen = remembered(address, &namespace, &[name, None, name, name]).unwrap();
        assert_eq!(seen, [Some(true), None, Some(false), None]);
        serving.join().unwrap();
    }
}
