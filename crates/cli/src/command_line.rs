//! The command line as clap reads it: settings of all commands, the two forms of help, completions,
//! suggestions.
//!
//! ```text
//! words ──> `--help all`? ──> the long help
//!       ──> clap (Cli) ──> a later option overrides an earlier one, `-5` is a value, --help is short
//! ```

use std::ffi::OsString;
use std::net::IpAddr;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};

use crate::Cli;
use crate::arguments::OUTPUT;
use crate::commands::runs;
use crate::failure::Failure;
use crate::output::print;

pub(crate) const COMPLETIONS: &str = "Examples:
  For this user, bash and fish
    dnsdyno completions bash > ~/.local/share/bash-completion/completions/dnsdyno
    dnsdyno completions fish > ~/.config/fish/completions/dnsdyno.fish

  zsh, in a folder of $fpath
    dnsdyno completions zsh > ~/.zfunc/_dnsdyno";

/// Commands in the help of the program.
const GROUPS: [(&str, &str); 5] = [
    ("Measure a server", "demo load search diff merge dnsperf resperf kxdpgun"),
    ("Lab", "run history bisect servers auth agent"),
    ("This machine", "doctor host selftest verify completions"),
    ("Results", "show runs compare report export site delete"),
    ("Data", "trace zone update"),
];

/// Commands whose help is short unless the whole help is requested.
const WITH_LONG_HELP: [&str; 2] = ["load", "search"];

/// Headings of options that the short help leaves out.
const LONG_HELP_HEADINGS: [&str; 2] = ["Sockets and threads", "Transport"];

/// Headings whose options the short help has too.
const SHORT_HELP_OPTIONS: [&str; 4] = ["cpus", "transport", "clients", "queries_per_connection"];

/// Options of the workload that the short help leaves out.
const RARE_WORKLOAD: [&str; 12] = [
    "mix_names",
    "mix_exponent",
    "mix_repeats",
    "mix_missing",
    "unpadded",
    "first_name",
    "repeat_share",
    "repeat_names",
    "edns_option",
    "messages",
    "random_subdomain",
    "no_recursion",
];

/// Options of `run` without an effect in related commands, which refuse them: their help leaves
/// them out.
const UNUSED_RUN_OPTIONS: [(&str, &[&str]); 2] = [
    ("history", &["list", "resume"]),
    (
        "bisect",
        &[
            "list", "resume", "repeats", "servers", "custom", "remote", "baseline", "fail_if",
            "metrics", "hosts", "least", "mpirun", "cluster", "no_store", "store",
        ],
    ),
];

/// Words that other tools use for options.
const FOREIGN_WORDS: [(&str, &str); 12] = [
    ("qps", "--rate"),
    ("max-qps", "--rate"),
    ("concurrency", "--clients"),
    ("connections", "--clients"),
    ("time", "--duration"),
    ("query", "use `--name NAME` here, or `--queries FILE`"),
    ("file", "--queries"),
    ("output", "--json"),
    ("server", "the server is the first argument, without an option"),
    (
        "port",
        "the server's port follows its address (192.0.2.1:5300); ports of a capture are `--dns-port`",
    ),
    ("insecure", "without `--ca FILE` no certificate is checked"),
    ("csv", "--format csv"),
];

/// Returns the command with the settings that all commands share.
pub(crate) fn command() -> Command {
    let mut command = grouped(numbers_are_values(Cli::command().args_override_self(true)));
    for name in WITH_LONG_HELP {
        command = command.mut_subcommand(name, |command| {
            let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
            let help = help
                .help_heading(OUTPUT)
                .help("Print the usual options; `--help all` prints all of them");
            let version = Arg::new("version").short('V').long("version");
            let version =
                version.action(ArgAction::Version).help_heading(OUTPUT).help("Print version");
            let command = command.disable_help_flag(true).disable_version_flag(true);
            command.args([help, version]).mut_args(|arg| {
                let (id, heading) = (arg.get_id().to_string(), arg.get_help_heading());
                let rare = heading.is_some_and(|heading| LONG_HELP_HEADINGS.contains(&heading))
                    && !SHORT_HELP_OPTIONS.contains(&id.as_str());
                let rare = rare || RARE_WORKLOAD.contains(&id.as_str());
                if rare { arg.hide_short_help(true) } else { arg }
            })
        });
    }
    UNUSED_RUN_OPTIONS.into_iter().fold(command, |command, (name, ids)| {
        let hidden = |command: Command, id: &&str| command.mut_arg(*id, |arg| arg.hide(true));
        command.mut_subcommand(name, |command| ids.iter().fold(command, hidden))
    })
}

/// Gives the program a help with its commands in groups.
fn grouped(command: Command) -> Command {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        text += &format!("\n{group}:\n");
        for name in names.split(' ') {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            text +=
                &format!("  {name:<12} {}\n", about.map(ToString::to_string).unwrap_or_default());
        }
    }
    command.help_template(
        text + "\nOptions:\n{options}\n\n`dnsdyno COMMAND --help` explains a command.",
    )
}

/// Makes `-5` a value of each option, so that the option's own parser reports an error in it.
fn numbers_are_values(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let command = command.allow_negative_numbers(true);
    names
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, numbers_are_values))
}

/// Parses the words of the command line; prints help or an error, and returns the exit code for
/// that.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, ExitCode> {
    if let Some(help) = help_of_all(&words) {
        return match print(|out| write!(out, "{help}")) {
            Ok(()) => Err(ExitCode::SUCCESS),
            Err(failure) => Err(failure.report()),
        };
    }
    let parsed =
        command().try_get_matches_from(&words).and_then(|found| Cli::from_arg_matches(&found));
    parsed.map_err(|error| {
        let error = with_foreign_words(error, &words);
        // An error is ignored: the reader of the output has closed it.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    })
}

/// Returns the complete help of a command if the words are `dnsdyno COMMAND --help all`.
fn help_of_all(words: &[OsString]) -> Option<StyledStr> {
    let (name, rest) = (words.get(1)?.to_str()?, words.get(2..)?);
    let asked = rest.windows(2).any(|pair| pair[0] == "--help" && pair[1] == "all");
    if !asked || !WITH_LONG_HELP.contains(&name) {
        return None;
    }
    let mut all = command();
    all.build();
    Some(all.find_subcommand_mut(name)?.render_long_help())
}

/// Adds our word for an option that another tool has, where a port goes, and the formats of an export without one.
fn with_foreign_words(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
        && missing.iter().any(|argument| argument.starts_with("--format"))
    {
        let said = format!("a FORMAT is one of {}", runs::format_words());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![said.into()]));
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let follows_host = words
        .windows(2)
        .any(|pair| pair[1] == word.as_str() && pair[0].to_str().is_some_and(is_host));
    if follows_host && word.parse::<u16>().is_ok() {
        let said = format!("a port goes with a colon after the address: 127.0.0.1:{word}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![said.into()]));
        return error;
    }
    let word = word.trim_start_matches('-').to_owned();
    if let Some((_, ours)) = FOREIGN_WORDS.iter().find(|(theirs, _)| *theirs == word) {
        let _ = error.remove(ContextKind::SuggestedArg);
        // The usage names the option that looks most like the word, such as --dnssec for --insecure.
        let _ = error.remove(ContextKind::Usage);
        let said =
            if ours.starts_with('-') { format!("use `{ours}` here") } else { (*ours).to_owned() };
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![said.into()]));
    }
    error
}

/// Returns whether a word looks like an address or the name of a host.
fn is_host(word: &str) -> bool {
    let is_name = word.contains('.') && word.starts_with(char::is_alphabetic);
    word == "localhost" || is_name || word.parse::<IpAddr>().is_ok()
}

/// Writes the completions of a shell to the standard output.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "dnsdyno", &mut script);
    print(|out| out.write_all(&script))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Commands whose options are those of other programs.
    const DROP_INS: [&str; 3] = ["dnsperf", "resperf", "kxdpgun"];

    /// Headings that options of one concept have, and a part of the name of each of these.
    const CONCEPTS: [(&str, &[&str]); 6] = [
        (
            "Several Testers",
            &["slice", "start_at", "clock_bound", "hosts", "least", "mpirun", "cluster"],
        ),
        (
            "The server's host",
            &[
                "dut",
                "dut_process",
                "dut_program",
                "ssh",
                "dut_address",
                "dut_cpus",
                "auth",
                "auth_address",
                "auth_cpus",
            ],
        ),
        ("Engine", &["engine", "device", "neighbour"]),
        ("Input", &["device", "dnstap", "listen", "ports"]),
        ("Selection", &["zone", "qtype", "client", "from", "to", "sample", "seed", "only"]),
        (
            "Servers",
            &["servers", "servers_dir", "custom", "remote", "trust", "baseline", "fail_if"],
        ),
    ];

    /// Options whose value differs between commands: an output is a file, a folder or a prefix; a gate, a range, a type and a zone are
    /// one or several; `zone` counts the hosts and servers that it makes; `diff` compares TTLs, which others set; `run` has the
    /// cores of several roles.
    const SEVERAL_VALUES: [&str; 9] =
        ["output", "fail-if", "range", "type", "zone", "hosts", "servers", "ttl", "cpus"];

    /// Calls `each` with all commands, subcommands of their own included, but for those of other programs.
    fn every(command: &Command, path: &str, each: &mut impl FnMut(&str, &Command)) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let path = format!("{path}{} ", sub.get_name());
            if !DROP_INS.contains(&sub.get_name()) {
                each(path.trim_end(), sub);
                every(sub, &path, each);
            }
        }
    }

    #[test]
    fn a_port_without_a_colon_and_an_export_without_a_format_are_explained() {
        let said = |words: &[&str]| {
            let error = command().try_get_matches_from(words).expect_err("refused");
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            with_foreign_words(error, &words).to_string()
        };
        let port = said(&["dnsdyno", "load", "127.0.0.1", "5390"]);
        assert!(port.contains("with a colon after the address: 127.0.0.1:5390"), "{port}");
        let runs = said(&["dnsdyno", "compare", "1", "2", "3"]);
        assert!(!runs.contains("colon"), "{runs}");
        let export = said(&["dnsdyno", "export"]);
        assert!(export.contains("one of json, json-lines, csv"), "{export}");
    }

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        let command = command();
        let all = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let mut all: Vec<&str> = all.map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
        let help = command.clone().render_help().to_string();
        let mut commands = help.lines().filter(|line| line.starts_with("  "));
        let long = commands.find(|line| line.chars().count() > 80);
        assert!(long.is_none() && help.contains("\nResults:\n  show "), "{long:?} {help}");
    }

    #[test]
    fn an_option_means_one_thing() {
        let mut seen: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
        every(&command(), "", &mut |path, sub| {
            for arg in sub.get_arguments().filter(|arg| arg.get_long().is_some()) {
                let long = arg.get_long().expect("an option").to_owned();
                let values = match arg.get_action().takes_values() {
                    true => arg
                        .get_value_names()
                        .map(|names| names.iter().map(ToString::to_string).collect()),
                    false => None,
                };
                let values: Vec<String> = values.unwrap_or_default();
                let (first, before) =
                    seen.entry(long.clone()).or_insert((path.to_owned(), values.clone()));
                assert_eq!(values.is_empty(), before.is_empty(), "--{long} of {first} and {path}");
                // Which one writes or reads, waits or chooses, is in the name.
                if !SEVERAL_VALUES.contains(&&*long) {
                    assert_eq!(&values, before, "--{long} of {first} and {path}");
                }
            }
        });
        assert!(seen.contains_key("write-certificate") && !seen.contains_key("port"));
    }

    #[test]
    fn no_heading_holds_for_options_of_another_concept() {
        every(&command(), "", &mut |path, sub| {
            for arg in sub.get_arguments() {
                let concept =
                    CONCEPTS.iter().find(|(heading, _)| arg.get_help_heading() == Some(heading));
                let fits = concept.is_none_or(|(_, ids)| ids.contains(&arg.get_id().as_str()));
                assert!(fits, "{path}: --{} is under {:?}", arg.get_id(), arg.get_help_heading());
            }
        });
    }

    #[test]
    fn a_time_without_a_unit_has_seconds() {
        // Instants, and a bound that may be a word.
        let instants = ["start-at", "from", "to", "clock-bound"];
        let mut tried = 0;
        let mut all = command();
        all.build();
        every(&all, "", &mut |path, sub| {
            for arg in sub
                .get_arguments()
                .filter(|arg| arg.get_long().is_some_and(|l| !instants.contains(&l)))
            {
                let is_time = arg
                    .get_value_names()
                    .is_some_and(|names| names.iter().any(|name| name == "TIME"));
                if !is_time {
                    continue;
                }
                let option = format!("--{}=5", arg.get_long().expect("an option"));
                let words = [path, &option];
                let error = sub.clone().try_get_matches_from(words).err();
                let kind = error.as_ref().map(clap::Error::kind);
                assert_ne!(kind, Some(ErrorKind::ValueValidation), "{path} {option}: {error:?}");
                tried += 1;
            }
        });
        assert!(tried > 20, "{tried}");
    }

    #[test]
    fn a_foreign_word_brings_no_option_that_looks_like_it() {
        let words = ["dnsdyno", "load", "::1", "--insecure"];
        let error = command().try_get_matches_from(words).expect_err("not an option of ours");
        let text = with_foreign_words(error, &[]).to_string();
        assert!(text.contains("--ca FILE") && !text.contains("--dnssec"), "{text}");
    }

    #[test]
    fn the_help_of_a_load_begins_with_server_names_and_rate() {
        let mut all = command();
        all.build();
        let load = all.find_subcommand_mut("load").expect("a command");
        let help = load.render_help().to_string();
        let places = [
            "<TARGET>  ",
            "--queries <FILE>",
            "--name <NAME>",
            "--namespace <PREFIX>",
            "--rate <RATE>",
            "--pacing <PACING>",
        ];
        let places = places.map(|text| help.find(text).unwrap_or_else(|| panic!("{text}: {help}")));
        assert!(places.is_sorted(), "{places:?} {help}");
        assert!(!help.contains("\nOptions:"), "{help}");
    }

    #[test]
    fn the_short_options_of_the_field_are_those_of_dnsperf() {
        let parse = |line: &str| {
            let found = command().try_get_matches_from(line.split(' ')).expect(line);
            match Cli::from_arg_matches(&found).expect(line).command {
                crate::Command::Load(args) => args.request().expect(line),
                other => panic!("{other:?}"),
            }
        };
        let short = parse("dnsdyno load ::1 -d q.txt -Q 500 -l 5 -c 3 -q 20 -T 1 -t 2 -n 4");
        let mut long = parse(
            "dnsdyno load ::1 --queries q.txt --rate 500 --duration 5s --clients 3 --window 20 --timeout 2s --runs 4",
        );
        // A thread has a core.
        long.sockets.cpus.clone_from(&short.sockets.cpus);
        assert_eq!((&short, short.sockets.cpus.len()), (&long, 1));
        assert_eq!(short.pacing.to_string(), "window 20 at most 500");
    }

    #[test]
    fn the_commands_are_consistent() {
        command().debug_assert();
    }
}
