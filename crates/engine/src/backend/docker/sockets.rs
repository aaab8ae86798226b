//! Memory of sockets on a host with cgroup v1, where it is counted apart and Docker sets no limit.

use std::fs;

/// Limits it from outside: only a root who shares the daemon's host can. Process 1 sees whether there is a limit, so
/// nothing is said here.
pub(super) fn limit(pid: i64, container: &str, bytes: u64) {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if let Some(group) = memory_group(&groups, container) {
        let file = format!("/sys/fs/cgroup/memory{group}/memory.kmem.tcp.limit_in_bytes");
        // Opened, never made: in v2 there is no such file.
        drop(fs::OpenOptions::new().write(true).open(file).and_then(|mut file| {
            use std::io::Write;
            file.write_all(bytes.to_string().as_bytes())
        }));
    }
}

/// The group in which v1 counts a process's memory. On another host than the daemon's the number is somebody else's: the
/// group must be named after the container.
fn memory_group<'a>(groups: &'a str, container: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let named = group.rsplit('/').next().is_some_and(|name| !container.is_empty() && name.contains(container));
        (named && controllers.split(',').any(|name| name == "memory")).then_some(group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_group_that_is_named_after_the_container_is_touched() {
        let groups = "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n";
        assert_eq!(memory_group(groups, "abc"), Some("/docker/abc"));
        assert!(memory_group("4:memory:/system.slice/docker-abc.scope\n", "abc").is_some());
        assert_eq!(memory_group(groups, "def"), None);
        assert_eq!(memory_group("4:memory:/abc/inside\n", "abc"), None);
        assert_eq!(memory_group("4:memory:/user\n", ""), None);
        assert_eq!(memory_group("0::/docker/abc\n", "abc"), None);
    }
}
