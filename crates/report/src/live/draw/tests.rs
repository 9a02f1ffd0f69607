//! Tests of the drawing of the live view.

use measure::{Nanos, Pacing, Qps, Void};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use record::{CellRecord, Plan, Snapshot, TesterCount, TrialRecord, Voidness};

use super::super::VisitProgress;
use super::*;

/// Makes the state of a search in its second visit.
fn state() -> State {
    let mut state = State::default();
    let plan = Plan { experiment: "dns64-rfc8219".into(), quick: true, ..Plan::default() };
    let cell = |server: &str| {
        let mut cell = CellRecord::new(server, [("cores".into(), "1".into())].into(), "search");
        cell.server_version = Some("1.22.0".into());
        cell
    };
    let cells = ["dns64d", "unbound", "bind9"].map(cell);
    let remaining = Nanos::from_secs(300);
    state.begun(&plan);
    state.planned(&cells, remaining);
    state.visit(&cells[1], 0, VisitProgress { number: 2, of: 3, remaining });
    let pacing = Pacing::Constant { rate: Qps::new(20_000.0).expect("a rate") };
    for (rate_qps, passed) in [(10_000.0, Some(true)), (30_000.0, Some(false)), (25_000.0, None)] {
        let mut trial = crate::tests::trial();
        (trial.goal, trial.passed) = (Some("zero-loss".into()), passed);
        trial.void = Voidness(passed.is_none().then_some(Void::Interrupted));
        state.trial(&cells[1], &TrialRecord { repeat: 0, rate_qps, trial });
    }
    state.begin_trial(Some(pacing), Nanos::from_secs(5));
    state.cpu(vec![("tester", 0.62), ("authdns", 0.08), ("dut", 0.951)]);
    let spans = [(50.0, 310), (100.0, 41_000), (200.0, 17_500), (500.0, 900), (10_000.0, 12)];
    for quarter in 1..=12 {
        let valid = quarter * 4_900 + quarter % 3 * 40;
        state.load(Snapshot {
            at_s: quarter as f64 * 0.25,
            sent: quarter * 5_000,
            valid,
            answered: valid + 1,
            bad: 4,
            lost: 3,
            latency_us: spans.to_vec(),
            ..Snapshot::default()
        });
    }
    state.say("dns64d cores=1, 1 of 1: 41,200 qps, limited by the server".into());
    state.say("[2/3, about 5 min left] unbound cores=1, repeat 1".into());
    state.say("  Unbound 1.22.0".into());
    state
}

#[test]
fn each_of_several_testers_is_shown() {
    let mut state = state();
    for second in [1, 2] {
        let testers = [("rank 1 (host a, process 7)", 10), ("rank 2 (host b, process 8)", 20)];
        let count = |(name, rate): (&str, u64)| TesterCount {
            name: name.to_owned(),
            sent: second * rate * 1_000,
            bad: rate - 10,
        };
        state.load(Snapshot {
            at_s: 3.0 + second as f64,
            testers: testers.into_iter().map(count).collect(),
            ..Snapshot::default()
        });
    }
    let (shown, _) = picture(&state, 100, 30, false);
    assert!(shown.contains("10,000/s rank 1 (host a, process 7)"), "{shown}");
    assert!(shown.contains("20,000/s BAD 10 rank 2 (host b, process 8)"), "{shown}");
    assert!(!shown.contains("latency of replies"), "{shown}");
    // Also where there is little room.
    let (shown, _) = picture(&state, 40, 16, false);
    assert!(shown.contains("BAD 10 rank 2"), "{shown}");
}

/// Draws on a terminal of that size; returns its text without blanks at the ends of lines, and whether it has
/// colours.
fn picture(state: &State, width: u16, height: u16, colours: bool) -> (String, bool) {
    on_screen(state, &Screen::default(), width, height, colours)
}

fn on_screen(
    state: &State,
    screen: &Screen,
    width: u16,
    height: u16,
    colours: bool,
) -> (String, bool) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    let paint = Paint { colours };
    terminal.draw(|frame| draw(frame, state, screen, paint)).expect("draws");
    let buffer = terminal.backend().buffer();
    let coloured = buffer.content.iter().any(|cell| cell.fg != Color::Reset);
    let lines = buffer.content.chunks(usize::from(width)).map(|line| {
        line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
    });
    (lines.collect::<Vec<_>>().join("\n"), coloured)
}

#[test]
fn a_screen_of_80_columns_has_all_parts() {
    let (picture, coloured) = picture(&state(), 80, 24, true);
    let wanted = include_str!("screen.txt");
    assert!(coloured && picture.trim_end() == wanted.trim_end(), "\n{picture}");
}

#[test]
fn a_comparison_shows_what_is_unlike() {
    let mut state = state();
    state.begin_comparison();
    let counted = |at_s, sent, bad| Snapshot {
        at_s,
        sent,
        answered: sent,
        valid: sent - bad,
        bad,
        ..Snapshot::default()
    };
    state.load(counted(1.0, 300, 0));
    state.load(counted(2.0, 600, 48));
    for width in [40, 120] {
        let (picture, _) = picture(&state, width, 30, false);
        let parts = ["asked 300/s", "alike 252/s", "unlike 48"];
        assert!(parts.iter().all(|part| picture.contains(part)), "{picture}");
        assert!(!picture.contains("another generator"), "{picture}");
    }
}

#[test]
fn small_terminals_show_the_numbers_and_large_ones_the_cells() {
    let (small, _) = picture(&state(), 40, 15, true);
    for part in ["1 of 3, about 5 min left", "cores=1, repeat 1", "LOSS 3", "p99 <500 us", "dut  "]
    {
        assert!(small.contains(part), "{part}\n{small}");
    }
    assert!(!small.contains("messages"), "{small}");
    let (large, _) = picture(&state(), 200, 60, true);
    for part in [
        "> unbound 1.22.0 cores=1: 3 trials",
        "  dns64d 1.22.0 cores=1: -",
        "Unbound 1.22.0",
        "invalid 1  LOSS 3 (0.005 %)",
        "zero-loss: 10,000 qps passed, 30,000 failed",
        "last     25,000 qps: VOID: ",
    ] {
        assert!(large.contains(part), "{part}\n{large}");
    }
}

#[test]
fn the_question_the_help_and_old_messages_are_shown() {
    let mut state = state();
    (0..100).for_each(|i| state.say(format!("message {i}.")));
    let mut screen = Screen::default();
    let shows =
        |screen: &Screen, part: &str| on_screen(&state, screen, 80, 30, true).0.contains(part);
    screen.typed(b"q", 103);
    assert!(shows(&screen, "1 of 3 visits are done") && shows(&screen, "y ends the run"));
    screen.typed(b"n?", 103);
    assert!(shows(&screen, "PgUp PgDn") && !shows(&screen, "End the run?"));
    screen.typed(b"?\x1b[5~", 103);
    assert!(shows(&screen, "10 newer ones below") && shows(&screen, "message 89."));
    assert!(!shows(&screen, "message 90."));
    screen.typed(b"\x1b[H", 103);
    assert!(shows(&screen, "dns64d cores=1, 1 of 1: 41,200 qps"));
    screen.typed(b"\x1b[F\x03", 103);
    assert!(shows(&screen, "message 99.") && shows(&screen, "ending: finished visits are kept"));
}

#[test]
fn a_tall_terminal_has_a_tall_plot() {
    let bars = |height| picture(&state(), 100, height, true).0.matches('█').count();
    assert!(bars(60) > 2 * bars(30), "{} {}", bars(60), bars(30));
}

#[test]
fn any_size_can_be_drawn_and_without_colours() {
    for state in [state(), State::default()] {
        for (width, height) in [(1, 1), (9, 3), (20, 5), (60, 20), (61, 7), (300, 100)] {
            let mut screen = Screen::default();
            for typed in [&b""[..], b"q", b"n?"] {
                screen.typed(typed, 3);
                assert!(!on_screen(&state, &screen, width, height, false).1);
            }
        }
    }
}

#[test]
fn bars_are_as_long_as_their_share() {
    let long = |share| {
        let [full, rest] = bar(share, 10, Paint { colours: false });
        (full.content.into_owned(), rest.content.chars().count())
    };
    assert_eq!(long(0.0), (String::new(), 10));
    assert_eq!(long(0.55), ("█████▌".to_owned(), 4));
    assert_eq!(long(2.0), ("█".repeat(10), 0));
    assert_eq!(long(f64::NAN), (String::new(), 10));
}
