//! The program `dnsdyno`: all of it is in the library, which `dnsdyno-cluster` uses too.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
