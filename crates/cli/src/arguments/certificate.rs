//! A certificate of the Tester that commands take.

use std::path::{Path, PathBuf};

use clap::Args;
use lab::host::Depth;
use measure::{Pacing, Path as WirePath};
use record::request::Gso;
use record::{CertificateError, CertificateFile, Tested, TrialRequest};

use crate::commands::host;
use crate::failure::Failure;

/// Environment variable of tests: duration of each trial of `search` and `selftest`, instead of the
/// plan's. Results and certificates are labelled.
const SHORTEN: &str = "DNSDYNO_TEST_TRIAL";

/// A certificate of the Tester.
#[derive(Args, Clone, Debug)]
pub(crate) struct CertificateArgs {
    /// The Tester's certificate, from `verify` or `selftest`, made on this machine with the path, engine and transport of the trials:
    /// a search tries no rate above it, and its result is labelled; a load warns about what it does not cover
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
}

impl CertificateArgs {
    /// Reads the certificate, if one was given, and checks that it is for `trials`.
    pub(crate) fn read(&self, trials: &Tested) -> Result<Option<CertificateFile>, Failure> {
        let Some(path) = &self.certificate else { return Ok(None) };
        let file = CertificateFile::read(path).map_err(Failure::input)?;
        let refused = |why| CertificateError::Refused(path.clone(), why);
        file.covers(trials, &host::take(Depth::Facts)).map_err(refused).map_err(Failure::input)?;
        Ok(Some(file))
    }

    /// Warns if a certificate does not cover trials with a pacing.
    pub(crate) fn warn_outside(&self, file: &CertificateFile, trials: &Tested, pacing: Pacing) {
        if let Some(why) = file.outside(trials, pacing) {
            self.warn(&format!("does not cover {why}"));
        }
    }

    /// Warns about each condition of trials with a pacing that a given certificate does not cover.
    pub(crate) fn warn_load(&self, trials: &Tested, pacing: Pacing) -> Result<(), Failure> {
        let Some(path) = &self.certificate else { return Ok(()) };
        let file = CertificateFile::read(path).map_err(Failure::input)?;
        match file.covers(trials, &host::take(Depth::Facts)) {
            Ok(()) => self.warn_outside(&file, trials, pacing),
            Err(why) => self.warn(&format!("is not for this load: {why}")),
        }
        Ok(())
    }

    fn warn(&self, why: &str) {
        let path = self.certificate.as_deref().unwrap_or(Path::new("")).display();
        eprintln!("warning: the certificate {path} {why}");
    }
}

/// Returns the conditions of a request's trials; segmented messages to this host cross whole.
pub(crate) fn tested(request: &TrialRequest, on_this_host: bool) -> Tested {
    let whole = on_this_host && request.sockets.gso == Gso::On;
    Tested::of(request, if whole { WirePath::HostOffload } else { WirePath::Wire })
}

/// Returns the time that a test has set for each trial.
pub(crate) fn shortened() -> Result<Option<measure::Nanos>, Failure> {
    let Ok(text) = std::env::var(SHORTEN) else { return Ok(None) };
    let time = text.parse::<measure::Nanos>().ok().filter(|time| *time > measure::Nanos::ZERO);
    let time = time.ok_or_else(|| {
        Failure::input(anyhow::anyhow!(
            "{SHORTEN}={text}: write a time above zero, such as 100ms, or unset it"
        ))
    })?;
    eprintln!(
        "SHORTENED by a test: each trial sends for {time} ({SHORTEN}); this is no measurement"
    );
    Ok(Some(time))
}
