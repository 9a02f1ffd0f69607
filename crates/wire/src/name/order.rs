//! The order of names, and ranges of labels that cut a zone and its queries alike.
//!
//! The canonical order (RFC 4034 section 6.1) compares label by label from the right, octet by octet in lower case; a
//! name stands before all names below it. A [`LabelRange`] cuts what lies below a zone's apex by the label next to the
//! apex, so that a delegation, its glue and every query for it fall into the same slice:
//!
//! ```text
//!   www.NEWS.example     apex example     the label that decides: news
//!
//!   ..g        g..n        n..            half-open: `g..n` holds g, go, m, mzz, not n
//! ```
//!
//! Ranges that share their bounds are disjoint and, with an open first and last one, complete.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{Labels, MAX_LABEL, MAX_NAME, Name, strip_suffix, unescape, write_octet};

/// The canonical order of two uncompressed names in wire form; at most 128 labels of each are looked at.
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (Starts::of(a), Starts::of(b));
    let shared = a.count.min(b.count);
    for back in 1..=shared {
        match compare_labels(a.label(a.count - back), b.label(b.count - back)) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    a.count.cmp(&b.count)
}

/// The canonical order of two labels, given without their length octets.
#[inline]
pub fn compare_labels(a: &[u8], b: &[u8]) -> Ordering {
    let lower = |octet: &u8| octet.to_ascii_lowercase();
    a.iter().map(lower).cmp(b.iter().map(lower))
}

/// Where the labels of a name start.
struct Starts<'a> {
    name: &'a [u8],
    starts: [u8; MAX_NAME / 2 + 1],
    count: usize,
}

impl<'a> Starts<'a> {
    /// The starts of the labels of an uncompressed name.
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

    /// The label with this number, counted from the left.
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

/// How a name lies to a zone's apex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// It is neither the apex nor below it.
    Outside,
    /// It is the apex.
    Apex,
    /// It lies below the apex; this is its label next to the apex.
    Below(&'a [u8]),
}

/// How `name` lies to `apex`, both uncompressed in wire form.
#[inline]
pub fn place<'a>(name: &'a [u8], apex: &[u8]) -> Place<'a> {
    match strip_suffix(name, apex) {
        None => Place::Outside,
        Some(front) => Labels::of(front).last().map_or(Place::Apex, Place::Below),
    }
}

/// The labels from one, included, to another, not included, in canonical order; either end may be open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelRange {
    /// The first label in the range, in lower case; `None` for the very first there is.
    from: Option<Box<[u8]>>,
    /// The first label behind the range, in lower case; `None` if it has no end.
    to: Option<Box<[u8]>>,
}

impl LabelRange {
    /// The labels from `from` up to, but not with, `to`; an error if a label is empty or too long, or nothing is between.
    pub fn new(from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Self, LabelRangeError> {
        let keep = |label: Option<&[u8]>| match label {
            Some(label) if label.is_empty() || label.len() > MAX_LABEL => {
                Err(LabelRangeError::Length(label.len()))
            }
            label => Ok(label.map(|label| label.to_ascii_lowercase().into_boxed_slice())),
        };
        let range = Self { from: keep(from)?, to: keep(to)? };
        match (&range.from, &range.to) {
            (Some(from), Some(to)) if from >= to => Err(LabelRangeError::Nothing),
            _ => Ok(range),
        }
    }

    /// The ranges that these bounds part all labels into: one more than there are bounds, which must rise.
    pub fn split(bounds: &[&[u8]]) -> Result<Vec<Self>, LabelRangeError> {
        let starts = std::iter::once(None).chain(bounds.iter().copied().map(Some));
        let ends = bounds.iter().copied().map(Some).chain(std::iter::once(None));
        starts.zip(ends).map(|(from, to)| Self::new(from, to)).collect()
    }

    /// The first label in the range, in lower case.
    pub fn from(&self) -> Option<&[u8]> {
        self.from.as_deref()
    }

    /// The first label behind the range, in lower case.
    pub fn to(&self) -> Option<&[u8]> {
        self.to.as_deref()
    }

    /// Whether a label, in any case, is in the range.
    #[inline]
    pub fn contains(&self, label: &[u8]) -> bool {
        let from = self.from.as_ref().is_none_or(|from| compare_labels(label, from).is_ge());
        from && self.to.as_ref().is_none_or(|to| compare_labels(label, to).is_lt())
    }

    /// Whether a name in wire form lies below `apex` and in the range. The apex itself is in no range.
    #[inline]
    pub fn contains_name(&self, name: &[u8], apex: &[u8]) -> bool {
        matches!(place(name, apex), Place::Below(label) if self.contains(label))
    }
}

impl FromStr for LabelRange {
    type Err = LabelRangeError;

    /// Reads `from..to`; either end may be missing, `\.` is a dot inside a label and `\065` the octet 65.
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

/// The octets of the label in text at the start of `text`, up to a bare dot, and what follows.
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

/// Why a text or two labels are no range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LabelRangeError {
    /// The text has another form.
    #[error("`{0}` is not a range of labels: write `g..n`, `..g` or `n..`; `g..n` holds go, not n")]
    Text(String),
    /// A label is empty or too long.
    #[error("a bound of a range of labels has {0} octets: it needs 1 to 63")]
    Length(usize),
    /// The end is not behind the start.
    #[error("a range of labels that ends before it starts: write the smaller label first")]
    Nothing,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_order_of_rfc_4034() {
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
    fn the_slice_that_awk_got_wrong() {
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
            assert_eq!(range.contains_name(name.as_wire(), apex.as_wire()), inside, "{name}");
        }
    }

    #[test]
    fn texts_of_ranges() {
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
        fn slices_are_disjoint_and_complete(
            mut bounds in proptest::collection::btree_set("[a-c]{1,3}", 0..5),
            name in names(),
        ) {
            let bounds: Vec<_> = std::mem::take(&mut bounds).into_iter().collect();
            let bounds: Vec<_> = bounds.iter().map(|bound| bound.as_bytes()).collect();
            let slices = LabelRange::split(&bounds).unwrap();
            let hits = slices.iter().filter(|s| s.contains_name(name.as_wire(), b"\0")).count();
            prop_assert_eq!(hits, usize::from(!name.is_root()));
            for slice in slices {
                prop_assert_eq!(slice.to_string().parse::<LabelRange>().unwrap(), slice);
            }
        }

        #[test]
        fn any_text_of_a_range_is_survived(text: String) {
            let _ = text.parse::<LabelRange>();
        }
    }
}
