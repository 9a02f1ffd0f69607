//! The program `dns64d`: all of it is in the library, so that `make dist` can optimise the two for different ends.

use std::process::ExitCode;

fn main() -> ExitCode {
    dns64d::main()
}
