//! The machine's memory and name and what this process may use, as the operating system tells it.
//!
//! Neighbours: whoever divides memory asks for the machine's; whoever shows it asks for the process's.
//!
//! **Invariants**
//! - What the system does not tell is `None`, never an error: these figures are for defaults and for display.

use std::fs;

/// Memory of this process that is resident, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Now.
    pub now: u64,
    /// The most there ever was.
    pub peak: u64,
    /// Of what is resident now, pages of files: code, mostly.
    pub files: u64,
}

impl Resident {
    /// What is resident now and no page of a file: the heap, mostly.
    pub fn beside_files(self) -> u64 {
        self.now.saturating_sub(self.files)
    }
}

/// The machine's name.
pub fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned())
}

/// Files that this process may have open at a time.
pub fn open_files() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" {
        Some(u64::MAX)
    } else {
        soft.parse().ok()
    }
}

/// Memory of this process that is resident.
pub fn resident() -> Option<Resident> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(Resident {
        now: kibibytes(&status, "VmRSS:")?,
        peak: kibibytes(&status, "VmHWM:")?,
        files: kibibytes(&status, "RssFile:")?,
    })
}

/// Memory that this process may use: the machine's, or the limit of the control group it is in, if that is less.
pub fn memory() -> Option<u64> {
    let machine = kibibytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).filter_map(|path| {
        // A word, where there is no limit.
        fs::read_to_string(path).ok()?.trim().parse().ok()
    });
    Some(limits.fold(machine, u64::min))
}

/// The files that may have the limit of a group, of both versions of control groups. Inside a container the group's own
/// directory is often the root of what is mounted.
fn limit_files(groups: &str) -> impl Iterator<Item = String> {
    groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            names if names.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        vec![
            format!("{root}{}/{file}", group.trim_end_matches('/')),
            format!("{root}/{file}"),
        ]
    })
}

fn kibibytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let number = line.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(number << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_looked_for_in_both_versions() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/c\n";
        let files: Vec<_> = limit_files(groups).collect();
        let expected = [
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/c/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files, expected);
        assert_eq!(limit_files("").count(), 0);
    }

    #[test]
    fn fields_are_found() {
        let text = "VmPeak:\t  1 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!(kibibytes(text, "VmRSS:"), Some(2 << 20));
        assert_eq!(kibibytes(text, "VmHWM:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_smaller_than_the_machine() {
        let resident = resident().expect("Linux tells");
        assert!(resident.now > 0 && resident.now <= resident.peak);
        assert!(resident.files > 0 && resident.files < resident.now);
        assert!(resident.peak < memory().expect("Linux tells"));
    }
}
