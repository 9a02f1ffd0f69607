//! Tests of the texts of known behaviour, and of the times of stalls.

use proptest::prelude::*;

use super::*;

fn qps(rate: f64) -> Qps {
    Qps::new(rate).expect("a rate")
}

#[test]
fn capacities_are_read_with_their_burst() {
    for (text, rate, burst) in [
        ("20k", 20_000.0, 200),
        ("20k:50", 20_000.0, 50),
        ("20k:5ms", 20_000.0, 100),
        ("1.5M:1", 1_500_000.0, 1),
        ("50", 50.0, 1),
    ] {
        assert_eq!(text.parse(), Ok(Capacity { rate: qps(rate), burst }), "{text}");
    }
}

#[test]
fn stalls_latencies_and_late_replies_are_read() {
    let (ms, us) = (Nanos::from_millis, Nanos::from_micros);
    assert_eq!("50ms/5s".parse(), Ok(Stall { length: ms(50), period: ms(5_000) }));
    assert_eq!(
        "bimodal:0.9:200us:20ms".parse(),
        Ok(Latency::Bimodal { share: 0.9, low: us(200), high: ms(20) })
    );
    assert_eq!(
        "bimodal:1:0s:1ms".parse(),
        Ok(Latency::Bimodal { share: 1.0, low: Nanos::ZERO, high: ms(1) })
    );
    assert_eq!("0.01:2s".parse(), Ok(Late { share: 0.01, after: ms(2_000) }));
}

#[test]
fn errors_name_the_place_and_what_is_accepted() {
    fn error<T: FromStr<Err = BehaviourError> + fmt::Debug>(text: &str) -> BehaviourError {
        text.parse::<T>().expect_err(text)
    }
    let table = [
        (error::<Capacity>("x"), 1, "not a number"),
        (error::<Capacity>("0"), 1, "greater than zero"),
        (error::<Capacity>("20k:"), 5, "`` is not a burst"),
        (error::<Capacity>("20k:fast"), 5, "`fast` is not a burst"),
        (error::<Capacity>("20k:0"), 5, "1 to 4,294,967,295"),
        (error::<Stall>("50ms"), 5, "`/` is missing"),
        (error::<Stall>("0s/5s"), 1, "the time is zero"),
        (error::<Stall>("50ms/x"), 6, "`x` is not a duration"),
        (error::<Stall>("5s/50ms"), 4, "not longer than the stall"),
        (error::<Latency>("normal:1:1ms:2ms"), 1, "`normal` is not a distribution"),
        (error::<Latency>("bimodal"), 8, "`:` is missing"),
        (error::<Latency>("bimodal:2:1ms:2ms"), 9, "`2` is not a share from 0 to 1"),
        (error::<Latency>("bimodal:0.5:1ms"), 16, "`:` is missing"),
        (error::<Latency>("bimodal:0.5:3ms:2ms"), 17, "less than the low time"),
        (error::<Late>("0.5"), 4, "`:` is missing"),
        (error::<Late>("-1:2s"), 1, "`-1` is not a share"),
        (error::<Late>("NaN:2s"), 1, "`NaN` is not a share"),
        (error::<Late>("0.5:0s"), 5, "the time is zero"),
        (error::<Late>("½:2s"), 1, "`½` is not a share"),
    ];
    for (error, at, why) in table {
        assert_eq!(error.at, at, "{error}");
        assert!(error.why.contains(why), "{error}");
        assert!(error.to_string().contains("; write "), "{error}");
    }
}

#[test]
fn a_stall_is_the_end_of_each_period() {
    let stall = Stall { length: Nanos(50), period: Nanos(1_000) };
    for (at, resume, next) in [
        (0, 0, 950),
        (949, 949, 950),
        (950, 1_000, 950),
        (999, 1_000, 999),
        (1_000, 1_000, 1_950),
        (5_951, 6_000, 5_951),
    ] {
        assert_eq!(stall.resume(Nanos(at)), Nanos(resume), "{at}");
        assert_eq!(stall.next(Nanos(at)), Nanos(next), "{at}");
    }
}

/// Times that a duration can print exactly, in nanoseconds.
fn times() -> impl Strategy<Value = Nanos> {
    (1u64..3_600_000_000_000).prop_map(Nanos)
}

proptest! {
    #[test]
    fn printed_texts_read_as_the_same(
        rate in 0.1f64..10e6,
        burst in 1u32..,
        share in 0f64..=1.0,
        (low, more) in (times(), times()),
    ) {
        let capacity = Capacity { rate: qps(rate), burst };
        prop_assert_eq!(capacity.to_string().parse(), Ok(capacity));
        let stall = Stall { length: low, period: low + more };
        prop_assert_eq!(stall.to_string().parse(), Ok(stall));
        let latency = Latency::Bimodal { share, low, high: low + more };
        prop_assert_eq!(latency.to_string().parse(), Ok(latency));
        let late = Late { share, after: low };
        prop_assert_eq!(late.to_string().parse(), Ok(late));
    }

    #[test]
    fn any_text_is_read_or_refused_at_a_place_in_it(text in "(bimodal)?[0-9a-z.:/ \u{80}-\u{2ff}]{0,24}") {
        let places = text.chars().count() + 1;
        let errors = [
            text.parse::<Capacity>().err(),
            text.parse::<Stall>().err(),
            text.parse::<Latency>().err(),
            text.parse::<Late>().err(),
        ];
        for error in errors.into_iter().flatten() {
            prop_assert!((1..=places).contains(&error.at), "{}", error);
            prop_assert!(error.to_string().contains(&text), "{}", error);
        }
    }
}
