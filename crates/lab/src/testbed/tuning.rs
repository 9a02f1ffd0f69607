//! Settings of the machine that an experiment varies. A refused setting is reported with its reason, and changed
//! settings are restored.

use std::fs;
use std::path::{Path, PathBuf};

use experiment::settings::HostSettings;

use crate::testbed::link_mode::thread_napi;
use crate::testbed::{Host, Testbed};

/// Folder of the cores in sysfs.
const CPUS: &str = "/sys/devices/system/cpu";

/// Changed settings with their old values.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    /// Files of the machine and their old content.
    files: Vec<(PathBuf, String)>,
    /// Files of a host's network namespace and their old content.
    sysctls: Vec<(Host, PathBuf, String)>,
    threaded: bool,
}

impl Tuning {
    /// Applies `settings` to the machine, except the links (see [`Testbed::set_links`]).
    ///
    /// # Errors
    /// The setting that this machine refuses, and why; nothing is changed then.
    pub(crate) fn apply(
        settings: &HostSettings,
        testbed: &Testbed,
        dir: &Path,
    ) -> Result<Self, String> {
        let mut tuning = Self::default();
        match tuning.set(settings, testbed, dir) {
            Ok(()) => Ok(tuning),
            Err(why) => {
                tuning.undo(testbed, dir);
                Err(why)
            }
        }
    }

    fn set(
        &mut self,
        settings: &HostSettings,
        testbed: &Testbed,
        dir: &Path,
    ) -> Result<(), String> {
        if settings.governor != "unchanged" {
            self.govern(&settings.governor)?;
        }
        if settings.threaded_napi {
            thread_napi(testbed, true, dir)?;
            self.threaded = true;
        }
        for (name, value) in &settings.sysctl {
            self.sysctl(name, &value.0, testbed)?;
        }
        Ok(())
    }

    /// Sets the frequency governor of all cores.
    fn govern(&mut self, governor: &str) -> Result<(), String> {
        let entries = fs::read_dir(CPUS).map_err(|e| format!("{CPUS}: {e}"))?;
        let files: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path().join("cpufreq/scaling_governor"))
            .filter(|file| file.exists())
            .collect();
        if files.is_empty() {
            return Err(format!(
                "the governor {governor} cannot be set: this host has no frequency scaling \
                 ({CPUS}/cpu0/cpufreq is not there)"
            ));
        }
        for file in files {
            let old = fs::read_to_string(&file).unwrap_or_default();
            fs::write(&file, governor).map_err(|e| {
                let known = file.with_file_name("scaling_available_governors");
                let known = fs::read_to_string(known).unwrap_or_default();
                format!(
                    "the governor {governor} cannot be set ({}): {e}; this host has {}",
                    file.display(),
                    known.trim()
                )
            })?;
            self.files.push((file, old));
        }
        Ok(())
    }

    /// Sets a kernel variable in every host.
    fn sysctl(&mut self, name: &str, value: &str, testbed: &Testbed) -> Result<(), String> {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        for host in Host::ALL {
            let swap = || {
                let old = fs::read_to_string(&path)?;
                fs::write(&path, value)?;
                Ok::<_, std::io::Error>(old)
            };
            let old = testbed.namespace(host).run(swap).and_then(|done| done);
            let old =
                old.map_err(|e| format!("{name} = {value} cannot be set in the testbed: {e}"))?;
            self.sysctls.push((host, path.clone(), old));
        }
        Ok(())
    }

    /// Restores the settings that were changed, as far as the kernel permits.
    pub(crate) fn undo(self, testbed: &Testbed, dir: &Path) {
        // A setting that cannot be restored could not be changed.
        for (file, old) in self.files {
            let _ = fs::write(file, old);
        }
        for (host, path, old) in self.sysctls {
            let _ = testbed.namespace(host).run(|| fs::write(&path, &old));
        }
        if self.threaded {
            let _ = thread_napi(testbed, false, dir);
        }
    }
}
