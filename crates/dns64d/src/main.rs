//! The program `dns64d`: a thin `main` over the library, which `make dist` compiles for size (see
//! scripts/dist).

use std::process::ExitCode;

fn main() -> ExitCode {
    dns64d::main()
}
