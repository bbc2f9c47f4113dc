//! What the machine says about a process.

use crate::Result;

/// The resident memory of a process, in bytes.
pub fn resident(pid: u32) -> Result<u64> {
    memory(pid, "VmRSS:")
}

/// The most that a process ever had of it.
pub fn peak_resident(pid: u32) -> Result<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, which: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with(which)).ok_or("no such figure")?;
    let kib: u64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
    Ok(kib * 1_024)
}

/// The processor time that a process has used, in all its threads.
pub fn processor_time(pid: u32) -> Result<std::time::Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold spaces; what follows it is the state, and from there the fields are counted.
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no name")?.1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    // USER_HZ is 100 wherever Linux runs.
    Ok(std::time::Duration::from_millis(ticks * 10))
}

/// A process and everything that it has started.
pub fn with_children(pid: u32) -> Result<Vec<u32>> {
    let mut family = vec![pid];
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        if parent == Some(pid) {
            family.push(child);
        }
    }
    Ok(family)
}

/// Cores and memory, for the head of a report.
pub fn described() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().next().and_then(|line| line.split_whitespace().nth(1));
    let gib = total.and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib.div_ceil(1 << 20));
    format!("{cores} cores, {gib} GiB")
}
