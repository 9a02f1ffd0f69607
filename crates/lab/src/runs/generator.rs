//! External generators for the comparison of seed 002: the shell script that starts `host`
//! processes, dnsperf, and dns64perf++. Each prints a line for each experiment of 256 queries, or
//! one line for all experiments.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use experiment::settings::Generator;
use experiment::{GeneratorSpec, GeneratorTimes};
use measure::pacing::EXPERIMENT;
use measure::stats;
use wire::{Name, Namespace, Qtype, query_line};

/// Number of queries that dnsperf keeps outstanding by default; our closed loop uses the same.
pub(crate) const OUTSTANDING: u32 = 100;
/// Time limit of dnsperf, and of one experiment of the script, which takes some seconds, mostly for starting 256 processes.
const DNSPERF_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of one experiment of dns64perf++, which takes milliseconds and a little more to start.
const EXPERIMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The core of the script of seed 002: 256 `host` processes, four at a time. A line for each
/// experiment: its microseconds, and how many queries got no answer that matches `ANSWER`.
const SCRIPT_TEXT: &str = r#"
i=0
while [ $i -lt "$EXPERIMENTS" ]; do
    begin=$(date +%s%N)
    missing=$(xargs -P 4 -n 2 sh -c \
        'host -t "$1" -p "$PORT" "$0" "$SERVER" | grep -Eq "$ANSWER" || echo no' \
        < "$NAMES.$i" | wc -l)
    end=$(date +%s%N)
    echo "experiment $(( (end - begin) / 1000 )) $missing"
    i=$((i + 1))
done
"#;

/// dnsperf for two seconds, or until it has no more names: the mean time of 256 queries, and the number of lost ones.
const DNSPERF_TEXT: &str = r#"
dnsperf -s "$SERVER" -p "$PORT" -d "$NAMES.0" -n 1 -l 2 -c 1 -q 100 -t 1 |
    awk '/Queries completed:/ { completed = $3 } /Queries lost:/ { lost = $3 } /Run time/ { time = $4 }
         END { if (completed) printf "experiment %.1f %d\n", time * 256000000 / completed, lost }'
"#;

/// The same with dns64perf++: bursts of 256 queries, 0.1 s apart. An experiment ends with its last reply, by the table of
/// queries that the program writes.
const DNS64PERFPP_TEXT: &str = r#"
dns64perf++ "$SERVER" "$PORT" "$BLOCK" $((EXPERIMENTS * 256)) 256 1 100000000 1 >&2 &&
    awk -F ';' '/;/ && $3 + 0 {
                    i = int(n / 256)
                    n += 1
                    if (!($6 + 0)) lost[i]++
                    if (!(i in begin) || $3 < begin[i]) begin[i] = $3
                    if ($5 + 0 && $4 > end[i]) end[i] = $4
                }
                END { for (i = 0; i < n / 256; i++)
                          printf "experiment %d %d\n", (end[i] - begin[i]) / 1000, lost[i] }' dns64perf.csv
"#;

/// Output of `host` for an address.
const ADDRESS: &str = "has IPv6 address";
/// Output of `host` for any answer: a record, no record, no such name.
const ANY_ANSWER: &str = "has |NXDOMAIN|is handled by|name server|descriptive text|alias";

/// Line that begins the output of a run in the log.
const BEGAN_LINE: &str = "the generators begin";

/// Largest number of queries of a query file that an external generator sends; then it starts
/// again.
const MOST_QUERIES: usize = 1 << 20;

/// Queries of an external generator.
#[derive(Clone, Debug)]
pub(crate) enum GeneratorQueries {
    /// Names of a namespace, each once; AAAA records.
    Names(Box<Namespace>),
    /// Queries of a query file, in their order.
    Queries(Vec<(Name, Qtype)>),
}

impl GeneratorQueries {
    /// Reads the first queries of a query file, in which there is at least one.
    pub(crate) fn file(path: &Path) -> io::Result<Self> {
        let lines = BufReader::new(fs::File::open(path)?).split(b'\n');
        let query = |line: io::Result<Vec<u8>>| {
            line.map(|line| query_line::parse(&line).ok().flatten()).transpose()
        };
        let queries = lines.filter_map(query).take(MOST_QUERIES);
        Ok(GeneratorQueries::Queries(queries.collect::<io::Result<_>>()?))
    }

    /// Returns query number `index` as a line; the first one follows after the last.
    fn line(&self, index: u64) -> String {
        let (name, qtype) = match self {
            GeneratorQueries::Names(namespace) => {
                (namespace.name(namespace.nth(index % namespace.size())), Qtype::AAAA)
            }
            GeneratorQueries::Queries(queries) => queries[index as usize % queries.len()],
        };
        format!("{} {qtype}\n", name.to_string().trim_end_matches('.'))
    }
}

/// Error of an external generator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GeneratorError {
    /// A program that the generator needs is not installed.
    #[error("no program `{program}` on PATH; {remedy}")]
    Missing {
        /// Name of the program on PATH.
        program: &'static str,
        /// How to get the program.
        remedy: &'static str,
    },
    /// The generator queries its own names only.
    #[error(
        "dns64perf++ asks for padded names of a namespace: no `queries`, and `unpadded = false`"
    )]
    OwnNames,
    /// A file of the generator could not be written or read.
    #[error("{0}: {1}")]
    Io(String, #[source] io::Error),
    /// The output contains too few times.
    #[error("{found} of {wanted} experiments have a time; the last line is `{last}`")]
    Times {
        /// Number of experiments with a time.
        found: usize,
        /// Number of experiments that were requested.
        wanted: u32,
        /// Last line of its output.
        last: String,
    },
}

/// Writes the names of each process and experiment, and returns the command line that queries them.
pub(crate) fn prepare(
    spec: &GeneratorSpec,
    server: SocketAddr,
    asked: &GeneratorQueries,
    dir: &Path,
) -> Result<Vec<OsString>, GeneratorError> {
    let (text, program, remedy) = match spec.generator {
        Generator::Dnsperf => (DNSPERF_TEXT, "dnsperf", "as root: apt-get install dnsperf"),
        Generator::Dns64perfpp => (
            DNS64PERFPP_TEXT,
            "dns64perf++",
            "build github.com/bakaid/dns64perfpp (benches/vs-dns64perf says how)",
        ),
        _ => (SCRIPT_TEXT, "host", "as root: apt-get install bind9-host"),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|dir| dir.join(program).exists()) {
        return Err(GeneratorError::Missing { program, remedy });
    }
    let names = |process: u32| dir.join(format!("names.{process}"));
    let (files, each) = match spec.generator {
        Generator::Script => (spec.experiments, u64::from(EXPERIMENT)),
        Generator::Dnsperf => (1, spec.names),
        _ => (0, 0),
    };
    for process in 0..spec.processes {
        let first = spec.first_name + u64::from(process) * spec.names;
        for number in 0..files {
            let indices = first + u64::from(number) * each..first + u64::from(number + 1) * each;
            let lines: String = indices.map(|index| asked.line(index)).collect();
            let file = format!("{}.{number}", names(process).display());
            fs::write(&file, lines).map_err(|source| GeneratorError::Io(file, source))?;
        }
    }
    let block = block(spec, asked)?;
    let answer = if matches!(asked, GeneratorQueries::Names(_)) { ADDRESS } else { ANY_ANSWER };
    let settings = [
        ("EXPERIMENTS", spec.experiments.to_string()),
        ("SERVER", server.ip().to_string()),
        ("PORT", server.port().to_string()),
        ("ANSWER", answer.to_owned()),
        ("BLOCK", block),
    ];
    let mut command: Vec<OsString> = vec!["/usr/bin/env".into()];
    command.extend(settings.iter().map(|(name, value)| format!("{name}={value}").into()));
    let all = format!("echo {BEGAN_LINE}\nfor NAMES; do (\n{text}\n) & done\nwait");
    command.extend(["/bin/sh".into(), "-c".into(), all.into(), "sh".into()]);
    command.extend((0..spec.processes).map(|process| names(process).into()));
    Ok(command)
}

/// Returns the prefix of the names that dns64perf++ queries: the first whole prefix among the names
/// that it may use; empty for other generators.
fn block(spec: &GeneratorSpec, asked: &GeneratorQueries) -> Result<String, GeneratorError> {
    match (spec.generator, asked) {
        (Generator::Dns64perfpp, GeneratorQueries::Names(namespace)) if namespace.is_padded() => {
            let size = spec.generator.names(spec.experiments) / 2;
            let first = namespace.nth(spec.first_name.next_multiple_of(size));
            Ok(format!("{first}/{}", 32 - size.ilog2()))
        }
        (Generator::Dns64perfpp, _) => Err(GeneratorError::OwnNames),
        _ => Ok(String::new()),
    }
}

/// Returns the time limit of a generator.
pub(crate) fn limit(spec: &GeneratorSpec) -> Duration {
    match spec.generator {
        Generator::Script => DNSPERF_TIMEOUT.saturating_mul(spec.experiments),
        Generator::Dnsperf => DNSPERF_TIMEOUT,
        _ => EXPERIMENT_TIMEOUT.saturating_mul(spec.experiments),
    }
}

/// Reads the times of the last run from its output in `log`.
pub(crate) fn read_times(
    spec: &GeneratorSpec,
    log: &Path,
) -> Result<GeneratorTimes, GeneratorError> {
    let text = fs::read_to_string(log)
        .map_err(|source| GeneratorError::Io(log.display().to_string(), source))?;
    let timed = spec.generator.is_timed();
    let wanted = spec.processes * if timed { 1 } else { spec.experiments };
    let found = times(wanted, timed, &text)?;
    // A closed loop reports only a mean, without a deviation.
    let of_each = |seconds: Option<f64>| seconds.filter(|_| !timed);
    Ok(GeneratorTimes { std_dev_s: of_each(found.std_dev_s), max_s: of_each(found.max_s), ..found })
}

/// Parses the times of the last run in a log: `wanted` lines `experiment MICROSECONDS UNANSWERED`. The mean of processes that send for
/// the same `timed` duration is that of their rates.
fn times(wanted: u32, timed: bool, text: &str) -> Result<GeneratorTimes, GeneratorError> {
    let ours: Vec<(f64, u64)> = text
        .lines()
        .rev()
        .take_while(|line| *line != BEGAN_LINE)
        .filter_map(|line| {
            let mut words = line.strip_prefix("experiment ")?.split_ascii_whitespace();
            Some((words.next()?.parse::<f64>().ok()? / 1e6, words.next()?.parse().ok()?))
        })
        .collect();
    if ours.len() < wanted as usize {
        let last = text.lines().last().unwrap_or_default().to_owned();
        return Err(GeneratorError::Times { found: ours.len(), wanted, last });
    }
    let times_s: Vec<f64> = ours.iter().map(|(time, _)| *time).collect();
    let rates: Vec<f64> = times_s.iter().map(|time| 1.0 / time).collect();
    let mean_s =
        if timed { stats::mean(&rates).map(|rate| 1.0 / rate) } else { stats::mean(&times_s) };
    Ok(GeneratorTimes {
        mean_s: mean_s.unwrap_or_default(),
        std_dev_s: stats::std_dev(&times_s),
        max_s: times_s.iter().copied().reduce(f64::max),
        unanswered: ours.iter().map(|(_, unanswered)| unanswered).sum(),
        ..GeneratorTimes::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_last_run() {
        let run = "noise\nexperiment 4663000 0\nexperiment 4710000 2\n";
        let log = &format!("{BEGAN_LINE}\nexperiment 9000000 256\n{BEGAN_LINE}\n{run}");
        let read = times(2, false, log).unwrap();
        assert!((read.mean_s - 4.6865).abs() < 1e-9);
        assert_eq!((read.max_s, read.unanswered), (Some(4.71), 2));
        let two = times(2, true, "experiment 2000 0\nexperiment 6000 0\n").unwrap();
        // 500 and 166.7 a second together are two of 333.3 a second.
        assert!((two.mean_s - 0.003).abs() < 1e-9);
        let error = times(3, false, log).unwrap_err().to_string();
        assert!(error.starts_with("2 of 3 experiments have a time"), "{error}");
        assert!(
            times(1, false, "sh: host: not found\n").unwrap_err().to_string().contains("not found")
        );
    }

    #[test]
    fn a_query_file_is_asked_in_its_order_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q");
        fs::write(&path, "; two\na.test A\n\nb.test MX\n").unwrap();
        let asked = GeneratorQueries::file(&path).unwrap();
        let lines: String = (0..3).map(|index| asked.line(index)).collect();
        assert_eq!(lines, "a.test A\nb.test MX\na.test A\n");
    }

    #[test]
    fn dns64perfpp_is_read_from_its_table() {
        let namespace = |text: &str| Namespace::with_default_zone(text.parse().unwrap());
        let generator = Generator::Dns64perfpp;
        let spec =
            GeneratorSpec { generator, experiments: 2, processes: 1, first_name: 10, names: 2_048 };
        let names = |padded| {
            GeneratorQueries::Names(Box::new(namespace("10.0.0.0/8").with_padding(padded)))
        };
        assert_eq!(block(&spec, &names(true)).unwrap(), "10.0.2.0/23");
        assert!(matches!(block(&spec, &names(false)), Err(GeneratorError::OwnNames)));
        // Two experiments of 256: the second begins 0.1 s later, and its last query has no answer.
        let dir = tempfile::tempdir().unwrap();
        let row = |i: u64| {
            let (sent, lost) = (5_000_000_000 + i / 256 * 100_000_000 + i % 256 * 1_000, i == 511);
            let answered = u64::from(!lost);
            format!("n;0;{sent};{};{answered};{answered};9000\n", (sent + 9_000) * answered)
        };
        let head = "dns64perf++ test parameters\nserver: ::1\nport: 53\n\nquery;thread id;tsent [ns];treceived [ns];received;answered;rtt [ns]\n";
        let table: String = std::iter::once(head.to_owned()).chain((0..512).map(row)).collect();
        fs::write(dir.path().join("table"), table).unwrap();
        let program = dir.path().join("dns64perf++");
        fs::write(&program, "#!/bin/sh\necho $@\ncp table dns64perf.csv\n").unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", DNS64PERFPP_TEXT]).current_dir(dir.path()).env("PATH", path);
        shell.env("EXPERIMENTS", "2").env("SERVER", "::1").env("PORT", "53");
        let printed = shell.env("BLOCK", "10.0.2.0/23").output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&printed.stdout),
            "experiment 264 0\nexperiment 263 1\n"
        );
        let arguments = String::from_utf8_lossy(&printed.stderr).into_owned();
        assert_eq!(arguments, "::1 53 10.0.2.0/23 512 256 1 100000000 1\n");
    }

    #[test]
    fn each_process_and_experiment_has_names_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = Namespace::with_default_zone("10.0.0.0/8".parse().unwrap());
        let server: SocketAddr = "[fd00:9::2]:53".parse().unwrap();
        let asked = GeneratorQueries::Names(Box::new(namespace));
        let of = |generator, number: &str, count: usize, first: &str| {
            let names = if generator == Generator::Script { 512 } else { 1_000 };
            let spec =
                GeneratorSpec { generator, experiments: 2, processes: 2, first_name: 10, names };
            match prepare(&spec, server, &asked, dir.path()) {
                Ok(command) => {
                    assert!(command.contains(&OsString::from("SERVER=fd00:9::2")), "{command:?}");
                    assert!(command.ends_with(
                        &["0", "1"].map(|n| dir.path().join(format!("names.{n}")).into())
                    ));
                    let file = fs::read_to_string(dir.path().join(format!("names.{number}")));
                    let lines: Vec<String> = file.unwrap().lines().map(str::to_owned).collect();
                    assert_eq!((lines.len(), &*lines[0]), (count, first));
                }
                Err(e) => assert!(matches!(e, GeneratorError::Missing { .. }), "{e}"),
            }
        };
        of(Generator::Script, "0.1", 256, "010-000-001-010.dns64perf.test AAAA");
        of(Generator::Script, "1.0", 256, "010-000-002-010.dns64perf.test AAAA");
        of(Generator::Dnsperf, "1.0", 1_000, "010-000-003-242.dns64perf.test AAAA");
    }
}
