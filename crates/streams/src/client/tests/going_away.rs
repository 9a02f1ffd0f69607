//! Connections that take no more queries: each query is answered, fails or is turned away, whenever that happens.

use std::cell::{Cell, RefCell};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use engine::stream::StreamCode;
use measure::HttpMethod;

use super::exchanges::{carriages, palindrome, resource, with_carriage};
use super::*;
use crate::client::exchange::{Exchange, HasStream, NoReply, PendingReply, Task};
use crate::client::meter::Meter;
use crate::client::shared::{Caller, Shared};

/// A connection that ends when it is first looked at.
struct EndingServer {
    /// What becomes of each query; `None` waits for ever.
    outcome: Option<NoReply>,
    end: End,
}

impl Exchange for EndingServer {
    fn send_query(&mut self, _message: Bytes, _has_stream: HasStream) -> PendingReply {
        match self.outcome {
            Some(outcome) => Box::pin(std::future::ready(Err(outcome))),
            None => Box::pin(std::future::pending()),
        }
    }

    fn poll_over(&mut self, _cx: &mut Context<'_>) -> Poll<End> {
        Poll::Ready(self.end)
    }

    fn opened(&mut self) -> Option<Opened> {
        Some(Opened::default())
    }

    fn close(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::ready(()))
    }
}

#[test]
fn queries_that_were_not_sent_go_back_when_the_connection_ends() {
    let failed = End::Failed(Failure::Reset);
    // Each query is written on its own: the connection ends behind the first of three.
    for (outcome, end, expected, returned) in [
        (Some(NoReply::TurnedAway), End::ByPeer, End::GoingAway, &[1, 2, 3][..]),
        (Some(NoReply::TurnedAway), failed, End::GoingAway, &[1, 2, 3]),
        (None, End::GoingAway, End::GoingAway, &[1, 2, 3]),
        (None, End::ByPeer, End::ByPeer, &[2, 3]),
        (None, failed, failed, &[]),
    ] {
        let messages = (1..=3).map(|tag| palindrome(tag, 9)).collect();
        let shared = Rc::new(Shared {
            role: RefCell::new(Client { messages, ..Client::default() }),
            orders: RefCell::new(Orders::new(1)),
            scratch: RefCell::default(),
            spawn: Box::new(|_, _| {}),
            next: Cell::new(Next::Now),
            last_work: Cell::default(),
            keeper: RefCell::default(),
        });
        shared.pump(Caller::Other);
        let exchange = Box::new(EndingServer { outcome, end });
        let mut exchanged = Task::new(0, exchange, None, WriteMode::Each, Meter::default());
        let cx = &mut Context::from_waker(Waker::noop());
        assert_eq!(exchanged.poll(&shared, cx), Poll::Ready(expected), "{outcome:?}, {end:?}");
        if expected == End::GoingAway {
            assert_eq!(exchanged.poll_going_away(&shared, cx), Poll::Ready(()));
        }
        assert_eq!(shared.role.borrow().turned_away_tags(), returned, "{outcome:?}, {end:?}");
    }
}

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Highest stream id, as in the first GOAWAY of a graceful shutdown.
const HIGHEST: u32 = (1 << 31) - 1;

/// Makes a frame of HTTP/2 (RFC 9113 section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Makes a GOAWAY without error that names the last stream that is processed.
fn go_away(last: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

/// Makes a RST_STREAM for an internal error.
fn reset(stream: u32) -> Vec<u8> {
    frame(3, 0, stream, &2u32.to_be_bytes())
}

/// Makes the head of a reply: status 200 (index 8 of RFC 7541 appendix A), content type (index 31).
fn head(stream: u32) -> Vec<u8> {
    let media_type = b"application/dns-message";
    let block = [&[0x88, 0x5f, media_type.len() as u8][..], media_type].concat();
    frame(1, END_HEADERS, stream, &block)
}

/// Makes a whole reply: its head, and a frame with the message.
fn reply(stream: u32) -> Vec<u8> {
    [head(stream), frame(0, END_STREAM, stream, b"\0\0reply")].concat()
}

/// What a server does next: reads until this many requests have arrived, and writes these frames together.
type Step = (usize, Vec<Vec<u8>>);

/// Serves one connection of HTTP/2 by `steps`, then closes it.
fn serve(mut stream: TcpStream, steps: Vec<Step>) {
    stream.read_exact(&mut [0; 24]).unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).unwrap();
    let mut requests = 0;
    for (until, frames) in steps {
        while requests < until {
            let mut header = [0; 9];
            stream.read_exact(&mut header).unwrap();
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            stream.read_exact(&mut vec![0; length as usize]).unwrap();
            requests += usize::from(header[3] == 1);
        }
        stream.write_all(&frames.concat()).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    // What is left unread would reset the connection.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_goaway_at_any_point_leaves_no_query_without_an_end() {
    let reset_code = QueryFailure::StreamReset(StreamCode::Http2(2));
    let closed = QueryFailure::Connection(Failure::ClosedEarly);
    // The queries with tags 1 to 4 have the streams 1, 3, 5, 7.
    type Tags = &'static [u8];
    type Point<'a> = (&'a str, Vec<Step>, Tags, Tags, &'a [(u8, QueryFailure)]);
    let table: [Point<'_>; 9] = [
        ("before all", vec![(0, vec![go_away(0)])], &[], &[1, 2, 3, 4], &[]),
        ("after the first", vec![(1, vec![go_away(1), reply(1)])], &[1], &[2, 3, 4], &[]),
        ("after a reply", vec![(2, vec![reply(1)]), (2, vec![go_away(1)])], &[1], &[2, 3, 4], &[]),
        ("between", vec![(4, vec![reply(3), go_away(3), reply(1)])], &[1, 2], &[3, 4], &[]),
        (
            "in two steps",
            vec![(4, vec![go_away(HIGHEST), reply(1)]), (4, vec![go_away(3), reply(3)])],
            &[1, 2],
            &[3, 4],
            &[],
        ),
        (
            "inside a reply",
            vec![(4, vec![head(1), go_away(1), frame(0, END_STREAM, 1, b"\0\0reply")])],
            &[1],
            &[2, 3, 4],
            &[],
        ),
        (
            "after all",
            vec![(4, vec![go_away(7), reply(1), reply(3), reply(5), reply(7)])],
            &[1, 2, 3, 4],
            &[],
            &[],
        ),
        (
            "with a reset",
            vec![(4, vec![go_away(3), reply(1), reset(3)])],
            &[1],
            &[3, 4],
            &[(2, reset_code)],
        ),
        (
            "and an early close",
            vec![(4, vec![go_away(3), reply(1)])],
            &[1],
            &[3, 4],
            &[(2, closed)],
        ),
    ];
    for (when, steps, replied, turned_away, failed) in table {
        for write in [WriteMode::Each, WriteMode::Together] {
            let messages = (1..=4).map(|tag| palindrome(tag, 40)).collect();
            let steps = steps.clone();
            let mut client = against_with(
                messages,
                move |stream| serve(stream, steps),
                |dialer| {
                    dialer.carriage = Carriage::Http2(resource(HttpMethod::Get));
                    dialer.write = write;
                },
            );
            client.replies.sort();
            let tags: Vec<u8> = client.replies.iter().map(|reply| reply[0]).collect();
            assert_eq!(tags, replied, "replies, {when}, {write:?}");
            assert_eq!(client.turned_away_tags(), turned_away, "turned away, {when}, {write:?}");
            assert_eq!(client.failed, failed, "failed, {when}, {write:?}");
        }
    }
}

#[test]
fn every_query_of_a_server_that_goes_away_is_answered_or_turned_away() {
    for carriage in carriages() {
        let name = format!("{carriage:?}");
        // The server takes 100 streams at a time, and sends a GOAWAY after each reply.
        let messages: Vec<_> = (0..150).map(|tag| palindrome(tag, 40)).collect();
        let plan = Some("goaway/1".parse().unwrap());
        let client = with_carriage(carriage, plan, |dialer, tls| {
            run(Dialer { tls: Some(tls(&ClientTls::default())), ..dialer }, messages)
        });
        assert_eq!(client.failed, [], "{name}");
        assert_eq!(client.replies.len() + client.turned_away.len(), 150, "{name}");
    }
}
