//! A configuration, prepared for the workers.

use std::sync::Arc;

use crate::config::Config;
use crate::policy::Policy;

/// Settings of all workers; a reload replaces them.
#[derive(Debug)]
pub struct Settings {
    /// The configuration file.
    pub config: Config,
    /// Its rules of synthesis.
    pub policy: Arc<Policy>,
    /// Number of workers that share its limits.
    pub workers: usize,
}

impl Settings {
    /// Prepares a configuration for `workers` workers.
    pub fn new(config: Config, workers: usize) -> Self {
        let policy = Arc::new(Policy::new(&config));
        Settings { config, policy, workers: workers.max(1) }
    }

    /// Returns how many queries one worker may have outstanding.
    pub fn outstanding(&self) -> usize {
        self.config.limits.outstanding.div_ceil(self.workers)
    }

    /// Returns the cache size of one worker, in octets.
    pub(crate) fn cache_size(&self) -> usize {
        self.config.cache.size.0 / self.workers
    }
}
