//! What carries the messages between the ranks of a job.

/// Link of one rank to all others. Messages between two ranks arrive in their order.
pub trait Link {
    /// Returns the number of this rank; the conductor is 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Sends a message, and does not wait for its receiver.
    fn send(&mut self, to: usize, message: &[u8]);

    /// Returns the next message that has come, with the rank of its sender; never waits.
    fn poll(&mut self) -> Option<(usize, Vec<u8>)>;
}
