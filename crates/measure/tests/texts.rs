//! Any input text is either read or refused with a message that says what would be accepted.

use measure::{
    Goal, Histogram, HttpMethod, Limiter, Link, Nanos, Pacing, Path, Qps, TlsVersion, Transport,
    WaitMode, WriteMode,
};
use proptest::prelude::*;

#[test]
fn words_are_those_of_the_json_and_read_back() {
    macro_rules! check {
        ($($kind:ty),+) => {$(
            for value in <$kind>::ALL {
                let word = serde_json::json!(value);
                assert_eq!(word, value.word());
                assert_eq!(serde_json::from_value::<$kind>(word).expect("a word"), value);
                assert_eq!(value.to_string().parse(), Ok(value));
            }
            assert!("fast".parse::<$kind>().is_err());
        )+};
    }
    check!(HttpMethod, Limiter, Link, Path, TlsVersion, Transport, WaitMode, WriteMode);
    let error = "fast".parse::<Link>().unwrap_err().to_string();
    assert_eq!(error, "`fast` is none of plain, moderated, steered");
    assert_eq!((Path::chosen("wire"), Path::chosen("one-host").is_err()), (Ok(Path::Wire), true));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
        let _ = (text.parse::<Goal>(), text.parse::<Limiter>());
        let _ = (text.parse::<Link>(), text.parse::<Path>(), text.parse::<Transport>());
        if let Err(e) = text.parse::<Qps>() {
            prop_assert!(e.to_string().contains("a rate such as"));
        }
        if let Err(e) = text.parse::<Nanos>() {
            prop_assert!(e.to_string().contains("a duration such as"));
        }
    }

    #[test]
    fn a_pacing_is_printed_as_it_is_read(
        text in "(constant|poisson|ramp|window|lockstep)? ?[0-9]{0,3}[.kM]?[0-9]?(x|\\.\\.| at most )?[0-9]{0,3}k?( then [0-9]s)?"
    ) {
        match text.parse::<Pacing>() {
            Ok(pacing) => prop_assert_eq!(pacing.to_string().parse(), Ok(pacing)),
            Err(e) => prop_assert!(e.to_string().contains("is not a pacing"), "{}", e),
        }
    }

    #[test]
    fn goals_survive_printing_and_reading(loss in 0u32..100_000, quantiles in prop::collection::btree_map(1u32..100_000, 1u64..10_000_000, 0..4)) {
        let goal = Goal {
            max_loss: f64::from(loss) / 1e5,
            latency: quantiles.into_iter().map(|(q, us)| (f64::from(q) / 1e5, Nanos::from_micros(us))).collect(),
        };
        let back: Goal = goal.to_string().parse().expect("own text");
        prop_assert!((back.max_loss - goal.max_loss).abs() < 1e-9);
        prop_assert_eq!(back.latency.len(), goal.latency.len());
        for (a, b) in back.latency.iter().zip(&goal.latency) {
            prop_assert!((a.0 - b.0).abs() < 1e-9 && a.1 == b.1, "{} {:?}", goal, back);
        }
    }

    #[test]
    fn rates_with_suffixes_are_read(k in 1u32..10_000_000) {
        prop_assert_eq!(format!("{k}k").parse(), Ok(Qps::new(f64::from(k) * 1e3).expect("a rate")));
        prop_assert_eq!(k.to_string().parse(), Ok(Qps::new(f64::from(k)).expect("a rate")));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Histogram::decode(&bytes);
    }
}
