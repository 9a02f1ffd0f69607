//! Several captures as one, in the order of time.
//!
//! Captures that follow each other are open one at a time. Those that overlap, such as the captures of two interfaces, are
//! open together, and the packet with the earliest time comes first.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use measure::Nanos;

use super::{Capture, CaptureError, Frame, Frames};

/// Largest number of captures that overlap; each has a buffer of a mebibyte.
const MAX_OPEN: usize = 64;

/// A reader of several captures.
pub struct Merge {
    /// Captures that are not open yet, by the time of their first packet.
    waiting: VecDeque<(Nanos, PathBuf)>,
    open: Vec<Capture>,
}

impl Merge {
    /// Opens captures, in any order; `-` is the standard input. Each is opened once to find its first packet.
    ///
    /// # Errors
    /// If a file cannot be read or is not a capture.
    pub fn open(paths: &[PathBuf]) -> Result<Self, CaptureError> {
        let mut merge = Merge { waiting: VecDeque::new(), open: Vec::new() };
        if let [path] = paths {
            merge.open.push(Capture::open(path)?);
            return Ok(merge);
        }
        for path in paths {
            let mut capture = Capture::open(path)?;
            if path == Path::new("-") {
                // It can be opened only once.
                merge.open.push(capture);
                continue;
            }
            match capture.peek() {
                Ok(Some(first)) => merge.waiting.push_back((first, path.clone())),
                Ok(None) => {}
                // The error is told in the turn of the capture, which has no packet.
                Err(_) => merge.waiting.push_back((Nanos::MAX, path.clone())),
            }
        }
        merge.waiting.make_contiguous().sort_by_key(|(first, _)| *first);
        Ok(merge)
    }

    /// Returns the index and the time of the capture with the earliest packet, and closes those that have ended.
    fn earliest(&mut self) -> Result<Option<(usize, Nanos)>, CaptureError> {
        let mut earliest: Option<(usize, Nanos)> = None;
        let mut index = 0;
        while index < self.open.len() {
            match self.open[index].peek()? {
                None => drop(self.open.remove(index)),
                Some(at) => {
                    if earliest.is_none_or(|(_, before)| at < before) {
                        earliest = Some((index, at));
                    }
                    index += 1;
                }
            }
        }
        Ok(earliest)
    }
}

impl Frames for Merge {
    fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        if self.open.len() == 1 && self.waiting.is_empty() {
            return self.open[0].next_frame();
        }
        loop {
            let earliest = self.earliest()?;
            let due = |first: Nanos| earliest.is_none_or(|(_, at)| first <= at);
            if self.waiting.front().is_none_or(|(first, _)| !due(*first)) {
                return match earliest {
                    Some((index, _)) => self.open[index].next_frame(),
                    None => Ok(None),
                };
            }
            let Some((_, path)) = self.waiting.pop_front() else { return Ok(None) };
            if self.open.len() == MAX_OPEN {
                let why = format!(
                    "more than {MAX_OPEN} captures overlap in time: merge some of them first (mergecap)"
                );
                let source = io::Error::other(why);
                return Err(CaptureError::Unreadable { path, source });
            }
            self.open.push(Capture::open(&path)?);
        }
    }
}
