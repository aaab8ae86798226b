//! Images that the daemon keeps for snapshots, and their end.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bollard::errors::Error;
use bollard::query_parameters::{ListImagesOptions, RemoveImageOptions};

use super::Docker;
use super::error::DockerError;
use super::place::{kept, owner, snapshot_label};
use crate::backend::LayerId;

/// How long whoever made one may take to write it down.
const MOST_SECONDS: i64 = 600;

impl Docker {
    /// Removes the image of a snapshot. One that others stand on stays until they are gone.
    pub(super) async fn remove_snapshot(&self, layer: &LayerId) -> Result<(), DockerError> {
        let Some((name, _)) = kept(layer) else { return Ok(()) };
        let (client, name) = (self.daemon.known().await?.client, name.to_owned());
        self.daemon.on_thread(async move { remove(&client, &name).await.map(drop) }).await
    }

    /// Removes images of snapshots of a state folder that nobody knows any more; how many these were.
    pub(super) async fn tidy_snapshots(&self, state: &Path, known: &[LayerId]) -> Result<usize, DockerError> {
        let client = self.daemon.known().await?.client;
        let known: HashSet<String> = known.iter().filter_map(kept).map(|(_, digest)| digest.to_owned()).collect();
        let label = format!("{}={}", snapshot_label(), owner(state));
        self.daemon
            .on_thread(async move {
                let filters = Some(HashMap::from([("label".to_owned(), vec![label])]));
                let options = ListImagesOptions { filters, ..ListImagesOptions::default() };
                let images = client.list_images(Some(options)).await;
                let images = images.map_err(DockerError::refused("tell of images"))?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
                let now = i64::try_from(now).unwrap_or(i64::MAX);
                let mut removed = 0;
                for image in images {
                    if known.contains(&image.id) || now - image.created < MOST_SECONDS {
                        continue;
                    }
                    let name = image.repo_tags.into_iter().next().unwrap_or(image.id);
                    removed += usize::from(remove(&client, &name).await?);
                }
                Ok(removed)
            })
            .await
    }
}

/// Removes an image by its name, and none below it: those may be snapshots too. Whether it is gone.
async fn remove(client: &bollard::Docker, name: &str) -> Result<bool, DockerError> {
    let options = RemoveImageOptions { noprune: true, ..RemoveImageOptions::default() };
    match client.remove_image(name, Some(options), None).await {
        Ok(_) => Ok(true),
        // In use, or gone already.
        Err(Error::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(false),
        Err(source) => Err(DockerError::Refused { step: "remove an image", source }),
    }
}
