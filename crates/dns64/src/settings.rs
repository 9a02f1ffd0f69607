//! A configuration, made ready for the workers.

use std::sync::Arc;

use crate::config::Config;
use crate::policy::Policy;

/// What all workers go by; a reload hands them another one.
#[derive(Debug)]
pub struct Settings {
    /// What the file says.
    pub config: Config,
    /// Its rules of synthesis.
    pub policy: Arc<Policy>,
    /// How many workers share its bounds.
    pub workers: usize,
}

impl Settings {
    /// Makes a configuration ready for `workers` workers.
    pub fn new(config: Config, workers: usize) -> Self {
        let policy = Arc::new(Policy::new(&config));
        Settings { config, policy, workers: workers.max(1) }
    }

    /// How many queries may wait in one worker.
    pub fn outstanding(&self) -> usize {
        self.config.limits.outstanding.div_ceil(self.workers)
    }

    /// How many octets one worker's cache may take.
    pub fn cache_size(&self) -> usize {
        self.config.cache.size.0 / self.workers
    }
}
