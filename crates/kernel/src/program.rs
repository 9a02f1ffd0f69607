//! A program with its maps: loaded, attached to devices, run on single frames.

use aya::maps::Map;
use aya::programs::{ProgramError, TestRun as _, TestRunOptions, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader};

use crate::error::KernelError;

/// Value of a program that sends the frame back.
const XDP_TX: u32 = 3;

/// A program in the kernel, attached until it is dropped.
#[derive(Debug)]
pub(crate) struct Loaded {
    ebpf: Ebpf,
    name: &'static str,
}

impl Loaded {
    /// Makes the maps of an object, whose program has this name; `sizes` are the numbers of entries of maps that differ from
    /// those in the object.
    ///
    /// # Errors
    /// If this user may not, or the kernel refuses a map.
    pub(crate) fn maps(
        object: &[u8],
        name: &'static str,
        sizes: &[(&'static str, u32)],
    ) -> Result<Self, KernelError> {
        let mut loader = EbpfLoader::new();
        for &(map, entries) in sizes {
            loader.map_max_entries(map, entries);
        }
        Ok(Loaded { ebpf: loader.load(object).map_err(KernelError::load)?, name })
    }

    /// Takes a map out; the program keeps using it.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn take(&mut self, map: &'static str) -> Result<Map, KernelError> {
        self.ebpf.take_map(map).ok_or(KernelError::Missing(map))
    }

    /// Loads the program.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn load(&mut self) -> Result<(), KernelError> {
        let name = self.name;
        self.program()?.load().map_err(|e| KernelError::program(name, e))
    }

    /// Attaches the program to a device, in the native mode of its driver.
    ///
    /// # Errors
    /// If the device is missing or has no native mode, or has another program.
    pub(crate) fn attach(&mut self, device: &str) -> Result<(), KernelError> {
        let attached = self.program()?.attach(device, XdpMode::Driver);
        attached.map(drop).map_err(|error| KernelError::attach(device, &error))
    }

    /// Runs the program on one frame without a device; returns what it sends back, `None` if it passes or drops the frame.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub(crate) fn run(
        &mut self,
        frame: &[u8],
        out: &mut [u8],
    ) -> Result<Option<usize>, KernelError> {
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(out),
            repeat: 1,
            ..Default::default()
        };
        let name = self.name;
        let run = self.program()?.test_run(options);
        let run = run.map_err(|e| KernelError::program(name, e))?;
        Ok((run.return_value == XDP_TX).then_some(run.data_size_out as usize))
    }

    fn program(&mut self) -> Result<&mut Xdp, KernelError> {
        let name = self.name;
        let program = self.ebpf.program_mut(name).ok_or(KernelError::Missing(name))?;
        program.try_into().map_err(|e: ProgramError| KernelError::program(name, e))
    }
}
