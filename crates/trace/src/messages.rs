//! Extraction of DNS messages from frames: from datagrams, fragments, TCP streams and dnstap.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

use measure::Nanos;
use record::{TraceCode, TracePackets};
use wire::proxy;

use crate::capture::{CaptureError, DNSTAP, Frame, Frames};
use crate::dns::Dns;
use crate::fragments::Fragments;
use crate::packet::{self, Body, Content, Ends, Layer, PacketKind};
use crate::tap::{self, TappedMessages};
use crate::tcp::{Segment, Streams};

/// Largest number of encapsulations around a packet.
const MAX_LEVELS: u8 = 8;
/// Largest number of kinds of other packets that are counted separately.
const MAX_KINDS: usize = 1_024;
/// Largest number of servers that are remembered since their queries have frames of dnstap.
const MAX_SERVERS: usize = 1 << 16;
/// Largest number of queries of proxies whose clients are remembered for the replies.
const MAX_PROXIED: usize = 1 << 17;
/// Number of kinds of other packets, and of other ports with DNS, that are named.
const MAX_NAMED: usize = 5;

/// The transport of a captured message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A datagram of its own.
    Udp,
    /// A stream of TCP, from which it was cut.
    Tcp {
        /// The sequence number of the length field in front of the message; 0 in dnstap, which has none.
        sequence: u32,
    },
}

/// A captured DNS message, not parsed yet.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The number of the frame that completed the message, from 1.
    pub frame: u64,
    /// Time of capture of the last octets, since 1970.
    pub at: Nanos,
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// Address and port of the receiver.
    pub destination: SocketAddr,
    /// Transport that carried the message.
    pub transport: Transport,
    /// Whether the message was reassembled from IP fragments.
    pub fragmented: bool,
    /// Whether the capture has only the start of the message.
    pub cut: bool,
    /// Length on the wire, in octets.
    pub len: usize,
    /// The captured octets, fewer than `len` if the message is cut.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// Makes a message that is whole, of the first frame.
    #[inline]
    pub(crate) fn whole(
        transport: Transport,
        [source, destination]: [SocketAddr; 2],
        at: Nanos,
        bytes: &'a [u8],
    ) -> Self {
        let (frame, len) = (1, bytes.len());
        let (fragmented, cut) = (false, false);
        Message { frame, at, source, destination, transport, fragmented, cut, len, bytes }
    }

    /// Returns the client and the server of a query, or of a reply.
    pub(crate) fn client_and_server(&self, is_reply: bool) -> (SocketAddr, SocketAddr) {
        let (source, destination) = (self.source, self.destination);
        if is_reply { (destination, source) } else { (source, destination) }
    }
}

/// A reader of the DNS messages in a capture.
#[derive(Default)]
pub struct Messages {
    ports: Vec<u16>,
    counts: TracePackets,
    others: BTreeMap<PacketKind, u64>,
    dns_ports: BTreeMap<u16, u64>,
    fragments: Fragments,
    streams: Streams,
    /// Servers whose queries have frames of dnstap of their own.
    taps_queries: HashSet<SocketAddr>,
    proxied: ProxiedClients,
}

impl Messages {
    /// Returns a reader that treats packets to and from `ports` as DNS.
    pub fn new(ports: Vec<u16>) -> Self {
        Messages { ports, ..Messages::default() }
    }

    /// Reads a capture, or several, to the end and calls `visit` with each message, in the order of completion.
    ///
    /// # Errors
    /// If the capture is cut short or damaged. The messages before that place were visited, and the counts are valid.
    pub fn read(
        &mut self,
        capture: &mut impl Frames,
        mut visit: impl FnMut(&Message<'_>),
    ) -> Result<(), CaptureError> {
        self.read_until(capture, |message| {
            visit(message);
            false
        })
    }

    /// Works as [`read`](Self::read), but ends after the frame at one of whose messages `visit`
    /// requests the end.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_until(
        &mut self,
        capture: &mut impl Frames,
        mut visit: impl FnMut(&Message<'_>) -> bool,
    ) -> Result<(), CaptureError> {
        let mut enough = false;
        let mut note = |message: &Message<'_>, enough: &mut bool| *enough |= visit(message);
        let read = loop {
            match capture.next_frame() {
                Ok(Some(frame)) => self.frame(&frame, &mut |message| note(message, &mut enough)),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            if enough {
                break Ok(());
            }
        };
        self.finish(&mut |message| note(message, &mut enough));
        read
    }

    /// Returns the counts of packets so far, without counts that only the reader of messages has.
    pub fn counts(&self) -> TracePackets {
        let tcp = self.streams.counts;
        let others = most(self.others.iter().map(|(kind, packets)| (*kind, *packets)));
        let named = |(kind, count): (PacketKind, u64)| TraceCode { name: kind.to_string(), count };
        TracePackets {
            tcp: tcp.packets,
            tcp_sessions: tcp.sessions,
            tcp_never_closed: tcp.sessions - tcp.closed.min(tcp.sessions),
            tcp_gaps: tcp.gaps,
            unfinished: self.fragments.unfinished(),
            others: others.into_iter().map(named).collect(),
            dns_ports: most(self.dns_ports.iter().map(|(port, count)| (*port, *count))),
            ..self.counts.clone()
        }
    }

    /// Counts a frame, and passes the DNS messages that end with it to `visit`.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>, visit: &mut dyn FnMut(&Message<'_>)) {
        self.counts.packets += 1;
        self.counts.bytes += u64::from(frame.wire_len);
        if self.fragments.are_waiting() {
            // A message that is passed on too late matches no query any more.
            self.fragments.expire(frame.at);
            self.beginnings(visit);
        }
        if frame.link == DNSTAP {
            return self.handle_dnstap(frame, visit);
        }
        let place = PacketPlace { frame: frame.number, at: frame.at, fragmented: false, level: 0 };
        self.content(place, packet::dissect(frame.link, frame.bytes), visit);
    }

    /// Handles a frame of dnstap, whose messages are DNS on any port.
    fn handle_dnstap(&mut self, frame: &Frame<'_>, visit: &mut dyn FnMut(&Message<'_>)) {
        match tap::messages(frame) {
            Ok(TappedMessages { query: None, response: None }) => {
                let kind = PacketKind::Named("dnstap without a message");
                self.counts.other += 1;
                self.count_other(kind);
            }
            Ok(TappedMessages { query, response }) => {
                let server = query.as_ref().map(|message| message.destination);
                if response.is_none() && self.taps_queries.len() < MAX_SERVERS {
                    self.taps_queries.extend(server);
                }
                // A query in the frame of its reply is not counted again if the server also writes
                // frames of queries.
                let has_own = server.is_some_and(|server| self.taps_queries.contains(&server));
                let repeated = response.is_some() && has_own;
                query.iter().filter(|_| !repeated).for_each(&mut *visit);
                response.iter().for_each(visit);
            }
            Err(_) => self.counts.malformed += 1,
        }
    }

    /// Handles the content of a frame or of an encapsulation.
    #[inline]
    fn content(
        &mut self,
        place: PacketPlace,
        content: Content<'_>,
        visit: &mut dyn FnMut(&Message<'_>),
    ) {
        match content {
            Content::Packet(ends, body) => self.packet(place, ends, &body, visit),
            Content::Fragment(ends, part) => {
                self.counts.fragments += 1;
                let joined = self.fragments.add(ends, &part, place.frame, place.at);
                self.beginnings(visit);
                let Some(joined) = joined else { return };
                let place = PacketPlace { fragmented: true, ..place };
                match packet::joined(joined.protocol, &joined.payload, joined.cut) {
                    Some(body) => self.packet(place, ends, &body, visit),
                    None => self.counts.malformed += 1,
                }
            }
            Content::Other(kind) => {
                if kind == PacketKind::Jumbogram {
                    self.counts.other += 1;
                } else if kind.is_not_ip() {
                    self.counts.not_ip += 1;
                } else {
                    self.counts.unknown_link += 1;
                }
                self.count_other(kind);
            }
            Content::Malformed => self.counts.malformed += 1,
        }
    }

    /// Counts a packet that is not DNS.
    fn count_other(&mut self, kind: PacketKind) {
        if self.others.len() < MAX_KINDS || self.others.contains_key(&kind) {
            *self.others.entry(kind).or_default() += 1;
        }
    }

    /// Counts a packet of other ports whose payload looks like a DNS message, for the port of the server.
    fn note_dns(&mut self, source: u16, destination: u16, payload: &[u8]) {
        let Some(dns) = Dns::read(payload).filter(|dns| dns.whole && dns.question.is_some()) else {
            return;
        };
        let port = if dns.is_response() { source } else { destination };
        *self.dns_ports.entry(port).or_default() += 1;
    }

    /// Handles packets whose later fragments did not arrive: their messages are cut short.
    fn beginnings(&mut self, visit: &mut dyn FnMut(&Message<'_>)) {
        while let Some(beginning) = self.fragments.next_beginning() {
            let joined = &beginning.joined;
            // An incomplete segment is a gap; only datagrams contain a message.
            if let Some(body @ Body::Udp { source, destination, .. }) =
                packet::joined(joined.protocol, &joined.payload, true)
                && self.is_dns(source, destination)
            {
                let (frame, at) = (beginning.frame, beginning.at);
                let place = PacketPlace { frame, at, fragmented: true, level: MAX_LEVELS };
                self.packet(place, beginning.ends, &body, visit);
            }
        }
    }

    /// Calls `visit` with the messages that remain at the end of the capture.
    pub fn finish(&mut self, visit: &mut dyn FnMut(&Message<'_>)) {
        self.fragments.finish();
        self.beginnings(visit);
        let frame = self.counts.packets;
        self.streams.finish(|at, source, destination, sequence, bytes| {
            let ends = [source, destination];
            let whole = Message::whole(Transport::Tcp { sequence }, ends, at, bytes);
            visit(&Message { frame, ..whole });
        });
    }

    /// Returns whether packets between these ports count as DNS.
    #[inline]
    fn is_dns(&self, source: u16, destination: u16) -> bool {
        self.ports.contains(&destination) || self.ports.contains(&source)
    }

    /// Passes the messages of a packet to `visit`, and counts packets without a message.
    #[inline]
    fn packet(
        &mut self,
        place: PacketPlace,
        ends: Ends,
        body: &Body<'_>,
        visit: &mut dyn FnMut(&Message<'_>),
    ) {
        let PacketPlace { frame, at, fragmented, .. } = place;
        let between = |source, destination| {
            (SocketAddr::new(ends.source, source), SocketAddr::new(ends.destination, destination))
        };
        match *body {
            Body::Udp { source, destination, len, payload: bytes, cut }
                if self.is_dns(source, destination) =>
            {
                self.counts.messages_cut += u64::from(cut);
                let (source, destination) = between(source, destination);
                let (source, destination, header) =
                    self.proxied.endpoints(source, destination, bytes);
                let (bytes, len) = (&bytes[header..], len - header);
                let ends = [source, destination];
                let whole = Message::whole(Transport::Udp, ends, at, bytes);
                visit(&Message { frame, fragmented, cut, len, ..whole });
            }
            Body::Tcp { ref segment, cut }
                if self.is_dns(segment.source_port(), segment.destination_port()) =>
            {
                let (source, destination) =
                    between(segment.source_port(), segment.destination_port());
                let part = Segment {
                    source,
                    destination,
                    sequence: segment.sequence_number(),
                    syn: segment.syn(),
                    acknowledged: segment.ack().then(|| segment.acknowledgment_number()),
                    fin: segment.fin(),
                    rst: segment.rst(),
                    // A segment that is cut short counts as a gap.
                    payload: if cut { &[] } else { segment.payload() },
                };
                self.counts.messages_cut += u64::from(cut);
                self.streams.add(&part, at, |at, source, destination, sequence, bytes| {
                    let (transport, ends) = (Transport::Tcp { sequence }, [source, destination]);
                    let whole = Message::whole(transport, ends, at, bytes);
                    visit(&Message { frame, fragmented, ..whole });
                });
            }
            _ => self.other(place, body, visit),
        }
    }

    /// Handles a packet that is not DNS: reads the packet that it encapsulates, if any.
    fn other(&mut self, place: PacketPlace, body: &Body<'_>, visit: &mut dyn FnMut(&Message<'_>)) {
        let (kind, inside) = match *body {
            Body::Udp { source, destination, payload, .. } => {
                let inside = packet::in_udp(source, destination, payload);
                if inside.is_none() {
                    self.note_dns(source, destination, payload);
                }
                (PacketKind::Udp(source.min(destination)), inside)
            }
            Body::Tcp { ref segment, .. } => {
                let (source, destination) = (segment.source_port(), segment.destination_port());
                if let Some((length, message)) = segment.payload().split_first_chunk()
                    && let Some(message) = message.get(..u16::from_be_bytes(*length).into())
                {
                    self.note_dns(source, destination, message);
                }
                (PacketKind::Tcp(source.min(destination)), None)
            }
            Body::Other { protocol, payload } => {
                (PacketKind::Ip(protocol), packet::in_ip(protocol, payload))
            }
        };
        let inside: Option<Layer<'_>> = inside.filter(|_| place.level < MAX_LEVELS);
        let content = inside.map(packet::follow);
        match content {
            Some(content @ (Content::Packet(..) | Content::Fragment(..))) => {
                self.content(PacketPlace { level: place.level + 1, ..place }, content, visit);
            }
            _ => {
                self.counts.other += 1;
                self.count_other(kind);
            }
        }
    }
}

/// Clients that PROXY headers in front of datagrams name, by proxy, server and id of their queries.
#[derive(Default)]
struct ProxiedClients(HashMap<(SocketAddr, SocketAddr, u16), SocketAddr>);

impl ProxiedClients {
    /// Returns the sender and the receiver of a datagram, with the client in the place of its proxy, and the length of the PROXY
    /// header in front of the message.
    #[inline]
    fn endpoints(
        &mut self,
        source: SocketAddr,
        destination: SocketAddr,
        bytes: &[u8],
    ) -> (SocketAddr, SocketAddr, usize) {
        let header = proxy::version2(bytes).ok();
        let len = header.map_or(0, |header| header.len);
        if header.is_none() && self.0.is_empty() {
            return (source, destination, 0);
        }
        let id = wire::reply::id(&bytes[len..]).unwrap_or_default();
        if let Some(client) = header.and_then(|header| header.client) {
            if self.0.len() >= MAX_PROXIED {
                self.0.clear();
            }
            self.0.insert((source, destination, id), client);
            return (client, destination, len);
        }
        let client = self.0.remove(&(destination, source, id));
        (source, client.unwrap_or(destination), len)
    }
}

/// Returns the most frequent of some things, the most frequent first.
fn most<T>(counts: impl Iterator<Item = (T, u64)>) -> Vec<(T, u64)> {
    let mut all: Vec<_> = counts.collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.truncate(MAX_NAMED);
    all
}

/// The place of a packet in the capture.
#[derive(Clone, Copy)]
struct PacketPlace {
    /// The number of the frame, and its time.
    frame: u64,
    at: Nanos,
    /// Whether the packet was reassembled from fragments.
    fragmented: bool,
    /// Number of encapsulations around the packet.
    level: u8,
}
