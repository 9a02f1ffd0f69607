//! The Tester in the kernel: sends the queries of a namespace or of a list and counts their replies, without a socket.
//!
//! ```text
//!   worker's thread, on its core                          the device
//!   BPF_PROG_RUN ──> generate ── when one is due ────────────> queries ──> server
//!                       └─ expires the oldest ones               │
//!   any core, when a packet arrives          check <── replies ──┘
//!                                              ├─ plain: counted, with its times
//!                                              └─ others ──> events ──> judged by user space
//! ```
//!
//! A worker is a thread within one system call, which ends by a signal. Outstanding queries are in a table of the kernel, a
//! slot of 16 bytes each in the order of their sending; port and id of a reply give its slot. Counts and times are kept by core.

mod config;
mod events;
mod frame;
mod list;
mod plan;
mod route;
mod times;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::measure::Nanos;
use aya::maps::{Array, MapData, PerCpuArray, PerCpuValues, RingBuf};
use aya::programs::{ProgramError, TestRun as _, TestRunAttrs, TestRunOptions};
use aya::util::nr_cpus;
use nix::net::if_::if_nametoindex;
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::Signal;
use signal_hook::consts::SIGURG;

use self::config::Sizes;
use crate::error::KernelError;
use crate::program::{Programs, XdpMode};
use crate::records::{Generator, ListedQuestion, Record, TesterConfig};

pub use events::{Event, HandedReply};
pub use list::QuestionList;
pub use plan::{
    EqualSteps, Instants, ListOrder, NameOrder, Order, PlainReply, Questions, TesterPlan,
};
pub use route::{HardwareAddress, Route, RouteParts, hardware_of};
pub(crate) use route::{LinkState, is_veth};
pub use times::{TesterCounts, TesterSecond, TesterStep, TesterTimes};

/// The programs and maps of `bpf/tester.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/tester"));
/// Names of the programs in the object: one makes queries, one checks replies.
const GENERATE_PROGRAM: &str = "generate";
const CHECK_PROGRAM: &str = "check";
/// Number of runs of a generator in one system call: some minutes; then it is called again.
const RUNS: u32 = u32::MAX;
/// Number of runs after which due queries leave: a quarter of the frames that the queue of a veth
/// device holds.
const RUNS_PER_BATCH: u32 = 64;
/// Longest time for which a device may be away after a program was attached.
const MAX_DEVICE_RESTART: Duration = Duration::from_secs(10);
/// What a program returns for a frame (`enum xdp_action` of linux/bpf.h).
const XDP_DROP: u32 = 1;
const XDP_REDIRECT: u32 = 4;

/// The Tester in the kernel, until it is dropped.
pub struct KernelTester {
    programs: Programs,
    events: Mutex<RingBuf<MapData>>,
    plan: TesterPlan,
    sizes: Sizes,
    cores: u32,
    /// Start of the schedule; zero before it is set.
    start: Nanos,
    /// What all workers have in common.
    common: Mutex<Array<MapData, TesterConfig>>,
    /// Number of the device, and the state of its link when it was attached.
    attached: Option<(u32, LinkState)>,
    /// Threads within the system call.
    inside: Mutex<Vec<Pthread>>,
    ended: AtomicBool,
}

impl KernelTester {
    /// Loads the programs for a plan.
    ///
    /// # Errors
    /// If the kernel cannot send this load, or if this user may not.
    pub fn load(plan: &TesterPlan) -> Result<Self, KernelError> {
        let sizes = config::sizes(plan)?;
        let workers = plan.cpus.len() as u32;
        let cores = nr_cpus().map_err(|(path, error)| KernelError::Cores(path, error))? as u32;
        let (questions, chunks) = match &plan.questions {
            Questions::Names(_) => (1, 1),
            Questions::List(order) => (order.list.index().len(), order.list.chunks().len()),
        };
        let mut programs = Programs::maps(
            OBJECT,
            &[
                ("flight", workers << sizes.slot_bits),
                ("times", cores * times::HISTOGRAMS * times::ROWS),
                ("series", cores * sizes.seconds),
                ("steps", (cores * sizes.steps).max(1)),
                ("loops", workers),
                ("sources", workers << sizes.port_bits),
                ("questions", questions as u32),
                ("chunks", chunks as u32),
            ],
        )?;
        programs.load(GENERATE_PROGRAM)?;
        programs.load(CHECK_PROGRAM)?;
        let events = Mutex::new(RingBuf::try_from(programs.take("events")?)?);
        let common = Mutex::new(Array::try_from(programs.take("config")?)?);
        let mut tester = KernelTester {
            programs,
            events,
            plan: plan.clone(),
            sizes,
            cores,
            start: Nanos::ZERO,
            common,
            attached: None,
            inside: Mutex::default(),
            ended: AtomicBool::new(false),
        };
        tester.fill()?;
        Ok(tester)
    }

    /// Attaches the checker to the device of the route, and waits until the device is up again:
    /// network cards restart then.
    ///
    /// # Errors
    /// If the device is missing or has no native XDP.
    pub fn attach(&mut self) -> Result<(), KernelError> {
        let device = &self.plan.route.device;
        self.programs.attach(CHECK_PROGRAM, device, XdpMode::Native)?;
        let index = self.device()?;
        let state = || LinkState::of(index).map_err(|e| self.no_device(&e));
        let until = Instant::now() + MAX_DEVICE_RESTART;
        let mut now = state()?;
        while !now.runs() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
            now = state()?;
        }
        self.attached = Some((index, now));
        Ok(())
    }

    /// Returns whether the device has had its link since the checker was attached.
    pub fn has_link(&self) -> bool {
        let state = |(index, then): &(u32, LinkState)| {
            then.runs() && LinkState::of(*index).is_ok_and(|now| now == *then)
        };
        self.attached.as_ref().is_some_and(state)
    }

    /// Returns the number of the device.
    fn device(&self) -> Result<u32, KernelError> {
        if_nametoindex(self.plan.route.device.as_str()).map_err(|e| self.no_device(&e.into()))
    }

    fn no_device(&self, error: &std::io::Error) -> KernelError {
        KernelError::Plan(format!("the device {}: {error}", self.plan.route.device))
    }

    /// Fills the tables that do not change.
    fn fill(&mut self) -> Result<(), KernelError> {
        let mut quantiles = Array::<_, u64>::try_from(self.programs.map_mut("quantiles")?)?;
        if matches!(self.plan.pacing, ::measure::Pacing::Poisson { .. }) {
            for (bin, quantile) in (0..).zip(config::quantiles()) {
                quantiles.set(bin, quantile, 0)?;
            }
        }
        if self.plan.sources.len() > 1 {
            let map = self.programs.map_mut("sources")?;
            let mut sources = Array::<_, [u8; 16]>::try_from(map)?;
            let ports = (self.plan.cpus.len() as u32) << self.sizes.port_bits;
            for (port, source) in (0..ports).zip(self.plan.sources.iter().cycle()) {
                let mut address = [0; 16];
                let octets = frame::octets(*source);
                address[..octets.len()].copy_from_slice(&octets);
                sources.set(port, address, 0)?;
            }
        }
        if let Questions::List(order) = &self.plan.questions {
            let mut index =
                Array::<_, ListedQuestion>::try_from(self.programs.map_mut("questions")?)?;
            for (number, entry) in (0..).zip(order.list.index()) {
                index.set(number, entry, 0)?;
            }
            let map = self.programs.map_mut("chunks")?;
            let mut chunks = Array::<_, [u8; list::CHUNK]>::try_from(map)?;
            for (number, chunk) in (0..).zip(order.list.chunks()) {
                chunks.set(number, chunk, 0)?;
            }
        }
        Ok(())
    }

    /// Sets the start of the schedule, on `CLOCK_MONOTONIC`; then the workers may [`generate`](Self::generate).
    ///
    /// # Errors
    /// If the device is gone, or the kernel refuses.
    pub fn start_at(&mut self, start: Nanos) -> Result<(), KernelError> {
        self.start = start;
        self.configure(false)?;
        let mut generators = vec![Generator::ZERO; self.cores as usize];
        for (worker, cpu) in self.plan.cpus.iter().enumerate() {
            let place = generators
                .get_mut(*cpu)
                .ok_or_else(|| KernelError::Plan(format!("there is no core {cpu}")))?;
            *place = config::generator(&self.plan, worker, start);
        }
        let values =
            PerCpuValues::try_from(generators).map_err(|e| KernelError::Run(e.to_string()))?;
        let map = self.programs.map_mut("generators")?;
        PerCpuArray::try_from(map)?.set(0, values, 0)?;
        Ok(())
    }

    /// Sends no more queries; outstanding queries keep their timeout.
    ///
    /// # Errors
    /// If the device is gone, or the kernel refuses.
    pub fn stop_sending(&self) -> Result<(), KernelError> {
        self.configure(true)
    }

    fn configure(&self, stopped: bool) -> Result<(), KernelError> {
        let index = match self.attached {
            Some((index, _)) => index,
            None => self.device()?,
        };
        let common = config::common(&self.plan, self.sizes, self.start, index, stopped);
        self.common.lock().expect("no thread panics with it").set(0, common, 0)?;
        Ok(())
    }

    /// Generates the queries of the worker whose core the calling thread is bound to, until [`end`](Self::end).
    ///
    /// # Errors
    /// If the kernel does not run the program.
    pub fn generate(&self) -> Result<(), KernelError> {
        let frame = self.blank();
        let generator = self.programs.program(GENERATE_PROGRAM)?;
        let me = pthread_self();
        self.inside.lock().expect("no thread panics with it").push(me);
        let mut result = Ok(());
        while !self.ended.load(Ordering::Acquire) && result.is_ok() {
            let attrs = TestRunAttrs::new().xdp_live_frames(RUNS_PER_BATCH);
            let options =
                TestRunOptions { data_in: Some(&frame), repeat: RUNS, attrs, ..Default::default() };
            result = match generator.test_run(options) {
                Err(ProgramError::SyscallError(error))
                    if error.io_error.kind() == std::io::ErrorKind::Interrupted =>
                {
                    Ok(())
                }
                Err(error) => Err(KernelError::Run(error.to_string())),
                Ok(_) => Ok(()),
            };
        }
        self.inside.lock().expect("no thread panics with it").retain(|thread| *thread != me);
        result
    }

    /// Runs the generator once without a device, on the calling thread's core; returns the frame of the query that it sends, if one
    /// is due.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub fn generate_once(&self) -> Result<Option<Vec<u8>>, KernelError> {
        let frame = self.blank();
        let mut out = vec![0; frame.len()];
        let (verdict, len) = self.programs.run(GENERATE_PROGRAM, &frame, &mut out)?;
        out.truncate(len);
        Ok((verdict == XDP_REDIRECT).then_some(out))
    }

    /// Runs the checker once on a frame, without a device; returns whether it took the frame.
    ///
    /// # Errors
    /// If the kernel cannot run it.
    pub fn check_once(&self, frame: &[u8]) -> Result<bool, KernelError> {
        let mut out = vec![0; frame.len()];
        let (verdict, _) = self.programs.run(CHECK_PROGRAM, frame, &mut out)?;
        Ok(verdict == XDP_DROP)
    }

    /// Returns the input frame of the generator, which turns it into a query.
    fn blank(&self) -> Vec<u8> {
        vec![0; frame::Frame::new(&self.plan).blank_len()]
    }

    /// Ends all generators; returns whether any is still within the system call, so that the caller
    /// must call again.
    pub fn end(&self) -> bool {
        self.ended.store(true, Ordering::Release);
        let inside = self.inside.lock().expect("no thread panics with it");
        for thread in inside.iter() {
            // A thread removes itself from the list before it ends, so the thread is alive here.
            let _ = pthread_kill(*thread, Signal::SIGURG);
        }
        !inside.is_empty()
    }

    /// Reads the counts.
    ///
    /// # Errors
    /// If the kernel does not return them.
    pub fn counts(&self) -> Result<TesterCounts, KernelError> {
        times::counts(&self.programs)
    }

    /// Reads the latencies of the replies so far that the kernel checked, and of the lost queries;
    /// some time of a core is needed for it.
    ///
    /// # Errors
    /// If the kernel does not return them.
    pub fn latency(&self) -> Result<::measure::Histogram, KernelError> {
        times::latency(&self.programs, self.cores)
    }

    /// Reads the histograms, the seconds and the instants; once all generators have ended.
    ///
    /// # Errors
    /// If the kernel does not return them.
    pub fn times(&self) -> Result<TesterTimes, KernelError> {
        times::times(&self.programs, self.cores, self.sizes)
    }

    /// Calls `with` for each event since the last call, at most `most` of them; returns their number.
    pub fn events(&self, most: usize, mut with: impl FnMut(Event<'_>)) -> usize {
        let mut ring = self.events.lock().expect("no thread panics with it");
        for number in 0..most {
            let Some(item) = ring.next() else { return number };
            if let Some(event) = Event::read(&item) {
                with(event);
            }
        }
        most
    }

    /// Returns the number of source ports of each worker.
    pub fn ports(&self) -> usize {
        1 << self.sizes.port_bits
    }

    /// Returns the number of a source port.
    pub fn port(&self, number: u16) -> u16 {
        config::FIRST_PORT + number
    }
}

/// Makes the signal that ends generators only interrupt system calls; once for a process.
///
/// # Errors
/// If the system refuses the handler.
pub fn prepare_signals() -> std::io::Result<()> {
    use std::sync::{Arc, OnceLock};
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        signal_hook::flag::register(SIGURG, Arc::new(AtomicBool::new(false))).is_ok()
    });
    if *done { Ok(()) } else { Err(std::io::Error::other("no handler for SIGURG")) }
}
