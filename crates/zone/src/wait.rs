//! Waits of workers that send the items of a stream at a pace.

use std::time::{Duration, Instant};

/// Interval at which a waiting worker checks whether it must end.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until an item is due; returns false if `is_over` is true before.
pub fn wait_until(due: Instant, is_over: impl Fn() -> bool) -> bool {
    while !is_over() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(CHECK_INTERVAL));
    }
    false
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_wait_ends_when_it_is_due_or_when_all_is_over() {
        let began = Instant::now();
        let due = began + Duration::from_millis(5);
        assert!(wait_until(due, || false) && Instant::now() >= due);
        assert!(!wait_until(began, || true), "over is over, also for what is due");
        let looks = Cell::new(0);
        let over = || looks.replace(looks.get() + 1) == 2;
        assert!(!wait_until(began + Duration::from_secs(86_400), over));
        assert_eq!(looks.get(), 3);
    }
}
