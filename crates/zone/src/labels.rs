//! A generator of distinct labels like those that registrants choose, in canonical order, without a table.
//!
//! The usual way to make a set of random names is to draw each name and look it up among the
//! earlier ones; fifty million names then fill the memory. Here the set is a trie that is walked
//! but never stored. A node knows the number of names below it. It keeps one for itself (the prefix
//! as a label) with the probability that one of that many names ends here, and distributes the
//! others to its children by the frequency of the characters. At a node with one name the rest of
//! the label is drawn at once.
//!
//! ```text
//!            (5 names)
//!        a: 3         t: 2
//!     c:1   l:1 n:1     e:2          the stack has at most 63 nodes, one per character
//!    "acme" "alp" "andi" "te" "tea"
//! ```
//!
//! So labels are distinct by construction, a large zone contains nearly all short labels, as real zones do, and equal
//! seeds give equal labels.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::Scope;

use measure::Rng;
use wire::name::MAX_LABEL;

/// The characters of labels, in canonical order.
const ALPHABET: &[u8; 37] = b"-0123456789abcdefghijklmnopqrstuvwxyz";
/// Index of the first letter in [`ALPHABET`].
const FIRST_LETTER: usize = 11;
/// Frequencies of the letters in English text, in thousandths, `a` first.
const LETTER_WEIGHTS: [u32; 26] = [
    82, 15, 28, 43, 120, 22, 20, 40, 70, 4, 12, 40, 24, 67, 75, 19, 3, 60, 63, 91, 28, 10, 24, 4,
    20, 3,
];
/// Number of entries in the table from which a character is drawn.
const TABLE_SIZE: usize = 4096;
/// Depth from which names are distributed evenly, so that they always separate.
const EVEN_DEPTH: usize = 40;
/// Number of names up to which each name is distributed by its own draw.
const MAX_SINGLE_DRAWS: u64 = 24;

/// The kind of the previous character, which changes the frequencies of the next.
#[derive(Clone, Copy)]
enum LabelContext {
    Start,
    Vowel,
    Consonant,
    Digit,
    Hyphen,
}

impl LabelContext {
    const ALL: [LabelContext; 5] = [
        LabelContext::Start,
        LabelContext::Vowel,
        LabelContext::Consonant,
        LabelContext::Digit,
        LabelContext::Hyphen,
    ];

    /// Returns the context after a character.
    fn after(last: Option<u8>) -> Self {
        match last {
            None => LabelContext::Start,
            Some(b'-') => LabelContext::Hyphen,
            Some(b'0'..=b'9') => LabelContext::Digit,
            Some(b'a' | b'e' | b'i' | b'o' | b'u' | b'y') => LabelContext::Vowel,
            Some(_) => LabelContext::Consonant,
        }
    }

    /// Returns the relative frequency of each character of the alphabet in this context.
    fn weights(self) -> [u32; 37] {
        let (hyphen, digit, vowel, consonant) = match self {
            LabelContext::Start => (0, 6, 10, 10),
            LabelContext::Vowel => (18, 2, 4, 12),
            LabelContext::Consonant => (14, 2, 18, 6),
            LabelContext::Digit => (20, 150, 8, 8),
            LabelContext::Hyphen => (0, 12, 10, 10),
        };
        std::array::from_fn(|i| match ALPHABET[i] {
            b'-' => hyphen,
            b'0'..=b'9' => digit,
            c @ (b'a' | b'e' | b'i' | b'o' | b'u' | b'y') => {
                vowel * LETTER_WEIGHTS[usize::from(c - b'a')] / 10
            }
            c => consonant * LETTER_WEIGHTS[usize::from(c - b'a')] / 10,
        })
    }
}

/// Tables that draw a character with one access.
struct Characters {
    /// Index into [`ALPHABET`] for twelve random bits, for each context.
    tables: Vec<[u8; TABLE_SIZE]>,
    /// Share of each character, for each context.
    shares: Vec<[f64; 37]>,
    /// The context after each character.
    after: [LabelContext; 37],
}

impl Characters {
    fn new() -> Self {
        let mut tables = Vec::new();
        let mut shares = Vec::new();
        for weights in LabelContext::ALL.map(LabelContext::weights) {
            let sum: u32 = weights.iter().sum();
            let mut table = [0; TABLE_SIZE];
            let (mut filled, mut below) = (0, 0);
            for (i, weight) in weights.iter().enumerate() {
                below += weight;
                let end = (u64::from(below) * TABLE_SIZE as u64 / u64::from(sum)) as usize;
                table[filled..end].fill(i as u8);
                filled = end;
            }
            tables.push(table);
            shares.push(std::array::from_fn(|i| {
                table.iter().filter(|&&c| usize::from(c) == i).count() as f64 / TABLE_SIZE as f64
            }));
        }
        let after = ALPHABET.map(|character| LabelContext::after(Some(character)));
        Characters { tables, shares, after }
    }

    #[inline]
    /// Draws a character from the lowest twelve of these random bits.
    fn draw(&self, context: LabelContext, bits: u64) -> u8 {
        self.tables[context as usize][bits as usize % TABLE_SIZE]
    }
}

/// The distribution of label lengths: a gamma distribution around 13 characters, as in large top-level domains.
struct Lengths {
    /// Probability that a label of at least `l` characters has exactly `l`.
    ends: [f64; MAX_LABEL + 1],
}

impl Lengths {
    fn new() -> Self {
        let weight = |l: usize| {
            let x = l as f64 - 1.0;
            if l < 2 { 0.0 } else { x.powi(5) * (-x / 2.0).exp() }
        };
        let mut left: f64 = (2..=MAX_LABEL).map(weight).sum();
        let ends = std::array::from_fn(|l| {
            if l == MAX_LABEL {
                return 1.0;
            }
            let end = weight(l) / left;
            left -= weight(l);
            end
        });
        Lengths { ends }
    }

    /// Draws a length of at least `least` characters.
    #[inline]
    fn draw(&self, least: usize, rng: &mut Rng) -> usize {
        let survive = rng.unit();
        let (mut length, mut left) = (least, 1.0);
        while length < MAX_LABEL {
            left *= 1.0 - self.ends[length];
            if left < survive {
                break;
            }
            length += 1;
        }
        length
    }
}

/// A node of the trie: the number of names below each child.
struct Node {
    children: [u64; 37],
    /// Index of the next child to visit.
    next: usize,
}

/// A generator of distinct labels in canonical order.
pub struct Labels {
    rng: Rng,
    characters: Characters,
    lengths: Lengths,
    reserved: fn(&[u8]) -> bool,
    /// The prefix of the top node of the stack.
    prefix: [u8; MAX_LABEL],
    stack: Vec<Node>,
    label: Vec<u8>,
    left: u64,
}

impl Labels {
    /// Returns a generator of `count` labels for `seed` without reserved ones. A reserved label with one more character
    /// must not be reserved too.
    pub fn new(count: u64, seed: u64, reserved: fn(&[u8]) -> bool) -> Self {
        let mut labels = Labels {
            rng: Rng::part(seed, 0x6c61_6265_6c73),
            characters: Characters::new(),
            lengths: Lengths::new(),
            reserved,
            prefix: [0; MAX_LABEL],
            stack: Vec::with_capacity(MAX_LABEL),
            label: Vec::with_capacity(MAX_LABEL),
            left: count,
        };
        if count > 0 {
            let node = labels.distribute(0, count);
            labels.stack.push(node);
        }
        labels
    }

    /// Returns the next label in lower case; `None` after the last.
    pub fn next_label(&mut self) -> Option<&[u8]> {
        loop {
            let depth = self.stack.len();
            let node = self.stack.last_mut()?;
            let Some(child) = (node.next..37).find(|&c| node.children[c] > 0) else {
                self.stack.pop();
                continue;
            };
            node.next = child + 1;
            let names = node.children[child];
            self.prefix[depth - 1] = ALPHABET[child];
            self.left -= 1;
            if names == 1 {
                self.complete(depth);
                return Some(&self.label);
            }
            let ends = self.ends_here(depth, names);
            let rest = names - u64::from(ends);
            if rest > 0 {
                let node = self.distribute(depth, rest);
                self.stack.push(node);
            }
            if ends {
                self.label.clear();
                self.label.extend_from_slice(&self.prefix[..depth]);
                return Some(&self.label);
            }
            self.left += 1;
        }
    }

    /// Returns the number of labels not returned yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Decides at random whether the prefix is one of the `names` remaining labels.
    fn ends_here(&mut self, depth: usize, names: u64) -> bool {
        if depth == MAX_LABEL {
            return true;
        }
        let label = &self.prefix[..depth];
        if depth < 2 || label[depth - 1] == b'-' || (self.reserved)(label) {
            return false;
        }
        let none = (1.0 - self.lengths.ends[depth]).powf(names as f64);
        self.rng.unit() >= none
    }

    /// Distributes `names` names to the children of the prefix.
    fn distribute(&mut self, depth: usize, names: u64) -> Node {
        let mut children = [0; 37];
        if depth >= EVEN_DEPTH {
            for i in 0..names {
                children[FIRST_LETTER + (i % 26) as usize] += 1;
            }
            return Node { children, next: 0 };
        }
        let context = LabelContext::after(self.prefix[..depth].last().copied());
        let mut left = names;
        if names > MAX_SINGLE_DRAWS {
            for (child, share) in children.iter_mut().zip(&self.characters.shares[context as usize])
            {
                *child = (names as f64 * share) as u64;
                left = left.saturating_sub(*child);
            }
        }
        while left > 0 {
            let mut bits = self.rng.next_u64();
            for _ in 0..left.min(5) {
                children[usize::from(self.characters.draw(context, bits))] += 1;
                bits >>= 12;
                left -= 1;
            }
        }
        Node { children, next: 0 }
    }

    /// Draws the rest of the only label that starts with the prefix.
    fn complete(&mut self, depth: usize) {
        let length = self.lengths.draw(depth.max(2), &mut self.rng);
        self.label.clear();
        self.label.extend_from_slice(&self.prefix[..depth]);
        let (mut bits, mut drawn) = (0, 5);
        let mut context = LabelContext::after(self.label.last().copied());
        while self.label.len() < length {
            if drawn == 5 {
                (bits, drawn) = (self.rng.next_u64(), 0);
            }
            let character = usize::from(self.characters.draw(context, bits));
            self.label.push(ALPHABET[character]);
            context = self.characters.after[character];
            (bits, drawn) = (bits >> 12, drawn + 1);
        }
        let full = self.label.len() == MAX_LABEL;
        match self.label.last_mut() {
            // No label ends with a hyphen. A character after the prefix may be changed, since no other label has this
            // prefix.
            Some(last) if *last == b'-' && (full || length > depth) => *last = b'x',
            Some(b'-') => self.label.push(b'x'),
            _ => {}
        }
        if (self.reserved)(&self.label) {
            self.label.push(b'x');
        }
    }
}

/// Number of batches queued between the drawing thread and its reader.
const BATCHES_AHEAD: usize = 4;
/// Size of a batch of labels, in octets.
const BATCH_OCTETS: usize = 64 << 10;

/// A batch of labels, stored one after the other.
#[derive(Debug, Default)]
struct Batch {
    text: Vec<u8>,
    lengths: Vec<u8>,
}

impl Batch {
    /// Fills the batch with the next labels.
    fn fill(&mut self, labels: &mut Labels) {
        self.text.clear();
        self.lengths.clear();
        while self.text.len() < BATCH_OCTETS
            && let Some(label) = labels.next_label()
        {
            self.text.extend_from_slice(label);
            self.lengths.push(label.len() as u8);
        }
    }
}

/// The same labels, drawn in advance by a background thread.
pub(crate) struct BackgroundLabels {
    full: Receiver<Batch>,
    empty: Sender<Batch>,
    batch: Batch,
    /// Number of labels and of octets of the batch that were returned.
    returned: (usize, usize),
}

impl BackgroundLabels {
    /// Starts the thread, which ends after the last label or when this value is dropped.
    pub(crate) fn new<'scope>(mut labels: Labels, scope: &'scope Scope<'scope, '_>) -> Self {
        let (send, full) = sync_channel(BATCHES_AHEAD);
        let (empty, back) = channel::<Batch>();
        scope.spawn(move || {
            loop {
                let mut batch = back.try_recv().unwrap_or_default();
                batch.fill(&mut labels);
                if batch.lengths.is_empty() || send.send(batch).is_err() {
                    break;
                }
            }
        });
        BackgroundLabels { full, empty, batch: Batch::default(), returned: (0, 0) }
    }

    /// Returns the next label; `None` after the last.
    #[inline]
    pub(crate) fn next_label(&mut self) -> Option<&[u8]> {
        if self.returned.0 == self.batch.lengths.len() {
            let next = self.full.recv().ok()?;
            // The thread may have ended already.
            let _ = self.empty.send(std::mem::replace(&mut self.batch, next));
            self.returned = (0, 0);
        }
        let (number, begin) = self.returned;
        let end = begin + usize::from(self.batch.lengths[number]);
        self.returned = (number + 1, end);
        Some(&self.batch.text[begin..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(count: u64, seed: u64) -> Vec<String> {
        let mut labels = Labels::new(count, seed, |label| label == b"nic" || label == b"te");
        let mut all = Vec::new();
        while let Some(label) = labels.next_label() {
            all.push(String::from_utf8(label.to_vec()).unwrap());
        }
        assert_eq!(labels.left(), 0);
        all
    }

    #[test]
    fn labels_are_sorted_and_distinct_and_complete() {
        for count in [0, 1, 2, 30, 1_000, 200_000] {
            let labels = all(count, 7);
            assert_eq!(labels.len() as u64, count);
            assert!(labels.windows(2).all(|pair| pair[0] < pair[1]), "{count}");
        }
    }

    #[test]
    fn labels_are_host_names() {
        for label in all(100_000, 1) {
            assert!((2..=63).contains(&label.len()), "{label}");
            assert!(
                !label.starts_with('-') && !label.ends_with('-') && !label.contains("--"),
                "{label}"
            );
            assert!(label != "nic" && label != "te", "{label}");
        }
    }

    #[test]
    fn lengths_are_realistic() {
        let labels = all(100_000, 3);
        let mean = labels.iter().map(String::len).sum::<usize>() as f64 / 100_000.0;
        assert!((11.0..15.0).contains(&mean), "{mean}");
        let short = labels.iter().filter(|l| l.len() <= 4).count();
        assert!((500..8_000).contains(&short), "{short}");
        assert!(labels.iter().any(|l| l.len() > 25));
    }

    #[test]
    fn equal_seeds_give_equal_labels() {
        assert_eq!(all(500, 1), all(500, 1));
        assert_ne!(all(500, 1), all(500, 2));
    }

    #[test]
    fn a_background_thread_draws_the_same_labels() {
        for count in [0, 1, 20_000] {
            let mut labels = Labels::new(count, 3, |_| false);
            std::thread::scope(|scope| {
                let mut ahead = BackgroundLabels::new(Labels::new(count, 3, |_| false), scope);
                while let Some(label) = labels.next_label() {
                    assert_eq!(ahead.next_label(), Some(label));
                }
                assert_eq!(ahead.next_label(), None);
            });
        }
        // A reader may stop before the last label.
        std::thread::scope(|scope| {
            let mut ahead = BackgroundLabels::new(Labels::new(1_000_000, 3, |_| false), scope);
            assert!(ahead.next_label().is_some());
        });
    }

    #[test]
    fn deep_names_are_distributed_evenly() {
        let mut labels = Labels::new(1, 1, |_| false);
        labels.prefix[..EVEN_DEPTH].fill(b'a');
        let node = labels.distribute(EVEN_DEPTH, 30);
        assert_eq!(node.children.iter().sum::<u64>(), 30);
        assert!(node.children.iter().all(|&n| n <= 2));
    }
}
