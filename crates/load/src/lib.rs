//! The Measurer: workload, schedule, flight, tally.
