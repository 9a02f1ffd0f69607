//! Requests to a running server: the arguments of `dns64d ctl`, and their form on the socket.

use clap::{Subcommand, ValueEnum};
use dns64::config::LogLevel;
use serde::{Deserialize, Serialize};
use wire::Name;

/// A request to a running server.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Show the state: addresses, prefixes, upstream servers, cache, connections.
    Status,
    /// Show statistics since the start: answers by type, return code, transport and prefix, latencies.
    Stats,
    /// Remove answers from the cache.
    #[command(subcommand)]
    Flush(Flush),
    /// Show all answers in the cache.
    Dump,
    /// Take the server out of service: /health fails, new connections are refused, idle ones end. Queries over UDP are
    /// still answered.
    Drain {
        /// Put the server into service again.
        #[arg(long)]
        undo: bool,
    },
    /// Change the level of the log until the next reload.
    Log {
        /// The level.
        level: Level,
    },
    /// Read the configuration again, and show what has changed.
    Reload {
        /// Only show what would change, or what is wrong.
        #[arg(long)]
        dry_run: bool,
    },
}

/// The answers to remove from the cache.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Flush {
    /// The answers for a name.
    Name {
        /// The name.
        #[arg(value_parser = name)]
        name: String,
    },
    /// The answers for a name and all names below it.
    Zone {
        /// The name.
        #[arg(value_parser = name)]
        name: String,
    },
    /// All answers.
    All,
}

/// Level of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    /// Errors that need action.
    Error,
    /// Problems that may need action.
    Warn,
    /// Changes of state.
    Info,
    /// Single events.
    Debug,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => LogLevel::Error,
            Level::Warn => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
        }
    }
}

/// Returns a name if it is valid.
fn name(text: &str) -> Result<String, String> {
    match text.parse::<Name>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a request as it crosses the socket: one line of JSON.
///
/// # Errors
/// What is wrong with the line.
pub(crate) fn parse(line: &str) -> Result<Request, String> {
    serde_json::from_str(line).map_err(|error| format!("not a request: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_cross_the_socket() {
        for request in [
            Request::Status,
            Request::Flush(Flush::Zone { name: "example".into() }),
            Request::Flush(Flush::All),
            Request::Drain { undo: true },
            Request::Reload { dry_run: true },
            Request::Log { level: Level::Debug },
        ] {
            let line = serde_json::to_string(&request).expect("it has a form");
            assert_eq!(parse(&line), Ok(request));
        }
        assert!(parse("\"stop\"").is_err_and(|error| error.contains("stop")));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in "\\PC{0,60}") {
            if let Ok(request) = parse(&line) {
                let again = serde_json::to_string(&request).expect("it has a form");
                prop_assert_eq!(parse(&again), Ok(request));
            }
        }
    }
}
