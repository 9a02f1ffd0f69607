//! Log lines on standard error, as text or JSON.

use std::io::IsTerminal;

use dns64::config::{LogFormat, LogLevel, ServerConfig};
use tracing::level_filters::LevelFilter;

/// Starts logging as configured.
pub(crate) fn start(config: &ServerConfig) {
    let level = match config.log {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    match config.log_format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        // systemd's journal already adds the time.
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            lines.without_time().init();
        }
        LogFormat::Text => lines.init(),
    }
}
