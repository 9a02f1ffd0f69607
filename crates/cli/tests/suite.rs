//! The tests of what a user does, in one program: it is linked once, and goes on with another test while one waits. Those that measure
//! on the testbed are in `testbed.rs`, which would be disturbed by these; those of the form of the code are programs of their own.

mod agent;
mod asked_first;
mod browser;
mod ci_recipe;
mod cli;
mod compared;
mod diff;
mod diff_transports;
mod dnstap;
mod dropin;
mod dropin_input;
mod each_client;
mod elsewhere;
mod evidence;
mod failures;
mod formats;
mod guide;
mod hidden;
mod internet;
mod json_schema;
mod kernel;
#[allow(dead_code, unused_imports, unused_macros, reason = "each program uses its part")]
mod kit;
mod limited;
mod local_server;
mod misuse;
mod packages;
mod replay;
mod report_numbers;
mod report_page;
mod runs;
mod sample_runs;
mod several_servers;
mod several_testers;
mod site_page;
mod stability;
mod trace;
mod transports;
mod truths;
mod updates;
mod zone;
