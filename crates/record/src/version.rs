//! The order of versions by their names, as servers and distributions write them.

/// Part of a version's name, ordered as releases with the same beginning follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VersionPart<'n> {
    /// A part that sorts before the release: a `~` of Debian (0), `dev` (1), `alpha` (2), `beta`
    /// (3), `pre` (4), `rc` (5).
    Before(u8),
    /// The end of the name: the release.
    End,
    /// A part that sorts after the release: `P` of a patch, `deb` after `+`.
    Word(&'n str),
    /// A number.
    Number(u64),
}

/// Sort key of a version, from its name: numbers count as numbers, and `1.20.0rc1`, `1.20.0-rc1`
/// and `1.20.0_b1` come before `1.20.0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionOrder<'n>(Vec<VersionPart<'n>>);

impl<'n> VersionOrder<'n> {
    /// Returns the place of the version `name`.
    pub fn of(name: &'n str) -> Self {
        let kind = |c: char| match c {
            '0'..='9' => 0,
            c if c.is_alphabetic() => 1,
            _ => 2,
        };
        let (mut parts, mut rest, mut separator) = (Vec::new(), name, "");
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c: char| kind(c) != kind(first)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            match kind(first) {
                // A number too large to count comes after all others.
                0 => parts.push(VersionPart::Number(word.parse().unwrap_or(u64::MAX))),
                1 => parts.push(word_part(word, separator)),
                _ if word.contains('~') => parts.push(VersionPart::Before(0)),
                _ => {}
            }
            (separator, rest) = (word, after);
        }
        parts.push(VersionPart::End);
        VersionOrder(parts)
    }
}

/// Returns the part of a word. Behind a `+` it names another build of the release, such as `+b1` and `+deb12u2` of Debian.
fn word_part<'n>(word: &'n str, separator: &str) -> VersionPart<'n> {
    match word.to_ascii_lowercase().as_str() {
        _ if separator.contains('+') => VersionPart::Word(word),
        "dev" => VersionPart::Before(1),
        "a" | "alpha" => VersionPart::Before(2),
        "b" | "beta" => VersionPart::Before(3),
        "pre" => VersionPart::Before(4),
        "rc" => VersionPart::Before(5),
        _ => VersionPart::Word(word),
    }
}

#[cfg(test)]
mod tests {
    use super::VersionOrder;

    #[test]
    fn versions_are_in_the_order_of_their_release() {
        for ordered in [
            // Unbound, NSD.
            &["1.9.6", "1.20.0rc1", "1.20.0rc2", "1.20.0rc10", "1.20.0", "1.20.1"][..],
            &["NSD_4_9_1_REL", "NSD_4_10_0_RC1", "NSD_4_10_0_REL", "NSD_4_10_1_REL"],
            &["NSD_4_0_0_b4", "NSD_4_0_0_rc1", "NSD_4_0_1_REL"],
            // BIND.
            &["9.11.0a1", "9.11.0b2", "9.11.0rc1", "9.11.0", "9.11.0-P1", "9.11.1"],
            // Knot DNS, Knot Resolver, CoreDNS.
            &["v2.7.0-beta1", "v2.7.0-rc1", "v2.7.0", "v2.7.1"],
            &["v5.7.4", "v6.0.0a1", "v6.0.0", "v6.0.8"],
            &["v1.9", "v1.10.1"],
            // PowerDNS, hickory-dns.
            &["4.9.0-alpha0", "4.9.0-alpha1", "4.9.0-beta2", "4.9.0-rc1", "4.9.0", "4.9.1"],
            &["0.25.0-alpha.5", "0.25.0-beta.1", "0.25.0", "0.26.0-alpha.1", "0.26.0"],
            // Debian.
            &["1.20.0~rc1-1", "1.20.0-1", "1.20.0-1+b1", "1.20.0-2"],
            &["9.18.49-1~deb12u3", "9.18.49-1", "9.18.49-1+deb12u1"],
            &["4.5.0-dev", "4.5.0-pre", "4.5.0-RC1", "4.5.0"],
        ] {
            for pair in ordered.windows(2) {
                let [before, after] = [pair[0], pair[1]].map(VersionOrder::of);
                assert!(before < after, "{} comes before {}", pair[0], pair[1]);
            }
        }
        assert_eq!(VersionOrder::of("1.20.0-rc1"), VersionOrder::of("1.20.0rc1"));
        assert_eq!(VersionOrder::of("1.20.0_b1"), VersionOrder::of("1.20.0-beta1"));
    }
}
