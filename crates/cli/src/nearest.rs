//! The name that was meant by a word.

/// Returns the name that is most like `word`, if one is.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::jaro_winkler(word, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_alike_are_suggested() {
        let names = || ["dns64-rfc8219", "dns64-cached", "auth-memory"].into_iter();
        assert_eq!(nearest("dns64-rfc8129", names()), Some("dns64-rfc8219"));
        assert_eq!(nearest("cert", names()), None);
    }
}
