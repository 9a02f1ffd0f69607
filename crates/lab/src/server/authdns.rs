//! The AuthDNS as a process of the lab: this program's own `auth` command in the auth host. While the links receive frames of
//! programs, a program of it answers in the kernel, before its sockets.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use experiment::file::Role;
use experiment::{Method, Point, VerifyPlan};
use measure::Path as LinkPath;
use record::EngineKind;
use serde::{Deserialize, Serialize};
use wire::{Name, Namespace, Pref64, Qclass, Qtype, QueryTemplate};

use crate::server::query_stream::ColdBox;
use crate::server::ready::{Ask, At, Over, Question, wait_ready};
use crate::testbed::enter::{Lab, program};
use crate::testbed::netns::Namespace as Netns;
use crate::testbed::process::{Launch, Process, ProcessError};
use crate::testbed::{Host, PORT, Testbed};

/// Time within which the AuthDNS must answer.
const READY: Duration = Duration::from_secs(10);
/// Time within which it must say how many messages it got; nothing else is asked then.
const TELLS: Duration = Duration::from_millis(500);
/// Digits of that number.
const COUNT_DIGITS: usize = 20;

/// Client of an AuthDNS.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Serves {
    /// The server under test; a share of the names has AAAA records of their own.
    Dut {
        /// Share (0 to 1) of the names with AAAA records.
        aaaa_share: f64,
        /// Whether it has the names that drills ask for.
        drilled: bool,
    },
    /// The Measurer itself, for a self-test: every name has an AAAA record.
    SelfTest,
    /// The same, with a known behaviour that the Measurer must find.
    Truth,
}

impl Serves {
    /// Returns what the server under test is served at a point: a resolver synthesises nothing, so that every queried record
    /// must exist.
    pub(crate) fn of(point: &Point) -> Self {
        let share = point.settings.workload.aaaa_share;
        let aaaa_share = if point.settings.role == Role::Resolver { 1.0 } else { share };
        Serves::Dut { aaaa_share, drilled: point.settings.method == Method::Drill }
    }

    /// Returns the host on whose link it listens.
    fn client(self) -> Host {
        match self {
            Serves::Dut { .. } => Host::Dut,
            Serves::SelfTest | Serves::Truth => Host::Tester,
        }
    }

    /// Returns whether a program in the kernel answers: known behaviours and names for drills are those of sockets.
    pub(crate) fn is_in_kernel(self, testbed: &Testbed) -> bool {
        let plain = !matches!(self, Serves::Truth | Serves::Dut { drilled: true, .. });
        testbed.receives_frames() && plain
    }

    /// Returns the addresses on which it listens, IPv6 first.
    pub fn addresses(self, testbed: &Testbed) -> [SocketAddr; 2] {
        let place = testbed.place(Host::Auth, self.client(), PORT);
        [
            SocketAddr::new(IpAddr::V6(place.v6), place.port),
            SocketAddr::new(IpAddr::V4(place.v4), place.port),
        ]
    }
}

/// Starts an AuthDNS and waits until it answers correctly; on a core that it shares with the Measurer it sleeps when
/// it is idle.
///
/// # Errors
/// If it does not start; with the end of its log.
pub fn start(
    serves: Serves,
    namespace: &Namespace,
    pref64: Pref64,
    testbed: &Testbed,
    lab: &Lab,
    dir: &Path,
) -> Result<Process, ProcessError> {
    let in_kernel = serves.is_in_kernel(testbed);
    // Beside a generator, which never rests, its delays would not be those that are known.
    let apart = serves == Serves::Truth && testbed.receives_frames();
    let cpus = testbed.cpus(if apart { Host::Dut } else { Host::Auth });
    let name = match serves {
        Serves::Dut { .. } => "authdns",
        Serves::SelfTest => "authdns-selftest",
        Serves::Truth => "authdns-truth",
    };
    let mut command: Vec<OsString> = vec![program().into(), "auth".into()];
    let mut option = |flag: &str, value: String| command.extend([flag.into(), value.into()]);
    for address in serves.addresses(testbed) {
        option("--listen", address.to_string());
    }
    option("--namespace", namespace.prefix().to_string());
    option("--zone", namespace.zone().to_string());
    option("--pref64", pref64.to_string());
    option("--cpus", cpus.to_string());
    let shares = cpus.shares_with(testbed.cpus(Host::Tester));
    if in_kernel {
        option("--engine", EngineKind::Kernel.to_string());
        option("--device", Host::interface(serves.client()));
    }
    option("--wait-mode", if shares { "sleep" } else { "auto" }.to_owned());
    match serves {
        Serves::SelfTest | Serves::Truth => option("--aaaa", "always".to_owned()),
        Serves::Dut { aaaa_share, .. } if aaaa_share > 0.0 => {
            option("--aaaa-share", aaaa_share.to_string());
        }
        Serves::Dut { .. } => {}
    }
    if !in_kernel {
        command.push("--remember".into());
    }
    if matches!(serves, Serves::Dut { drilled: true, .. }) {
        command.push("--traps".into());
    }
    if testbed.path() == LinkPath::Wire {
        // As for the Measurer: nothing is joined there.
        command.push("--no-gro".into());
    }
    if serves == Serves::Truth {
        command.extend(VerifyPlan::behaviour().arguments().into_iter().map(OsString::from));
    }
    let launch = Launch {
        name,
        namespace: testbed.namespace(Host::Auth),
        cpus,
        dir,
        daemon: false,
        command,
        environment: Vec::new(),
    };
    let client = testbed.namespace(serves.client());
    ready(&launch, client, &serves.addresses(testbed), &Question::ends(namespace, Ask::A), lab)
}

/// Starts an AuthDNS that is an Internet in a box for the server under test, and waits until a server of its root answers.
///
/// # Errors
/// If it does not start; with the end of its log.
pub(crate) fn start_internet(
    internet: &ColdBox,
    testbed: &Testbed,
    lab: &Lab,
    dir: &Path,
) -> Result<Process, ProcessError> {
    let cpus = testbed.cpus(Host::Auth);
    let shares = cpus.shares_with(testbed.cpus(Host::Tester));
    let mut command: Vec<OsString> = vec![program().into(), "auth".into()];
    command.extend(internet.arguments().into_iter().map(OsString::from));
    let wait = if shares { "sleep" } else { "auto" };
    // The address that is asked says which server is: one socket has all.
    let any = format!("0.0.0.0:{PORT}");
    command.extend(
        ["--listen", &any, "--cpus", &cpus.to_string(), "--wait-mode", wait].map(OsString::from),
    );
    if testbed.path() == LinkPath::Wire {
        command.push("--no-gro".into());
    }
    let launch = Launch {
        name: "authdns-internet",
        namespace: testbed.namespace(Host::Auth),
        cpus,
        dir,
        daemon: false,
        command,
        environment: Vec::new(),
    };
    let root = SocketAddr::new(internet.root().into(), PORT);
    let client = testbed.namespace(Host::Dut);
    ready(&launch, client, &[root], &[Question::soa(&Name::ROOT)], lab)
}

/// Starts an AuthDNS, and waits until it answers the questions of `client` at all addresses.
fn ready(
    launch: &Launch<'_>,
    client: &Netns,
    addresses: &[SocketAddr],
    questions: &[Question],
    lab: &Lab,
) -> Result<Process, ProcessError> {
    let mut process = Process::start(launch)?;
    for address in addresses {
        let interrupted = lab.interrupted();
        let at = At { server: *address, over: Over::Udp, remedy: String::new() };
        wait_ready(&mut process, client, &at, questions, READY, interrupted)?;
    }
    process.hold_to_cpus()?;
    Ok(process)
}

/// Asks the AuthDNS at `at`, which remembers what it was asked, how many messages it has got, this one included.
///
/// # Errors
/// If it does not tell in time.
pub(crate) fn messages(at: SocketAddr, zone: &Name) -> io::Result<u64> {
    let any: IpAddr = match at {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(TELLS))?;
    socket.connect(at)?;
    let mut message = [0; 512];
    let len = ask_itself(&socket, zone, 1, &mut message)?;
    // The text is the end of the reply.
    let digits = message[..len].last_chunk::<COUNT_DIGITS>();
    let told = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    told.ok_or_else(|| io::Error::other("the AuthDNS told no number"))
}

/// Asks an AuthDNS about itself: a question for TXT in class CH. Returns the length of the reply in `message`.
pub(crate) fn ask_itself(
    socket: &UdpSocket,
    name: &Name,
    id: u16,
    message: &mut [u8; 512],
) -> io::Result<usize> {
    let len = QueryTemplate::new(name, Qtype::TXT, false, false, None).write(id, message);
    // The class is the last of the question, and the question the last of the query.
    message[len - 2..len].copy_from_slice(&Qclass::CH.0.to_be_bytes());
    socket.send(&message[..len])?;
    socket.recv(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_the_end_of_the_reply() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let at = server.local_addr().expect("an address");
        let serving = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            for text in ["00000000000000000720", "no number"] {
                let (len, peer) = server.recv_from(&mut buffer).expect("a question");
                assert_eq!(buffer[len - 4..len], [0, 16, 0, 3], "TXT, CH");
                let reply = [&buffer[..len], text.as_bytes()].concat();
                server.send_to(&reply, peer).expect("sends");
            }
        });
        let zone = "dns64perf.test".parse().expect("a name");
        assert_eq!(messages(at, &zone).expect("a number"), 720);
        assert!(messages(at, &zone).is_err());
        serving.join().expect("ends");
    }
}
