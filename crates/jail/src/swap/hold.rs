//! Everybody in a sandbox, held still for a moment.
//!
//! Held by the kernel's means of debugging: nobody gets a signal, those who were stopped before stay so, and when the holder
//! ends all go on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::folders::Folders;
use crate::sys::{self, TaskEvent};

/// How long somebody may take to stand still. Who waits for a disk that long does not write by himself either.
const PATIENCE: Duration = Duration::from_millis(300);

/// Everybody who is held; dropped, they go on.
pub(super) struct Hold {
    own: i32,
    /// By the number of the thread.
    tasks: BTreeMap<i32, Task>,
    /// Who cannot be held: ours, who wait for programs.
    others: BTreeSet<i32>,
}

struct Task {
    process: i32,
    /// The signal that it is to get when it goes on; absent while it has not stopped.
    stopped: Option<i32>,
}

/// Whoever stands below a folder of the old disk: a thread of his, and where.
pub(super) type Standing = Vec<(i32, CString)>;

impl Hold {
    /// Holds everybody but process 1 and `own`.
    pub(super) fn all(own: i32) -> Self {
        let mut hold = Self { own, tasks: BTreeMap::new(), others: BTreeSet::new() };
        let begun = Instant::now();
        loop {
            let news = hold.take_new();
            hold.await_all(begun);
            if !news || begun.elapsed() > PATIENCE {
                return hold;
            }
        }
    }

    /// Takes whoever is not held yet; whether there was anybody.
    fn take_new(&mut self) -> bool {
        let mut news = false;
        for process in numbers("/proc").filter(|pid| *pid != 1 && *pid != self.own).collect::<Vec<_>>() {
            for task in numbers(&format!("/proc/{process}/task")).collect::<Vec<_>>() {
                if self.tasks.contains_key(&task) || self.others.contains(&task) {
                    continue;
                }
                news = true;
                if sys::seize(task).and_then(|()| sys::interrupt(task)).is_ok() {
                    self.tasks.insert(task, Task { process, stopped: None });
                } else {
                    self.others.insert(task);
                }
            }
        }
        news
    }

    /// Waits until all that are held stand.
    fn await_all(&mut self, begun: Instant) {
        while self.tasks.values().any(|task| task.stopped.is_none()) && begun.elapsed() < PATIENCE {
            if !self.hear() {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
    }

    /// Takes note of what one of them did; whether there was something.
    fn hear(&mut self) -> bool {
        match sys::heard_of(-1) {
            Ok(Some((task, TaskEvent::Gone))) => {
                self.tasks.remove(&task);
                true
            }
            Ok(Some((task, TaskEvent::Stopped(signal)))) => {
                let process = process_of(task).unwrap_or(task);
                self.tasks.entry(task).or_insert(Task { process, stopped: None }).stopped = Some(signal);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// Every process that is held.
    pub(super) fn processes(&self) -> BTreeSet<i32> {
        self.tasks.values().map(|task| task.process).collect()
    }

    /// Waits until these, which were killed, are gone.
    pub(super) fn bury(&mut self, killed: &BTreeSet<i32>) {
        let begun = Instant::now();
        while self.tasks.values().any(|task| killed.contains(&task.process)) && begun.elapsed() < PATIENCE {
            if !self.hear() {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Whoever stands below one of the folders. Those who stand where a folder begins go along with the mount.
    pub(super) fn standing_on(&self, folders: &Folders) -> Standing {
        let mut standing = Standing::new();
        for process in self.processes() {
            let link = format!("/proc/{process}/cwd");
            let Ok(stat) = statx(CWD, link.as_str(), AtFlags::empty(), StatxFlags::MNT_ID | StatxFlags::NLINK) else {
                continue;
            };
            // In a folder that was removed nothing can be made.
            let Some(at) = folders.of_mount(stat.stx_mnt_id).filter(|_| stat.stx_nlink > 0) else { continue };
            let Ok(path) = fs::read_link(&link) else { continue };
            let Ok(path) = CString::new(path.into_os_string().into_encoded_bytes()) else { continue };
            let stands = |task: &(&i32, &Task)| task.1.process == process && task.1.stopped.is_some();
            if path.as_c_str() != at
                && let Some((task, _)) = self.tasks.iter().find(stands)
            {
                standing.push((*task, path));
            }
        }
        standing
    }

    /// Makes them enter the same folders on the new disk. Who cannot stays where he is, and can only read there.
    pub(super) fn enter(&mut self, standing: &Standing) {
        for (task, path) in standing {
            let came = sys::enter_folder(*task, path).unwrap_or(0);
            if let Some(signal) = self.tasks.get_mut(task).and_then(|held| held.stopped.as_mut()) {
                *signal = came.max(*signal);
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for (task, held) in &self.tasks {
            if let Some(signal) = held.stopped {
                let _ = sys::let_go(*task, signal);
            }
        }
    }
}

/// Folders of `/proc` that have a number.
fn numbers(path: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
}

fn process_of(task: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{task}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}
