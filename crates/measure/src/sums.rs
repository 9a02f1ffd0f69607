//! Counts of several workers, added up.

/// Adds the fields of one value to those of another of the same type.
///
/// ```
/// struct Counts {
///     sent: u64,
///     lost: u64,
/// }
/// let (mut all, part) = (Counts { sent: 1, lost: 0 }, Counts { sent: 2, lost: 1 });
/// measure::add!(all, part; sent, lost);
/// assert_eq!((all.sent, all.lost), (3, 1));
/// ```
#[macro_export]
macro_rules! add {
    ($to:expr, $from:expr; $($field:ident),+ $(,)?) => {
        $($to.$field += $from.$field;)+
    };
}
