//! Metrics of the process itself, read from /proc; other systems have none.

use std::fmt::Write as _;
use std::fs;

/// Length of the kernel's accounting tick: /proc shows hundredths of a second on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The usual `process_*` metrics as Prometheus text. What cannot be read is left out.
pub(super) fn render() -> String {
    let mut text = String::new();
    let stat = Stat::read();
    let mut metric = |name, kind, help, value: Option<f64>| {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n"
            );
        }
    };
    let cpu = stat.as_ref().map(|stat| stat.cpu_seconds);
    metric(
        "process_cpu_seconds_total",
        "counter",
        "User and system CPU time spent.",
        cpu,
    );
    let resident = resident_bytes();
    metric(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory.",
        resident,
    );
    metric(
        "process_open_fds",
        "gauge",
        "Open file descriptors.",
        open_files(),
    );
    let start = stat.and_then(|stat| Some(boot_seconds()? + stat.start_after_boot));
    metric(
        "process_start_time_seconds",
        "gauge",
        "Start of the process since the epoch.",
        start,
    );
    text
}

struct Stat {
    cpu_seconds: f64,
    /// Seconds from boot to the start of the process.
    start_after_boot: f64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// The program's name, in brackets, may hold anything; fields are counted from behind it.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let seconds = |field: usize| -> Option<f64> {
            Some(fields.get(field)?.parse::<f64>().ok()? / TICKS_PER_SECOND)
        };
        Some(Stat {
            cpu_seconds: seconds(11)? + seconds(12)?,
            start_after_boot: seconds(19)?,
        })
    }
}

fn resident_bytes() -> Option<f64> {
    let kibibytes = field(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")?;
    Some(kibibytes * 1024.0)
}

fn boot_seconds() -> Option<f64> {
    field(&fs::read_to_string("/proc/stat").ok()?, "btime")
}

fn open_files() -> Option<f64> {
    // One of them is the listing itself.
    let count = fs::read_dir("/proc/self/fd")
        .ok()?
        .count()
        .saturating_sub(1);
    u32::try_from(count).ok().map(f64::from)
}

/// The first number on the line that starts with `key`.
fn field(text: &str, key: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let text = "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 4 0 12345 1 1";
        let stat = Stat::parse(text).expect("parses");
        assert!((stat.cpu_seconds - 3.0).abs() < 1e-9);
        assert!((stat.start_after_boot - 123.45).abs() < 1e-9);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_described() {
        let text = render();
        for name in [
            "cpu_seconds_total",
            "resident_memory_bytes",
            "open_fds",
            "start_time_seconds",
        ] {
            assert!(
                text.contains(&format!("\nprocess_{name} ")),
                "{name} in {text}"
            );
        }
    }
}
