//! The program `dnsdyno`: a thin `main` over the library, which `dnsdyno-cluster` uses too.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
