//! What a server uses up: processor time of all its threads, and memory.
//!
//! Processor time is what the scheduler counted for every thread, to the nanosecond; the ticks that `ps`
//! shows are too coarse for a second of load. A thread that has ended is missing from the sum, so it is taken
//! of servers whose threads stay.

use std::fs;
use std::time::Duration;

/// The processor time of these processes since their start.
pub(crate) fn processor_time(processes: &[u32]) -> Result<Duration, String> {
    let mut total = 0;
    for process in processes {
        let folder = format!("/proc/{process}/task");
        let threads = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
        for thread in threads.filter_map(Result::ok) {
            // One that has just ended is no longer there.
            let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            total += text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Ok(Duration::from_nanos(total))
}

/// The memory that these processes have now, in bytes.
pub(crate) fn memory_bytes(processes: &[u32]) -> Result<u64, String> {
    let of = |process: &u32| {
        let path = format!("/proc/{process}/status");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        resident_bytes(&text).ok_or_else(|| format!("{path}: expected a line VmRSS"))
    };
    processes.iter().map(of).sum()
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_processor_time() {
        let us = [std::process::id()];
        let before = processor_time(&us).unwrap();
        let mut sum = 0_u64;
        // The scheduler may count late, but it does count.
        while processor_time(&us).unwrap() < before + Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(processor_time(&[0]).is_err());
    }

    #[test]
    fn memory_is_read_from_its_line() {
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    1234 kB\nThreads:\t1\n"), Some(1234 << 10));
        assert_eq!(resident_bytes("Name:\tx\n"), None);
        assert!(memory_bytes(&[std::process::id()]).unwrap() > 1 << 20);
    }
}
