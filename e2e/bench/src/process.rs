//! CPU time and memory of a process, from `/proc`.

use std::fs;

use anyhow::{Context, Result};

/// A clock tick of `/proc/PID/stat`, in seconds: Linux reports 100 a second on every platform.
const TICK: f64 = 0.01;

/// A running process.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    pub fn of(id: u32) -> Self {
        Self(id)
    }

    /// User and system time so far, in seconds.
    pub fn cpu_seconds(self) -> Result<f64> {
        let text = self.read("stat")?;
        // The name of the program stands in parentheses and may contain spaces. utime and stime are fields 14
        // and 15.
        let rest = text.rsplit_once(')').context("an unexpected format of stat")?.1;
        let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u32>);
        Ok(ticks.sum::<Result<u32, _>>().map(f64::from)? * TICK)
    }

    /// The resident memory, in MiB.
    pub fn resident_mib(self) -> Result<f64> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.context("status has no VmRSS")?.trim().trim_end_matches("kB").trim();
        Ok(f64::from(kib.parse::<u32>()?) / 1024.0)
    }

    fn read(self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.0);
        fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Process;

    #[test]
    fn a_process_has_cpu_time_and_memory() {
        let own = Process::of(std::process::id());
        assert!(own.cpu_seconds().unwrap() >= 0.0);
        let large = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(own.resident_mib().unwrap() >= 64.0);
        drop(large);
    }
}
