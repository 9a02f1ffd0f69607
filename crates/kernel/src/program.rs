//! An object of programs with its maps: loaded, attached to devices, run on single frames.

use std::io::Read;

use aya::maps::Map;
use aya::programs::{self, ProgramError, TestRun as _, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use flate2::read::DeflateDecoder;

use crate::error::KernelError;

/// Value of a program that sends the frame back.
const XDP_TX: u32 = 3;

/// Where a program gets the frames of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// From the driver, before the network stack: native XDP.
    #[default]
    Native,
    /// From the kernel, for each frame that it has taken: generic XDP, which every device has and which is far slower.
    Generic,
}

/// Programs in the kernel, attached until they are dropped.
#[derive(Debug)]
pub(crate) struct Programs(Ebpf);

impl Programs {
    /// Makes the maps of an object that the build script has compressed; `sizes` are the numbers of
    /// entries of maps where they differ from the object's.
    ///
    /// # Errors
    /// If this user may not, or the kernel refuses a map.
    pub(crate) fn maps(
        compressed: &[u8],
        sizes: &[(&'static str, u32)],
    ) -> Result<Self, KernelError> {
        let mut object = Vec::new();
        DeflateDecoder::new(compressed).read_to_end(&mut object).expect("a compressed object");
        let mut loader = EbpfLoader::new();
        for &(map, entries) in sizes {
            loader.map_max_entries(map, entries);
        }
        Ok(Programs(loader.load(&object).map_err(KernelError::load)?))
    }

    /// Takes a map out; the programs keep using it.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn take(&mut self, map: &'static str) -> Result<Map, KernelError> {
        self.0.take_map(map).ok_or(KernelError::Missing(map))
    }

    /// Returns a map.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn map(&self, map: &'static str) -> Result<&Map, KernelError> {
        self.0.map(map).ok_or(KernelError::Missing(map))
    }

    /// Returns a map to be changed.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn map_mut(&mut self, map: &'static str) -> Result<&mut Map, KernelError> {
        self.0.map_mut(map).ok_or(KernelError::Missing(map))
    }

    /// Loads a program.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub(crate) fn load(&mut self, name: &'static str) -> Result<(), KernelError> {
        self.program_mut(name)?.load().map_err(|e| KernelError::program(name, e))
    }

    /// Attaches a program to a device.
    ///
    /// # Errors
    /// If the device is missing, does not have this mode, or has another program.
    pub(crate) fn attach(
        &mut self,
        name: &'static str,
        device: &str,
        mode: XdpMode,
    ) -> Result<(), KernelError> {
        let mode = match mode {
            XdpMode::Native => programs::XdpMode::Driver,
            XdpMode::Generic => programs::XdpMode::Skb,
        };
        let attached = self.program_mut(name)?.attach(device, mode);
        attached.map(drop).map_err(|error| KernelError::attach(device, &error))
    }

    /// Runs a program on one frame without a device; returns its verdict, and the length of the frame that it leaves in `out`.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub(crate) fn run(
        &self,
        name: &'static str,
        frame: &[u8],
        out: &mut [u8],
    ) -> Result<(u32, usize), KernelError> {
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(out),
            repeat: 1,
            ..Default::default()
        };
        let run = self.program(name)?.test_run(options);
        let run = run.map_err(|e| KernelError::program(name, e))?;
        Ok((run.return_value, run.data_size_out as usize))
    }

    /// Runs an answering program on one frame without a device: returns the length of its reply,
    /// `None` if it passes or drops the frame.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub(crate) fn answer(
        &self,
        name: &'static str,
        frame: &[u8],
        out: &mut [u8],
    ) -> Result<Option<usize>, KernelError> {
        let (verdict, len) = self.run(name, frame, out)?;
        Ok((verdict == XDP_TX).then_some(len))
    }

    /// Returns a program.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn program(&self, name: &'static str) -> Result<&Xdp, KernelError> {
        let program = self.0.program(name).ok_or(KernelError::Missing(name))?;
        program.try_into().map_err(|e: ProgramError| KernelError::program(name, e))
    }

    fn program_mut(&mut self, name: &'static str) -> Result<&mut Xdp, KernelError> {
        let program = self.0.program_mut(name).ok_or(KernelError::Missing(name))?;
        program.try_into().map_err(|e: ProgramError| KernelError::program(name, e))
    }
}
