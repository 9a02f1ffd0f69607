//! The `dnsdyno` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
