//! What is asked of the sockets, and what is in force.

/// What is asked of the sockets. What the kernel does not give is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Segmentation offload on sending (`UDP_SEGMENT`).
    pub gso: bool,
    /// Coalescing on receiving (`UDP_GRO`).
    pub gro: bool,
    /// Receive stamps by the kernel (`SO_TIMESTAMPNS`).
    pub timestamps: bool,
    /// Bytes of receive and of send buffer for each socket.
    pub buffer: usize,
}

impl Default for UdpOptions {
    /// Everything on, 16 MiB buffers: at a million small datagrams a second that is some milliseconds of absence.
    fn default() -> Self {
        UdpOptions { gso: true, gro: true, timestamps: true, buffer: 16 << 20 }
    }
}

/// What is in force: a condition of every result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpFacts {
    /// How many sockets there are.
    pub sockets: usize,
    /// Segmentation offload on sending.
    pub gso: bool,
    /// Coalescing on receiving.
    pub gro: bool,
    /// Receive stamps by the kernel.
    pub timestamps: bool,
    /// Whether the drops of the receive queues are counted.
    pub drop_counts: bool,
    /// Whether the sockets are watched by epoll (many) instead of asked in turn (few).
    pub epoll: bool,
    /// Bytes of receive buffer for each socket, as the kernel counts them.
    pub receive_buffer: usize,
    /// Bytes of send buffer for each socket, as the kernel counts them.
    pub send_buffer: usize,
}

/// Messages to a system call.
pub(crate) const BATCH: usize = 64;
