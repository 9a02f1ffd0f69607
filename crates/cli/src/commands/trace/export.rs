//! `dnsdyno trace export`: a capture as a table for a database.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use trace::Dns;
use trace::export::Export;
use trace::transactions::{Transaction, Transactions};

use super::input::{InputArgs, conclude};
use super::select::SelectArgs;
use crate::failure::Failure;
use crate::output::create;

/// `dnsdyno trace export`
#[derive(Args, Clone, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    select: SelectArgs,
    /// The Parquet file to write
    #[arg(long, value_name = "FILE", required = true)]
    parquet: PathBuf,
}

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let unwritable =
        |error| Failure::run(anyhow!("cannot write {}: {error}", args.parquet.display()));
    let select = args.select.select();
    let mut export = Export::new(create(&args.parquet)?).map_err(unwritable)?;
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
    eprintln!("{rows} transactions are in {}", args.parquet.display());
    if transactions.without_room() > 0 {
        eprintln!(
            "{} queries are without their replies: more than a million waited at once",
            transactions.without_room()
        );
    }
    if headless > 0 {
        eprintln!("{headless} messages were left out: shorter than a header");
    }
    conclude(error)
}
