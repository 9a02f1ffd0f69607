//! `dnsdyno update`: makes, sends, looks up and applies streams of dynamic updates.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand, ValueEnum};
use measure::{Nanos, UpdateRate};
use record::{SCHEMA, Times, UpdateCheck, UpdateRun};
use update::apply::{ApplyError, Changes};
use update::check::{check, wait_ready};
use update::outcome::{acknowledged, rcode_name};
use update::{
    CheckError, Generate, GenerateError, Key, Kill, Prerequisites, Sender, Sent, StreamError,
    System, UnsentUpdates, UpdateReader, Zones, script, stream,
};
use zone::Reader;
use zone::stats::Stats;

use crate::arguments::address::{Family, Target, parse_target};
use crate::arguments::choice::{Choice, choice};
use crate::arguments::json;
use crate::arguments::number::{parse_count, parse_duration};
use crate::arguments::zone_file::ZoneFile;
use crate::failure::Failure;
use crate::output::{create, not_an_input, output};
use crate::process::interruption;

/// Longest time until a killed primary serves again.
const MAX_RESTART: Duration = Duration::from_secs(300);

#[derive(Args, Clone, Debug)]
pub(crate) struct UpdateArgs {
    #[command(subcommand)]
    command: UpdateCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum UpdateCommand {
    /// Make updates that fit a zone: changes, additions and deletions of delegations
    Generate(UpdateGenerateArgs),
    /// Send updates to a primary (RFC 2136), signed (RFC 8945), at a rate or as fast as they are acknowledged
    Send(Box<SendArgs>),
    /// Look up whether a server has applied updates
    Check(UpdateCheckArgs),
    /// Write the zone as updates must leave it
    Apply(ApplyArgs),
}

pub(crate) const EXAMPLES: &str = "Examples:
  Ten thousand updates for a zone, sent as fast as the primary commits them
    dnsdyno update generate tld.zone --count 10k --output tld.updates
    dnsdyno update send 127.0.0.1 tld.updates --key hmac-sha256:lab:c2VjcmV0

  Three per cent of the zone a day, for an hour
    dnsdyno update generate tld.zone --rate 3%/day --duration 1h --output tld.updates
    dnsdyno update send 127.0.0.1 tld.updates --rate 3%/day --of tld.zone

  Does an acknowledged update survive a crash?
    dnsdyno update send 127.0.0.1 tld.updates --kill \"$(pidof knotd)\" --kill-after 5k \\
        --restart 'knotd -c /etc/knot/knot.conf -d'";

/// Reads a rate of updates, which must not be 0.
fn parse_rate(text: &str) -> Result<UpdateRate, String> {
    match text.parse() {
        Ok(UpdateRate::None) => Err("a rate of 0 sends nothing".to_owned()),
        Ok(rate) => Ok(rate),
        Err(e) => Err(e.to_string()),
    }
}

/// Returns the updates per second; counts the delegations only if the rate is a share of them.
fn per_second(
    rate: UpdateRate,
    delegations: impl FnOnce() -> Result<u64, Failure>,
) -> Result<Option<f64>, Failure> {
    let delegations = match rate {
        UpdateRate::PercentPerDay(_) => delegations()?,
        _ => 0,
    };
    Ok(rate.per_second(delegations))
}

#[derive(Args, Clone, Debug)]
struct UpdateGenerateArgs {
    #[command(flatten)]
    input: ZoneFile,
    /// Number of updates (500, 10k)
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "10k")]
    count: u64,
    /// Rate (8, 3%/day) whose updates for the duration are made instead
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "duration", conflicts_with = "count")]
    rate: Option<UpdateRate>,
    /// Duration of the updates at the rate
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "rate")]
    duration: Option<Nanos>,
    /// Proportions of changes of name servers, additions and deletions
    #[arg(long, value_name = "C,A,D", value_parser = parse_mix, default_value = "1,1,1")]
    proportions: Mix,
    /// Prerequisites of each update
    #[arg(long, value_parser = choice(&PREREQUISITES), value_name = "WHAT", default_value = "names")]
    prerequisites: Prerequisites,
    /// The form of the file
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "binary")]
    format: UpdateForm,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file of updates (- for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Proportions of changes, additions, deletions.
#[derive(Clone, Copy, Debug)]
struct Mix([u32; 3]);

fn parse_mix(text: &str) -> Result<Mix, String> {
    let parts: Vec<u32> = text.split(',').filter_map(|part| part.parse().ok()).collect();
    let mix = <[u32; 3]>::try_from(parts).ok().filter(|_| text.split(',').count() == 3);
    mix.map(Mix).ok_or_else(|| format!("`{text}` are not three proportions such as 1,1,1"))
}

const PREREQUISITES: [Choice<Prerequisites>; 2] = [
    ("none", "Nothing", Prerequisites::None),
    ("names", "New names do not exist, and other names exist", Prerequisites::Names),
];

#[derive(Clone, Copy, Debug, ValueEnum)]
enum UpdateForm {
    /// Messages of RFC 2136, each after its length
    Binary,
    /// A script for nsupdate
    Nsupdate,
}

#[derive(Args, Clone, Debug)]
struct SendArgs {
    /// The primary: an address, or ADDRESS:PORT
    #[arg(value_name = "SERVER", value_parser = parse_target)]
    server: SocketAddr,
    /// The file of updates, in either form
    #[arg(value_name = "FILE")]
    updates: PathBuf,
    /// Send to the server that the script names in `server`, if it names one, not to SERVER
    #[arg(long)]
    follow_server: bool,
    /// TSIG key: `[ALGORITHM:]NAME:SECRET`
    #[arg(long, value_name = "KEY", conflicts_with = "key_file")]
    key: Option<Key>,
    /// A file with the TSIG key, as tsig-keygen writes it
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Updates per second (8), or per cent of the zone per day (3%/day, with --of) [default: as fast as they are acknowledged]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<UpdateRate>,
    /// The zone file to whose size a rate in per cent refers
    #[arg(long, value_name = "FILE")]
    of: Option<PathBuf>,
    /// Number of updates outstanding at once; with more than one their order is not certain
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    window: u32,
    /// Send over TCP
    #[arg(long)]
    tcp: bool,
    /// Timeout of a reply
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    timeout: Nanos,
    /// Number of updates at the start of the stream that are not sent
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "0")]
    skip: u64,
    /// Largest number of updates to send
    #[arg(long, value_name = "N", value_parser = parse_count)]
    count: Option<u64>,
    /// Measure the lag of this secondary, from the acknowledgement of an update to the first right answer
    #[arg(long, value_name = "SERVER", value_parser = parse_target)]
    watch: Vec<SocketAddr>,
    /// End with exit code 0 also if updates were refused or lost
    #[arg(long)]
    allow_failed: bool,
    /// Write the outcome of each update: its number from 0, RCODE or LOST, microseconds
    #[arg(long, value_name = "FILE")]
    outcomes: Option<PathBuf>,
    /// Write the result as JSON (- for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Kill this process, the primary, with SIGKILL while updates are sent
    #[arg(long, value_name = "PID")]
    kill: Option<i32>,
    /// Number of acknowledged updates before it is killed
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1k")]
    kill_after: u64,
    /// Shell command that starts the primary again; then every acknowledged update is looked up
    #[arg(long, value_name = "COMMAND", requires = "kill")]
    restart: Option<String>,
}

#[derive(Args, Clone, Debug)]
struct UpdateCheckArgs {
    /// The server: an address, or ADDRESS:PORT
    #[arg(value_name = "SERVER", value_parser = parse_target)]
    server: SocketAddr,
    /// The updates
    #[arg(value_name = "FILE")]
    updates: PathBuf,
    /// Only acknowledged updates, by the file of `update send --outcomes`
    #[arg(long, value_name = "FILE")]
    outcomes: Option<PathBuf>,
    /// Write the result as JSON (- for the standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
struct ApplyArgs {
    #[command(flatten)]
    input: ZoneFile,
    /// File of updates, as `update generate` writes it
    #[arg(value_name = "UPDATES")]
    updates: PathBuf,
    /// The file of the new zone (- for the standard output)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: UpdateArgs) -> Result<(), Failure> {
    match args.command {
        UpdateCommand::Generate(args) => generate(&args),
        UpdateCommand::Send(args) => send(&args),
        UpdateCommand::Check(args) => look_up(&args),
        UpdateCommand::Apply(args) => apply(&args),
    }
}

fn generate(args: &UpdateGenerateArgs) -> Result<(), Failure> {
    let open = || args.input.open().map_err(Failure::input);
    let count = match (args.rate, args.duration) {
        (Some(rate), Some(duration)) => {
            let stats = || Stats::of(|| args.input.open()).map_err(Failure::input);
            let delegations = || Ok(stats()?.delegations);
            let rate = per_second(rate, delegations)?.ok_or_else(|| {
                Failure::input(anyhow!(
                    "`max` gives no number of updates: give --count, or a rate such as 8"
                ))
            })?;
            (rate * duration.as_secs_f64()).ceil() as u64
        }
        _ => args.count,
    };
    let updates = Generate {
        count,
        mix: args.proportions.0,
        prerequisites: args.prerequisites,
        seed: args.seed,
    };
    let zone = open()?;
    not_an_input(&args.output, [args.input.path()])?;
    let mut out = BufWriter::new(output(&args.output)?);
    let made = match args.format {
        UpdateForm::Binary => stream::begin(&mut out)
            .map_err(GenerateError::Write)
            .and_then(|()| updates.run(zone, |update| stream::write(&mut out, update))),
        UpdateForm::Nsupdate => {
            let comment = format!("dnsdyno update generate: {count} updates, seed {}", args.seed);
            script::begin(&mut out, &comment)
                .map_err(GenerateError::Write)
                .and_then(|()| updates.run(zone, |update| script::write(&mut out, update)))
        }
    };
    let made =
        made.and_then(|made| Ok(out.flush().map(|()| made)?)).map_err(|error| match error {
            GenerateError::Write(_) => Failure::run(error),
            _ => Failure::input(error),
        })?;
    eprintln!(
        "{count} updates: {} changes, {} additions, {} deletions",
        made.changes, made.additions, made.deletions
    );
    Ok(())
}

/// Counts the delegations of a zone file.
fn delegations(path: Option<&Path>) -> Result<u64, Failure> {
    let path = path.ok_or_else(|| {
        Failure::input(anyhow!("a rate in %/day is relative to a zone: give its file with --of"))
    })?;
    Ok(Stats::of(|| Reader::open(path, None)).map_err(Failure::input)?.delegations)
}

fn key(args: &SendArgs) -> Result<Option<Key>, Failure> {
    let Some(path) = &args.key_file else { return Ok(args.key.clone()) };
    let bad = |why: String| Failure::input(anyhow!("the key file {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    Key::from_file_text(&text).map(Some).map_err(|e| bad(e.to_string()))
}

/// Returns the arguments with the server that the script names, if that is to be followed.
fn with_server(args: &SendArgs) -> Result<SendArgs, Failure> {
    let mut args = args.clone();
    if !args.follow_server {
        return Ok(args);
    }
    let path = &args.updates;
    let unreadable = |source| StreamError::Unreadable(path.clone(), source);
    let script = File::open(path).map_err(unreadable).map_err(Failure::input)?;
    let named = script::server(BufReader::new(script), path).map_err(Failure::input)?;
    if let Some((host, port)) = named {
        let target = Target { host, port: Some(port) };
        args.server = target.resolve(port, Family::Any).map_err(Failure::BadInput)?;
    }
    Ok(args)
}

fn send(args: &SendArgs) -> Result<(), Failure> {
    let args = &with_server(args)?;
    let rate = args.rate.unwrap_or(UpdateRate::Max);
    let rate = per_second(rate, || delegations(args.of.as_deref()))?;
    let sender = Sender {
        server: args.server,
        tcp: args.tcp,
        key: key(args)?,
        timeout: Duration::from_nanos(args.timeout.0),
        rate,
        window: args.window,
        skip: args.skip,
        count: args.count,
        kill: args.kill.map(|pid| Kill { pid, after: args.kill_after }),
        watch: args.watch.clone(),
    };
    let zones = Zones::of(args.server);
    // The look-up after a restart reads the outcomes from this file.
    let (path, _temporary) = match &args.outcomes {
        Some(path) => (path.clone(), None),
        None => {
            let file = tempfile::NamedTempFile::new().map_err(Failure::run)?;
            (file.path().to_owned(), Some(file))
        }
    };
    let (mut result, sent) = transmit(&sender, &args.updates, &path, &zones)?;
    let mut failed = None;
    if let (true, Some(command)) = (sent.killed, &args.restart) {
        match survivors(args, command, &path, &zones) {
            Ok(found) => result.durability = Some(found),
            Err(error) => failed = Some(error),
        }
    }
    let write = |path: &Path| record::write(path, &result);
    json::show(args.json.as_deref(), write, || report::updates(&result))?;
    match (failed, sent.ended_by) {
        (Some(error), _) => Err(Failure::run(error)),
        // The user requested the kill of the primary.
        (None, Some(_)) if sent.killed => Ok(()),
        (None, Some(why)) if args.allow_failed && sent.hopeless.as_ref() == Some(&why) => Ok(()),
        (None, Some(why)) => Err(end_failure(args, &why, sent.bad_input, result.acknowledged)),
        (None, None) if args.allow_failed || result.acknowledged == result.sent => Ok(()),
        (None, None) => {
            if let Some(why) = sent.hopeless {
                return Err(end_failure(args, &why, false, result.acknowledged));
            }
            let failed = result.sent - result.acknowledged;
            Err(Failure::run(anyhow!(
                "{failed} of {} updates were not done (--allow-failed accepts that)",
                result.sent
            )))
        }
    }
}

/// Sends the updates of a file, with the outcome of each in another.
pub(crate) fn transmit(
    sender: &Sender,
    updates: &Path,
    outcomes: &Path,
    zones: &Zones,
) -> Result<(UpdateRun, Sent), Failure> {
    let stream = UpdateReader::open(updates).map_err(Failure::input)?.asking(zones);
    let unsent = stream.unsent();
    not_an_input(outcomes, [updates])?;
    let mut outcomes = BufWriter::new(create(outcomes)?);
    let system =
        System { kill: lab::durability::kill_at_once, run_delay: udp::sys::thread_run_delay };
    let stop = interruption()?;
    let sent = sender.run(stream, &mut outcomes, system, &stop);
    print_unsent(&unsent, updates);
    outcomes.flush().map_err(Failure::run)?;
    Ok((result(sender, &sent), sent))
}

/// Prints which lines of a script are not sent.
fn print_unsent(unsent: &UnsentUpdates, path: &Path) {
    if let Some(note) = unsent.note() {
        eprintln!("{}: {note}", path.display());
    }
}

/// Returns the reason why not all updates were done, and the number of done updates.
fn end_failure(args: &SendArgs, why: &str, bad_input: bool, acknowledged: u64) -> Failure {
    let done = format!("{acknowledged} updates were done before and stay done");
    if bad_input {
        Failure::input(anyhow!("{why}\n{done}"))
    } else {
        Failure::run(anyhow!("{}: {why}\n{done}", args.server))
    }
}

/// Starts the primary again and looks up the updates that it acknowledged.
fn survivors(
    args: &SendArgs,
    command: &str,
    outcomes: &Path,
    zones: &Zones,
) -> anyhow::Result<record::Durability> {
    let open = || UpdateReader::open(&args.updates).map(|updates| updates.asking(zones));
    // The sender has already looked up the zone.
    let first = open()?.next_update()?.ok_or_else(|| anyhow!("there are no updates"))?;
    let mut started = lab::durability::start_again(command)?;
    wait_ready(args.server, first.zone(), MAX_RESTART, || match started.try_wait() {
        // A command that ended well may have started the server in the background.
        Ok(Some(status)) if !status.success() => Err(format!("`{command}` failed: {status}")),
        Ok(_) => Ok(()),
        Err(e) => Err(e.to_string()),
    })?;
    let acknowledged = acknowledged(outcomes)?;
    Ok(check(args.server, open, |number| acknowledged.contains(&number))?)
}

fn result(sender: &Sender, sent: &Sent) -> UpdateRun {
    let tally = &sent.tally;
    let lags = sender.watch.iter().zip(&sent.lags).map(|(server, lag)| {
        let (lag_us, unseen) = (Times::from(&lag.times), lag.unseen);
        record::Lag { server: server.to_string(), lag_us, unseen }
    });
    let rcodes = tally.rcodes.iter().map(|(rcode, count)| (rcode_name(*rcode), *count)).collect();
    UpdateRun {
        schema: SCHEMA,
        server: sender.server.to_string(),
        transport: if sender.tcp { "tcp" } else { "udp" }.to_owned(),
        key: sender.key.as_ref().map(|key| key.name().to_owned()),
        rate: sender.rate,
        window: sender.window,
        seconds: sent.seconds,
        run_delay: sent.run_delay.map(|delay| delay.as_secs_f64() / sent.seconds.max(1e-9)),
        sent: tally.sent,
        acknowledged: tally.acknowledged(),
        rcodes,
        lost: tally.lost,
        per_second: tally.acknowledged() as f64 / sent.seconds.max(1e-9),
        latency_us: Times::from(&tally.latency),
        interrupted: sent.interrupted,
        killed: sent.killed,
        ended_by: sent.ended_by.clone(),
        left_out: sent.hopeless.clone().filter(|why| sent.ended_by.as_ref() != Some(why)),
        durability: None,
        lags: lags.collect(),
    }
}

fn look_up(args: &UpdateCheckArgs) -> Result<(), Failure> {
    let zones = Zones::of(args.server);
    let open = || UpdateReader::open(&args.updates).map(|updates| updates.asking(&zones));
    let acknowledged = args.outcomes.as_deref().map(acknowledged).transpose();
    let acknowledged = acknowledged.map_err(Failure::input)?;
    let wanted = |number| acknowledged.as_ref().is_none_or(|numbers| numbers.contains(&number));
    let found = check(args.server, open, wanted).map_err(|error| match error {
        CheckError::Stream(error) if error.is_bad_input() => Failure::input(error),
        error => Failure::run(error),
    })?;
    if let Some(json) = &args.json {
        return record::write(json, &UpdateCheck { schema: SCHEMA, found }).map_err(Failure::run);
    }
    println!("{} updates were looked up, {} are missing", found.acknowledged, found.gone);
    found.examples.iter().for_each(|name| println!("  missing: {name}"));
    if found.gone > 0 { Err(Failure::Silent) } else { Ok(()) }
}

fn apply(args: &ApplyArgs) -> Result<(), Failure> {
    let fail = |error| match error {
        ApplyError::Write(_) => Failure::run(error),
        _ => Failure::input(error),
    };
    let updates = UpdateReader::open(&args.updates).map_err(Failure::input)?;
    let unsent = updates.unsent();
    let changes = Changes::read(updates).map_err(fail)?;
    print_unsent(&unsent, &args.updates);
    let zone = args.input.open().map_err(Failure::input)?;
    not_an_input(&args.output, [args.input.path(), args.updates.as_path()])?;
    let applied = changes.apply(zone, &mut output(&args.output)?).map_err(fail)?;
    eprintln!("{} records", applied.written.records);
    if applied.unmet > 0 {
        eprintln!(
            "{} updates changed nothing: a prerequisite was not met, or a name is outside of the zone",
            applied.unmet
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, rate) in [
            ("8", UpdateRate::PerSecond(8.0)),
            ("0.5/s", UpdateRate::PerSecond(0.5)),
            ("3%/day", UpdateRate::PercentPerDay(3.0)),
        ] {
            assert_eq!(parse_rate(text), Ok(rate));
        }
        for text in ["", "0", "-1", "3%", "3%/s", "inf", "x/s"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        let rate = per_second(UpdateRate::PercentPerDay(3.0), || Ok(8_640_000));
        assert_eq!(rate.ok(), Some(Some(3.0)));
    }
}
