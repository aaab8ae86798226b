//! What people do with images, each with its entry in the audit trail.

use std::io::{self, Read};
use std::path::Path;

use super::{Image, ImageError, Images, Imported};
use crate::audit::{Entry, Kind};
use crate::engine::{Caller, Engine};
use crate::error::RunError;

impl Engine {
    /// The images of the state folder.
    pub fn images(&self) -> Result<Images, RunError> {
        Ok(Images::open(self.state())?)
    }

    /// Imports an image. Blocks for as long as its files take: call it where nobody else waits.
    pub async fn import_image(
        &self,
        caller: &Caller,
        source: &Path,
        name: Option<&str>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Imported, RunError> {
        self.audit().ready().await?;
        let imported = self.images()?.import(source, name, progress);
        self.note(caller, "imported", imported.as_ref().map(|imported| &imported.image)).await?;
        Ok(imported?)
    }

    /// Imports an image that somebody sends: as `name`, else as what it calls itself, else as `default`. It is read on a
    /// thread of its own.
    pub async fn import_sent_image(
        &self,
        caller: &Caller,
        name: Option<String>,
        default: Option<String>,
        archive: impl Read + Send + 'static,
    ) -> Result<Imported, RunError> {
        let _pass = self.admit(caller, "import").await?;
        self.audit().ready().await?;
        let images = self.images()?;
        let read =
            tokio::task::spawn_blocking(move || images.import_sent(archive, name.as_deref(), default.as_deref()));
        let imported = read.await.unwrap_or_else(|error| Err(ImageError::Records(io::Error::other(error))));
        self.note(caller, "imported", imported.as_ref().map(|imported| &imported.image)).await?;
        Ok(imported?)
    }

    /// Removes an image, and those of its layers that nothing else refers to.
    pub async fn remove_image(&self, caller: &Caller, name: &str) -> Result<Image, RunError> {
        self.audit().ready().await?;
        let (images, name) = (self.images()?, name.to_owned());
        let removing = tokio::task::spawn_blocking(move || images.remove(&name));
        let removed = removing.await.unwrap_or_else(|error| Err(ImageError::Records(io::Error::other(error))));
        self.note(caller, "removed", removed.as_ref()).await?;
        Ok(removed?)
    }

    async fn note(&self, caller: &Caller, done: &str, image: Result<&Image, &ImageError>) -> Result<(), RunError> {
        let details = match image {
            Ok(image) => serde_json::json!({"act": done, "name": image.name, "image": image.id, "bytes": image.bytes}),
            Err(error) => serde_json::json!({"act": done, "error": error.to_string()}),
        };
        let entry = Entry {
            id: crate::id::new_id("image"),
            kind: Kind::Image,
            caller: caller.name.clone(),
            outcome: if image.is_ok() { done.to_owned() } else { "failed".to_owned() },
            details: details.to_string(),
        };
        Ok(self.audit().record(entry).await?)
    }
}
