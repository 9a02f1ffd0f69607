//! How bytes move: batched sockets with segmentation offload, a simulated engine, streams.
