//! Rules of the DNS64 server for single names: any list and any policy zone is accepted, or refused with a line.
#![no_main]

use dns64::RuleSets;
use dns64::rules::RulesFormat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for format in [RulesFormat::List, RulesFormat::Zone] {
        let mut rules = RuleSets::default();
        match rules.common.add(format, text) {
            Ok(()) => assert!(rules.len() <= text.len()),
            Err(error) => assert!(error.line >= 1 && !error.problem.is_empty()),
        }
    }
});
