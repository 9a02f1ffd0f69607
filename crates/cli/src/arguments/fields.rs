//! Errors in fields of a request, which name the arguments that the fields come from.

use tester::{Invalid, TesterError};

use crate::failure::Failure;

/// Fields whose last word is not the name of their argument, with the argument.
const FLAGS: [(&str, &str); 19] = [
    ("workload.namespace.prefix", "--namespace"),
    ("workload.namespace.repeats", "--repeat-share and --repeat-names"),
    ("workload.namespace.reuse", "--reuse-names"),
    ("workload.namespace.expect.embedded", "--expect-pref64"),
    ("workload.query.edns.options", "--edns-option"),
    ("workload.qtype", "--type"),
    ("workload.mix.repeats", "--mix-repeats"),
    ("workload.mix.missing", "--mix-missing"),
    ("workload.replay.capture", "--replay"),
    ("workload", "the workload"),
    ("engine.streams.transports", "--transports"),
    ("engine.streams.padding", "--pad"),
    ("engine.streams.http.path", "--http-path"),
    ("engine.streams.proxy.within_tls", "--proxy-within-tls"),
    ("engine.streams.tls.name", "--tls-name"),
    ("engine.streams.tls.version", "--tls-version"),
    ("engine.streams.tls.ca", "--ca"),
    ("sockets.count", "--ports"),
    ("sockets.per_worker", "--ports-per-thread"),
];

/// Returns the argument that a field of a request comes from.
fn flag(field: &str) -> String {
    let known = FLAGS.iter().find(|(known, _)| *known == field).map(|(_, flag)| *flag);
    let last = || field.rsplit('.').next().unwrap_or(field).replace('_', "-");
    known.map_or_else(|| format!("--{}", last()), str::to_owned)
}

impl From<TesterError> for Failure {
    /// Names the argument instead of the field.
    fn from(error: TesterError) -> Self {
        let words = match &error {
            TesterError::Invalid(Invalid::Value { field, why }) => {
                format!("{}: {why}", flag(field))
            }
            TesterError::Invalid(Invalid::Transport { field, wanted, because }) => {
                format!("{} requires --transport {wanted}{because}", flag(field))
            }
            other => other.to_string(),
        };
        let bad = error.is_bad_input();
        let error = anyhow::anyhow!(words);
        if bad { Failure::BadInput(error) } else { Failure::Failed(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_flags() {
        assert_eq!(flag("engine.streams.queries_per_connection"), "--queries-per-connection");
        assert_eq!(flag("engine.streams.tls.ca"), "--ca");
        assert_eq!(flag("timeout"), "--timeout");
    }
}
