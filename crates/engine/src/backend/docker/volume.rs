//! The volume with our own program and the drivers of interpreters: filled once, shown read-only to every container.

use bollard::body_full;
use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions, UploadToContainerOptions};

use super::container::{OWN_FOLDER, filler, volume_labels};
use super::error::DockerError;
use crate::backend::native::KEEPER;
use crate::language::drivers;

/// What lies in the volume, our own program last: where that is, everything is.
fn content() -> Vec<(String, &'static [u8])> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let drivers = drivers().map(|(path, text)| (name(path), text.as_bytes()));
    drivers.chain([(name(jail::contained::NAME), KEEPER)]).collect()
}

/// The volume's name, by what must lie in it.
pub(super) fn name() -> String {
    let mut hash = blake3::Hasher::new();
    for (name, content) in content() {
        hash.update(name.as_bytes()).update(&[0]).update(&(content.len() as u64).to_le_bytes()).update(content);
    }
    format!("saggar-{}", &hash.finalize().to_hex()[..16])
}

/// Makes the volume if it is not there.
pub(super) async fn ensure(client: &bollard::Docker, image: &str, name: &str) -> Result<(), DockerError> {
    match client.inspect_volume(name).await {
        Ok(_) => Ok(()),
        Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => {
            fill(client, image, name).await
        }
        Err(source) => Err(DockerError::Refused { step: "tell of a volume", source }),
    }
}

/// Fills the volume, also one that somebody left half filled. Whoever uses it meanwhile sees the same files.
pub(super) async fn fill(client: &bollard::Docker, image: &str, name: &str) -> Result<(), DockerError> {
    let volume = VolumeCreateRequest {
        name: Some(name.to_owned()),
        labels: Some(volume_labels()),
        ..VolumeCreateRequest::default()
    };
    client.create_volume(volume).await.map_err(DockerError::refused("make a volume"))?;
    let made = client.create_container(None::<CreateContainerOptions>, filler(image, name)).await;
    let id = made.map_err(DockerError::refused("make a container"))?.id;
    let options = UploadToContainerOptions { path: OWN_FOLDER.to_owned(), ..UploadToContainerOptions::default() };
    let filled = client.upload_to_container(&id, Some(options), body_full(archive().into())).await;
    let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
    let removed = client.remove_container(&id, Some(options)).await;
    filled.map_err(DockerError::refused("fill a volume"))?;
    removed.map_err(DockerError::refused("remove a container"))
}

/// A tar archive of the content; root's, and readable by all.
fn archive() -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content) in content() {
        archive.extend_from_slice(&header(&name, content.len(), 0o755, 0, "0"));
        archive.extend_from_slice(content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// A tar archive of the folders that a session's disk is made of, as empty as they are.
pub(super) fn folders() -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, mode, owner) in
        [("work/", 0o755, 1000), ("home/", 0o755, 0), ("home/user/", 0o755, 1000), ("tmp/", 0o1777, 0)]
    {
        archive.extend_from_slice(&header(name, 0, mode, owner, "5"));
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// One header as POSIX has it ("ustar").
fn header(name: &str, size: usize, mode: u32, owner: u32, kind: &str) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(108, &format!("{owner:07o}"));
    put(116, &format!("{owner:07o}"));
    put(124, &format!("{size:011o}"));
    put(136, "00000000000");
    put(148, "        ");
    put(156, kind);
    put(257, "ustar");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    header
}
