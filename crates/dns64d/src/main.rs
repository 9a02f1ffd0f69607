//! The program `dns64d`: all of it is in the library, which `make dist` compiles for size (see scripts/dist).

use std::process::ExitCode;

fn main() -> ExitCode {
    dns64d::main()
}
