//! Describes the machine of the measurement.

use std::fs;
use std::thread::available_parallelism;

use crate::performance::Done;

pub(crate) fn described() -> Done<String> {
    let cores = available_parallelism()?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    Ok(format!(
        "Measured on a virtual machine with {cores} cores, Linux, release profile; load before the start: {load}."
    ))
}
