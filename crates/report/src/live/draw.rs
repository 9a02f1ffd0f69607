//! The picture of a [`State`], for terminals of any size.
//!
//! ```text
//!   what is run, and how to end it
//!   plan     ████████░░░░░░░ 5 of 12, 3 min, about 5 min left
//!   cell     unbound 1.22.0 cores=1, repeat 2
//!   goal     loss < 0.1 %: 41,000 qps passed, 52,000 failed
//!   last     the last trial: passed, failed or VOID
//!   trial    constant 20000 qps ███████░░░ 3 of 5 s
//!   rates    sent 20,000/s   valid 19,998/s   invalid 0   LOSS 2
//!   latency  p50 <100 us  p90 <200 us  p99 <500 us
//!   the rate over the trial (where there is room)
//!   latencies | CPU
//!   result of each cell | messages of the run (where there is room)
//! ```

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Padding, Paragraph, Sparkline, Wrap};

use super::screen::Screen;
use super::state::{CurrentTrial, Labels, LiveCell, Phase, Searching, State, Verdict};
use crate::view::number::counted;
use crate::view::{
    figure_name, full_bar, quantity, short_time_us, significant, span, thousands, with_unit,
};

/// Smallest width and height of a terminal that has room for more than the numbers, in columns and rows.
const MIN_FULL_SIZE: (u16, u16) = (60, 20);
/// Smallest width at which the cells are drawn beside the lines, in columns.
const MIN_WIDE_COLUMNS: u16 = 120;
/// Largest number of rows of latencies and CPU.
const MOST_ROWS: usize = 14;
/// Rates that a trial reports each second.
const RATES_A_SECOND: f64 = 4.0;
/// Width of the words before a value, in columns.
const LABEL_WIDTH: usize = 9;

/// Style in which the view is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether the picture has colours; without them it uses bold text and words only.
    pub colours: bool,
}

impl Paint {
    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::default().fg(colour) } else { Style::default() }
    }

    fn strong(self) -> Style {
        Style::default().add_modifier(Modifier::BOLD)
    }

    fn bar(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// Returns the style of counts that should be 0.
    fn bad(self, is_bad: bool) -> Style {
        if is_bad { self.colour(Color::Red).add_modifier(Modifier::BOLD) } else { Style::default() }
    }
}

/// Draws `state` in the view given by `screen`.
pub fn draw(frame: &mut Frame<'_>, state: &State, screen: &Screen, paint: Paint) {
    let area = frame.area();
    let roomy = area.width >= MIN_FULL_SIZE.0 && area.height >= MIN_FULL_SIZE.1;
    let lines = head(state, screen, paint, area.width);
    let above = Constraint::Length(lines.len() as u16);
    if roomy {
        // The plot of the rate and the messages share the height that the fixed parts leave.
        let rows = state.trial.as_ref().map_or(0, |trial| trial.now.latency_us.len());
        let body = Constraint::Length(rows.max(state.cpu.len()).clamp(3, MOST_ROWS) as u16 + 1);
        let parts = [above, Constraint::Fill(1), body, Constraint::Fill(1)];
        let [top, course, body, rest] = Layout::vertical(parts).areas(area);
        frame.render_widget(Paragraph::new(lines), top);
        self::course(frame, course, state, paint);
        self::body(frame, body, state, paint);
        self::rest(frame, rest, state, screen);
    } else {
        let [top, body] = Layout::vertical([above, Constraint::Min(0)]).areas(area);
        frame.render_widget(Paragraph::new(lines), top);
        self::body(frame, body, state, paint);
    }
    if screen.asking {
        overlay(frame, "End the run?", &question(state), paint);
    } else if screen.help {
        overlay(frame, "Keys", &HELP_LINES.map(str::to_owned), paint);
    }
}

/// Lines of the help that the key `?` shows.
const HELP_LINES: [&str; 8] = [
    "q          end the run, after a question",
    "Ctrl-C     end the run at once",
    "Up Down    scroll the messages, also k and j",
    "PgUp PgDn  scroll by ten messages",
    "Home End   go to the first or last message, also g and G",
    "?          these keys",
    "LOSS, VOID: these words mark the red and magenta parts.",
    "p50, p99: bounds of the running trial, in steps of 1, 2 and 5.",
];

/// Returns the question before the end of a run: the data that would be lost, and the data that are
/// kept.
fn question(state: &State) -> [String; 4] {
    let (done, of) = state.visits;
    let (elapsed, left) = (span(state.now.as_secs_f64()), span(state.remaining_s()));
    let course = match &state.phase {
        Phase::Visit(..) => {
            format!("{done} of {of} visits are done, in {elapsed}; about {left} are left.")
        }
        _ => format!("No visit has begun yet, after {elapsed}."),
    };
    [
        course,
        "Finished visits are kept; `dnsdyno run --resume last` continues.".to_owned(),
        String::new(),
        "y ends the run, any other key continues it".to_owned(),
    ]
}

/// Draws a box in the middle of the screen.
fn overlay(frame: &mut Frame<'_>, title: &str, lines: &[String], paint: Paint) {
    let area = frame.area();
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as u16;
    let width = (longest + 4).min(area.width);
    // Long lines are wrapped on a narrow terminal.
    let within = usize::from(width.saturating_sub(4)).max(1);
    let rows: usize = lines.iter().map(|l| l.chars().count().div_ceil(within).max(1)).sum();
    let height = (rows as u16 + 2).min(area.height);
    let (left, top) = ((area.width - width) / 2, (area.height - height) / 2);
    let place = Rect::new(left, top, width, height);
    let block = Block::bordered().title(format!(" {title} ")).padding(Padding::horizontal(1));
    let text: Vec<Line<'_>> = lines.iter().map(|line| Line::from(line.as_str())).collect();
    let text = Paragraph::new(text).block(block).wrap(Wrap { trim: false });
    frame.render_widget(Clear, place);
    frame.render_widget(text.style(paint.strong()), place);
}

/// Returns the lines that are always shown.
fn head(state: &State, screen: &Screen, paint: Paint, width: u16) -> Vec<Line<'static>> {
    let keys = if screen.ending { "ending: finished visits are kept" } else { "q ends, ? helps" };
    let form = state.plan.form().suffix();
    let name = format!("dnsdyno run {}{form}", state.plan.experiment);
    let gap = usize::from(width).saturating_sub(name.chars().count() + keys.chars().count());
    let title = Line::from(vec![
        Span::styled(name, paint.strong()),
        Span::raw(" ".repeat(gap.max(2))),
        Span::styled(keys, paint.bad(screen.ending)),
    ]);
    let (done, of) = state.visits;
    let elapsed = span(state.now.as_secs_f64());
    let left = span(state.remaining_s());
    let narrow = width < MIN_FULL_SIZE.0;
    let plan = match &state.phase {
        Phase::Visit(..) if narrow => format!("{done} of {of}, about {left} left"),
        Phase::Visit(..) => format!("{done} of {of} visits, {elapsed}, about {left} left"),
        Phase::SelfTest => format!("self-test of the Tester, {elapsed}"),
        Phase::Starting => format!("making the testbed, {elapsed}"),
    };
    let share = done as f64 / of.max(1) as f64;
    let cell = match &state.phase {
        Phase::Visit(cell, repeat) => format!("{cell}, repeat {}", repeat + 1),
        Phase::SelfTest => "the Measurer against the AuthDNS".to_owned(),
        Phase::Starting => String::new(),
    };
    // A narrow terminal needs the room for the name.
    let cell_word = if narrow { Span::raw("") } else { word("cell") };
    vec![
        title,
        with_bar("plan", share, plan, paint, width),
        Line::from(vec![cell_word, Span::styled(cell, paint.strong())]),
        search(&state.search),
        last(&state.search, paint),
        trial(state.trial.as_ref(), paint, width),
        rates(state.trial.as_ref(), narrow, paint),
        latency(state.trial.as_ref(), narrow, paint),
    ]
}

/// Returns the goal of the visit's trials, and the numbers that passed and failed so far.
fn search(found: &Searching) -> Line<'static> {
    let bracket = found.bracket().map(|bracket| bracket.words(&found.unit));
    let said = match (found.goal.as_str(), bracket) {
        ("", _) => "none yet".to_owned(),
        (goal, None) => goal.to_owned(),
        (goal, Some(bracket)) => format!("{goal}: {bracket}"),
    };
    Line::from(vec![word("goal"), Span::raw(said)])
}

/// Returns the verdict on the last trial.
fn last(found: &Searching, paint: Paint) -> Line<'static> {
    let Some((number, verdict)) = &found.last else {
        return Line::from(vec![word("last"), Span::raw("no trial has ended")]);
    };
    let (said, colour) = match verdict {
        Verdict::Passed => ("passed".to_owned(), Color::Green),
        Verdict::Failed => ("failed".to_owned(), Color::Red),
        Verdict::Ended => ("ended".to_owned(), Color::Reset),
        Verdict::Void(why) => (format!("VOID: {why}"), Color::Magenta),
    };
    let number = format!("{} {}: ", thousands(*number), found.unit);
    let style = paint.colour(colour).add_modifier(Modifier::BOLD);
    Line::from(vec![word("last"), Span::raw(number), Span::styled(said, style)])
}

/// Returns the percentiles of the running trial; its counters have bounds only.
fn latency(trial: Option<&CurrentTrial>, narrow: bool, paint: Paint) -> Line<'static> {
    let mut spans = if narrow { Vec::new() } else { vec![word("latency")] };
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let bound = trial.and_then(|trial| trial.now.latency_bound_us(share));
        let value = bound.map_or_else(|| "-".to_owned(), |us| format!("<{}", short_time_us(us)));
        spans.push(Span::raw(format!("{name} ")));
        spans.push(Span::styled(format!("{value}  "), paint.strong()));
    }
    Line::from(spans)
}

/// Returns the word before a value.
fn word(text: &str) -> Span<'static> {
    Span::raw(format!("{text:<LABEL_WIDTH$}"))
}

/// Returns a share as a bar between its name and its value.
fn with_bar(name: &str, share: f64, words: String, paint: Paint, width: u16) -> Line<'static> {
    let room = usize::from(width).saturating_sub(LABEL_WIDTH + words.chars().count() + 1).min(30);
    let mut spans = vec![word(name)];
    if room >= 5 {
        spans.extend(bar(share, room, paint));
        spans.push(Span::raw(" "));
    }
    spans.push(Span::raw(words));
    Line::from(spans)
}

/// Returns a bar of `room` columns, of which `share` (0 to 1) is full.
fn bar(share: f64, room: usize, paint: Paint) -> [Span<'static>; 2] {
    let full = full_bar(share, room);
    let rest = "·".repeat(room.saturating_sub(full.chars().count()));
    [Span::styled(full, paint.bar()), Span::raw(rest)]
}

fn trial(trial: Option<&CurrentTrial>, paint: Paint, width: u16) -> Line<'static> {
    let Some(trial) = trial else { return Line::from(vec![word("trial"), Span::raw("none yet")]) };
    let other = if trial.compares { "answers are compared" } else { "another generator" };
    let pacing = trial.pacing.map_or(other.to_owned(), measure::Pacing::describe);
    let (at, whole) = (trial.now.at_s, trial.duration.as_secs_f64());
    if trial.ended {
        return Line::from(vec![word("trial"), Span::raw(format!("{pacing}, ended"))]);
    }
    if whole == 0.0 {
        return Line::from(vec![word("trial"), Span::raw(format!("{pacing}, {at:.0} s"))]);
    }
    let words = format!("{pacing}, {:.0} of {whole:.0} s", at.min(whole));
    with_bar("trial", at / whole, words, paint, width)
}

fn rates(trial: Option<&CurrentTrial>, narrow: bool, paint: Paint) -> Line<'static> {
    let Some(trial) = trial else { return Line::from(word("rates")) };
    let number = thousands;
    let (sent, valid) = trial.rate();
    let (lost, bad) = (trial.now.lost, trial.now.bad);
    if trial.compares {
        let asked = format!("asked {}/s  alike {}/s  ", number(sent), number(valid));
        let unlike = Span::styled(format!("unlike {}", number(bad as f64)), paint.bad(bad > 0));
        let line = vec![Span::raw(asked), unlike];
        return Line::from(if narrow { line } else { [vec![word("rates")], line].concat() });
    }
    let (invalid, bad_count) = (bad.saturating_sub(lost), bad);
    let loss = match lost {
        0 => "lost 0".to_owned(),
        lost => {
            let percent = 100.0 * lost as f64 / trial.now.sent.max(1) as f64;
            format!("LOSS {} ({} %)", number(lost as f64), significant(percent))
        }
    };
    if narrow {
        let rates = format!("sent {}/s  valid {}/s  ", number(sent), number(valid));
        let bad = match lost {
            0 => format!("bad {}", number(bad as f64)),
            lost => format!("LOSS {}", number(lost as f64)),
        };
        let bad = Span::styled(bad, paint.bad(bad_count > 0));
        return Line::from(vec![Span::raw(rates), bad]);
    }
    Line::from(vec![
        word("rates"),
        Span::raw("sent "),
        Span::styled(format!("{}/s", number(sent)), paint.strong()),
        Span::raw("  valid "),
        Span::styled(format!("{}/s", number(valid)), paint.strong()),
        Span::raw("  "),
        Span::styled(format!("invalid {}", number(invalid as f64)), paint.bad(invalid > 0)),
        Span::raw("  "),
        Span::styled(loss, paint.bad(lost > 0)),
    ])
}

/// Draws the rate of valid answers over the trial.
fn course(frame: &mut Frame<'_>, area: Rect, state: &State, paint: Paint) {
    let rates = state.trial.iter().flat_map(|trial| &trial.rates);
    let valid: Vec<u64> = rates.map(|(_, valid)| *valid as u64).collect();
    // The whole trial fills the width as far as its length is known; of a longer one the newest rates are at the right edge.
    let whole =
        state.trial.as_ref().map_or(0.0, |trial| trial.duration.as_secs_f64() * RATES_A_SECOND);
    let room = usize::from(area.width);
    let each = (room / valid.len().max(whole as usize).max(1)).max(1);
    let from = valid.len().saturating_sub(room / each);
    let wide: Vec<u64> = valid[from..].iter().flat_map(|rate| vec![*rate; each]).collect();
    let highest = valid.iter().copied().max().unwrap_or(0);
    let title = format!("valid answers a second, highest {}", thousands(highest as f64));
    let line = Sparkline::default()
        .block(Block::default().borders(Borders::TOP).title(title))
        .data(&wide)
        .style(paint.bar());
    frame.render_widget(line, area);
}

/// Draws latencies and CPU, side by side if there is room.
fn body(frame: &mut Frame<'_>, area: Rect, state: &State, paint: Paint) {
    let of_roles = state.cpu.len().max(3) as u16 + 1;
    let [left, right] = if area.width >= MIN_FULL_SIZE.0 {
        Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).spacing(1).areas(area)
    } else {
        let least = of_roles.min(area.height);
        Layout::vertical([Constraint::Min(0), Constraint::Length(least)]).areas(area)
    };
    // Several Testers report no latencies during the sending.
    match state.trial.as_ref().filter(|trial| !trial.testers.is_empty()) {
        Some(trial) => panel(frame, left, "Testers", |room, _| testers(trial, paint, room)),
        None => panel(frame, left, "latency of replies", |room, lines| {
            latencies(state.trial.as_ref(), room, lines, paint)
        }),
    }
    panel(frame, right, "busy share of the cores of", |room, _| {
        let share = |(role, share): &(&'static str, f64)| {
            let words = format!("{:3.0} %", share * 100.0);
            with_bar(role, *share, words, paint, room)
        };
        state.cpu.iter().map(share).collect()
    });
}

/// Draws lines under a title; `lines` receives the available columns and lines.
fn panel(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: impl FnOnce(u16, usize) -> Vec<Line<'static>>,
) {
    let block = Block::default().borders(Borders::TOP).title(title.to_owned());
    let inner = block.inner(area);
    frame.render_widget(block, area);
    frame.render_widget(Paragraph::new(lines(inner.width, usize::from(inner.height))), inner);
}

/// Returns a line for each range of latencies; without room for all, the lowest ranges are merged.
fn latencies(
    trial: Option<&CurrentTrial>,
    room: u16,
    lines: usize,
    paint: Paint,
) -> Vec<Line<'static>> {
    let Some(trial) = trial else { return Vec::new() };
    let spans = &trial.now.latency_us;
    let cut = spans.len().saturating_sub(lines.max(1));
    let mut shown: Vec<(f64, u64)> = spans[cut..].to_vec();
    if let Some((_, count)) = shown.first_mut() {
        *count += spans[..cut].iter().map(|(_, count)| count).sum::<u64>();
    }
    let most = shown.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let line = |(bound, count): &(f64, u64)| {
        let name = format!("<{}", short_time_us(*bound));
        let words = format!("{:>9}", thousands(*count as f64));
        with_bar(&name, *count as f64 / most as f64, words, paint, room)
    };
    shown.iter().map(line).collect()
}

/// Returns a line for each Tester: its rate, and its lost or invalid replies.
fn testers(trial: &CurrentTrial, paint: Paint, room: u16) -> Vec<Line<'static>> {
    let line = |(name, sent, bad): &(String, f64, u64)| {
        let rate = if trial.ended { 0.0 } else { *sent };
        let sent = format!("{}/s ", thousands(rate));
        let bad = (*bad > 0).then(|| format!("BAD {} ", thousands(*bad as f64)));
        let bad = bad.unwrap_or_default();
        let left = usize::from(room).saturating_sub(sent.chars().count() + bad.chars().count());
        vec![
            Span::styled(sent, paint.strong()),
            Span::styled(bad, paint.bad(true)),
            Span::raw(name.chars().take(left).collect::<String>()),
        ]
    };
    trial.testers.iter().map(|one| Line::from(line(one))).collect()
}

/// Draws the messages, the last ones unless they are scrolled, and next to them the results of the
/// cells if there is room.
fn rest(frame: &mut Frame<'_>, area: Rect, state: &State, screen: &Screen) {
    let lines = if area.width >= MIN_WIDE_COLUMNS {
        let sides = [Constraint::Fill(2), Constraint::Fill(3)];
        let [cells, lines] = Layout::horizontal(sides).spacing(1).areas(area);
        panel(frame, cells, "cells", |_, lines| self::cells(state, lines));
        lines
    } else {
        area
    };
    let title = match screen.back {
        0 => "messages".to_owned(),
        back => format!("messages, {back} newer ones below (End shows them)"),
    };
    panel(frame, lines, &title, |_, lines| {
        let (kept, _) = state.lines();
        let end = kept.len().saturating_sub(screen.back).max(lines.min(kept.len()));
        let shown = kept.skip(end.saturating_sub(lines)).take(lines);
        shown.map(|line| Line::from(line.clone())).collect()
    });
}

/// Returns a line for each cell, around the one that is visited.
fn cells(state: &State, lines: usize) -> Vec<Line<'static>> {
    let current = state.cells.keys().position(|labels| Some(labels) == state.current.as_ref());
    let last = state.cells.len().saturating_sub(lines);
    let from = current.map_or(0, |place| place.saturating_sub(lines / 2)).min(last);
    let line = |(labels, cell): (&Labels, &LiveCell)| {
        let mark = if Some(labels) == state.current.as_ref() { "> " } else { "  " };
        Line::from(format!("{mark}{}: {}", cell.name, found(cell)))
    };
    state.cells.iter().skip(from).take(lines).map(line).collect()
}

/// Returns the result of a cell so far.
fn found(cell: &LiveCell) -> String {
    if let Some(capacity) = cell.capacity_qps {
        return with_unit(capacity, "qps");
    }
    match cell.figures.iter().next() {
        Some(((name, unit), value)) => {
            format!("{} {}", figure_name(name), quantity(*value, unit))
        }
        None if cell.trials > 0 => counted(cell.trials as usize, "trial", "trials"),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests;
