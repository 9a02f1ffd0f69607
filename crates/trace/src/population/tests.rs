//! Populations: collected, made smaller and larger, written and read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};
use std::net::SocketAddr;

use proptest::prelude::*;
use wire::{Name, Qtype, QueryTemplate};

use super::*;
use crate::messages::Transport;

/// The time of the first query, in seconds.
const START: u64 = 1_700_000_000;

/// Returns a query for the name with this number; every third is for MX.
fn query(number: u64) -> Vec<u8> {
    let name: Name = format!("n{number}.example").parse().expect("a name");
    let qtype = if number.is_multiple_of(3) { Qtype::MX } else { Qtype::A };
    let mut query = QueryTemplate::new(&name, qtype, true, false, None).bytes().to_vec();
    query[..2].copy_from_slice(&(number as u16 | 1).to_be_bytes());
    query
}

/// Collects queries: client, milliseconds since the start, number of the name.
fn collect(queries: &[(u8, u64, u64)]) -> Population {
    let after = |at_ms| Nanos::from_secs(START) + Nanos::from_millis(at_ms);
    let collector =
        collector(queries.iter().map(|&(client, at_ms, number)| (client, after(at_ms), number)));
    assert_eq!((collector.left_out, collector.full), (0, false));
    collector.finish().0
}

/// Makes a collector of queries: client, time, number of the name.
fn collector(queries: impl Iterator<Item = (u8, Nanos, u64)>) -> Collector {
    let mut collector = Collector::default();
    for (client, at, number) in queries {
        let bytes = &query(number)[..];
        let ends = [([10, 0, 0, client], 4_000), ([192, 0, 2, 53], 53)].map(SocketAddr::from);
        collector.add(&Message::whole(Transport::Udp, ends, at, bytes));
    }
    collector
}

/// Returns the queries of each client: address, time in milliseconds, message.
fn by_client(population: &Population) -> BTreeMap<u32, Vec<(IpAddr, u64, Vec<u8>)>> {
    let mut clients: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for query in population.queries() {
        let address = population.clients[query.client as usize];
        let at_ms = query.at.0 / 1_000_000;
        clients.entry(query.client).or_default().push((address, at_ms, query.message.to_vec()));
    }
    clients
}

fn gunzipped(population: &Population) -> Vec<u8> {
    let mut file = Vec::new();
    population.write(&mut file).expect("in memory");
    let mut plain = Vec::new();
    let mut source = source::decompress(Cursor::new(file)).expect("in memory");
    source.read_to_end(&mut plain).expect("whole");
    plain
}

fn reread(plain: &[u8]) -> Result<Population, CaptureError> {
    assert!(plain.starts_with(file::MAGIC));
    Population::read(&plain[file::MAGIC.len()..], Path::new("p"))
}

#[test]
fn queries_are_collected_by_client_in_the_order_of_time() {
    let population = collect(&[(7, 0, 1), (8, 30, 2), (7, 20, 1), (9, 40, 3)]);
    assert_eq!((population.clients(), population.len(), population.messages.len()), (3, 4, 3));
    let clients = by_client(&population);
    let times = |client| clients[&client].iter().map(|query| query.1).collect::<Vec<_>>();
    assert_eq!((times(0), times(1), times(2)), (vec![0, 20], vec![30], vec![40]));
    assert_eq!(clients[&0][0].2[..2], [0, 0], "the id");
    assert_eq!(clients[&0][0].2[2..], query(1)[2..]);
    assert_eq!(population.period().0 / 1_000, 53_333, "the span and a mean gap");
}

#[test]
fn clients_behave_as_they_do() {
    // Client 1 asks at 0, 1, 2 and 20 s, client 2 at 1 s; the period is 25 s.
    let population =
        collect(&[(1, 0, 1), (1, 1_000, 2), (2, 1_000, 3), (1, 2_000, 1), (1, 20_000, 6)]);
    let found = population.behaviour(Nanos::from_secs(10));
    assert_eq!((found.clients, found.queries, found.queries_per_client.max), (2, 5, 4.0));
    assert_eq!((found.think_s.count, found.idle_s.count), (3, 1));
    assert_eq!((found.think_s.p50, found.idle_s.max), (1.0, 18.0));
    assert_eq!((found.connections, found.most_open), (3, 2));
    // 12 s and 5 s of the first client, 10 s of the second.
    assert!((found.mean_open - 27.0 / 25.0).abs() < 1e-9, "{}", found.mean_open);
    let types: Vec<_> = found.types.iter().map(|kind| (&*kind.name, kind.count)).collect();
    assert_eq!(types, [("A", 3), ("MX", 2)]);
}

#[test]
fn too_many_clients_are_refused_with_the_number_there_is() {
    let population = collect(&[(1, 0, 1), (2, 500, 2), (1, 1_500, 1), (1, 2_500, 1)]);
    let period = population.period();
    assert!(period > Nanos::from_secs(3));
    let error = population.clone().with_clients(5, None, 1).expect_err("there are 4");
    assert!(matches!(error, TooFew::Clients { asked: 5, clients: 2, found: 4, .. }), "{error}");
    assert!(error.to_string().contains("shorter slices (--slice-length)"), "{error}");
    let four = population.clone().with_clients(4, None, 1).expect("3 slices have 4");
    assert_eq!((four.clients(), four.len()), (4, 4));
    assert_eq!(four.period().0, period.0 / 3);
    let error = population.with_clients(MAX_CLIENTS + 1, None, 1).expect_err("too many");
    assert_eq!(error, TooFew::Most(MAX_CLIENTS + 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fewer_and_more_clients_are_those_of_the_capture(
        queries in prop::collection::vec((0u8..12, 0u64..20_000, 0u64..30), 1..150), count in 1usize..60, seed: u64
    ) {
        let all = collect(&queries);
        let (clients, period) = (all.clients(), all.period());
        let whole = by_client(&all);
        let Ok(made) = all.clone().with_clients(count, None, seed) else {
            prop_assert!(count > clients);
            return Ok(());
        };
        prop_assert_eq!(made.clients(), count);
        prop_assert!(made.period() <= period);
        // Each client's queries are those of one client within one slice, all of them and in order.
        let length = made.period().0;
        let parts: BTreeSet<Vec<_>> = whole
            .values()
            .flat_map(|queries| {
                let slice = |query: &(IpAddr, u64, Vec<u8>)| query.1 * 1_000_000 / length;
                queries.chunk_by(move |a, b| slice(a) == slice(b))
            })
            .map(|part| part.iter().map(|query| (query.0, query.2.clone())).collect())
            .collect();
        for queries in by_client(&made).values() {
            let part: Vec<_> = queries.iter().map(|query| (query.0, query.2.clone())).collect();
            prop_assert!(parts.contains(&part), "{:?}", part);
        }
        prop_assert!(made.queries().all(|query| query.at < made.period()));
        prop_assert_eq!(all.with_clients(count, None, seed), Ok(made));
    }

    #[test]
    fn a_file_reads_back_and_a_part_of_it_does_not(
        queries in prop::collection::vec((0u8..12, 0u64..20_000, 0u64..30), 0..40), cut: prop::sample::Index
    ) {
        let population = collect(&queries);
        let plain = gunzipped(&population);
        prop_assert_eq!(reread(&plain).expect("whole"), population);
        let cut = cut.index(plain.len() - file::MAGIC.len()) + file::MAGIC.len();
        let error = reread(&plain[..cut]).expect_err("cut");
        let error = error.to_string();
        prop_assert!(error.starts_with("p: the population is cut short at byte "), "{}", error);
        prop_assert!(error.contains("; copy it again, or make it again"), "{}", error);
        let error = reread(&[&plain[..], &[0]].concat()).expect_err("too long").to_string();
        prop_assert!(error.contains("octets after the last query"), "{}", error);
    }

    #[test]
    fn any_octets_are_a_population_or_an_error(mut octets in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(clients) = octets.first_mut() {
            *clients %= 3;
        }
        if let Ok(population) = Population::read(&octets[..], Path::new("p")) {
            prop_assert_eq!(reread(&gunzipped(&population)).expect("written by us"), population);
        }
    }

    #[test]
    fn changed_files_are_read_or_refused(place: prop::sample::Index, value: u8) {
        let mut plain = gunzipped(&collect(&[(1, 0, 1), (2, 7, 2), (1, 9, 1)]));
        let place = file::MAGIC.len() + place.index(plain.len() - file::MAGIC.len());
        plain[place] = value;
        if let Ok(population) = reread(&plain) {
            prop_assert_eq!(reread(&gunzipped(&population)).expect("written by us"), population);
        }
    }
}

#[test]
fn queries_of_other_years_are_left_out() {
    let collect = |seconds: &[u64]| {
        let queries = seconds.iter().map(|&at_s| (1, Nanos::from_secs(at_s), at_s));
        let (population, left_out) = collector(queries).finish();
        (population.span(), left_out)
    };
    assert_eq!(collect(&[START, 2_147_483_000, START + 9]), (Nanos::from_secs(9), 1));
    assert_eq!(collect(&[0, START, START + 9]), (Nanos::from_secs(9), 1));
    assert_eq!(collect(&[1, 5, 9]), (Nanos::from_secs(8), 0));
    let (one, _) = (collect(&[START]), collect(&[]));
    assert_eq!(one, (Nanos::ZERO, 0));
}
