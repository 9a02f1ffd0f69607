//! The user's view of a run in addition to its state: the scroll position of the messages, the
//! help, and the question before the end.

/// Number of messages that a page key scrolls.
const PAGE_MESSAGES: usize = 10;
/// Octet of Ctrl-C in raw mode.
const CONTROL_C: u8 = 3;
/// Octet that begins the keys of several octets.
const ESCAPE: u8 = 0x1b;

/// State of the screen, which the user changes by keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Whether the list of keys covers the run.
    pub(super) help: bool,
    /// Whether the user is asked about ending the run.
    pub(super) asking: bool,
    /// Number of the newest messages that are scrolled out at the bottom.
    pub(super) back: usize,
    /// Whether the user has ended the run.
    pub(super) ending: bool,
}

/// A key of the terminal that the view understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Character(u8),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Escape,
}

impl Screen {
    /// Handles typed keys in a run with `messages` messages; returns whether they end the run.
    pub fn typed(&mut self, octets: &[u8], messages: usize) -> bool {
        let mut rest = octets;
        let mut ends = false;
        while let Some((key, after)) = next_key(rest) {
            ends |= key.is_some_and(|key| self.key(key, messages));
            rest = after;
        }
        self.ending |= ends;
        ends
    }

    /// Notes that the run is ending for another reason, such as a signal.
    pub fn end(&mut self) {
        self.ending = true;
    }

    fn key(&mut self, key: Key, messages: usize) -> bool {
        let most = messages.saturating_sub(1);
        match key {
            Key::Character(CONTROL_C) => return true,
            Key::Character(b'y' | b'Y') if self.asking => {
                self.asking = false;
                return true;
            }
            Key::Character(b'q' | b'Q') => self.asking = !self.ending,
            _ if self.asking => self.asking = false,
            Key::Character(b'?' | b'h') => self.help = !self.help,
            Key::Up | Key::Character(b'k') => self.back = (self.back + 1).min(most),
            Key::Down | Key::Character(b'j') => self.back = self.back.saturating_sub(1),
            Key::PageUp => self.back = (self.back + PAGE_MESSAGES).min(most),
            Key::PageDown => self.back = self.back.saturating_sub(PAGE_MESSAGES),
            Key::Home | Key::Character(b'g') => self.back = most,
            Key::End | Key::Character(b'G') => self.back = 0,
            Key::Escape | Key::Character(_) => self.help = false,
        }
        false
    }
}

/// Takes the next key from the octets; the key is `None` if unknown.
fn next_key(octets: &[u8]) -> Option<(Option<Key>, &[u8])> {
    let (&first, rest) = octets.split_first()?;
    if first != ESCAPE {
        return Some((Some(Key::Character(first)), rest));
    }
    let Some(rest) = rest.strip_prefix(b"[").or_else(|| rest.strip_prefix(b"O")) else {
        return Some((Some(Key::Escape), rest));
    };
    // Parameters, then one final octet.
    let end = rest.iter().position(|octet| (0x40..=0x7e).contains(octet));
    let Some(end) = end else { return Some((None, &[])) };
    let key = match &rest[..=end] {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        b"H" | b"1~" | b"7~" => Some(Key::Home),
        b"F" | b"4~" | b"8~" => Some(Key::End),
        _ => None,
    };
    Some((key, &rest[end + 1..]))
}

#[cfg(test)]
mod tests {
    use measure::rng::Rng;

    use super::*;

    #[test]
    fn only_an_answered_question_or_control_c_ends_a_run() {
        for (typed, ends) in [
            (&b"q"[..], false),
            (b"qy", true),
            (b"qqY", true),
            (b"qn", false),
            (b"qny", false),
            (b"q\x1by", false),
            (b"y", false),
            (b"\x03", true),
            (b"\x1b[q", false),
            (b"\x11", false),
        ] {
            let mut screen = Screen::default();
            assert_eq!(screen.typed(typed, 5), ends, "{typed:?}");
            assert_eq!(screen.ending, ends, "{typed:?}");
        }
        let mut asked = Screen::default();
        asked.typed(b"q", 5);
        assert!(asked.asking);
        asked.typed(b"n", 5);
        assert!(!asked.asking);
    }

    #[test]
    fn messages_scroll_within_their_number() {
        let mut screen = Screen::default();
        for (typed, back) in [
            (&b"\x1b[A\x1bOA"[..], 2),
            (b"\x1b[5~", 12),
            (b"\x1b[6~j", 1),
            (b"\x1b[H", 29),
            (b"k", 29),
            (b"\x1b[F", 0),
            (b"\x1b[B", 0),
            (b"\x1b[15~", 0),
        ] {
            assert!(!screen.typed(typed, 30));
            assert_eq!(screen.back, back, "{typed:?}");
        }
        screen.typed(b"?", 0);
        assert!(screen.help && screen.back == 0);
        screen.typed(b"\x1b", 0);
        assert!(!screen.help);
    }

    #[test]
    fn any_octets_can_be_typed() {
        let mut rng = Rng::new(3);
        let mut screen = Screen::default();
        for _ in 0..5_000 {
            let octets: Vec<u8> = (0..rng.below(12)).map(|_| rng.next_u64() as u8 & 0x7f).collect();
            screen.typed(&octets, 7);
            assert!(screen.back < 7);
        }
    }
}
