//! Records as JSON files: each is written completely or not at all.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::SCHEMA;

/// First octets of a file that gzip compressed, and the largest size of its content.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const MAX_OCTETS: u64 = 1 << 32;

/// Error of a record file.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system refused an operation.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// Operation that failed: read or write.
        what: &'static str,
        /// Path of the file, or of the folder that was to hold it.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The file is not the JSON of a record.
    #[error("{}:{line}:{column}: not a record of dnsdyno: {why}", path.display())]
    Bad {
        /// Path of the file that was read.
        path: PathBuf,
        /// Line of the JSON, from 1.
        line: usize,
        /// Column in the line, from 1.
        column: usize,
        /// Member that the JSON lacks, or has in excess.
        why: String,
    },
    /// The file is no JSON.
    #[error("{}: not a record of dnsdyno, such as --json writes", path.display())]
    NoRecord {
        /// Path of the file that was read.
        path: PathBuf,
    },
    /// The loads of several files are not repeats of one.
    #[error("{} is no repeat of {}: {why}; name repeats of the same load", path.display(), first.display())]
    NoRepeat {
        /// Path of the file with the other load.
        path: PathBuf,
        /// Path of the first file.
        first: PathBuf,
        /// Condition in which the loads differ, with both values.
        why: String,
    },
    /// The record has a version that this program does not know.
    #[error("{path}: the record has schema {1}, this version reads schema {SCHEMA}", path = .0.display())]
    Schema(PathBuf, u64),
}

/// Writes `record` as JSON to `path` (`-` is the standard output), through a temporary file in the
/// same folder.
///
/// # Errors
/// The errors of the file system.
pub fn write(path: &Path, record: &impl Serialize) -> Result<(), RecordError> {
    let error = |source: io::Error| unwritten(path, source);
    let mut text = serde_json::to_vec(record).map_err(|e| error(e.into()))?;
    text.push(b'\n');
    write_bytes(path, &text)
}

/// Where the bytes of a record go, by its path.
enum RecordSink {
    /// The standard output, for the path `-`.
    Stdout,
    /// An ordinary file, or none yet: it is replaced as a whole.
    File(PathBuf),
    /// A device, a pipe or a socket: it receives the bytes and is not replaced.
    Stream,
}

impl RecordSink {
    fn of(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(RecordSink::Stdout);
        }
        match std::fs::metadata(path) {
            // The target of a link is replaced, and not the link.
            Ok(found) if found.is_file() => std::fs::canonicalize(path).map(RecordSink::File),
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => Ok(RecordSink::Stream),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(RecordSink::File(path.to_owned())),
            Err(e) => Err(e),
        }
    }
}

/// Returns the path of the temporary file for a file.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    beside.into()
}

/// Writes bytes to `path` (`-` is the standard output). A file is replaced as a whole, through a
/// temporary file beside it; a device or a pipe gets the bytes. A closed standard output is no
/// error.
///
/// # Errors
/// The errors of the file system.
pub fn write_bytes(path: &Path, text: &[u8]) -> Result<(), RecordError> {
    let written = RecordSink::of(path).and_then(|place| match place {
        RecordSink::Stdout => {
            let mut out = io::stdout().lock();
            match out.write_all(text).and_then(|()| out.flush()) {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written,
            }
        }
        RecordSink::Stream => File::options().write(true).open(path)?.write_all(text),
        RecordSink::File(path) => {
            let part = beside(&path);
            std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path)).inspect_err(
                |_| {
                    // The rest of a failed attempt is useless.
                    let _ = std::fs::remove_file(&part);
                },
            )
        }
    });
    written.map_err(|source| unwritten(path, source))
}

/// Checks that `path` can be written later, without changing it.
///
/// # Errors
/// The error that writing would have.
pub fn try_writing(path: &Path) -> Result<(), RecordError> {
    let tried = RecordSink::of(path).and_then(|place| match place {
        RecordSink::File(path) => {
            let part = beside(&path);
            File::create(&part).and_then(|_| std::fs::remove_file(&part))
        }
        RecordSink::Stdout | RecordSink::Stream => Ok(()),
    });
    tried.map_err(|source| unwritten(path, source))
}

/// Returns the error of writing a file.
fn unwritten(path: &Path, source: io::Error) -> RecordError {
    let source = match source.kind() {
        // A file that does not exist is made.
        io::ErrorKind::NotFound => io::Error::new(source.kind(), "the folder does not exist"),
        _ => source,
    };
    RecordError::Io { what: "write", path: path.to_owned(), source }
}

/// Returns the content of a file, which gzip may have compressed; at most [`MAX_OCTETS`] octets of it.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = std::fs::read(path)?;
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut content = Vec::new();
    MultiGzDecoder::new(&bytes[..]).take(MAX_OCTETS).read_to_end(&mut content)?;
    Ok(content)
}

/// Reads a record, also one that gzip compressed.
///
/// # Errors
/// With line and column if the JSON is wrong; with the version if it is unknown.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let text = content(path).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    let text =
        text.map_err(|source| RecordError::Io { what: "read", path: path.to_owned(), source })?;
    let bad = |e: serde_json::Error| RecordError::Bad {
        path: path.to_owned(),
        line: e.line(),
        column: e.column(),
        why: e.to_string(),
    };
    if !text.trim_start().starts_with('{') {
        return Err(RecordError::NoRecord { path: path.to_owned() });
    }
    #[derive(serde::Deserialize)]
    struct Version {
        schema: u64,
    }
    let Version { schema: found } = serde_json::from_str(&text).map_err(bad)?;
    match found {
        found if found == u64::from(SCHEMA) => serde_json::from_str(&text).map_err(bad),
        found => Err(RecordError::Schema(path.to_owned(), found)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use measure::{Histogram, Limiter, Nanos, Void};

    use crate::trial::{Trial, Voidness};
    use crate::{SCHEMA, Times, read, write};

    fn trial() -> Trial {
        let mut latency = Histogram::new();
        (1..1_000).for_each(|i| latency.record(Nanos::from_micros(i)));
        Trial {
            schema: SCHEMA,
            planned: 1_000,
            sent: 1_000,
            answered: 999,
            valid: 998,
            invalid: [("servfail".to_owned(), 1)].into(),
            lost: 1,
            offered_qps: 1_000.0,
            answered_qps: 999.0,
            duration_s: 1.0,
            latency_us: Times::from(&latency),
            latency_from_send_us: Times::from(&latency),
            schedule_error_us: Times::from(&Histogram::new()),
            rcodes: [("NOERROR".to_owned(), 998)].into(),
            limiter: Limiter::Target,
            ..Trial::default()
        }
    }

    #[test]
    fn the_contract_of_a_trial() {
        let json = serde_json::to_value(trial()).expect("serialises");
        let names = [
            "sent",
            "answered",
            "valid",
            "invalid",
            "late",
            "lost",
            "offered_qps",
            "answered_qps",
            "duration_s",
            "latency_us",
            "schedule_error_us",
            "limiter",
            "void",
        ];
        for name in names {
            assert!(json.get(name).is_some(), "{name}");
        }
        for name in ["p50", "p90", "p99", "p999", "max"] {
            assert!(
                json["latency_us"][name].is_number() && json["schedule_error_us"][name].is_number(),
                "{name}"
            );
        }
        assert_eq!((&json["void"], &json["limiter"]), (&false.into(), &"target".into()));
        assert_eq!(json["invalid"]["servfail"], 1);
        assert!((json["latency_us"]["p99"].as_f64().expect("a number") - 990.0).abs() < 2.0);
    }

    #[test]
    fn files_go_both_ways_and_histograms_with_them() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("out.json");
        let mut wanted = trial();
        wanted.void = Voidness(Some(Void::Interrupted));
        write(&path, &wanted).expect("writes");
        let got: Trial = read(&path).expect("reads");
        assert_eq!(got, wanted);
        assert_eq!(got.latency_us.histogram().expect("a histogram").count(), 999);
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("a folder").count(),
            1,
            "nothing is left beside"
        );
    }

    #[test]
    fn compressed_files_are_read() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (path, wanted) = (dir.path().join("out.json.gz"), trial());
        let json = serde_json::to_vec(&wanted).expect("JSON");
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&json).expect("writes to memory");
        let compressed = gzip.finish().expect("writes to memory");
        std::fs::write(&path, &compressed).expect("writes");
        assert_eq!(read::<Trial>(&path).expect("reads"), wanted);
        std::fs::write(&path, &compressed[..compressed.len() / 2]).expect("writes");
        let error = read::<Trial>(&path).expect_err("half a file").to_string();
        assert!(error.contains("cannot read") && error.contains("out.json.gz"), "{error}");
    }

    #[test]
    fn errors_have_their_place() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("bad.json");
        for (text, part) in [
            ("{\n  \"schema\": x", "bad.json:2:"),
            ("{\"schema\": 99}", "schema 99"),
            ("{\"schema\": 1}", "missing field"),
        ] {
            std::fs::write(&path, text).expect("writes");
            let error = read::<Trial>(&path).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(
            read::<Trial>(&dir.path().join("none"))
                .expect_err("absent")
                .to_string()
                .contains("cannot read")
        );
        assert!(
            write(&dir.path().join("no/where"), &1)
                .expect_err("no folder")
                .to_string()
                .contains("cannot write")
        );
    }

    #[test]
    fn what_is_no_json_and_a_missing_folder_are_said_in_our_words() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("q.txt");
        std::fs::write(&path, "a.test A\n").expect("writes");
        let error = read::<Trial>(&path).expect_err("no record").to_string();
        assert!(
            error.ends_with("q.txt: not a record of dnsdyno, such as --json writes"),
            "{error}"
        );
        let missing = dir.path().join("missing/x");
        let error = crate::try_writing(&missing).expect_err("no folder").to_string();
        assert!(error.ends_with("missing/x: the folder does not exist"), "{error}");
    }
}
