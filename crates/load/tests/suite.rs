//! The tests of this crate in one program: each program is linked with the whole crate.

mod client_replay;
mod closed_loop;
mod common;
mod freed_places;
mod full_window;
mod goals;
mod in_turn;
mod open_loop;
mod replay;
mod replies;
mod resent;
mod stalls;
