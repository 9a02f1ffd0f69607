//! The AuthDNS as a process of the lab: this program's own `auth` command in the auth host. While the links receive frames of
//! programs, a program of it answers in the kernel, before its sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use experiment::file::Role;
use experiment::{Method, Point};
use measure::any_address;
use measure::{Path as LinkPath, WaitMode};
use wire::{Name, Namespace, Pref64, Qclass, Qtype, QueryTemplate};

use crate::server::LabEnv;
use crate::server::query_stream::ColdInternet;
use crate::server::ready::{Ask, At, Over, Question, wait_ready};
use crate::testbed::cpus::CpuList;
use crate::testbed::enter::Lab;
use crate::testbed::netns::Namespace as Netns;
use crate::testbed::process::{Launch, Process, ProcessError};
pub use crate::testbed::task::Serves;
use crate::testbed::task::{AuthAnswers, AuthTask, Task};
use crate::testbed::{Host, PORT, Testbed};

/// Time within which the AuthDNS must answer.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the query for the number of received messages, the only one at that time.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);
/// Most decimal digits of the number of messages, a `u64`.
const COUNT_DIGITS: usize = 20;

impl Serves {
    /// Returns the AuthDNS's answers at a point: a resolver synthesises no records, so that every
    /// queried record must exist.
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

    /// Returns whether a program in the kernel answers: only sockets have known behaviours and
    /// names for drills.
    pub(crate) fn is_in_kernel(self, testbed: &Testbed) -> bool {
        let plain = !matches!(self, Serves::Truth | Serves::Dut { drilled: true, .. });
        testbed.receives_frames() && plain
    }

    /// Returns the addresses on which the AuthDNS listens, IPv6 first.
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
    LabEnv { testbed, lab, dir }: LabEnv<'_>,
) -> Result<Process, ProcessError> {
    let in_kernel = serves.is_in_kernel(testbed);
    // On the core of a generator, which never sleeps, its delays would be wrong.
    let apart = serves == Serves::Truth && testbed.receives_frames();
    let cpus = testbed.cpus(if apart { Host::Dut } else { Host::Auth });
    let name = match serves {
        Serves::Dut { .. } => "authdns",
        Serves::SelfTest => "authdns-selftest",
        Serves::Truth => "authdns-truth",
    };
    let answers = AuthAnswers::Namespace {
        prefix: namespace.prefix().to_string(),
        zone: namespace.zone().to_string(),
        pref64: pref64.to_string(),
        serves,
        remember: !in_kernel,
    };
    let task = AuthTask {
        listen: serves.addresses(testbed).to_vec(),
        device: in_kernel.then(|| Host::interface(serves.client())),
        ..task(answers, cpus, testbed)
    };
    let launch = Launch::new(name, testbed.namespace(Host::Auth), cpus, dir);
    let client = testbed.namespace(serves.client());
    ready(
        &launch,
        task,
        client,
        &serves.addresses(testbed),
        &Question::first_and_last(namespace, Ask::A),
        lab,
    )
}

/// Starts an AuthDNS that is an Internet in a box for the server under test, and waits until a server of its root answers.
///
/// # Errors
/// If it does not start; with the end of its log.
pub(crate) fn start_internet(
    internet: &ColdInternet,
    LabEnv { testbed, lab, dir }: LabEnv<'_>,
) -> Result<Process, ProcessError> {
    let cpus = testbed.cpus(Host::Auth);
    // One socket serves all addresses: the queried address identifies the server.
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
    let task = AuthTask { listen: vec![any], ..task(internet.answers(), cpus, testbed) };
    let launch = Launch::new("authdns-internet", testbed.namespace(Host::Auth), cpus, dir);
    let root = SocketAddr::new(internet.root().into(), PORT);
    let client = testbed.namespace(Host::Dut);
    ready(&launch, task, client, &[root], &[Question::soa(&Name::ROOT)], lab)
}

/// Makes the task of an AuthDNS without addresses on `cpus`; on a core that it shares with the
/// Measurer it sleeps when it is idle.
fn task(answers: AuthAnswers, cpus: &CpuList, testbed: &Testbed) -> AuthTask {
    let shares = cpus.shares_with(testbed.cpus(Host::Tester));
    AuthTask {
        listen: Vec::new(),
        cpus: cpus.clone(),
        wait: if shares { WaitMode::Sleep } else { WaitMode::Auto },
        // As in the Measurer: no datagrams are joined on wire-like paths.
        gro: testbed.path() != LinkPath::Wire,
        device: None,
        answers,
    }
}

/// Starts an AuthDNS, and waits until it answers the questions of `client` at all addresses.
fn ready(
    launch: &Launch<'_>,
    task: AuthTask,
    client: &Netns,
    addresses: &[SocketAddr],
    questions: &[Question],
    lab: &Lab,
) -> Result<Process, ProcessError> {
    let mut process = Process::start_task(launch, &Task::Auth(Box::new(task)))?;
    for address in addresses {
        let interrupted = lab.interrupted();
        let at = At { server: *address, over: Over::Udp, remedy: String::new() };
        wait_ready(&mut process, client, &at, questions, READY_TIMEOUT, interrupted)?;
    }
    process.hold_to_cpus()?;
    Ok(process)
}

/// Queries the AuthDNS at `at`, which remembers names, for its number of received messages, this
/// one included.
///
/// # Errors
/// If it does not answer in time.
pub(crate) fn messages(at: SocketAddr, zone: &Name) -> io::Result<u64> {
    let socket = UdpSocket::bind((any_address(at.ip()), 0))?;
    socket.set_read_timeout(Some(COUNT_TIMEOUT))?;
    socket.connect(at)?;
    let mut message = [0; 512];
    let len = ask_itself(&socket, zone, 1, &mut message)?;
    // The text is the end of the reply.
    let digits = message[..len].last_chunk::<COUNT_DIGITS>();
    let told = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    told.ok_or_else(|| io::Error::other("the reply of the AuthDNS contains no count of messages"))
}

/// Sends a query of class CH for TXT to an AuthDNS. Returns the length of the reply in `message`.
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
