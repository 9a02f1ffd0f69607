//! The canonical order of names, and ranges of labels that slice a zone and its queries in the same way.
//!
//! The canonical order (RFC 4034 section 6.1) compares label by label from the right, octet by octet in lower case; a
//! name sorts before all names below it. A [`LabelRange`] selects names below a zone's apex by the label next to the
//! apex, so that a delegation, its glue and every query for it are in the same slice:
//!
//! ```text
//!   www.NEWS.example     apex example     the label that is compared: news
//!
//!   ..g        g..n        n..            half-open: `g..n` contains g, go, m, mzz, but not n
//! ```
//!
//! Adjacent ranges do not overlap, and cover all labels if the first and the last range are open.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{Labels, MAX_LABEL, MAX_NAME, Name, strip_suffix, unescape, write_octet};

/// Returns the canonical order of two uncompressed names in wire form; reads at most 128 labels of each.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (LabelStarts::of(a), LabelStarts::of(b));
    let shared = a.count.min(b.count);
    for back in 1..=shared {
        match compare_labels(a.label(a.count - back), b.label(b.count - back)) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    a.count.cmp(&b.count)
}

/// Returns the canonical order of two labels, given without their length octets.
#[inline]
pub(crate) fn compare_labels(a: &[u8], b: &[u8]) -> Ordering {
    let lower = |octet: &u8| octet.to_ascii_lowercase();
    a.iter().map(lower).cmp(b.iter().map(lower))
}

/// The offsets of the labels of a name.
struct LabelStarts<'a> {
    name: &'a [u8],
    starts: [u8; MAX_NAME / 2 + 1],
    count: usize,
}

impl<'a> LabelStarts<'a> {
    /// Finds the offsets of the labels of an uncompressed name.
    fn of(name: &'a [u8]) -> Self {
        let mut found = Self { name, starts: [0; MAX_NAME / 2 + 1], count: 0 };
        let mut at = 0;
        for label in Labels::of(name).take(found.starts.len()) {
            found.starts[found.count] = at as u8;
            found.count += 1;
            at += 1 + label.len();
        }
        found
    }

    /// Returns label `number`, counted from the left.
    fn label(&self, number: usize) -> &'a [u8] {
        let at = usize::from(self.starts[number]);
        &self.name[at + 1..at + 1 + usize::from(self.name[at])]
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.as_wire(), other.as_wire())
    }
}

/// The place of a name relative to the apex of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// The name is neither the apex nor below it.
    Outside,
    /// The name is the apex.
    Apex,
    /// The name is below the apex; this is its label next to the apex.
    Below(&'a [u8]),
}

/// Returns the place of `name` relative to `apex`; both are uncompressed names in wire form.
#[inline]
pub fn place<'a>(name: &'a [u8], apex: &[u8]) -> Place<'a> {
    match strip_suffix(name, apex) {
        None => Place::Outside,
        Some(front) => Labels::of(front).last().map_or(Place::Apex, Place::Below),
    }
}

/// A half-open range of labels in canonical order; either end may be open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelRange {
    /// The first label in the range, in lower case; `None` if the start is open.
    from: Option<Box<[u8]>>,
    /// The first label after the range, in lower case; `None` if the end is open.
    to: Option<Box<[u8]>>,
}

impl LabelRange {
    /// Returns the range from `from` (included) to `to` (excluded); an error if a label is empty or too long, or the
    /// range is empty.
    pub fn new(from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Self, LabelRangeError> {
        let checked = |label: Option<&[u8]>| match label {
            Some(label) if label.is_empty() || label.len() > MAX_LABEL => {
                Err(LabelRangeError::Length(label.len()))
            }
            label => Ok(label.map(|label| label.to_ascii_lowercase().into_boxed_slice())),
        };
        let range = Self { from: checked(from)?, to: checked(to)? };
        match (&range.from, &range.to) {
            (Some(from), Some(to)) if from >= to => Err(LabelRangeError::Empty),
            _ => Ok(range),
        }
    }

    /// Splits all labels at these bounds, which must ascend; returns one range more than there are bounds.
    pub fn split(bounds: &[&[u8]]) -> Result<Vec<Self>, LabelRangeError> {
        let starts = std::iter::once(None).chain(bounds.iter().copied().map(Some));
        let ends = bounds.iter().copied().map(Some).chain(std::iter::once(None));
        starts.zip(ends).map(|(from, to)| Self::new(from, to)).collect()
    }

    /// Returns the first label in the range, in lower case.
    pub fn from(&self) -> Option<&[u8]> {
        self.from.as_deref()
    }

    /// Returns the first label after the range, in lower case.
    pub fn to(&self) -> Option<&[u8]> {
        self.to.as_deref()
    }

    /// Returns whether a label is in the range, ignoring case.
    #[inline]
    pub fn contains(&self, label: &[u8]) -> bool {
        let from = self.from.as_ref().is_none_or(|from| compare_labels(label, from).is_ge());
        from && self.to.as_ref().is_none_or(|to| compare_labels(label, to).is_lt())
    }

    /// Returns whether a slice of this range has a name at `place`; each slice has the apex.
    #[inline]
    pub fn has(&self, place: &Place<'_>) -> bool {
        match place {
            Place::Apex => true,
            Place::Below(label) => self.contains(label),
            Place::Outside => false,
        }
    }
}

impl FromStr for LabelRange {
    type Err = LabelRangeError;

    /// Reads `from..to`; either end may be missing; `\.` is a dot inside a label and `\065` is the octet 65.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || LabelRangeError::Text(text.into());
        let (from, rest) = read_label(text.as_bytes()).ok_or_else(bad)?;
        let (to, rest) = read_label(rest.strip_prefix(b"..").ok_or_else(bad)?).ok_or_else(bad)?;
        if !rest.is_empty() {
            return Err(bad());
        }
        let some = |label: Vec<u8>| (!label.is_empty()).then_some(label);
        Self::new(some(from).as_deref(), some(to).as_deref())
    }
}

impl fmt::Display for LabelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |label: &Option<Box<[u8]>>, f: &mut fmt::Formatter<'_>| {
            label.iter().flatten().try_for_each(|&octet| write_octet(octet, f))
        };
        label(&self.from, f)?;
        f.write_str("..")?;
        label(&self.to, f)
    }
}

/// Returns the octets of the label at the start of `text`, up to an unescaped dot, and the text after it.
fn read_label(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut label, mut rest) = (Vec::new(), text);
    while let Some(&first) = rest.first() {
        let used = match first {
            b'.' => break,
            b'\\' => {
                let (octet, used) = unescape(rest)?;
                label.push(octet);
                used
            }
            octet if octet.is_ascii_graphic() => {
                label.push(octet);
                1
            }
            _ => return None,
        };
        rest = &rest[used..];
    }
    Some((label, rest))
}

/// The reason why a range of labels is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LabelRangeError {
    /// The text does not have the form `from..to`.
    #[error(
        "`{0}` is not a range of labels: write `g..n`, `..g` or `n..`; `g..n` contains go, but not n"
    )]
    Text(String),
    /// A bound is empty or too long.
    #[error("a bound of the range of labels has {0} octets: write 1 to {MAX_LABEL}")]
    Length(usize),
    /// The end is not after the start.
    #[error("the range of labels ends before it starts: write the smaller label first")]
    Empty,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns whether a name is below `apex` and in the range; the apex itself is in no range.
    fn contains_name(range: &LabelRange, name: &[u8], apex: &[u8]) -> bool {
        matches!(place(name, apex), Place::Below(label) if range.contains(label))
    }

    #[test]
    fn names_sort_as_in_rfc_4034() {
        let names = [
            "example",
            "a.example",
            "yljkjljk.a.example",
            "Z.a.example",
            "zABC.a.EXAMPLE",
            "z.example",
            r"\001.z.example",
            "*.z.example",
            r"\200.z.example",
        ];
        let names = names.map(|name| name.parse::<Name>().unwrap());
        assert!(names.is_sorted_by(|a, b| a < b));
        assert!(Name::ROOT < names[0]);
        assert_eq!(names[3].cmp(&"z.A.example".parse().unwrap()), Ordering::Equal);
    }

    #[test]
    fn a_range_contains_labels_by_canonical_order() {
        let range: LabelRange = "g..n".parse().unwrap();
        for (label, inside) in [
            ("foo", false),
            ("fzzz", false),
            ("g", true),
            ("Google", true),
            ("mzzz", true),
            ("n", false),
            ("news", false),
        ] {
            assert_eq!(range.contains(label.as_bytes()), inside, "{label}");
        }
        let apex: Name = "pt".parse().unwrap();
        for (name, inside) in
            [("www.google.PT", true), ("google.com", false), ("pt", false), ("go.x.pt", false)]
        {
            let name: Name = name.parse().unwrap();
            let found = contains_name(&range, name.as_wire(), apex.as_wire());
            assert_eq!(found, inside, "{name}");
        }
    }

    #[test]
    fn ranges_are_read_and_printed() {
        for (text, printed) in
            [("..", ".."), ("..G", "..g"), ("n..", "n.."), (r"a\.b..a\200", r"a\.b..a\200")]
        {
            let range: LabelRange = text.parse().unwrap();
            assert_eq!(range.to_string(), printed);
        }
        for text in ["", "g", "g.n", "g...n", "g..n.", "n..g", "g..g", "ü..", r"\2.."] {
            assert!(text.parse::<LabelRange>().is_err(), "{text}");
        }
    }

    fn names() -> impl Strategy<Value = Name> {
        let label =
            proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'B'), any::<u8>()], 1..4);
        proptest::collection::vec(label, 0..4).prop_map(|labels| {
            labels.iter().try_fold(Name::ROOT, |name, label| name.prepend(label)).unwrap()
        })
    }

    proptest! {
        #[test]
        fn names_are_in_a_total_order(a in names(), b in names(), c in names()) {
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&b) == Ordering::Equal, a == b);
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
            if a.ends_with(&b) {
                prop_assert!(b <= a);
            }
        }

        #[test]
        fn adjacent_ranges_cover_each_label_once(
            mut bounds in proptest::collection::btree_set("[a-c]{1,3}", 0..5),
            name in names(),
        ) {
            let bounds: Vec<_> = std::mem::take(&mut bounds).into_iter().collect();
            let bounds: Vec<_> = bounds.iter().map(|bound| bound.as_bytes()).collect();
            let slices = LabelRange::split(&bounds).unwrap();
            let hits = slices.iter().filter(|s| contains_name(s, name.as_wire(), b"\0")).count();
            prop_assert_eq!(hits, usize::from(!name.is_root()));
            for slice in slices {
                prop_assert_eq!(slice.to_string().parse::<LabelRange>().unwrap(), slice);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<LabelRange>();
        }
    }
}
