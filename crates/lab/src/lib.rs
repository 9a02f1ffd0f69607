//! The Bench of real servers: namespaces, adapters, processes, probes.
