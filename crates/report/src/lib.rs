//! Records to terminal tables.
