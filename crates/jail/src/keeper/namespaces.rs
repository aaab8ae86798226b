//! Which namespaces a sandbox gets, and which one a host refuses.

use rustix::io::Errno;
use types::Layer;

use crate::sys::{self, Clone3, Side};
use crate::wire::Trouble;

/// The namespaces that a sandbox is born in; its cgroup view comes later.
const BORN: [(Layer, libc::c_int); 6] = [
    (Layer::UserNs, libc::CLONE_NEWUSER),
    (Layer::MountNs, libc::CLONE_NEWNS),
    (Layer::PidNs, libc::CLONE_NEWPID),
    (Layer::NetNs, libc::CLONE_NEWNET),
    (Layer::IpcNs, libc::CLONE_NEWIPC),
    (Layer::UtsNs, libc::CLONE_NEWUTS),
];

/// `CLONE_NEW*` flags of every birth namespace but `without`.
pub(super) fn flags(without: &[Layer]) -> u64 {
    BORN.iter()
        .filter(|(layer, _)| !without.contains(layer))
        .map(|(_, flag)| u64::from(flag.cast_unsigned()))
        .fold(0, |all, flag| all | flag)
}

/// The layers that `flags` stand for and that need no further step to be real.
pub(super) fn complete(without: &[Layer]) -> Vec<Layer> {
    [Layer::UserNs, Layer::IpcNs].into_iter().filter(|layer| !without.contains(layer)).collect()
}

/// Finds out which of the namespaces is refused, by trying each.
pub(super) fn refused() -> Vec<Layer> {
    let user = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    let fails = |namespaces| match (Clone3 { namespaces, cgroup: None }).fork() {
        Ok(Side::Child) => sys::exit_now(0),
        Ok(Side::Parent { pid, .. }) => {
            drop(sys::wait_for(pid));
            false
        }
        Err(_) => true,
    };
    if fails(user) {
        return vec![Layer::UserNs];
    }
    BORN.iter().filter(|(_, flag)| fails(user | u64::from(flag.cast_unsigned()))).map(|(layer, _)| *layer).collect()
}

/// What it means that the keeper's own namespaces are refused.
pub(super) fn user_trouble(errno: Errno) -> Trouble {
    Trouble {
        layer: Some(Layer::UserNs),
        step: "make the keeper's own namespaces".to_owned(),
        errno: errno.raw_os_error(),
    }
}
