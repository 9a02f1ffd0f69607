//! Requested options of the sockets, and the active ones.

/// Requested options of the sockets. Options that the kernel lacks are omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Segmentation offload on sending (`UDP_SEGMENT`).
    pub gso: bool,
    /// Coalescing of datagrams on receiving (`UDP_GRO`).
    pub gro: bool,
    /// Receive timestamps by the kernel (`SO_TIMESTAMPNS`).
    pub timestamps: bool,
    /// Receive buffer and send buffer of each socket, in bytes.
    pub buffer: usize,
}

impl Default for UdpOptions {
    /// Returns options with everything on and buffers of 16 MiB: at a million small datagrams per second that holds the
    /// arrivals of some milliseconds.
    fn default() -> Self {
        UdpOptions { gso: true, gro: true, timestamps: true, buffer: 16 << 20 }
    }
}

/// Active options, which are a condition of every result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpFacts {
    /// Number of sockets that are open.
    pub sockets: usize,
    /// Whether messages leave segmented (`UDP_SEGMENT`).
    pub gso: bool,
    /// Whether datagrams arrive coalesced (`UDP_GRO`).
    pub gro: bool,
    /// Receive timestamps by the kernel.
    pub timestamps: bool,
    /// Whether drops of the receive queues are counted.
    pub drop_counts: bool,
    /// Whether epoll watches the sockets (many) instead of reading them in turn (few).
    pub epoll: bool,
    /// Receive buffer of each socket in bytes, as the kernel counts them.
    pub receive_buffer: usize,
    /// Send buffer of each socket in bytes, as the kernel counts them.
    pub send_buffer: usize,
}

/// Highest number of messages in one system call.
pub(crate) const BATCH: usize = 64;
