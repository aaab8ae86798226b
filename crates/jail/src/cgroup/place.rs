//! Finding a place where groups can be made: handed over, our own, a named root, or asked of the user's systemd.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::{geteuid, getpid, getppid};
use types::Layer;

use super::{Tree, make, remove, systemd, v1, v2, write};
use crate::stage::HOST_TEXT;

const METERS: [(Layer, &str); 3] =
    [(Layer::CgroupMemory, "memory"), (Layer::CgroupPids, "pids"), (Layer::CgroupCpu, "cpu")];

/// Where a keeper that owns a delegated v2 tree keeps its own process: groups with children may hold none.
const LEAF: &str = "saggar-keeper";

/// The place that was found, and what it lacks.
pub(crate) struct Placement {
    pub(crate) tree: Tree,
    pub(crate) missing: Vec<(Layer, String)>,
}

/// A mounted hierarchy.
struct Hierarchy {
    point: PathBuf,
    root: String,
    /// Controllers of a v1 hierarchy; `None` for v2.
    controllers: Option<Vec<String>>,
}

impl Placement {
    /// Looks at the host through the keeper's mount table.
    pub(crate) fn find(handed_over: Option<&str>) -> Self {
        let hierarchies = hierarchies();
        let own = own_paths();
        let (tree, why) = match handed_over {
            Some(path) => (handed(path, &hierarchies), format!("the cgroup handed over as `{path}` is not writable")),
            None => found(&hierarchies, &own),
        };
        let layers = tree.layers();
        let missing = METERS
            .iter()
            .filter(|(layer, _)| !layers.contains(layer))
            .map(|(layer, _)| (*layer, why.clone()))
            .collect();
        Self { tree, missing }
    }
}

fn handed(path: &str, hierarchies: &[Hierarchy]) -> Tree {
    let full = PathBuf::from(format!("{HOST_TEXT}{path}"));
    if full.join("cgroup.controllers").exists() {
        settle(&full);
        return enable(&full).map_or(Tree::None, Tree::V2);
    }
    // v1: the path may name one controller's folder or be relative to all of them.
    let relative = hierarchies
        .iter()
        .filter(|h| h.controllers.is_some())
        .find_map(|h| full.strip_prefix(&h.point).ok())
        .map_or_else(|| PathBuf::from(path.trim_start_matches('/')), Path::to_path_buf);
    v1_tree(hierarchies, |h| Some(h.point.join(&relative)))
}

fn found(hierarchies: &[Hierarchy], own: &[(String, String)]) -> (Tree, String) {
    let own_folder = |h: &Hierarchy| {
        let wanted = h.controllers.as_ref();
        let (_, path) = own.iter().find(|(names, _)| match wanted {
            Some(controllers) => names.split(',').any(|n| controllers.iter().any(|c| c == n)),
            None => names.is_empty(),
        })?;
        let below = path.strip_prefix(h.root.trim_end_matches('/'))?;
        (!below.contains("/..")).then(|| h.point.join(below.trim_start_matches('/')))
    };
    let tree = v1_tree(hierarchies, own_folder);
    if !matches!(tree, Tree::None) {
        return (tree, "this controller's own folder is not writable".to_owned());
    }
    let Some(unified) = hierarchies.iter().find(|h| h.controllers.is_none()) else {
        return (Tree::None, "no writable cgroup: v1 groups belong to root".to_owned());
    };
    let Some(own) = own_folder(unified) else {
        return (Tree::None, "our own cgroup is not visible here".to_owned());
    };
    match v2_tree(unified, &own) {
        Some(tree) => (Tree::V2(tree), "the controller is not delegated to this group".to_owned()),
        None => (Tree::None, "no cgroup is delegated to this user".to_owned()),
    }
}

fn v1_tree(hierarchies: &[Hierarchy], folder: impl Fn(&Hierarchy) -> Option<PathBuf>) -> Tree {
    let find = |name: &str| {
        let hierarchy = hierarchies.iter().find(|h| h.controllers.iter().flatten().any(|c| c == name))?;
        folder(hierarchy).filter(|path| access(path, Access::WRITE_OK).is_ok() && path.join("cgroup.procs").exists())
    };
    let tree = v1::Tree { memory: find("memory"), pids: find("pids"), cpu: find("cpu"), cpuacct: find("cpuacct") };
    if tree.is_empty() {
        return Tree::None;
    }
    Tree::V1(tree)
}

fn v2_tree(unified: &Hierarchy, own: &Path) -> Option<v2::Tree> {
    // An earlier keeper moved our caller into a leaf of a delegated group: its parent is the place.
    if own.file_name().is_some_and(|name| name == LEAF)
        && let Some(tree) = own.parent().and_then(enable)
    {
        return Some(tree);
    }
    if only_ours(own) {
        settle(own);
        if let Some(tree) = enable(own) {
            return Some(tree);
        }
    }
    if geteuid().is_root() {
        let named = unified.point.join("saggar");
        if named.exists() || (enable(&unified.point).is_some() && make(&named).is_ok()) {
            return enable(&named);
        }
    }
    let scope = systemd::own_scope()?;
    let path = unified.point.join(scope.strip_prefix(unified.root.trim_end_matches('/'))?.trim_start_matches('/'));
    settle(&path);
    enable(&path)
}

/// Whether every process of the group is saggar's own, so that moving them into a leaf disturbs nobody.
fn only_ours(group: &Path) -> bool {
    let ours = [Some(getpid()), getppid()].map(|pid| pid.map_or(0, |p| p.as_raw_nonzero().get()));
    access(group, Access::WRITE_OK).is_ok()
        && fs::read_to_string(group.join("cgroup.procs"))
            .is_ok_and(|procs| procs.lines().all(|pid| pid.parse().is_ok_and(|pid: i32| ours.contains(&pid))))
}

/// Moves every process of a group that is ours into a leaf; v2 gives controllers only to groups without processes.
fn settle(group: &Path) {
    let procs = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    if procs.trim().is_empty() {
        return;
    }
    let leaf = group.join(LEAF);
    let _ = make(&leaf);
    for pid in procs.lines() {
        let _ = write(&leaf.join("cgroup.procs"), pid);
    }
}

/// Switches on what the group can give to those below it.
fn enable(parent: &Path) -> Option<v2::Tree> {
    if access(parent, Access::WRITE_OK).is_err() {
        return None;
    }
    let offered = fs::read_to_string(parent.join("cgroup.controllers")).ok()?;
    let control = parent.join("cgroup.subtree_control");
    for (_, name) in METERS {
        if offered.split_whitespace().any(|c| c == name) {
            let _ = write(&control, &format!("+{name}"));
        }
    }
    let on = fs::read_to_string(&control).ok()?;
    let controllers: Vec<Layer> =
        METERS.iter().filter(|(_, name)| on.split_whitespace().any(|c| c == *name)).map(|(layer, _)| *layer).collect();
    if controllers.is_empty() {
        return None;
    }
    Some(v2::Tree { parent: parent.to_path_buf(), controllers })
}

/// The prefix of every group that this keeper makes: its process, when that started, and where the number is from.
pub(crate) fn prefix() -> String {
    let pid = getpid().as_raw_nonzero().get();
    format!("saggar-{pid}-{}-{}-", started(pid).unwrap_or(0), numbers().unwrap_or(0))
}

/// Removes groups of keepers that were killed before they could.
pub(super) fn sweep(parent: &Path) {
    // Numbers of another container's processes mean nothing here: what it has made is its own to sweep.
    let Some(ours) = numbers() else { return };
    // Named first, removed afterwards: a folder that changes while it is read may skip entries.
    let entries: Vec<_> = fs::read_dir(parent).into_iter().flatten().flatten().collect();
    for entry in entries {
        if entry
            .file_name()
            .to_str()
            .and_then(maker)
            .is_some_and(|(pid, start, space)| space == ours && started(pid) != Some(start))
        {
            let _ = remove(&entry.path());
        }
    }
}

/// What the name of a group says of the keeper that made it.
fn maker(name: &str) -> Option<(i32, u64, u64)> {
    let mut parts = name.strip_prefix("saggar-")?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The pid namespace that process numbers are from, as far as `/proc` shows the one we are in.
fn numbers() -> Option<u64> {
    fs::metadata(format!("{HOST_TEXT}/proc/self/ns/pid")).ok().map(|namespace| namespace.ino())
}

/// When process `pid` started, in ticks since boot; tells a reused number from the one that was meant.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("{HOST_TEXT}/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, spaces and brackets too. A zombie has ended; its number is still taken.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

fn hierarchies() -> Vec<Hierarchy> {
    let text = fs::read_to_string(format!("{HOST_TEXT}/proc/self/mountinfo")).unwrap_or_default();
    text.lines().filter_map(hierarchy).collect()
}

/// Reads one line of mountinfo, if it is a cgroup hierarchy. The mount point already starts with the keeper's `/host`.
fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split_whitespace().skip(3);
    let (root, point) = (left.next()?.to_owned(), PathBuf::from(left.next()?));
    let mut right = right.split_whitespace();
    let kind = right.next()?;
    let options = right.nth(1).unwrap_or_default();
    match kind {
        "cgroup2" => Some(Hierarchy { point, root, controllers: None }),
        "cgroup" => Some(Hierarchy { point, root, controllers: Some(options.split(',').map(str::to_owned).collect()) }),
        _ => None,
    }
}

/// Our own groups, as `(controllers, path)`.
fn own_paths() -> Vec<(String, String)> {
    let text = fs::read_to_string(format!("{HOST_TEXT}/proc/self/cgroup")).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?.to_owned(), parts.next()?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_of_both_versions_are_read() {
        let v1 =
            hierarchy("31 24 0:27 / /host/sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory").unwrap();
        assert_eq!(v1.point, Path::new("/host/sys/fs/cgroup/memory"));
        assert_eq!(v1.controllers, Some(vec!["rw".to_owned(), "memory".to_owned()]));
        let v2 = hierarchy("29 23 0:26 /x /host/sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate").unwrap();
        assert_eq!((v2.root.as_str(), v2.controllers), ("/x", None));
        assert!(hierarchy("22 1 8:1 / /host rw - ext4 /dev/sda1 rw").is_none());
    }
}
