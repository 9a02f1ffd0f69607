//! `dnsdyno trace export`: a capture as a table for a database.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use trace::Dns;
use trace::export::Export;
use trace::transactions::{Transaction, Transactions};

use super::input::{InputArgs, conclude};
use super::select::SelectArgs;
use crate::arguments::choice::{Choice, choice};
use crate::failure::Failure;
use crate::output::unwritable;

#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    /// What the table is written as
    #[arg(long = "format", action = ArgAction::Set, value_parser = choice(&FORMATS), value_name = "FORMAT")]
    is_csv: bool,
    /// The file to write (`-`: the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    // Last, since their headings hold for what follows.
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    select: SelectArgs,
}

/// Formats of the table: JSON lines, or CSV.
const FORMATS: [Choice<bool>; 2] = [
    ("json-lines", "A JSON object for each transaction on a line of its own", false),
    ("csv", "Comma-separated values, below a row with the names of the columns", true),
];

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let unwritable = |error| unwritable(&args.output, error);
    let select = args.select.select();
    let out = args.input.output(&args.output)?;
    let mut export = match args.is_csv {
        true => Export::csv(out).map_err(unwritable)?,
        false => Export::json_lines(out),
    };
    let mut transactions = Transactions::default();
    let (mut failed, mut headless) = (None, 0u64);
    let mut add = |transaction: &Transaction| {
        if failed.is_none() {
            failed = export.add(transaction).err();
        }
    };
    let (_, error) = args.input.read(|message| {
        let dns = Dns::read(message.bytes);
        if !select.accepts(message, dns.as_ref()) {
            return;
        }
        match dns {
            Some(dns) => transactions.add(message, &dns, &mut add),
            None => headless += 1,
        }
    })?;
    transactions.finish(&mut add);
    let rows = export.written;
    failed.map_or_else(|| export.finish(), Err).map_err(unwritable)?;
    eprintln!("{rows} transactions are in {}", args.output.display());
    let alone = ["queries have no reply", "replies have no query"];
    for (count, what) in transactions.without_room().into_iter().zip(alone) {
        if count > 0 {
            eprintln!("{count} {what}: more than a million waited at once");
        }
    }
    if headless > 0 {
        eprintln!("{headless} messages were left out: shorter than a header");
    }
    conclude(error)
}
