//! The command line as clap reads it: what holds for all commands, the two forms of help, completions, suggestions.
//!
//! ```text
//! words ──> `--help all`? ──> the long help
//!       ──> clap (Cli) ──> a later option overrides an earlier one, `-5` is a value, --help is short
//! ```

use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};

use crate::Cli;
use crate::failure::Failure;
use crate::output::print;

pub(crate) const COMPLETIONS: &str = "Examples:
  For this user, bash and fish
    dnsdyno completions bash > ~/.local/share/bash-completion/completions/dnsdyno
    dnsdyno completions fish > ~/.config/fish/completions/dnsdyno.fish

  zsh, in a folder of $fpath
    dnsdyno completions zsh > ~/.zfunc/_dnsdyno";

/// Commands whose help is short unless all of it is wanted.
const LONG: [&str; 2] = ["load", "search"];

/// Headings of options that the short help leaves out.
const RARE: [&str; 2] = ["Sockets and threads", "Transport"];

/// Options under these headings that the short help has all the same.
const COMMON: [&str; 4] = ["cpus", "transport", "clients", "queries_per_connection"];

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

/// Words that other tools use for options of `load` and `search`.
const FOREIGN: [(&str, &str); 9] = [
    ("qps", "--rate"),
    ("max-qps", "--rate"),
    ("concurrency", "--clients"),
    ("connections", "--clients"),
    ("time", "--duration"),
    ("query", "--name"),
    ("file", "--queries"),
    ("output", "--json"),
    ("server", "the server is the first argument, without an option"),
];

/// Returns the command with all that holds for each of its commands.
pub(crate) fn command() -> Command {
    let mut command = numbers_are_values(Cli::command().args_override_self(true));
    for name in LONG {
        command = command.mut_subcommand(name, |command| {
            let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
            let help = help
                .help_heading(None::<&str>)
                .help("Print the usual options; `--help all` prints all of them");
            command.disable_help_flag(true).arg(help).mut_args(|arg| {
                let (id, heading) = (arg.get_id().to_string(), arg.get_help_heading());
                let rare = heading.is_some_and(|heading| RARE.contains(&heading))
                    && !COMMON.contains(&id.as_str());
                let rare = rare || RARE_WORKLOAD.contains(&id.as_str());
                if rare { arg.hide_short_help(true) } else { arg }
            })
        });
    }
    command
}

/// Makes `-5` a value of each option, so that its own parser says what is wrong with it.
fn numbers_are_values(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let command = command.allow_negative_numbers(true);
    names
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, numbers_are_values))
}

/// Parses the words of the command line; prints help or what is wrong with them, and returns the exit code for that.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, ExitCode> {
    if let Some(help) = help_of_all(&words) {
        return match print(|out| write!(out, "{help}")) {
            Ok(()) => Err(ExitCode::SUCCESS),
            Err(failure) => Err(failure.report()),
        };
    }
    let parsed =
        command().try_get_matches_from(words).and_then(|found| Cli::from_arg_matches(&found));
    parsed.map_err(|error| {
        let error = with_foreign_words(error);
        // A reader that is gone needs no help.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    })
}

/// Returns the whole help of a command if the words are `dnsdyno COMMAND --help all`.
fn help_of_all(words: &[OsString]) -> Option<StyledStr> {
    let (name, rest) = (words.get(1)?.to_str()?, words.get(2..)?);
    let asked = rest.windows(2).any(|pair| pair[0] == "--help" && pair[1] == "all");
    if !asked || !LONG.contains(&name) {
        return None;
    }
    let mut all = command();
    all.build();
    Some(all.find_subcommand_mut(name)?.render_long_help())
}

/// Adds our word for an option that another tool has.
fn with_foreign_words(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let word = word.trim_start_matches('-').to_owned();
    if let Some((_, ours)) = FOREIGN.iter().find(|(theirs, _)| *theirs == word) {
        let _ = error.remove(ContextKind::SuggestedArg);
        let said =
            if ours.starts_with('-') { format!("here it is `{ours}`") } else { (*ours).to_owned() };
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![said.into()]));
    }
    error
}

/// Writes the completions of a shell to the standard output.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "dnsdyno", &mut script);
    print(|out| out.write_all(&script))
}

/// Returns the name that is most like `word`, if one is.
pub(crate) fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::jaro_winkler(word, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn names_that_are_alike_are_suggested() {
        let names = || ["dns64-rfc8219", "dns64-cached", "auth-memory"].into_iter();
        assert_eq!(nearest("dns64-rfc8129", names()), Some("dns64-rfc8219"));
        assert_eq!(nearest("cert", names()), None);
    }
}
