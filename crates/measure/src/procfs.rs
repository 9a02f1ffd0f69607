//! Parsers of the kernel's counters, for the text of files in `/proc` (proc(5)).
//!
//! Each parser reads the fields it knows and skips the rest; a counter that the kernel does not have is 0. The
//! callers read the files. The `procfs` crate is not used: its list of cores has no numbers, so that an offline core
//! shifts the numbers of later ones; it refuses all UDP counters if one of eighty fields is missing; and it fills a
//! hash map for each thread at each sample, several times a second.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Makes counters of an operation on each field of two values.
macro_rules! each {
    ($operation:ident, $one:expr, $other:expr; $($field:ident),+) => {
        Self { $($field: $one.$field.$operation($other.$field)),+ }
    };
}

/// CPU time of a process, in clock ticks, from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatLine {
    /// Process number of the parent.
    pub ppid: u32,
    /// Number of the process's group.
    pub group: i64,
    /// Number of the process group in the foreground of its terminal; -1 without a terminal.
    pub foreground_group: i64,
    /// Time in user mode of all threads, also ended ones.
    pub user: u64,
    /// Time in the kernel of all threads, also ended ones.
    pub system: u64,
    /// Time of children that have ended and were waited for, in user mode and in the kernel.
    pub children: u64,
    /// Number of the thread's last core; absent in a shorter line.
    pub core: Option<usize>,
}

impl StatLine {
    /// Returns the CPU time of all threads and of ended children, in clock ticks.
    pub fn all_ticks(&self) -> u64 {
        self.user.saturating_add(self.system).saturating_add(self.children)
    }
}

/// Parses `/proc/PID/stat`; the name in parentheses may contain anything, also parentheses.
pub fn parse_stat(text: &str) -> Option<StatLine> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(1);
    let ppid = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    // Field 8, after the session and the terminal.
    let foreground_group = fields.nth(2)?.parse().ok()?;
    // Fields 14 and 15.
    let user = fields.nth(5)?.parse().ok()?;
    let system = fields.next()?.parse().ok()?;
    // Fields 16 and 17; field 39.
    let children = fields.by_ref().take(2).map_while(|field| field.parse::<u64>().ok()).sum();
    let core = fields.nth(21).and_then(|field| field.parse().ok());
    Some(StatLine { ppid, group, foreground_group, user, system, children, core })
}

/// Time of one core by kind of work, in clock ticks, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTimes {
    /// Time in programs, also with low priority.
    pub user: u64,
    /// Time in the kernel on behalf of programs.
    pub system: u64,
    /// Time without anything to run.
    pub idle: u64,
    /// Idle time in which a process waited for a disk.
    pub wait: u64,
    /// Time in the handlers of hardware interrupts.
    pub irq: u64,
    /// Time in software interrupts, which include the receive path of the network.
    pub softirq: u64,
    /// Time that the hypervisor gave to others.
    pub steal: u64,
}

impl CoreTimes {
    /// Returns the busy time: all but idle and waiting.
    pub fn busy(&self) -> u64 {
        self.user + self.system + self.irq + self.softirq + self.steal
    }

    /// Returns the time in processes: programs, and the kernel on their behalf.
    pub fn processes(&self) -> u64 {
        self.user + self.system
    }

    /// Returns the time of all kinds, idle time included.
    pub fn total(&self) -> u64 {
        self.busy() + self.idle + self.wait
    }

    /// Returns the difference to `earlier`.
    pub fn since(&self, earlier: &CoreTimes) -> CoreTimes {
        each!(saturating_sub, self, earlier; user, system, idle, wait, irq, softirq, steal)
    }

    /// Returns the sum with `other`.
    pub fn plus(&self, other: &CoreTimes) -> CoreTimes {
        each!(saturating_add, self, other; user, system, idle, wait, irq, softirq, steal)
    }
}

/// Parses the lines of cores in `/proc/stat`, by the core's number.
pub fn parse_cores(text: &str) -> BTreeMap<usize, CoreTimes> {
    let core = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let number = fields.next()?.parse().ok()?;
        let t: Vec<u64> = fields.map_while(|field| field.parse().ok()).take(8).collect();
        let [user, nice, system, idle, wait, irq, softirq, steal] = t[..] else { return None };
        let user = user.saturating_add(nice);
        Some((number, CoreTimes { user, system, idle, wait, irq, softirq, steal }))
    };
    // The line of the sum, "cpu  ...", would read as a core whose number is its user time; the space after "cpu"
    // distinguishes it.
    text.lines().filter(|line| !line.starts_with("cpu ")).filter_map(core).collect()
}

/// Returns the counts in the row `name` of `/proc/softirqs` or `/proc/interrupts`, one for each core.
pub fn counts_of(text: &str, name: &str) -> Vec<u64> {
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix(name));
    let counts = row.unwrap_or_default().split_ascii_whitespace();
    counts.map_while(|count| count.parse().ok()).collect()
}

/// Time that a thread ran and waited for a core, in nanoseconds, from `schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a core, in nanoseconds.
    pub run: u64,
    /// Time ready to run without a core, in nanoseconds.
    pub delay: u64,
}

/// Parses `/proc/PID/task/TID/schedstat`; `None` if it has another form.
pub fn parse_schedstat(text: &str) -> Option<SchedStat> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    Some(SchedStat { run: fields.next()?.ok()?, delay: fields.next()?.ok()? })
}

/// Folders where the first control group of the CPU accounts may be.
pub const CPU_ACCOUNTS: [&str; 2] = ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/cpu,cpuacct"];

/// Parses the time for which each core ran processes, in nanoseconds, from `/proc/schedstat`: the
/// seventh number of its line.
pub fn parse_core_run_times(text: &str) -> BTreeMap<usize, u64> {
    let core = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let number = fields.next()?.parse().ok()?;
        Some((number, fields.nth(6)?.parse().ok()?))
    };
    text.lines().filter_map(core).collect()
}

/// Parses the time for which each core ran processes, in nanoseconds, from `cpuacct.usage_percpu`
/// of a control group of version 1: a number for each core.
pub fn parse_usage_by_core(text: &str) -> BTreeMap<usize, u64> {
    text.split_ascii_whitespace().map_while(|field| field.parse().ok()).enumerate().collect()
}

/// UDP datagrams of a network namespace that were not delivered or sent, IPv4 and IPv6 together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Number of datagrams not delivered: a full receive queue, no memory, a wrong checksum.
    pub in_errors: u64,
    /// Number of datagrams dropped at a full receive queue.
    pub receive_buffer: u64,
    /// Number of datagrams not sent because the send buffer was full.
    pub send_buffer: u64,
    /// Number of datagrams for a port where no process listens; not among the errors.
    pub no_ports: u64,
}

impl UdpCounters {
    /// Parses `/proc/net/snmp` and `/proc/net/snmp6`, and adds the counts of IPv4 and IPv6.
    pub fn parse(snmp: &str, snmp6: &str) -> Self {
        let both = |name: &str| snmp_field(snmp, "Udp", name) + snmp6_field(snmp6, "Udp6", name);
        Self {
            in_errors: both("InErrors"),
            receive_buffer: both("RcvbufErrors"),
            send_buffer: both("SndbufErrors"),
            no_ports: both("NoPorts"),
        }
    }

    /// Returns the difference to `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        each!(saturating_sub, self, earlier; in_errors, receive_buffer, send_buffer, no_ports)
    }
}

/// Parses the number of connections that listening sockets of a network namespace did not take, most of all because as many as
/// their queue has room for waited for the server to accept them, from `/proc/net/netstat`.
pub fn parse_connections_not_taken(netstat: &str) -> u64 {
    snmp_field(netstat, "TcpExt", "ListenDrops")
}

/// Returns a counter of `/proc/net/snmp`, where a line of names precedes a line of values; 0 if absent.
fn snmp_field(text: &str, table: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table)?.strip_prefix(':'));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    pairs.find(|(n, _)| *n == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Returns a counter of `/proc/net/snmp6`, one on each line; 0 if absent.
fn snmp6_field(text: &str, table: &str, name: &str) -> u64 {
    let value = |line: &str| line.strip_prefix(table)?.strip_prefix(name)?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// A socket, from `/proc/net/udp`, `udp6`, `tcp` or `tcp6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetSocket {
    /// Address and port to which the socket is bound.
    pub local: SocketAddr,
    /// Number of the socket, by which the open files of its process name it.
    pub inode: u64,
    /// Whether the socket has no peer: it accepts datagrams or connections of any client.
    pub serves: bool,
    /// Number of datagrams to the socket that were dropped: a full receive queue, no memory, a
    /// wrong checksum. 0 of TCP, which has no such column.
    pub drops: u64,
}

/// Parses `/proc/net/udp`, `udp6`, `tcp` and `tcp6`.
pub fn parse_sockets(text: &str) -> Vec<NetSocket> {
    let socket = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (ip, port) = fields.next()?.split_once(':')?;
        let local = SocketAddr::new(parse_ip(ip)?, u16::from_str_radix(port, 16).ok()?);
        let serves = fields.next()?.ends_with(":0000");
        let inode = fields.nth(6)?.parse().ok()?;
        let drops = fields.nth(2).and_then(|field| field.parse().ok()).unwrap_or(0);
        Some(NetSocket { local, inode, serves, drops })
    };
    text.lines().filter_map(socket).collect()
}

/// Parses an address: words of 32 bits, each a number of this machine's byte order.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let word = |number: usize| {
        let digits = text.get(8 * number..8 * (number + 1))?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let octets: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}

/// Packets lost on one interface, from `/proc/net/dev`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Number of received packets dropped or damaged.
    pub received: u64,
    /// Number of packets dropped or damaged on sending; on veth also those that the receiver's backlog refused.
    pub sent: u64,
}

impl LinkCounters {
    /// Returns the difference to `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        each!(saturating_sub, self, earlier; received, sent)
    }
}

/// Parses `/proc/net/dev`, by the interface's name.
pub fn parse_links(text: &str) -> BTreeMap<String, LinkCounters> {
    let link = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let n: Vec<u64> = rest.split_ascii_whitespace().map_while(|f| f.parse().ok()).collect();
        // bytes packets errs drop fifo frame compressed multicast, then the same for sending.
        let received = n.get(2)?.saturating_add(*n.get(3)?);
        let sent = n.get(10)?.saturating_add(*n.get(11)?);
        Some((name.trim().to_owned(), LinkCounters { received, sent }))
    };
    text.lines().filter_map(link).collect()
}

/// Counts since the start of the machine, over all cores, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCounts {
    /// Number of context switches (line `ctxt`).
    pub switches: u64,
    /// Number of interrupts served (line `intr`).
    pub interrupts: u64,
}

/// Parses the lines `ctxt` and `intr` of `/proc/stat`.
pub fn parse_system(text: &str) -> SystemCounts {
    let first = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    SystemCounts { switches: first("ctxt"), interrupts: first("intr") }
}

/// Memory of a process, in bytes, from `/proc/PID/status` or `/proc/PID/smaps_rollup`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory, in bytes; shared pages count fully.
    pub resident: u64,
    /// Largest resident memory so far, in bytes.
    pub peak: u64,
}

/// Parses `/proc/PID/status`; an absent size is 0.
pub fn parse_memory(text: &str) -> Memory {
    Memory { resident: kilobytes(text, "VmRSS:"), peak: kilobytes(text, "VmHWM:") }
}

/// Parses the proportional set size of `/proc/PID/smaps_rollup`, in bytes: a page shared by two processes counts
/// half.
pub fn parse_proportional(text: &str) -> u64 {
    kilobytes(text, "Pss:")
}

/// Returns the value of a line such as `VmRSS:  12 kB`, in bytes; 0 if absent.
fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value: Option<u64> =
        line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    value.unwrap_or(0).saturating_mul(1024)
}

/// Context switches of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Number of switches in which the thread waited for something.
    pub voluntary: u64,
    /// Number of switches in which another thread took the core.
    pub involuntary: u64,
}

/// Parses `/proc/PID/task/TID/status`; an absent count is 0.
pub fn parse_switches(text: &str) -> Switches {
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    let (voluntary, involuntary) =
        (count("voluntary_ctxt_switches:"), count("nonvoluntary_ctxt_switches:"));
    Switches { voluntary, involuntary }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_counts_are_read() {
        let text = "       CPU0  CPU1\n NET_RX:  12  34\n  RES:  5  6  Rescheduling interrupts\n";
        assert_eq!(counts_of(text, "NET_RX:"), [12, 34]);
        assert_eq!(counts_of(text, "RES:"), [5, 6]);
        assert!(counts_of(text, "CAL:").is_empty());
    }
    use proptest::prelude::*;

    #[test]
    fn reads_stat() {
        let text = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 111 222 5 6 20 0 1 0 99 1 2";
        assert_eq!(
            parse_stat(text),
            Some(StatLine {
                ppid: 7,
                group: 42,
                foreground_group: -1,
                user: 111,
                system: 222,
                children: 11,
                core: None
            })
        );
        let long = format!("{text} {} 1 0 0", "0 ".repeat(14));
        assert_eq!(parse_stat(&long).and_then(|stat| stat.core), Some(1), "{long}");
        for bad in ["", "1 (x)", "1 (x) S", "1 x S 1 1 1", "1 (x) S 1 1 1 1 1 1 1 1 1 1 y z"] {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
    }

    #[test]
    fn reads_cores() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 10 0 0 1 0 0 0 0\nintr 5\n";
        let cores = parse_cores(text);
        assert_eq!(cores.len(), 2);
        let zero = CoreTimes { user: 3, system: 3, idle: 4, wait: 5, irq: 6, softirq: 7, steal: 8 };
        assert_eq!((cores[&0], cores[&0].busy()), (zero, 27));
        assert_eq!((zero.processes(), zero.total()), (6, 36));
        assert_eq!(cores[&1].since(&CoreTimes { user: 4, ..CoreTimes::default() }).user, 6);
    }

    #[test]
    fn reads_udp_counters() {
        let snmp = "Ip: A B\nIp: 1 2\n\
                    Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
                    Udp: 100 1 5 90 4 2\nUdpLite: InErrors\nUdpLite: 77\n";
        let snmp6 = "Udp6InDatagrams    \t7\nUdp6NoPorts 10\nUdp6InErrors  20\nUdp6RcvbufErrors 20\n\
                     UdpLite6InErrors 99\n";
        let counters = UdpCounters::parse(snmp, snmp6);
        let wanted =
            UdpCounters { in_errors: 25, receive_buffer: 24, send_buffer: 2, no_ports: 11 };
        assert_eq!(counters, wanted);
        assert_eq!(counters.since(&wanted), UdpCounters::default());
    }

    #[test]
    fn reads_connections_that_were_not_taken() {
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits\n\
                       TcpExt: 1 16 17 3\nIpExt: InNoRoutes ListenDrops\nIpExt: 5 9\n";
        assert_eq!(parse_connections_not_taken(netstat), 17);
        assert_eq!(parse_connections_not_taken(""), 0);
    }

    #[test]
    fn reads_sockets() {
        // The words are numbers of this machine's byte order.
        let word = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
        let (v4, zero) = (word([10, 9, 1, 2]), word([0; 4]));
        let v6 = format!("{}{zero}{zero}{}", word([0xfd, 0, 0, 9]), word([0, 0, 0, 2]));
        let text = format!(
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             49: {v4}:0035 {zero}:0000 07 00000000:00000000 00:00000000 00000000     0        0 123 2 0000000000000000 17\n\
             51: {v6}:14B4 {zero}{zero}{zero}{zero}:0035 01 00000000:00000000 00:00000000 00000000     0        0 124 2 0000000000000000 3\n"
        );
        let socket = |local: &str, inode, serves, drops| NetSocket {
            local: local.parse().unwrap(),
            inode,
            serves,
            drops,
        };
        let wanted =
            [socket("10.9.1.2:53", 123, true, 17), socket("[fd00:9::2]:5300", 124, false, 3)];
        assert_eq!(parse_sockets(&text), wanted);
        let short = "1: 0100007F:0035 00000000:0000 07\n2: 7F:35 0 1 2 3 4 5 6 7 8 9 10\n";
        assert!(parse_sockets(short).is_empty());
        // TCP: a listening socket, with the numbers of its timers after the pointer.
        let tcp = format!(
            "0: {v4}:0035 {zero}:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1 0000000000000000 100 0 0 10 0\n"
        );
        assert_eq!(parse_sockets(&tcp)[0].inode, 77);
    }

    #[test]
    fn reads_links() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame\n\
                    to-dut: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n    lo:0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let links = parse_links(text);
        assert_eq!(links["to-dut"], LinkCounters { received: 7, sent: 23 });
        assert_eq!(links["lo"], LinkCounters::default());
        assert_eq!(links.len(), 2);
    }

    #[test]
    fn reads_schedstat() {
        assert_eq!(parse_schedstat("10 20 3\n"), Some(SchedStat { run: 10, delay: 20 }));
        assert_eq!(parse_schedstat("10"), None);
    }

    #[test]
    fn reads_the_run_times_of_cores() {
        let text = "version 17\ntimestamp 1\ncpu0 0 0 9 8 7 6 500 600 7\ndomain0 3 1 2\ncpu1 0 0 9 8 7 6 77 1 1\n";
        assert_eq!(parse_core_run_times(text), [(0, 500), (1, 77)].into());
        assert_eq!(parse_usage_by_core("500 77 \n"), [(0, 500), (1, 77)].into());
        assert!(parse_core_run_times("cpu0 1 2").is_empty() && parse_usage_by_core("x").is_empty());
    }

    #[test]
    fn reads_memory_and_switches() {
        let text = "Name:\tx\nVmHWM:\t    20 kB\nVmRSS:\t    12 kB\n\
                    voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(parse_memory(text), Memory { resident: 12 << 10, peak: 20 << 10 });
        assert_eq!(parse_switches(text), Switches { voluntary: 5, involuntary: 7 });
        assert_eq!(
            parse_proportional("a-b ---p 00 [rollup]\nRss: 9 kB\nPss:  3 kB\nPss_Anon: 1 kB"),
            3072
        );
        let system = parse_system("cpu 1\nintr 17 1 2\nctxt 9\n");
        assert_eq!(system, SystemCounts { switches: 9, interrupts: 17 });
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[ -~\n\t:()]{0,300}") {
            parse_stat(&text);
            parse_cores(&text);
            parse_schedstat(&text);
            parse_links(&text);
            parse_memory(&text);
            parse_proportional(&text);
            parse_switches(&text);
            parse_system(&text);
            parse_core_run_times(&text);
            parse_usage_by_core(&text);
            parse_sockets(&text);
            UdpCounters::parse(&text, &text);
        }

        #[test]
        fn any_stat_line_is_read(
            name in "[ -~]{1,15}", ppid in any::<u32>(), group in any::<i64>(), foreground_group in any::<i64>(),
            user in any::<u64>(), system in any::<u64>()
        ) {
            let text = format!("1 ({name}) R {ppid} {group} 1 0 {foreground_group} 0 0 0 0 0 {user} {system} 0 0 20 0");
            let wanted =
                StatLine { ppid, group, foreground_group, user, system, children: 0, core: None };
            prop_assert_eq!(parse_stat(&text), Some(wanted));
        }

        #[test]
        fn any_socket_line_is_read(v4 in any::<[u8; 4]>(), v6 in any::<[u8; 16]>(), port: u16, inode: u64, drops: u64) {
            let hex = |octets: &[u8]| {
                let words = octets.as_chunks::<4>().0.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
                words.collect::<String>()
            };
            for (ip, words) in [(IpAddr::from(v4), hex(&v4)), (IpAddr::from(v6), hex(&v6))] {
                let text = format!("1: {words}:{port:04X} 0:0000 07 0:0 00:0 0 0 0 {inode} 2 0 {drops}");
                let (local, serves) = ((ip, port).into(), true);
                prop_assert_eq!(parse_sockets(&text), [NetSocket { local, inode, serves, drops }]);
            }
        }

        #[test]
        fn any_core_line_is_read(number in 0usize..1000, t in proptest::array::uniform8(0u64..1 << 60)) {
            let fields: Vec<String> = t.iter().map(u64::to_string).collect();
            let cores = parse_cores(&format!("cpu{number} {}\n", fields.join(" ")));
            prop_assert_eq!(cores[&number].softirq, t[6]);
        }
    }
}
