//! The configuration and its files, read again while the server runs: by a separate thread, so that
//! a file system that hangs does not block the main thread.
//!
//! ```text
//!   SIGHUP, ctl reload ──> Reader ──> thread: read, parse, validate ──Event::Read──> main thread: apply
//! ```

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use anyhow::Context;
use dns64::config::Change;
use dns64::{Config, RuleSets};
use rustls::ServerConfig;
use streams::tls::ServerTls;
use tokio::sync::oneshot;

use crate::event::Event;
use crate::upstream_tls::{UpstreamTlsMap, upstream_tls};
use crate::{check, files};

/// Time after which a read is abandoned: its result is ignored, and another one may begin.
const MAX_READ_TIME: Duration = Duration::from_secs(10);
/// Highest number of abandoned reads that have not ended.
const GIVEN_UP: usize = 4;

/// Channel for the result of a reload, if the caller wants it.
pub(crate) type ReloadReply = Option<oneshot::Sender<Result<Vec<Change>, String>>>;

/// A request to read the configuration again.
pub(crate) struct ReloadRequest {
    pub(crate) asked: ReloadReply,
    /// Whether this is a dry run: the request only asks which settings a reload would change.
    pub(crate) dry_run: bool,
}

/// A valid configuration, and the content of its files.
pub(crate) struct ReadConfig {
    pub(crate) text: String,
    pub(crate) config: Config,
    pub(crate) upstream_tls: UpstreamTlsMap,
    pub(crate) rules: RuleSets,
    /// New certificates for clients, and the replaced ones.
    pub(crate) certificates: Vec<(ServerTls, Arc<ServerConfig>)>,
}

/// The reads of the configuration.
#[derive(Default)]
pub(crate) struct Reader {
    /// The current read: its number, its start, and its requester.
    current: Option<(u64, Instant, ReloadRequest)>,
    /// Whether a signal requested another read during this one.
    again: bool,
    abandoned: usize,
    next: u64,
}

impl Reader {
    /// Begins to read, unless another read is under way; the result comes as an
    /// [`Event::Read`]. Returns whether a read has begun.
    pub(crate) fn begin(
        &mut self,
        path: &Path,
        tls: &[ServerTls],
        request: ReloadRequest,
        to: &SyncSender<Event>,
    ) -> bool {
        let refuse = |request: ReloadRequest, why: &str| {
            tracing::warn!("configuration not read: {why}");
            drop(request.asked.map(|asked| asked.send(Err(why.to_owned()))));
        };
        match self.current.take() {
            Some(current) if current.1.elapsed() < MAX_READ_TIME => {
                self.current = Some(current);
                self.again |= request.asked.is_none();
                refuse(
                    request,
                    "the configuration is being read, which takes long: try again later",
                );
                return true;
            }
            Some((.., hung)) => {
                self.abandoned += 1;
                refuse(hung, "the previous read took too long: the file system hangs");
            }
            None => {}
        }
        if self.abandoned >= GIVEN_UP {
            refuse(request, "earlier reads have not ended: the file system hangs");
            return false;
        }
        self.next += 1;
        let (number, path, tls, to) = (self.next, path.to_owned(), tls.to_vec(), to.clone());
        let body = move || {
            // The main thread ends only with the process.
            let _ = to.send(Event::Read { number, result: Box::new(read(&path, &tls)) });
        };
        let started = std::thread::Builder::new().name("reload".into()).spawn(body);
        match &started {
            Ok(_) => self.current = Some((number, Instant::now(), request)),
            Err(error) => refuse(request, &error.to_string()),
        }
        started.is_ok()
    }

    /// Takes the request of a read that has ended; `None` if it was abandoned.
    pub(crate) fn end(&mut self, number: u64) -> Option<ReloadRequest> {
        match self.current.take_if(|(current, ..)| *current == number) {
            Some((.., request)) => Some(request),
            None => {
                self.abandoned -= 1;
                None
            }
        }
    }

    /// Returns whether another read was requested during the last one, and clears the request.
    pub(crate) fn take_again(&mut self) -> bool {
        std::mem::take(&mut self.again)
    }
}

/// Reads and validates everything, as `--check` does.
fn read(path: &Path, tls: &[ServerTls]) -> anyhow::Result<ReadConfig> {
    let text = files::config(path)?;
    let config = Config::parse(&text)?;
    check::errors_of_reload(&config)?;
    let (upstream_tls, rules) = (upstream_tls(&config)?, files::rules(&config)?);
    let certificates = tls.iter().filter_map(|tls| Some((tls.clone(), tls.read().transpose()?)));
    let certificates = certificates.map(|(tls, read)| Ok((tls, read?)));
    let certificates = certificates.collect::<anyhow::Result<_>>().context("tls.certificate")?;
    Ok(ReadConfig { text, config, upstream_tls, rules, certificates })
}
