//! Workload of a request: its texts become specifications of `load`, which make each worker's workload.

use std::path::Path;

use load::Tally;
use load::workload::feed::Feed;
use load::workload::file::{BadLines, Content, QueryFile, QueryFileError, QueryOptions, Sample};
use load::workload::generated::{GeneratedSpec, GeneratedWorkload};
use load::workload::mix::Mix;
use load::workload::namespace::{NamespaceExpect, NamespaceSpec, NamespaceWorkload};
use measure::{Slice, Warning};
use record::TrialRequest;
use record::request::{self, Engine, Names, Query, Repeats, Workload};
use wire::{Edns, Expect, Ipv4Prefix, Name, Namespace, Pref64, Qclass, Qtype};

use crate::error::{Invalid, TesterError};
use crate::replay::Replay;

/// Opens a file of queries or the standard input (`-`); one that gzip, xz or zstd compressed is decompressed.
fn open(path: &Path) -> Result<trace::source::Source, QueryFileError> {
    let source = trace::source::open(path);
    source.map_err(|source| QueryFileError::Unreadable(path.to_owned(), source))
}

/// Largest size of the queries of a pipe that are read completely before the load, in octets of
/// records: about ten million.
const MAX_PIPE: u64 = 256 << 20;

/// Returns whether an input is a pipe, which may never end.
pub(crate) fn is_pipe(path: &Path) -> bool {
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    std::fs::metadata(path).is_ok_and(|found| !found.is_file())
}

/// Specification of the queries, from which each worker makes its own workload.
#[derive(Clone, Debug)]
pub(crate) enum WorkloadPlan {
    /// Names of an IPv4 prefix.
    Namespace(NamespaceSpec),
    /// Names of an IPv4 prefix, with a share of repeated names.
    Repeating(NamespaceSpec, Mix),
    /// Queries of a pipe, and its path.
    Feed(Feed, QueryOptions, String),
    /// A query file, its options, and its description.
    File(QueryFile, QueryOptions, String),
    /// Generated queries, with their types and class and a seed.
    Generated(GeneratedSpec, Questions, QueryOptions, u64),
    /// The queries of a capture or of a population, at their own times.
    Replay(Replay),
}

impl WorkloadPlan {
    /// Parses the texts of a workload that is not a replay; compiles the query file. Names of a namespace are sent in
    /// their own order if `sequential`.
    pub(crate) fn new(request: &TrialRequest, sequential: bool) -> Result<Self, TesterError> {
        let (workload, seed) = (&request.workload, request.seed);
        let generated = |spec, qtype: &str, expect: &request::Expect, query: &Query| {
            let qtypes = qtype.split(',').map(|qtype| read("workload.qtype", qtype));
            let class = query.class.as_deref().map(|class| read("workload.query.class", class));
            let questions = Questions {
                qtypes: qtypes.collect::<Result<_, _>>()?,
                class: class.transpose()?.unwrap_or(Qclass::IN),
            };
            let plan = WorkloadPlan::Generated(spec, questions, options(query, expect)?, seed);
            // An invalid workload is reported here, before the workers start.
            plan.worker(0, 1)?;
            Ok(plan)
        };
        match workload {
            Workload::Namespace(names) => {
                let spec = namespace(names, seed, sequential)?;
                Ok(Self::repeating(spec, names.repeats)?)
            }
            Workload::QueryFile { path, expect, query, runs, probability, skip_bad } => {
                let sample = probability.map(|share| Sample { share, seed });
                if sample.is_some_and(|sample| !(sample.share > 0.0 && sample.share <= 1.0)) {
                    let why = "it is a share above 0 and up to 1";
                    return Err(Invalid::value("workload.probability", why).into());
                }
                let expecting = *expect == request::Expect::EachLine;
                let expect = if expecting { &request::Expect::Answered } else { expect };
                let options = QueryOptions { runs: *runs, sample, ..options(query, expect)? };
                let content = Content::Lines { expecting, skip_bad: *skip_bad };
                Self::of_input(request, path, content, options)
            }
            Workload::Messages { path, expect, runs } => {
                let query = Query::plain(false);
                let most = request.engine.longest_message(request.target);
                let options = QueryOptions { runs: *runs, ..options(&query, expect)? };
                Self::of_input(request, path, Content::Messages { most }, options)
            }
            Workload::Name { name, qtype, expect, query } => {
                let spec = GeneratedSpec::Single { name: read("workload.name", name)? };
                generated(spec, qtype, expect, query)
            }
            Workload::RandomSubdomain { zone, qtype, expect, query } => {
                let spec = GeneratedSpec::RandomSubdomain { zone: read("workload.zone", zone)? };
                generated(spec, qtype, expect, query)
            }
            Workload::Mix { zone, names, exponent, repeats, missing, qtype, expect, query } => {
                for (field, share) in
                    [("workload.mix.repeats", *repeats), ("workload.mix.missing", *missing)]
                {
                    if !(0.0..=1.0).contains(&share) {
                        let why = format!("{share}: a share is a number from 0 to 1");
                        return Err(Invalid::value(field, why).into());
                    }
                }
                let spec = GeneratedSpec::Mix {
                    zone: read("workload.zone", zone)?,
                    names: *names,
                    exponent: *exponent,
                    repeats: *repeats,
                    missing: *missing,
                };
                generated(spec, qtype, expect, query)
            }
            Workload::Replay { .. } => {
                let why = "a replay has its own pace and its own clients";
                Err(Invalid::value("workload.replay", why).into())
            }
        }
    }

    /// Compiles a file, or starts to read a pipe.
    fn of_input(
        request: &TrialRequest,
        path: &Path,
        content: Content,
        options: QueryOptions,
    ) -> Result<Self, TesterError> {
        let (input, text) = (open(path)?, path.display().to_string());
        // The kernel, a sample and dns64perf's load need all of a file before.
        let ahead = matches!(request.engine, Engine::Kernel(_)) || !request.pacing.is_timed();
        let whole = ahead || options.sample.is_some();
        // The path of a descriptor is meaningless to the user.
        let shown = if path.starts_with("/dev/fd") { Path::new("the pipe") } else { path };
        if !ahead && is_pipe(path) {
            let feed = Feed::start(input, shown, content, &options, request.slice);
            feed.wait()?;
            return Ok(WorkloadPlan::Feed(feed, options, text));
        }
        let most = is_pipe(path).then_some(MAX_PIPE);
        let file = QueryFile::start(input, shown, content, most)?;
        let text = format!("queries of {text}");
        match file.queries() {
            Some(queries) => Ok(WorkloadPlan::File(file, options, format!("{queries} {text}"))),
            None if whole => WorkloadPlan::File(file, options, text).with_whole_input(),
            None => Ok(WorkloadPlan::File(file, options, text)),
        }
    }

    /// Compiles the whole of a query file of which the end is not known yet.
    pub(crate) fn with_whole_input(self) -> Result<Self, TesterError> {
        let WorkloadPlan::File(file, options, text) = self else { return Ok(self) };
        let known = file.queries().is_some();
        let file = file.complete()?;
        let count = file.queries().filter(|_| !known);
        let text = count.map_or(text.clone(), |queries| format!("{queries} {text}"));
        Ok(WorkloadPlan::File(file, options, text))
    }

    /// Returns the same queries for a trial before the load, which leaves them all to it.
    pub(crate) fn for_asking(&self) -> Self {
        match self {
            WorkloadPlan::Feed(feed, options, path) => {
                WorkloadPlan::Feed(feed.for_asking(), options.clone(), path.clone())
            }
            other => other.clone(),
        }
    }

    /// Starts a trial: its queries are counted from 0.
    pub(crate) fn begin(&self) {
        match self {
            WorkloadPlan::Feed(feed, ..) => feed.begin(),
            WorkloadPlan::File(file, ..) => file.begin_run(),
            _ => {}
        }
    }

    /// Returns the error of the input that the queries come from, once, if the trial reached it.
    pub(crate) fn take_error(&self) -> Option<QueryFileError> {
        match self {
            WorkloadPlan::Feed(feed, ..) => feed.take_error(),
            WorkloadPlan::File(file, ..) => file.take_error(),
            _ => None,
        }
    }

    /// Returns the warnings about the queries.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let skipped = |bad: Option<BadLines>| {
            let warning = |bad: BadLines| Warning::LinesSkipped {
                lines: bad.count(),
                first: bad.to_string(),
            };
            bad.map(warning).into_iter().collect()
        };
        match self {
            WorkloadPlan::Replay(replay) => replay.warnings.clone(),
            WorkloadPlan::Feed(feed, ..) => skipped(feed.skipped()),
            WorkloadPlan::File(file, ..) => skipped(file.skipped()),
            _ => Vec::new(),
        }
    }

    fn repeating(spec: NamespaceSpec, repeats: Option<Repeats>) -> Result<Self, Invalid> {
        let plan = match repeats {
            None => WorkloadPlan::Namespace(spec),
            Some(Repeats { share, names }) => WorkloadPlan::Repeating(
                spec,
                Mix { popular: names, exponent: 0.0, repeats: share, missing: 0.0 },
            ),
        };
        plan.worker(0, 1)?;
        Ok(plan)
    }

    /// Makes the workload of one worker.
    ///
    /// # Errors
    /// For a replay, which is a role of its own with its own due times.
    pub(crate) fn worker(
        &self,
        worker: u32,
        workers: u32,
    ) -> Result<Box<dyn load::Workload>, Invalid> {
        let names = |spec: &NamespaceSpec| {
            NamespaceWorkload::new(spec.clone(), worker, workers)
                .map_err(|why| Invalid::value("workload.namespace", why))
        };
        Ok(match self {
            WorkloadPlan::Repeating(spec, mix) => Box::new(
                names(spec)?
                    .with_mix(*mix)
                    .map_err(|why| Invalid::value("workload.namespace.repeats", why))?,
            ),
            WorkloadPlan::Namespace(spec) => Box::new(names(spec)?),
            WorkloadPlan::Feed(feed, options, _) => Box::new(feed.workload(options)),
            WorkloadPlan::File(file, options, _) => {
                Box::new(file.workload(worker, workers, options.clone()))
            }
            WorkloadPlan::Generated(spec, questions, options, seed) => {
                let (spec, options, qtypes) =
                    (spec.clone(), options.clone(), questions.qtypes.clone());
                let made = GeneratedWorkload::new(spec, qtypes, options, *seed, worker, workers)
                    .map_err(|why| Invalid::value("workload", why))?;
                Box::new(made.of_class(questions.class))
            }
            WorkloadPlan::Replay(_) => {
                let why = "a replay has its own pace and its own clients";
                return Err(Invalid::value("workload.replay", why));
            }
        })
    }

    /// Returns the namespace, if there is one.
    fn spec(&self) -> Option<&NamespaceSpec> {
        match self {
            WorkloadPlan::Namespace(spec) | WorkloadPlan::Repeating(spec, _) => Some(spec),
            _ => None,
        }
    }

    /// Returns whether the workload queries names of a namespace and accepts any address.
    pub(crate) fn accepts_any_address(&self) -> bool {
        let any = [Expect::Answered, Expect::NoError, Expect::AnyAaaa];
        let accepts = |spec: &NamespaceSpec| {
            let addresses = [Qtype::A, Qtype::AAAA].contains(&spec.qtype);
            addresses && any.iter().any(|expect| spec.expect == NamespaceExpect::Same(*expect))
        };
        self.spec().is_some_and(accepts)
    }

    /// Returns the number of names; `None` if it is unlimited.
    pub(crate) fn names(&self) -> Option<u64> {
        Some(self.spec()?.names)
    }

    /// Returns the largest number of queries that a file has for a slice of the trial: one that is
    /// used a number of times may end before the schedule does, for a sample the randomly chosen
    /// number.
    pub(crate) fn most_queries(&self, slice: Slice, tally: &Tally) -> u64 {
        match self {
            WorkloadPlan::File(_, options, _) if options.sample.is_some() && tally.exhausted => {
                tally.wanted()
            }
            WorkloadPlan::Feed(feed, ..) => feed.taken_if_short().unwrap_or(u64::MAX),
            WorkloadPlan::File(file, options, _) => {
                let runs = if file.is_cut() { Some(1) } else { options.runs };
                let most = |runs| file.queries().map(|queries| queries.saturating_mul(runs));
                slice.share(runs.and_then(most).unwrap_or(u64::MAX))
            }
            _ => u64::MAX,
        }
    }

    /// Skips `first` names, and uses `names` names from there, or all if there are fewer; for a namespace.
    pub(crate) fn use_names(&mut self, first: u64, names: u64) {
        if let WorkloadPlan::Namespace(spec) | WorkloadPlan::Repeating(spec, _) = self {
            spec.first += first;
            spec.names = names.min(spec.names);
        }
    }

    /// Checks that there are enough names for `planned` queries.
    ///
    /// # Errors
    /// If there are fewer names; the error has their number, and the remedy.
    pub(crate) fn check_names(&self, planned: u64) -> Result<(), Invalid> {
        let enough = self.spec().map_or(Ok(()), |spec| spec.holds(planned));
        enough.map_err(|why| Invalid::value("workload.namespace.reuse", why))
    }

    /// Describes which names of a namespace are used; empty for other workloads.
    pub(crate) fn describe_names(&self) -> String {
        self.spec()
            .map_or(String::new(), |spec| format!("{} names from {}", spec.names, spec.first))
    }

    /// Describes the workload for the conditions of the record.
    pub(crate) fn describe(&self) -> String {
        match self {
            WorkloadPlan::Repeating(s, mix) => format!(
                "{}; {:.0} % of the queries repeat one of {} names",
                WorkloadPlan::Namespace(s.clone()).describe(),
                mix.repeats * 100.0,
                mix.popular
            ),
            WorkloadPlan::Namespace(s) => {
                let checked = match s.expect {
                    NamespaceExpect::Address => ", addresses checked".to_owned(),
                    NamespaceExpect::AnyPrefix => ", addresses checked under any prefix".to_owned(),
                    NamespaceExpect::Embedded(prefix) => {
                        format!(", addresses checked under {prefix}")
                    }
                    NamespaceExpect::Same(_) => String::new(),
                };
                let form = if s.namespace.is_padded() { "" } else { " without leading zeros" };
                format!(
                    "namespace {} under {}{form}, type {}{checked}",
                    s.namespace.prefix(),
                    s.namespace.zone(),
                    s.qtype,
                )
            }
            WorkloadPlan::Replay(replay) => replay.describe(),
            WorkloadPlan::Feed(_, _, path) => format!("queries of {path} in their order"),
            WorkloadPlan::File(_, _, text) => text.clone(),
            WorkloadPlan::Generated(GeneratedSpec::Single { name }, questions, ..) => {
                format!("{name} {} each time", types(questions))
            }
            WorkloadPlan::Generated(GeneratedSpec::RandomSubdomain { zone }, questions, ..) => {
                format!("random names below {zone}, type {}", types(questions))
            }
            WorkloadPlan::Generated(
                GeneratedSpec::Mix { zone, names, exponent, repeats, missing },
                questions,
                ..,
            ) => {
                format!(
                    "Zipf mix of {names} names of {zone}, exponent {exponent}, repeats {repeats}, missing {missing}, type {}",
                    types(questions)
                )
            }
        }
    }
}

/// Types of generated queries, used in turn, and their class.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    qtypes: Vec<Qtype>,
    class: Qclass,
}

/// Returns types as text, with commas between them, and a class other than IN.
fn types(questions: &Questions) -> String {
    let types: Vec<String> = questions.qtypes.iter().map(ToString::to_string).collect();
    let class = match questions.class {
        Qclass::IN => String::new(),
        other => format!(" of class {other}"),
    };
    types.join(",") + &class
}

/// Parses a text of a request.
fn read<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &'static str,
    text: &str,
) -> Result<T, Invalid> {
    text.parse().map_err(|why| Invalid::value(field, why))
}

/// Makes the specification of the names of a namespace.
fn namespace(asked: &Names, seed: u64, sequential: bool) -> Result<NamespaceSpec, Invalid> {
    let Names { prefix, zone, qtype, expect, query, .. } = asked;
    let prefix = Ipv4Prefix::new(prefix.addr(), prefix.prefix_len())
        .map_err(|why| Invalid::value("workload.namespace.prefix", why))?;
    let zone: Name = read("workload.zone", zone)?;
    let namespace =
        Namespace::new(prefix, zone).map_err(|why| Invalid::value("workload.zone", why))?;
    let namespace = namespace.with_padding(!asked.unpadded);
    let qtype: Qtype = read("workload.qtype", qtype)?;
    let expect = match expect {
        request::NamespaceExpect::Address => NamespaceExpect::Address,
        request::NamespaceExpect::AnyPrefix => NamespaceExpect::AnyPrefix,
        request::NamespaceExpect::Embedded(_) if qtype != Qtype::AAAA => {
            let why = format!("it needs AAAA records, but --type is {qtype}");
            return Err(Invalid::value("workload.namespace.expect.embedded", why));
        }
        request::NamespaceExpect::Embedded(net) => {
            let pref64 = Pref64::new(net.addr(), net.prefix_len());
            NamespaceExpect::Embedded(
                pref64.map_err(|why| Invalid::value("workload.namespace.expect.embedded", why))?,
            )
        }
        request::NamespaceExpect::Same(expect) => NamespaceExpect::Same(expectation(expect)?),
    };
    Ok(NamespaceSpec {
        names: asked.names.unwrap_or_else(|| namespace.size().saturating_sub(asked.first)),
        namespace,
        qtype,
        expect,
        first: asked.first,
        reuse: asked.reuse,
        sequential,
        seed,
        recursion_desired: query.recursion,
        edns: edns(query)?,
    })
}

/// Makes the options of the queries of a file, or of generated ones: their form and the expected replies.
fn options(query: &Query, expect: &request::Expect) -> Result<QueryOptions, Invalid> {
    let (expect, edns) = (expectation(expect)?, edns(query)?);
    Ok(QueryOptions { expect, recursion_desired: query.recursion, edns, runs: None, sample: None })
}

/// Makes the OPT record of the queries, if they have one.
fn edns(query: &Query) -> Result<Option<Edns>, Invalid> {
    let Some(asked) = &query.edns else { return Ok(None) };
    let mut edns = Edns { dnssec_ok: asked.dnssec, ..Edns::default() };
    if let Some(size) = asked.udp_size {
        edns.udp_size = size;
    }
    for option in &asked.options {
        edns.add_option(option).map_err(|why| {
            Invalid::value("workload.query.edns.options", format!("{option}: {why}"))
        })?;
    }
    // A query has limited space: header, a name, type and class, the OPT record.
    let room = load::workload::MAX_QUERY - wire::message::HEADER - wire::name::MAX_NAME - 4;
    let len = edns.to_opt().len();
    if len > room {
        let why = format!("the EDNS options take {len} bytes, there is room for {room}");
        return Err(Invalid::value("workload.query.edns.options", why));
    }
    Ok(Some(edns))
}

fn expectation(expect: &request::Expect) -> Result<Expect, Invalid> {
    Ok(match expect {
        request::Expect::Answered => Expect::Answered,
        request::Expect::NoError => Expect::NoError,
        request::Expect::AnyAaaa => Expect::AnyAaaa,
        request::Expect::NoData => Expect::NoData,
        request::Expect::Rcodes(names) => Expect::Rcodes(read("workload.expect", names)?),
        request::Expect::EachLine => {
            let why = "`file` compares with the lines of a query file: use it with --queries";
            return Err(Invalid::value("workload.expect", why));
        }
    })
}
