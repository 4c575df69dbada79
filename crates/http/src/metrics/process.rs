//! What the system knows of this process: time, memory, threads and open files.
//!
//! Read from `/proc` when somebody asks, under the names that every Prometheus library uses. What cannot be
//! read is left out, so another system than Linux shows less and nothing wrong.

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::sync::OnceLock;

/// The unit of times in `/proc`, which Linux promises to programs whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;
const KIB: u64 = 1024;

/// The process at one moment.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) cpu_seconds: Option<f64>,
    /// When it began, in Unix time.
    pub(super) start_seconds: Option<f64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) virtual_bytes: Option<u64>,
    pub(super) threads: Option<u64>,
    pub(super) files_open: Option<usize>,
    pub(super) files_max: Option<u64>,
}

impl Process {
    pub(super) fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let (cpu, began) = (ticks(&stat, 14), ticks(&stat, 22));
        let kernel = ticks(&stat, 15);
        // Looking into the directory opens one more.
        let files_open = fs::read_dir("/proc/self/fd").map(|files| files.count().saturating_sub(1)).ok();
        Self {
            cpu_seconds: cpu.zip(kernel).map(|(user, kernel)| user + kernel),
            start_seconds: booted().zip(began).map(|(booted, began)| booted + began),
            resident_bytes: field(&status, "VmRSS:").map(|kib| kib * KIB),
            virtual_bytes: field(&status, "VmSize:").map(|kib| kib * KIB),
            threads: field(&status, "Threads:"),
            files_open,
            files_max: getrlimit(Resource::Nofile).current,
        }
    }
}

/// A field of `/proc/self/stat` by its number in the manual, as seconds. Fields count from 1; the second is a
/// name in parentheses that may have any characters, so counting begins behind it.
fn ticks(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let ticks: u64 = rest.split(' ').nth(number.checked_sub(3)?)?.parse().ok()?;
    Some(ticks as f64 / TICKS_PER_SECOND)
}

/// A number of `/proc/self/status` by its name.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// When the system was started, in Unix time. Asked once: the answer costs the kernel a look at every
/// interrupt.
fn booted() -> Option<f64> {
    static BOOTED: OnceLock<Option<f64>> = OnceLock::new();
    *BOOTED.get_or_init(|| {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        field(&stat, "btime").map(|seconds| seconds as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_move_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 9 0 12345 1000 2000";
        assert_eq!((ticks(stat, 14), ticks(stat, 15), ticks(stat, 22)), (Some(2.5), Some(0.5), Some(123.45)));
        assert_eq!((ticks(stat, 60), ticks("", 14), ticks("7 (a", 14)), (None, None, None));
    }

    #[test]
    fn a_number_is_found_by_its_name_and_one_that_is_not_there_is_not() {
        let status = "Name:\tVmRSS:\nVmRSS:\t   12 kB\nThreads:\t3\n";
        assert_eq!((field(status, "VmRSS:"), field(status, "Threads:")), (Some(12), Some(3)));
        assert_eq!(field(status, "VmSize:"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn everything_is_known_of_this_process() {
        let process = Process::now();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(process.cpu_seconds.is_some() && process.threads.unwrap() >= 1);
        assert!(process.start_seconds.unwrap() <= now + 1.0);
        let (resident, all) = (process.resident_bytes.unwrap(), process.virtual_bytes.unwrap());
        assert!(resident > 0 && resident <= all, "{resident} of {all}");
        let (open, most) = (process.files_open.unwrap(), process.files_max.unwrap());
        assert!(open >= 1 && most >= open as u64, "{open} of {most}");
    }
}
