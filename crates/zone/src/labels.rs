//! Labels as registrants choose them, any number of them, in canonical order, without a table.
//!
//! A set of random names is usually made by drawing and looking up what was drawn before; fifty million of them then
//! fill the memory. Here the set is a trie that is walked and never built. A node knows how many names lie below it;
//! it keeps one for itself (the prefix as a label) with the probability that one of so many names ends here, and
//! deals the others out to its children by the frequency of the characters. A node with one name ends the walk: the
//! rest of the label is drawn at once.
//!
//! ```text
//!            (5 names)
//!        a: 3         t: 2
//!     c:1   l:1 n:1     e:2          the stack is as deep as a label: at most 63 nodes
//!    "acme" "alp" "andi" "te" "tea"
//! ```
//!
//! So labels are distinct by construction, short ones are as good as taken in a large zone, as in a real one, and
//! equal seeds give equal labels.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::Scope;

use measure::Rng;
use wire::name::MAX_LABEL;

/// What a label may be made of, in canonical order.
const ALPHABET: &[u8; 37] = b"-0123456789abcdefghijklmnopqrstuvwxyz";
/// Where letters begin in [`ALPHABET`].
const LETTERS: usize = 11;
/// Frequencies of the letters in English text, in thousandths, `a` first.
const LETTER_WEIGHTS: [u32; 26] = [
    82, 15, 28, 43, 120, 22, 20, 40, 70, 4, 12, 40, 24, 67, 75, 19, 3, 60, 63, 91, 28, 10, 24, 4,
    20, 3,
];
/// Entries of the table from which a character is drawn.
const TABLE: usize = 4096;
/// From this depth on names are dealt out evenly, so that they part for certain.
const PART_DEPTH: usize = 40;
/// Below so many names each is dealt out by itself.
const FEW: u64 = 24;

/// What stands before a character and sways it.
#[derive(Clone, Copy)]
enum Context {
    Start,
    Vowel,
    Consonant,
    Digit,
    Hyphen,
}

impl Context {
    const ALL: [Context; 5] =
        [Context::Start, Context::Vowel, Context::Consonant, Context::Digit, Context::Hyphen];

    fn after(last: Option<u8>) -> Self {
        match last {
            None => Context::Start,
            Some(b'-') => Context::Hyphen,
            Some(b'0'..=b'9') => Context::Digit,
            Some(b'a' | b'e' | b'i' | b'o' | b'u' | b'y') => Context::Vowel,
            Some(_) => Context::Consonant,
        }
    }

    /// How often each character of the alphabet follows, in parts of any whole.
    fn weights(self) -> [u32; 37] {
        let (hyphen, digit, vowel, consonant) = match self {
            Context::Start => (0, 6, 10, 10),
            Context::Vowel => (18, 2, 4, 12),
            Context::Consonant => (14, 2, 18, 6),
            Context::Digit => (20, 150, 8, 8),
            Context::Hyphen => (0, 12, 10, 10),
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

/// Draws a character for each context with one look.
struct Characters {
    /// Index into [`ALPHABET`] by twelve random bits.
    tables: Vec<[u8; TABLE]>,
    /// Share of each character.
    shares: Vec<[f64; 37]>,
    /// The context behind each character.
    after: [Context; 37],
}

impl Characters {
    fn new() -> Self {
        let mut tables = Vec::new();
        let mut shares = Vec::new();
        for weights in Context::ALL.map(Context::weights) {
            let sum: u32 = weights.iter().sum();
            let mut table = [0; TABLE];
            let (mut filled, mut below) = (0, 0);
            for (i, weight) in weights.iter().enumerate() {
                below += weight;
                let end = (u64::from(below) * TABLE as u64 / u64::from(sum)) as usize;
                table[filled..end].fill(i as u8);
                filled = end;
            }
            tables.push(table);
            shares.push(std::array::from_fn(|i| {
                table.iter().filter(|&&c| usize::from(c) == i).count() as f64 / TABLE as f64
            }));
        }
        let after = ALPHABET.map(|character| Context::after(Some(character)));
        Characters { tables, shares, after }
    }

    #[inline]
    fn draw(&self, context: Context, bits: u64) -> u8 {
        self.tables[context as usize][bits as usize % TABLE]
    }
}

/// How long labels are: gamma-shaped around 13 characters, as the names of large top-level domains are.
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

    /// A length of at least `least`.
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

/// A node of the trie: how many names each child has still to give.
struct Node {
    children: [u64; 37],
    next: usize,
}

/// A walk over distinct labels in canonical order.
pub struct Labels {
    rng: Rng,
    characters: Characters,
    lengths: Lengths,
    reserved: fn(&[u8]) -> bool,
    /// The label of the node on top.
    prefix: [u8; MAX_LABEL],
    stack: Vec<Node>,
    label: Vec<u8>,
    left: u64,
}

impl Labels {
    /// So many labels for `seed`; none for which `reserved` says so (it must let every label pass that has one
    /// character more than one it holds back).
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
            let node = labels.deal(0, count);
            labels.stack.push(node);
        }
        labels
    }

    /// The next label, lower case; `None` after the last.
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
                let node = self.deal(depth, rest);
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

    /// How many labels are to come.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Whether one of `names` names is the prefix itself.
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

    /// Deals `names` names out to the children of the prefix.
    fn deal(&mut self, depth: usize, names: u64) -> Node {
        let mut children = [0; 37];
        if depth >= PART_DEPTH {
            for i in 0..names {
                children[LETTERS + (i % 26) as usize] += 1;
            }
            return Node { children, next: 0 };
        }
        let context = Context::after(self.prefix[..depth].last().copied());
        let mut left = names;
        if names > FEW {
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

    /// Draws the rest of the only label that begins with the prefix.
    fn complete(&mut self, depth: usize) {
        let length = self.lengths.draw(depth.max(2), &mut self.rng);
        self.label.clear();
        self.label.extend_from_slice(&self.prefix[..depth]);
        let (mut bits, mut drawn) = (0, 5);
        let mut context = Context::after(self.label.last().copied());
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
            // No label ends with a hyphen. Beyond the prefix a character may be changed: nothing else begins so.
            Some(last) if *last == b'-' && (full || length > depth) => *last = b'x',
            Some(b'-') => self.label.push(b'x'),
            _ => {}
        }
        if (self.reserved)(&self.label) {
            self.label.push(b'x');
        }
    }
}

/// Labels on their way from the thread that draws them.
const AHEAD: usize = 4;
/// Octets of a batch of them.
const BATCH: usize = 64 << 10;

/// Labels, one behind the other.
#[derive(Debug, Default)]
struct Batch {
    text: Vec<u8>,
    lengths: Vec<u8>,
}

impl Batch {
    fn fill(&mut self, labels: &mut Labels) {
        self.text.clear();
        self.lengths.clear();
        while self.text.len() < BATCH
            && let Some(label) = labels.next_label()
        {
            self.text.extend_from_slice(label);
            self.lengths.push(label.len() as u8);
        }
    }
}

/// The same labels drawn by a thread of their own, ahead of who takes them.
pub(crate) struct LabelsAhead {
    full: Receiver<Batch>,
    empty: Sender<Batch>,
    batch: Batch,
    /// Labels and octets of the batch that were taken.
    taken: (usize, usize),
}

impl LabelsAhead {
    /// Starts the thread, which ends with the labels or when this is dropped.
    pub(crate) fn new<'scope>(mut labels: Labels, scope: &'scope Scope<'scope, '_>) -> Self {
        let (send, full) = sync_channel(AHEAD);
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
        LabelsAhead { full, empty, batch: Batch::default(), taken: (0, 0) }
    }

    /// The next label; `None` after the last.
    #[inline]
    pub(crate) fn next_label(&mut self) -> Option<&[u8]> {
        if self.taken.0 == self.batch.lengths.len() {
            let next = self.full.recv().ok()?;
            // The thread may have drawn the last already.
            let _ = self.empty.send(std::mem::replace(&mut self.batch, next));
            self.taken = (0, 0);
        }
        let (number, begin) = self.taken;
        let end = begin + usize::from(self.batch.lengths[number]);
        self.taken = (number + 1, end);
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
    fn sorted_distinct_and_as_many_as_asked_for() {
        for count in [0, 1, 2, 30, 1_000, 200_000] {
            let labels = all(count, 7);
            assert_eq!(labels.len() as u64, count);
            assert!(labels.windows(2).all(|pair| pair[0] < pair[1]), "{count}");
        }
    }

    #[test]
    fn they_are_host_names() {
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
    fn seeds_reproduce() {
        assert_eq!(all(500, 1), all(500, 1));
        assert_ne!(all(500, 1), all(500, 2));
    }

    #[test]
    fn a_thread_draws_the_same() {
        for count in [0, 1, 20_000] {
            let mut labels = Labels::new(count, 3, |_| false);
            std::thread::scope(|scope| {
                let mut ahead = LabelsAhead::new(Labels::new(count, 3, |_| false), scope);
                while let Some(label) = labels.next_label() {
                    assert_eq!(ahead.next_label(), Some(label));
                }
                assert_eq!(ahead.next_label(), None);
            });
        }
        // Who does not want the rest leaves it.
        std::thread::scope(|scope| {
            let mut ahead = LabelsAhead::new(Labels::new(1_000_000, 3, |_| false), scope);
            assert!(ahead.next_label().is_some());
        });
    }

    #[test]
    fn names_that_do_not_part_by_chance_are_parted() {
        let mut labels = Labels::new(1, 1, |_| false);
        labels.prefix[..PART_DEPTH].fill(b'a');
        let node = labels.deal(PART_DEPTH, 30);
        assert_eq!(node.children.iter().sum::<u64>(), 30);
        assert!(node.children.iter().all(|&n| n <= 2));
    }
}
