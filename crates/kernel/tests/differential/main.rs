//! The programs against what they stand in for: each frame that one answers gets the reply that the sockets would give, octet for
//! octet.

mod auth;
mod cache;
mod frames;
mod fuzz;
mod kit;
mod odd;
mod resolver;
mod writers;
