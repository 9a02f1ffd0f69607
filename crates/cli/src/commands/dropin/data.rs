//! The data files of the tools, made to a file of whole messages.
//!
//! ```text
//! text      name type [flags]                     dnsperf and resperf ignore what follows the type; kxdpgun reads E and D
//! updates   zone / require / add / ... / send     dnsperf -u
//! binary    length (2) | message                  dnsperf -B, kxdpgun -B
//! ```
//!
//! Lines that are no queries are skipped with a warning, as by dnsperf; the first of them are named. The messages of a pipe, such as the
//! standard input, and of a large file are made while they are sent.

use std::io::{BufRead, BufReader, BufWriter, PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use anyhow::anyhow;
use tempfile::NamedTempFile;
use tester::unix_now;
use trace::source::Source;
use update::{AheadKey, Update, UpdateReader};
use wire::query_line::{self, BadLine, MAX_LINE, QueryLine};
use wire::{Edns, Qclass, compose};

use super::updates;
use super::verbose::Texts;
use crate::failure::Failure;

/// Largest number of warnings that are printed one by one.
const MAX_WARNINGS: u64 = 10;
/// Longest line of an update in octets, as in scripts of nsupdate.
const MAX_UPDATE_LINE: usize = 1 << 18;
/// Size of a file, in octets, from which on its messages are made during the sending, again in each
/// pass.
const LARGE_FILE: u64 = 4 << 20;

/// Content of a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A name and a type on each line.
    Queries,
    /// Names and types, with kxdpgun's flags.
    Flagged {
        /// UDP payload size of the queries with a flag, in octets.
        size: u16,
    },
    Updates,
    /// Messages as on the wire, each after its length.
    Binary,
}

/// How the messages of a data file are made.
pub(super) struct Data<'a> {
    pub(super) form: Form,
    /// Whether the RD bit is set.
    pub(super) recursion: bool,
    pub(super) edns: Option<Edns>,
    pub(super) key: Option<AheadKey>,
    /// Length of the longest message that can be sent, in octets.
    pub(super) most: usize,
    /// Number of passes through the file; unlimited if `None`.
    pub(super) runs: Option<u64>,
    /// Prints a warning about a line that is skipped.
    pub(super) warn: Box<dyn FnMut(String) + Send + 'a>,
    /// Where names and types are noted, if each query is printed.
    pub(super) texts: Option<Texts>,
}

/// Where the Tester reads the messages.
pub(super) struct MessageFile {
    path: PathBuf,
    /// Number of passes of the Tester; unlimited if `None`.
    pub(super) runs: Option<u64>,
    /// The file, or the end of the pipe, which exists as long.
    held: QueryData,
}

enum QueryData {
    File { _file: NamedTempFile },
    Pipe { _end: PipeReader, failure: Receiver<Failure> },
}

impl MessageFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the failure that ended the reading of a pipe, once.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match &self.held {
            QueryData::File { .. } => Ok(()),
            QueryData::Pipe { failure, .. } => failure.try_recv().map_or(Ok(()), Err),
        }
    }
}

/// Writer of messages, with the number of warnings so far.
struct Messages<'a, W: Write> {
    path: PathBuf,
    out: BufWriter<W>,
    written: u64,
    warned: u64,
    most: usize,
    warn: Box<dyn FnMut(String) + Send + 'a>,
    texts: Option<Texts>,
}

impl<W: Write> Messages<'_, W> {
    /// Passes on the finished messages, if the next read of the input may block.
    fn pause(&mut self, input: &BufReader<Source>) -> Result<(), ReadError> {
        let flushed = if input.buffer().is_empty() { self.out.flush() } else { Ok(()) };
        flushed.map_err(|e| Failure::run(e).into())
    }

    fn warning(&mut self, text: impl FnOnce() -> String) {
        self.warned += 1;
        if self.warned <= MAX_WARNINGS {
            (self.warn)(text());
        }
    }

    /// Adds a message of `line`; one that is too long for the transport is skipped.
    fn push(&mut self, line: u64, message: &[u8]) -> Result<(), Failure> {
        let (path, len, most) = (self.path.display().to_string(), message.len(), self.most);
        if !(2..=most).contains(&len) {
            let why = format!(
                "{path}:{line}: the message has {len} octets, not 2 to {most}: it is skipped"
            );
            self.warning(|| why);
            return Ok(());
        }
        let mut write = || {
            self.out.write_all(&(len as u16).to_be_bytes())?;
            self.out.write_all(message)
        };
        self.texts.iter().for_each(|texts| texts.note(message));
        self.written += 1;
        write().map_err(Failure::run)
    }

    /// Ends the first pass; later ones give the same warnings.
    fn end_pass(&mut self) {
        if self.warned > MAX_WARNINGS {
            let more = self.warned - MAX_WARNINGS;
            (self.warn)(format!("{}: {more} more such messages", self.path.display()));
        }
        self.warn = Box::new(drop);
    }

    /// Ends the file; an empty one is bad input.
    fn finish(self) -> Result<W, Failure> {
        if self.written == 0 {
            return Err(Failure::input(anyhow!(
                "{}: there is no query in it",
                self.path.display()
            )));
        }
        self.out.into_inner().map_err(|e| Failure::run(e.into_error()))
    }
}

/// Makes the messages of a data file; `None` or `-` is the standard input. Those of a pipe or a large file are made while they are
/// sent.
pub(super) fn messages(path: Option<&Path>, data: Data<'static>) -> Result<MessageFile, Failure> {
    let path = path.filter(|path| *path != Path::new("-"));
    let stdin = Path::new("/dev/stdin");
    let found = std::fs::metadata(path.unwrap_or(stdin));
    let found = found.map_err(|e| unreadable(path.unwrap_or(stdin), e))?;
    let large = found.is_file() && found.len() > LARGE_FILE;
    let runs = data.runs;
    if found.is_dir() || (found.is_file() && !large) {
        let file = NamedTempFile::new().map_err(Failure::run)?;
        let file = write_messages(path, data, 1, file)?;
        let (path, held) = (file.path().to_owned(), QueryData::File { _file: file });
        return Ok(MessageFile { path, runs, held });
    }
    // A file can be read again.
    let (passes, runs) = if large { (runs.unwrap_or(u64::MAX), Some(1)) } else { (1, runs) };
    let path = path.or(large.then_some(stdin)).map(Path::to_owned);
    let (end, out) = std::io::pipe().map_err(Failure::run)?;
    let (failed, failure) = channel();
    // The pipe ends when the failure is known.
    let held = out.try_clone().map_err(Failure::run)?;
    std::thread::spawn(move || {
        // An error of the output is the end of the Tester.
        let written = write_messages(path.as_deref(), data, passes, out);
        if let Err(error @ Failure::BadInput(_)) = written {
            let _ = failed.send(error);
        }
        drop(held);
    });
    let path = format!("/dev/fd/{}", end.as_raw_fd()).into();
    Ok(MessageFile { path, runs, held: QueryData::Pipe { _end: end, failure } })
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    Failure::input(anyhow!("cannot read {}: {error}", path.display()))
}

/// Writes the messages of a data file to `out`, `passes` times, and returns it.
fn write_messages<W: Write>(
    path: Option<&Path>,
    data: Data<'_>,
    passes: u64,
    out: W,
) -> Result<W, Failure> {
    let named = path.unwrap_or(Path::new("-"));
    let out = BufWriter::new(out);
    let shown = path.unwrap_or(Path::new("standard input")).to_owned();
    let Data { form, recursion, edns, key, most, warn, texts, .. } = data;
    let mut messages = Messages { path: shown, out, written: 0, warned: 0, most, warn, texts };
    let maker =
        Maker { recursion, opt: edns.as_ref().map(Edns::to_opt), key, now_s: unix_now() as u64 };
    for _ in 0..passes {
        let mut input =
            BufReader::new(trace::source::open(named).map_err(|e| unreadable(named, e))?);
        let read = match form {
            Form::Queries | Form::Flagged { .. } => maker.queries(&mut input, form, &mut messages),
            Form::Updates => maker.updates(&mut input, &mut messages),
            Form::Binary => binary(&mut input, &mut messages),
        };
        read.map_err(|e| match e {
            ReadError::Input(e) => unreadable(named, e),
            ReadError::Output(failure) => failure,
        })?;
        messages.end_pass();
        if messages.written == 0 {
            break;
        }
    }
    messages.finish()
}

/// A failure to read the data file or to write the messages.
enum ReadError {
    Input(std::io::Error),
    Output(Failure),
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        ReadError::Input(error)
    }
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        ReadError::Output(failure)
    }
}

struct Maker {
    recursion: bool,
    opt: Option<Vec<u8>>,
    key: Option<AheadKey>,
    now_s: u64,
}

impl Maker {
    fn queries<W: Write>(
        &self,
        input: &mut BufReader<Source>,
        form: Form,
        messages: &mut Messages<'_, W>,
    ) -> Result<(), ReadError> {
        let (mut line, mut number) = (Vec::new(), 0);
        while read_line(input, &mut line, MAX_LINE, messages)? {
            number += 1;
            let is_read_whole = form != Form::Queries || line.len() > MAX_LINE;
            let read = if is_read_whole { &line[..] } else { two_words(&line) };
            match query_line::parse_start(read) {
                Ok(None) => {}
                Ok(Some(query)) => match self.query(&query, form) {
                    Ok(message) => messages.push(number, &message)?,
                    Err(why) => {
                        let place = format!("{}:{number}", messages.path.display());
                        messages.warning(|| format!("invalid query input format: {place}: {why}"));
                    }
                },
                Err(BadLine { column, why }) => {
                    let place = format!("{}:{number}:{column}", messages.path.display());
                    messages.warning(|| format!("invalid query input format: {place}: {why}"));
                }
            }
        }
        Ok(())
    }

    /// Returns the message of a query, with the flags at the end of its line.
    fn query(&self, query: &QueryLine<'_>, form: Form) -> Result<Vec<u8>, String> {
        let (flags, udp_size) = match form {
            Form::Flagged { size } => (query.rest, size),
            _ => ("", 0),
        };
        // As kxdpgun does: only the first character counts.
        let flagged = match flags.as_bytes().first() {
            None => None,
            Some(b'E' | b'e') => Some(Edns { udp_size, ..Edns::default() }),
            Some(b'D' | b'd') => Some(Edns { udp_size, dnssec_ok: true, ..Edns::default() }),
            Some(_) => return Err(format!("the flag `{flags}` is neither E nor D")),
        };
        let flagged = flagged.as_ref().map(Edns::to_opt);
        let opt = flagged.as_deref().or(self.opt.as_deref());
        let mut question = query.name.as_wire().to_vec();
        question.extend(query.qtype.0.to_be_bytes());
        question.extend(Qclass::IN.0.to_be_bytes());
        let mut message = vec![0; 12 + question.len() + opt.map_or(0, <[u8]>::len)];
        let len = compose(&mut message, 0, &question, self.recursion, opt);
        message.truncate(len);
        Ok(match &self.key {
            Some(key) => key.sign(message, self.now_s),
            None => message,
        })
    }

    fn updates<W: Write>(
        &self,
        input: &mut BufReader<Source>,
        messages: &mut Messages<'_, W>,
    ) -> Result<(), ReadError> {
        let (mut line, mut number, mut block) = (Vec::new(), 0, Vec::<String>::new());
        while read_line(input, &mut line, MAX_UPDATE_LINE, messages)? {
            number += 1;
            let text = update::script::as_ascii(&line).trim().to_owned();
            if text.is_empty() || text.starts_with(';') {
                continue;
            }
            if !text.eq_ignore_ascii_case("send") {
                block.push(text);
                continue;
            }
            let block = std::mem::take(&mut block);
            match self.update(&block) {
                Ok(message) => messages.push(number, &message)?,
                Err(why) => {
                    let place =
                        format!("{}, update that ends in line {number}", messages.path.display());
                    messages.warning(|| format!("{place}: {why}: it is skipped"));
                }
            }
        }
        if !block.is_empty() {
            let path = messages.path.display().to_string();
            messages
                .warning(|| format!("incomplete update at the end of {path}: `send` is missing"));
        }
        Ok(())
    }

    /// Returns the message of a block of lines.
    fn update(&self, block: &[String]) -> Result<Vec<u8>, String> {
        if block.iter().any(|line| line.len() >= MAX_UPDATE_LINE) {
            return Err(format!("the line is longer than {MAX_UPDATE_LINE} octets"));
        }
        let (zone, script) = updates::script(block)?;
        let mut reader =
            UpdateReader::new(script.as_bytes(), Path::new("")).map_err(|e| e.to_string())?;
        let update = reader.next_update().map_err(|e| e.to_string())?;
        let update = update.unwrap_or_else(|| Update::new(zone));
        Ok(match &self.key {
            Some(key) => key.sign_update(&update, self.now_s),
            None => update.to_wire(0),
        })
    }
}

/// Reads a line, at most `most` + 1 octets of it; returns whether there was one.
fn read_line<W: Write>(
    input: &mut BufReader<Source>,
    line: &mut Vec<u8>,
    most: usize,
    messages: &mut Messages<'_, W>,
) -> Result<bool, ReadError> {
    line.clear();
    messages.pause(input)?;
    let read = Read::take(&mut *input, most as u64 + 1).read_until(b'\n', line)?;
    if line.len() > most && !line.ends_with(b"\n") {
        input.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

/// Returns a line up to the end of its second word: dnsperf reads no further.
fn two_words(line: &[u8]) -> &[u8] {
    let mut at = 0;
    for blank in [true, false, true, false] {
        let is_next = |octet: &&u8| octet.is_ascii_whitespace() == blank;
        at += line[at..].iter().take_while(is_next).count();
    }
    &line[..at]
}

/// Copies messages with their lengths; those that are too long for the transport are skipped.
fn binary<W: Write>(
    input: &mut BufReader<Source>,
    messages: &mut Messages<'_, W>,
) -> Result<(), ReadError> {
    let (mut length, mut message) = (Vec::new(), Vec::new());
    for number in 1.. {
        messages.pause(input)?;
        length.clear();
        message.clear();
        if Read::take(&mut *input, 2).read_to_end(&mut length)? == 0 {
            break;
        }
        let octets = length.first_chunk().map_or(1, |octets| u16::from_be_bytes(*octets));
        let read = Read::take(&mut *input, octets.into()).read_to_end(&mut message)?;
        if read < octets.into() {
            let path = messages.path.display().to_string();
            messages.warning(|| format!("{path} ends within message {number}: it is skipped"));
            break;
        }
        messages.push(number, &message)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes messages of a text; returns them and the warnings.
    fn made(text: &[u8], form: Form) -> (Result<Vec<Vec<u8>>, String>, Vec<String>) {
        made_again(text, form, 1)
    }

    /// Makes messages of a text in this number of passes; returns them and the warnings.
    fn made_again(
        text: &[u8],
        form: Form,
        passes: u64,
    ) -> (Result<Vec<Vec<u8>>, String>, Vec<String>) {
        let mut file = NamedTempFile::new().expect("a file");
        file.write_all(text).expect("writes");
        let mut warnings = Vec::new();
        let warn = Box::new(|text| warnings.push(text));
        let data = Data {
            form,
            recursion: true,
            edns: None,
            key: None,
            most: 512,
            runs: None,
            warn,
            texts: None,
        };
        let out = NamedTempFile::new().expect("a file");
        let out = write_messages(Some(file.path()), data, passes, out);
        let read = out.map_err(|e| format!("{e:?}")).map(|out| {
            let bytes = std::fs::read(out.path()).expect("reads");
            let (mut at, mut all) = (0, Vec::new());
            while at < bytes.len() {
                let len = usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
                all.push(bytes[at + 2..at + 2 + len].to_vec());
                at += 2 + len;
            }
            all
        });
        (read, warnings)
    }

    #[test]
    fn bad_lines_are_skipped_with_a_warning() {
        let text = b"a.test A\n; comment\nb.test\nc.test AX\nd.test AAAA third word\n\xff A\n#e A\na.test \xff\n";
        let (read, warnings) = made(text, Form::Queries);
        let read = read.expect("queries");
        assert_eq!(read[0], b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01");
        assert_eq!((read.len(), warnings.len()), (4, 3), "{warnings:?}");
        assert!(warnings[0].contains(":3:7: the type is missing"), "{warnings:?}");
        let many = "x\n".repeat(99) + "a.test A\n";
        let (_, warnings) = made(many.as_bytes(), Form::Queries);
        assert_eq!(warnings.len(), 11);
        assert!(warnings[10].ends_with("89 more such messages"), "{warnings:?}");
        for passes in [1, u64::MAX] {
            let (none, _) = made_again(b"x\n", Form::Queries, passes);
            assert!(none.expect_err("none").contains("there is no query"));
        }
        let (read, warnings) = made_again(b"a A\nx\nb A\n", Form::Queries, 3);
        assert_eq!((read.expect("queries").len(), warnings.len()), (6, 1), "{warnings:?}");
    }

    #[test]
    fn what_follows_the_type_is_not_read() {
        let text = b"a.test A ; caf\xe9\n \ta.test\tA\xa0\na.test A\x20\n; caf\xe9\n";
        let (read, warnings) = made(text, Form::Queries);
        assert_eq!((read.expect("queries").len(), warnings.len()), (2, 1), "{warnings:?}");
        assert!(warnings[0].contains(":2:11: the line is not UTF-8"), "{warnings:?}");
    }

    #[test]
    fn flags_of_kxdpgun_add_edns() {
        let (read, warnings) = made(
            b"a.test A\na.test A E\na.test A dnssec\na.test A X\n",
            Form::Flagged { size: 4096 },
        );
        let read = read.expect("queries");
        let opt = [1, 2].map(|i: usize| &read[i][read[0].len()..]);
        let own = Edns { udp_size: 4096, ..Edns::default() };
        assert_eq!(opt[0], own.to_opt());
        assert_eq!(opt[1], Edns { dnssec_ok: true, ..own }.to_opt());
        assert!(warnings[0].contains("`X` is neither E nor D"), "{warnings:?}");
    }

    #[test]
    fn updates_of_dnsperf_are_read() {
        let text = "example.com\nrequire a\nrequire a A\nrequire a MX 10 mx\nprohibit x\nprohibit x A\nadd x 3600 A 10.1.2.3\n\
                    add y 60 CNAME x\ndelete y A 10.1.2.3\ndelete z A\ndelete w.example.com.\nsend\n\n\
                    example.com\nprohibit a A 1.2.3.4\nadd x 3600 A 10.1.2.3\nsend\nexample.com\nadd x\n";
        let (read, warnings) = made(text.as_bytes(), Form::Updates);
        let read = read.expect("updates");
        assert_eq!(read.len(), 1);
        // Opcode UPDATE; one zone, five prerequisites, five operations.
        assert_eq!(read[0][2..12], [0x28, 0, 0, 1, 0, 5, 0, 5, 0, 0]);
        let alias =
            b"\x01y\x07example\x03com\0\0\x05\0\x01\0\0\0\x3c\0\x0f\x01x\x07example\x03com\0";
        assert!(read[0].windows(alias.len()).any(|part| part == alias));
        // RFC 2136 section 2.4.2: class IN, TTL 0, and the data.
        let record =
            b"\x01a\x07example\x03com\0\0\x0f\0\x01\0\0\0\0\0\x12\0\x0a\x02mx\x07example\x03com\0";
        assert!(read[0].windows(record.len()).any(|part| part == record));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].contains("line 17: `prohibit a A 1.2.3.4`"), "{warnings:?}");
        assert!(warnings[1].contains("`send` is missing"), "{warnings:?}");
    }

    #[test]
    fn texts_of_updates_keep_their_spaces() {
        let text = b"example.com\nadd x 60 TXT \"two  spaces; and a tab\t.\"\nsend\n";
        let (read, warnings) = made(text, Form::Updates);
        let read = read.expect("updates");
        assert!(read[0].ends_with(b"two  spaces; and a tab\t."), "{read:?} {warnings:?}");
    }

    #[test]
    fn updates_are_those_that_dnsperf_sends() {
        let text = b"test\nADD a 60 SOA b c 1 2 3 4 5 ; comment\nadd t 60 TXT x ; y\n\
                     Delete r RP m t.\nSEND\ntest.\nsend\n.\nadd a 60 NS @\nsend\n";
        let (read, warnings) = made(text, Form::Updates);
        let read = read.expect("updates");
        assert!(warnings.is_empty(), "{warnings:?}");
        let has = |number: usize, part: &[u8]| read[number].windows(part.len()).any(|w| w == part);
        // The data is that of a zone file.
        assert!(has(0, b"\x01b\x04test\0\x01c\x04test\0\0\0\0\x01"), "{read:?}");
        assert!(has(0, b"\0\x02\x01x") && !has(0, b"\x01y"), "{read:?}");
        assert!(has(0, b"\x01m\x04test\0\x01t\0"), "{read:?}");
        // One zone and nothing else is an update too.
        assert_eq!(read[1][2..], *b"\x28\0\0\x01\0\0\0\0\0\0\x04test\0\0\x06\0\x01");
        assert!(has(2, b"\x01a\0\0\x02\0\x01\0\0\0\x3c\0\x01\0"), "{read:?}");
        assert_eq!(read.len(), 3);
    }

    /// The end of a long line is no line of its own.
    #[test]
    fn a_line_is_one_line_however_long() {
        let long = "x".repeat(MAX_LINE);
        let (read, warnings) = made(format!("{long} {long} a.b A\na A").as_bytes(), Form::Queries);
        assert_eq!((read.expect("one").len(), warnings.len()), (1, 1), "{warnings:?}");
        assert!(warnings[0].contains(":1:4096: the line is longer"), "{warnings:?}");
        let data = "x".repeat(250);
        let texts = format!("\"{data}\" ").repeat(100);
        let update = format!("example.com\nadd x 60 TXT {texts}\nsend\n");
        let (read, warnings) = made(update.as_bytes(), Form::Updates);
        assert!(read.is_err() && warnings[0].contains("octets, not 2 to 512"), "{warnings:?}");
        let update = format!("example.com\nadd x 60 TXT {}\nsend\n", texts.repeat(20));
        let (_, warnings) = made(update.as_bytes(), Form::Updates);
        assert!(warnings[0].contains("the line is longer than 262144 octets"), "{warnings:?}");
    }

    #[test]
    fn binary_messages_are_copied() {
        let (read, warnings) = made(b"\0\x03abc\0\x01x\0\x02de", Form::Binary);
        assert_eq!(read.expect("messages"), [b"abc".to_vec(), b"de".to_vec()]);
        assert!(warnings[0].contains(":2: the message has 1 octets"), "{warnings:?}");
        assert!(made(b"\0\x03ab", Form::Binary).0.is_err());
        for end in [&b"\0"[..], b"\0\x03", b"\0\x03ab"] {
            let (read, warnings) = made(&[&b"\0\x03abc"[..], end].concat(), Form::Binary);
            assert_eq!(read.expect("the whole one"), [b"abc"]);
            assert!(warnings[0].ends_with("ends within message 2: it is skipped"), "{warnings:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: Vec<u8>, lines in "(add|delete|require|x) [a-z. ]{0,20}\n") {
            for form in [Form::Queries, Form::Flagged { size: 1232 }, Form::Updates, Form::Binary] {
                let _ = made(&text, form);
            }
            let _ = made(format!("example.com\n{lines}send\n").as_bytes(), Form::Updates);
        }
    }
}
