//! A process of a test.

use std::process::Child;

/// A process that is ended with its test.
pub(crate) struct Held(pub(crate) Child);

impl Drop for Held {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
