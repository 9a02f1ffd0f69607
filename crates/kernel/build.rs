//! Compresses the objects of `bpf`: names and types are most of them.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use flate2::{Compression, write::DeflateEncoder};

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    let out = env::var_os("OUT_DIR").expect("cargo names it");
    for name in ["auth", "cache", "resolver", "tester"] {
        let object = fs::read(format!("bpf/{name}.bpf.o")).expect("an object");
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(&object).and_then(|()| encoder.finish());
        fs::write(Path::new(&out).join(name), written.expect("memory")).expect("written");
    }
}
