//! Which of two servers is faster, in a sentence.

use record::Run;

/// Returns the sentence about two servers of which one has a ratio to the other; `None` for other runs.
pub(crate) fn faster(run: &Run) -> Option<String> {
    let [a, b] = &run.results[..] else { return None };
    let (cell, base) = if b.ratio.is_some() { (b, a) } else { (a, b) };
    let (ratio, capacity) = (cell.ratio.as_ref()?, cell.capacity.as_ref()?);
    if !base.is(&ratio.baseline, &cell.settings) {
        return None;
    }
    let bounds = [cell.is_bound(), base.is_bound()];
    let (name, base) = (&cell.server, &base.server);
    let sure = format!("{:.0} % sure", capacity.confidence * 100.0);
    let [low, high] = [ratio.low, ratio.high].map(|ratio| (ratio - 1.0) * 100.0);
    Some(match bounds {
        [false, false] if low > 0.0 => {
            format!("{name} is faster than {base}: by {low:.1} to {high:.1} %, {sure}")
        }
        [false, false] if high < 0.0 => {
            format!("{name} is slower than {base}: by {:.1} to {:.1} %, {sure}", -high, -low)
        }
        [true, false] if low > 0.0 => {
            format!("{name} is faster than {base}: by at least {low:.1} %, {sure}")
        }
        [false, true] if high < 0.0 => {
            format!("{name} is slower than {base}: by at least {:.1} %, {sure}", -high)
        }
        [false, false] => format!(
            "no difference shown: {name} is {:.3} to {:.3} times as fast as {base}, {sure}",
            ratio.low, ratio.high
        ),
        _ => format!("no difference shown: {name} or {base} was not at its limit"),
    })
}

#[cfg(test)]
mod tests {
    use record::{CapacityRatio, CellRecord, ServerCapacity};

    use super::*;

    #[test]
    fn the_faster_server_is_named_and_a_bound_is_no_verdict() {
        let cell = |server: &str, exceeded: bool, ratio: Option<(f64, f64)>| {
            let mut cell = CellRecord::new(server, [].into(), "capacity");
            cell.capacity =
                Some(ServerCapacity { exceeded, confidence: 0.95, ..ServerCapacity::default() });
            let ratio = ratio.map(|(low, high)| CapacityRatio {
                baseline: "A".to_owned(),
                value: 1.0,
                low,
                high,
            });
            CellRecord { ratio, ..cell }
        };
        let none = "no difference shown: B or A was not at its limit";
        for (bounds, ratio, wanted) in [
            ([false; 2], (1.049, 1.126), "B is faster than A: by 4.9 to 12.6 %, 95 % sure"),
            ([false; 2], (0.617, 0.681), "B is slower than A: by 31.9 to 38.3 %, 95 % sure"),
            (
                [false; 2],
                (0.94, 1.05),
                "no difference shown: B is 0.940 to 1.050 times as fast as A, 95 % sure",
            ),
            ([false, true], (1.049, 1.126), "B is faster than A: by at least 4.9 %, 95 % sure"),
            ([true, false], (0.617, 0.681), "B is slower than A: by at least 31.9 %, 95 % sure"),
            ([true, false], (1.049, 1.126), none),
            ([true, true], (1.049, 1.126), none),
        ] {
            let results = vec![cell("A", bounds[0], None), cell("B", bounds[1], Some(ratio))];
            assert_eq!(faster(&Run { results, ..Run::default() }).as_deref(), Some(wanted));
        }
        let alone = vec![cell("A", false, None)];
        assert_eq!(faster(&Run { results: alone, ..Run::default() }), None);
    }
}
