//! Expected replies of the lines of a query file: `www.example.com A servfail`.
//!
//! ```text
//! key of a query    27 bits of the hash of its question | 5 bits of what is expected
//! ```

use wire::reply::{self, Rcodes};
use wire::{Expect, Invalid};

/// Bits of a key that contain the hash.
pub const HASH: u32 = !31;
/// Expectations other than a return code, with their words.
const FURTHER_WORDS: [(&str, Expect); 3] =
    [("answered", Expect::Answered), ("aaaa", Expect::AnyAaaa), ("nodata", Expect::NoData)];

/// Returns the key of a question with this hash whose reply must be what `word` says: a return code, `answered`, `aaaa` or `nodata`.
///
/// # Errors
/// A sentence, if it is none of these.
pub fn key(hash: u32, word: &str) -> Result<u32, String> {
    let other = FURTHER_WORDS.iter().position(|(known, _)| known.eq_ignore_ascii_case(word));
    let code = || Rcodes::code(word).map(|code| FURTHER_WORDS.len() + usize::from(code));
    let number = other.or_else(code).ok_or_else(|| {
        format!("`{word}` is no expected answer: write a return code, answered, aaaa or nodata")
    })?;
    Ok(hash & HASH | number as u32)
}

/// Returns the expectation of the reply to the query with this key.
pub fn of(key: u32) -> Expect {
    let number = (key & !HASH) as usize;
    match FURTHER_WORDS.get(number) {
        Some((_, expect)) => *expect,
        None => Expect::Rcodes(Rcodes::of((number - FURTHER_WORDS.len()) as u8)),
    }
}

/// Validates a reply whose question must have the hash `key`, of which the bits of `mask` are compared.
#[inline]
pub(crate) fn check_by_hash(
    key: u32,
    mask: u32,
    message: &[u8],
    expect: &Expect,
) -> Result<u8, Invalid> {
    match reply::question(message) {
        Some(question) if (reply::question_hash(question) ^ key) & mask == 0 => {
            reply::check(message, question, expect)
        }
        Some(_) => Err(Invalid::WrongQuestion),
        // A reply without a question: `check` finds the reason.
        None => reply::check(message, &[], expect),
    }
}
