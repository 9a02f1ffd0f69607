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
    /// Errors of captures that ended early; they are returned after the last packet of the others.
    faults: Vec<CaptureError>,
}

impl Merge {
    /// Opens captures, in any order; `-` is the standard input. A file is opened once to find its first packet; a pipe stays open.
    ///
    /// # Errors
    /// If a file cannot be read or is not a capture.
    pub fn open(paths: &[PathBuf]) -> Result<Self, CaptureError> {
        let mut merge = Merge { waiting: VecDeque::new(), open: Vec::new(), faults: Vec::new() };
        if let [path] = paths {
            merge.open.push(Capture::open(path)?);
            return Ok(merge);
        }
        for path in paths {
            let mut capture = Capture::open(path)?;
            if path == Path::new("-") || !path.is_file() {
                // A pipe can be opened only once.
                merge.add(capture)?;
                continue;
            }
            match capture.peek() {
                Ok(Some(first)) => merge.waiting.push_back((first, path.clone())),
                Ok(None) => {}
                Err(error) => merge.faults.push(error),
            }
        }
        merge.waiting.make_contiguous().sort_by_key(|(first, _)| *first);
        Ok(merge)
    }

    /// Adds an open capture, from which frames are taken in the order of their times.
    fn add(&mut self, capture: Capture) -> Result<(), CaptureError> {
        if self.open.len() == MAX_OPEN {
            let why = format!(
                "more than {MAX_OPEN} captures overlap in time: merge some of them first (mergecap)"
            );
            let source = io::Error::other(why);
            return Err(CaptureError::Unreadable { path: capture.path, source });
        }
        self.open.push(capture);
        Ok(())
    }

    /// Returns the index and the time of the capture with the earliest packet, and closes those that have ended.
    fn earliest(&mut self) -> Option<(usize, Nanos)> {
        let mut earliest: Option<(usize, Nanos)> = None;
        let mut index = 0;
        while index < self.open.len() {
            match self.open[index].peek() {
                Ok(Some(at)) => {
                    if earliest.is_none_or(|(_, before)| at < before) {
                        earliest = Some((index, at));
                    }
                    index += 1;
                }
                ended => {
                    self.faults.extend(ended.err());
                    drop(self.open.remove(index));
                }
            }
        }
        earliest
    }

    /// Returns the error of the captures that ended early.
    fn fault(&mut self) -> Result<(), CaptureError> {
        match self.faults.len() {
            0 => Ok(()),
            1 => Err(self.faults.remove(0)),
            _ => Err(CaptureError::Several(std::mem::take(&mut self.faults))),
        }
    }
}

impl Frames for Merge {
    fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        if self.open.len() == 1 && self.waiting.is_empty() && self.faults.is_empty() {
            return self.open[0].next_frame();
        }
        loop {
            let earliest = self.earliest();
            let due = |first: Nanos| earliest.is_none_or(|(_, at)| first <= at);
            if self.waiting.front().is_none_or(|(first, _)| !due(*first)) {
                return match earliest {
                    Some((index, _)) => self.open[index].next_frame(),
                    None => self.fault().map(|()| None),
                };
            }
            let Some((_, path)) = self.waiting.pop_front() else { return Ok(None) };
            match Capture::open(&path) {
                Ok(capture) => self.add(capture)?,
                Err(error) => self.faults.push(error),
            }
        }
    }
}
