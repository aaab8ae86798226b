//! Removing what processes that are gone have left at the daemon.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{
    ListContainersOptions, ListVolumesOptions, RemoveContainerOptions, RemoveVolumeOptions,
};

use super::daemon::{LABEL, is_orphan};

/// How long whoever made a container that does not run may take to start or remove it, wherever they are.
const MOST_SECONDS: i64 = 600;

/// Removes containers of processes that are gone, and volumes of other versions of ours. Containers end with whoever made
/// them; this takes their remains.
pub(super) async fn sweep(client: bollard::Docker, own: String) {
    let filters = HashMap::from([("label".to_owned(), vec![LABEL.to_owned()])]);
    let volumes = ListVolumesOptions { filters: Some(filters.clone()) };
    let options = ListContainersOptions { all: true, filters: Some(filters), ..ListContainersOptions::default() };
    // A daemon that cannot tell now is asked again by the next start.
    let Ok(containers) = client.list_containers(Some(options)).await else { return };
    for container in containers.into_iter().filter(is_left) {
        let Some(id) = container.id else { continue };
        let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
        drop(client.remove_container(&id, Some(options)).await);
    }
    let Ok(found) = client.list_volumes(Some(volumes)).await else { return };
    for volume in found.volumes.unwrap_or_default().into_iter().filter(|volume| volume.name != own) {
        // One that somebody uses is refused. Who was about to use it fills it anew.
        drop(client.remove_volume(&volume.name, None::<RemoveVolumeOptions>).await);
    }
}

/// Of a process of this machine that is gone; or of another machine, and has not run for a while.
fn is_left(container: &ContainerSummary) -> bool {
    let runs = container.state == Some(ContainerSummaryStateEnum::RUNNING);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let age = i64::try_from(now).unwrap_or(i64::MAX) - container.created.unwrap_or(i64::MAX);
    container.labels.as_ref().is_some_and(is_orphan) || (!runs && age > MOST_SECONDS)
}
