//! Shares of the workers: of clients, and of a window, with the room that each client needs for it.

use load::pipeline::MAX_OUTSTANDING;
use record::request::Pick;

use crate::error::Invalid;

/// Returns the share of `worker` among `workers` of `n` things.
pub(crate) fn share_of(worker: u32, workers: u32, n: u32) -> u32 {
    n / workers + u32::from(worker < n % workers)
}

/// Returns the number of queries that each client may have outstanding, so that the clients of
/// every worker have room for the worker's part of a window.
///
/// # Errors
/// If there are too few clients for the window: a connection has 65,536 ids.
pub(crate) fn room_in_window(
    window: u32,
    clients: u32,
    workers: u32,
    pick: Pick,
) -> Result<u32, Invalid> {
    let of_worker = |worker| {
        let share = |n| share_of(worker, workers, n);
        share(window).div_ceil(share(clients).max(1))
    };
    let even = (0..workers).map(of_worker).max().unwrap_or(1).max(1);
    if even > MAX_OUTSTANDING {
        let needed = window.div_ceil(workers).div_ceil(MAX_OUTSTANDING) * workers;
        let why = format!(
            "a window of {window} queries needs {needed} clients or more: each has at most {MAX_OUTSTANDING} outstanding"
        );
        return Err(Invalid::value("pacing", why));
    }
    let room = match pick {
        Pick::Turn => even,
        // Far more than a random client has at a time.
        Pick::Chance => even.saturating_mul(4).saturating_add(16).min(window),
    };
    Ok(room.min(MAX_OUTSTANDING))
}

/// Largest number of queries that a client has outstanding unless more are requested: there are
/// four ids for each query, so that a late reply is recognised.
pub(crate) const MOST_OF_CLIENT: u32 = MAX_OUTSTANDING / 4;

/// Returns the number of queries that each client of an open loop may have outstanding: its share
/// of 65,536, but 32 at least.
pub(crate) fn room_in_open_loop(clients: u32) -> u32 {
    (MAX_OUTSTANDING / clients).clamp(32, MOST_OF_CLIENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that the clients of every worker have room for its part of a window.
    fn assert_whole(window: u32, clients: u32, workers: u32, room: u32) {
        for worker in 0..workers {
            let share = |n| share_of(worker, workers, n);
            let whole = u64::from(share(clients)) * u64::from(room) >= u64::from(share(window));
            assert!(whole, "{window} on {clients} clients of {workers} workers: {room}");
        }
    }

    #[test]
    fn the_clients_of_every_worker_have_room_for_its_part_of_a_window() {
        for (workers, clients, window) in (1..5)
            .flat_map(|workers| (workers..12).map(move |clients| (workers, clients)))
            .flat_map(|(workers, clients)| (1..60).map(move |n| (workers, clients, n)))
        {
            for pick in [Pick::Turn, Pick::Chance] {
                let room = room_in_window(window, clients, workers, pick).expect("few");
                assert_whole(window, clients, workers, room);
            }
        }
    }

    #[test]
    fn few_clients_have_room_for_an_open_loop() {
        let room = [1, 2, 8, 64, 2_048, 200_000].map(room_in_open_loop);
        assert_eq!(room, [16_384, 16_384, 8_192, 1_024, 32, 32]);
    }

    #[test]
    fn a_window_that_the_clients_have_no_room_for_is_refused_and_they_are_counted() {
        for (window, clients, workers, needed) in
            [(65_537, 1, 1, 2), (1 << 20, 8, 1, 16), (140_000, 3, 2, 4), (u32::MAX, 1, 1, 65_536)]
        {
            for pick in [Pick::Turn, Pick::Chance] {
                let error = room_in_window(window, clients, workers, pick).expect_err("too few");
                assert!(error.to_string().contains(&format!("needs {needed} clients")), "{error}");
                let room = room_in_window(window, needed, workers, pick).expect("enough");
                assert_whole(window, needed, workers, room);
            }
        }
        assert_eq!(room_in_window(65_536, 1, 1, Pick::Turn).expect("one each"), 65_536);
    }
}
