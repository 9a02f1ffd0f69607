//! Frame streams: frames with their lengths, between control frames (<https://farsightsec.github.io/fstrm/>).
//!
//! ```text
//! file, pipe    START frame frame ... STOP
//! socket        writer: READY          START frame frame ... STOP
//!               reader:        ACCEPT                             FINISH
//!
//! frame         length (4) octets
//! control       0 (4) length (4) kind (4) { field (4) length (4) octets } ...
//! ```

use thiserror::Error;

/// Content type of dnstap in control frames.
pub const DNSTAP: &[u8] = b"protobuf:dnstap.Dnstap";
/// Longest control frame, in octets.
pub const MAX_CONTROL: usize = 512;
/// Longest frame, in octets: a query and a response of the largest size, with their addresses.
pub const MAX_FRAME: usize = 256 << 10;

/// Field with a content type.
const CONTENT_TYPE: u32 = 1;

/// Kinds of control frames, by their number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The reader accepts a content type.
    Accept = 1,
    /// The writer begins: frames with data follow.
    Start = 2,
    /// The writer ends: no frames follow.
    Stop = 3,
    /// The writer offers content types.
    Ready = 4,
    /// The reader has got all frames.
    Finish = 5,
}

impl Control {
    const ALL: [Control; 5] =
        [Control::Accept, Control::Start, Control::Stop, Control::Ready, Control::Finish];

    /// Returns the control frame; START, READY and ACCEPT name the content type of dnstap.
    pub fn frame(self) -> Vec<u8> {
        let named = matches!(self, Control::Accept | Control::Start | Control::Ready);
        let mut body = (self as u32).to_be_bytes().to_vec();
        if named {
            body.extend_from_slice(&CONTENT_TYPE.to_be_bytes());
            body.extend_from_slice(&(DNSTAP.len() as u32).to_be_bytes());
            body.extend_from_slice(DNSTAP);
        }
        [&[0; 4][..], &(body.len() as u32).to_be_bytes(), &body].concat()
    }

    /// Reads the body of a control frame: its kind, and whether it permits dnstap. One without content types permits any.
    fn read(body: &[u8]) -> Option<(Control, bool)> {
        let (kind, mut rest) = body.split_first_chunk()?;
        let kind = u32::from_be_bytes(*kind);
        let kind = Control::ALL.into_iter().find(|control| *control as u32 == kind)?;
        let (mut named, mut dnstap) = (false, false);
        while !rest.is_empty() {
            let (field, after) = rest.split_first_chunk()?;
            let (len, after) = after.split_first_chunk()?;
            let (content, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize)?;
            if u32::from_be_bytes(*field) == CONTENT_TYPE {
                (named, dnstap) = (true, dnstap || content == DNSTAP);
            }
            rest = after;
        }
        Some((kind, dnstap || !named))
    }
}

/// Error of octets that are no frame stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Damaged {
    /// A frame is too long.
    #[error("a frame of {0} octets; the longest has {MAX_FRAME}")]
    Frame(usize),
    /// A control frame is too long.
    #[error("a control frame of {0} octets; the longest has {MAX_CONTROL}")]
    TooLong(usize),
    /// A control frame is of an unknown kind, or its fields are not whole.
    #[error("a control frame other than READY, ACCEPT, START, STOP and FINISH")]
    Control,
}

/// The first part of the octets of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// The frame is incomplete: at least this number of octets is needed, counted from its start.
    More(usize),
    /// A control frame, which has a length of 0 in front.
    Control {
        /// Kind of the control frame.
        kind: Control,
        /// Whether the frame permits the content type of dnstap.
        dnstap: bool,
        /// Length of the frame including its lengths, in octets.
        len: usize,
    },
    /// A frame with data: one message of dnstap.
    Frame {
        /// The data, without the length in front.
        octets: &'a [u8],
        /// Length of the frame including its lengths, in octets.
        len: usize,
    },
}

/// Returns the first part of `octets`, which start with a part.
///
/// # Errors
/// If the octets are no frame stream.
#[inline]
pub fn split(octets: &[u8]) -> Result<Split<'_>, Damaged> {
    let Some((len, rest)) = octets.split_first_chunk() else { return Ok(Split::More(4)) };
    let len = u32::from_be_bytes(*len) as usize;
    if len == 0 {
        return split_control(rest);
    }
    if len > MAX_FRAME {
        return Err(Damaged::Frame(len));
    }
    let frame = rest.get(..len).map(|octets| Split::Frame { octets, len: 4 + len });
    Ok(frame.unwrap_or(Split::More(4 + len)))
}

/// Returns the control frame at the start of `octets`, which follow the zero in front.
fn split_control(octets: &[u8]) -> Result<Split<'_>, Damaged> {
    let Some((len, rest)) = octets.split_first_chunk() else { return Ok(Split::More(8)) };
    let len = u32::from_be_bytes(*len) as usize;
    if len > MAX_CONTROL {
        return Err(Damaged::TooLong(len));
    }
    let Some(body) = rest.get(..len) else { return Ok(Split::More(8 + len)) };
    let (kind, dnstap) = Control::read(body).ok_or(Damaged::Control)?;
    Ok(Split::Control { kind, dnstap, len: 8 + len })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dnstap_is_permitted_by_its_name_or_by_none() {
        let read = |body: &[u8]| Control::read(body);
        let accept = Control::Accept.frame()[8..].to_vec();
        assert_eq!(read(&accept), Some((Control::Accept, true)));
        assert_eq!(read(&accept[..4]), Some((Control::Accept, true)));
        let other = [&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5][..], b"other"].concat();
        assert_eq!(read(&other), Some((Control::Accept, false)));
        assert_eq!(read(&[&other[..], &accept[4..]].concat()), Some((Control::Accept, true)));
        // An unknown field is skipped; a kind or a field that is not whole is not.
        assert_eq!(read(&[0, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0, 0]), Some((Control::Stop, true)));
        for bad in [&[0, 0, 0, 6][..], &[0, 0, 0], &accept[..5], &accept[..accept.len() - 1]] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_part_is_whole_or_says_what_it_needs() {
        let stream = [Control::Start.frame(), vec![0, 0, 0, 2, 7, 8], Control::Stop.frame()];
        let octets = stream.concat();
        let first = stream[0].len();
        let control = |kind, len| Split::Control { kind, dnstap: true, len };
        assert_eq!(split(&octets), Ok(control(Control::Start, first)));
        assert_eq!(split(&octets[first..]), Ok(Split::Frame { octets: &[7, 8], len: 6 }));
        assert_eq!(split(&octets[first + 6..]), Ok(control(Control::Stop, 12)));
        for len in 0..first {
            let Ok(Split::More(needed)) = split(&octets[..len]) else { panic!("{len}") };
            assert!(needed > len && needed <= first, "{len} {needed}");
        }
        assert_eq!(split(&[0, 4, 0, 1]), Err(Damaged::Frame(MAX_FRAME + 1)));
        assert_eq!(split(&[0, 0, 0, 0, 0, 0, 2, 1]), Err(Damaged::TooLong(513)));
        assert_eq!(split(&[0, 0, 0, 0, 0, 0, 0, 0]), Err(Damaged::Control));
    }

    proptest! {
        #[test]
        fn any_octets_are_split_or_refused(
            octets in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..80)
        ) {
            match split(&octets) {
                Ok(Split::More(needed)) => prop_assert!(needed > octets.len()),
                Ok(Split::Control { len, .. }) => prop_assert!(len >= 12 && len <= octets.len()),
                Ok(Split::Frame { octets: frame, len }) => {
                    prop_assert!(len == 4 + frame.len() && len <= octets.len());
                }
                Err(_) => {}
            }
        }
    }
}
