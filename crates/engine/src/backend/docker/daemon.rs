//! The daemon: reached on a thread of its own, so that whoever must wait for it can do so without a runtime.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, ImageInspect, SystemInfo};
use bollard::query_parameters::{CreateContainerOptions, RemoveContainerOptions};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, mpsc, oneshot};

use super::error::DockerError;
use super::settings::DockerSettings;
use crate::backend::ImageFacts;
use crate::backend::contained::Errands;

/// How long the daemon may take for one step.
const PATIENCE: u64 = 120;

/// How long it may take to say that it is there.
const GREETING: Duration = Duration::from_secs(20);

/// The name of the processors that our own process 1 is for, as Docker has it.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

/// What everything that is ours carries at the daemon.
pub(super) const LABEL: &str = "dev.saggar";

/// A daemon, and the thread on which it is spoken to.
pub(super) struct Daemon {
    pub(super) settings: DockerSettings,
    errands: Errands,
    client: OnceCell<Known>,
}

/// A daemon that has answered.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) client: bollard::Docker,
    pub(super) info: Arc<SystemInfo>,
}

impl Known {
    /// Whether its host has the first version of cgroups, which alone counts sockets apart.
    pub(super) fn is_first_version(&self) -> bool {
        self.info.cgroup_version == Some(bollard::models::SystemInfoCgroupVersionEnum::_1)
    }
}

impl Daemon {
    pub(super) fn new(settings: DockerSettings) -> Result<Arc<Self>, DockerError> {
        let errands = Errands::new("docker").map_err(DockerError::Thread)?;
        Ok(Arc::new(Self { settings, errands, client: OnceCell::new() }))
    }

    /// Does something on the daemon's own thread.
    pub(super) async fn on_thread<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, DockerError>> + Send + 'static,
    ) -> Result<T, DockerError> {
        self.errands.on_thread(work).await.unwrap_or(Err(DockerError::Gone { said: None }))
    }

    /// Goes on by itself on the daemon's own thread.
    pub(super) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.errands.beside(work);
    }

    /// The daemon, asked what it can do when it is first needed.
    pub(super) async fn known(&self) -> Result<Known, DockerError> {
        let (address, certificates) = (self.settings.address().to_owned(), self.settings.certificates.clone());
        let silent = DockerError::Silent(address.clone());
        let asked = || async {
            let answer = tokio::time::timeout(GREETING, self.on_thread(connect(address, certificates))).await;
            answer.unwrap_or(Err(silent))
        };
        self.client.get_or_try_init(asked).await.cloned()
    }

    /// What there is to know of an image.
    pub(super) async fn image(&self, reference: &str) -> Result<(ImageFacts, Vec<String>), DockerError> {
        let Known { client, .. } = self.known().await?;
        let name = reference.to_owned();
        self.on_thread(async move {
            match client.inspect_image(&name).await {
                Ok(image) => facts(&name, image),
                Err(bollard::errors::Error::DockerResponseServerError { status_code: 404, .. }) => {
                    Err(DockerError::NoImage(name))
                }
                Err(source) => Err(DockerError::Refused { step: "tell of an image", source }),
            }
        })
        .await
    }

    /// Removes a container, and whatever runs in it, beside whatever goes on.
    pub(super) fn remove(&self, client: &bollard::Docker, id: String) {
        drop(Fresh {
            handle: self.errands.handle.clone(),
            under_way: self.under_way(),
            client: client.clone(),
            id: Some(id),
        });
    }

    /// Whoever holds it is waited for at our end.
    pub(super) fn under_way(&self) -> Option<mpsc::Sender<()>> {
        self.errands.under_way()
    }

    /// Makes a container, whether or not who asks for it stays to see it: one that nobody takes is removed.
    pub(super) async fn make(&self, client: &bollard::Docker, body: ContainerCreateBody) -> Result<Fresh, DockerError> {
        let (reply, answer) = oneshot::channel();
        let (handle, under_way, client) = (self.errands.handle.clone(), self.under_way(), client.clone());
        self.beside(async move {
            let made = client.create_container(None::<CreateContainerOptions>, body).await;
            drop(reply.send(made.map(|made| Fresh { handle, under_way, client, id: Some(made.id) })));
        });
        let made = answer.await.map_err(|_| DockerError::Gone { said: None })?;
        made.map_err(DockerError::refused("make a container"))
    }
}

/// A container on its way to whoever asked for it. It keeps no hold of the daemon's thread, on which it may be dropped.
pub(super) struct Fresh {
    handle: Handle,
    under_way: Option<mpsc::Sender<()>>,
    client: bollard::Docker,
    id: Option<String>,
}

impl Fresh {
    /// From here on somebody else removes it.
    pub(super) fn take(mut self) -> String {
        self.id.take().unwrap_or_default()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let (client, under_way) = (self.client.clone(), self.under_way.take());
        self.handle.spawn(async move {
            let options = RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
            // One that cannot be removed now is found by the next start.
            drop(client.remove_container(&id, Some(options)).await);
            drop(under_way);
        });
    }
}

async fn connect(address: String, certificates: Option<PathBuf>) -> Result<Known, DockerError> {
    let version = bollard::API_DEFAULT_VERSION;
    let is_far = address.starts_with("tcp://") || address.starts_with("https://");
    let client = if let Some(path) = address.strip_prefix("unix://") {
        bollard::Docker::connect_with_unix(path, PATIENCE, version)
    } else if let (true, Some(folder)) = (is_far, &certificates) {
        let [key, own, authority] = ["key.pem", "cert.pem", "ca.pem"].map(|name| folder.join(name));
        // Who has none to show would be told so in the middle of a connection, and not why.
        if let Some(missing) = [&key, &own, &authority].into_iter().find(|path| !path.is_file()) {
            return Err(DockerError::Certificate(missing.clone()));
        }
        bollard::Docker::connect_with_ssl(&address, &key, &own, &authority, PATIENCE, version)
    } else if address.starts_with("tcp://") || address.starts_with("http://") {
        bollard::Docker::connect_with_http(&address, PATIENCE, version)
    } else {
        return Err(DockerError::Address(address));
    };
    let unreachable = |source| DockerError::Unreachable { address: address.clone(), source };
    let client = client.map_err(unreachable)?.negotiate_version().await.map_err(unreachable)?;
    let info = Arc::new(client.info().await.map_err(unreachable)?);
    Ok(Known { client, info })
}

/// What is known of an image, and the folders that it declares to be volumes.
fn facts(name: &str, image: ImageInspect) -> Result<(ImageFacts, Vec<String>), DockerError> {
    let (system, machine) = (image.os.unwrap_or_default(), image.architecture.unwrap_or_default());
    if system != "linux" || machine != ARCHITECTURE {
        let found = format!("{system}/{machine}");
        return Err(DockerError::Foreign { image: name.to_owned(), found, wanted: ARCHITECTURE });
    }
    let config = image.config.unwrap_or_default();
    let env = config.env.unwrap_or_default();
    let path = env.iter().find_map(|pair| pair.strip_prefix("PATH=")).unwrap_or_default();
    let path = path.split(':').filter(|folder| folder.starts_with('/')).map(str::to_owned).collect();
    let digest = image.id.ok_or_else(|| DockerError::NoImage(name.to_owned()))?;
    Ok((ImageFacts { digest, path }, config.volumes.unwrap_or_default()))
}

/// Labels of everything that this process makes at the daemon. Who is gone can be told from them.
pub(super) fn labels() -> HashMap<String, String> {
    let start = start_of(std::process::id()).unwrap_or_default();
    HashMap::from([
        (LABEL.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        (format!("{LABEL}.machine"), machine()),
        (format!("{LABEL}.process"), format!("{} {start}", std::process::id())),
    ])
}

/// Whether a container with these labels was made by a process of this machine that is gone.
pub(super) fn is_orphan(labels: &HashMap<String, String>) -> bool {
    let of = |name: &str| labels.get(&format!("{LABEL}.{name}")).map(String::as_str).unwrap_or_default();
    if of("machine") != machine() {
        return false;
    }
    let Some((pid, start)) = of("process").split_once(' ') else { return false };
    pid.parse().is_ok_and(|pid: u32| start_of(pid).unwrap_or_default() != start)
}

/// Where numbers of processes mean the same: this boot of this machine, and one namespace of processes.
fn machine() -> String {
    let boot = own_file("/proc/sys/kernel/random/boot_id");
    let numbers = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), numbers.display())
}

fn own_file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// When a process was started, in the kernel's own count; with its number, no other process has it.
fn start_of(pid: u32) -> Option<String> {
    let stat = own_file(&format!("/proc/{pid}/stat"));
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_containers_of_dead_processes_of_this_machine_are_orphans() {
        let own = labels();
        assert!(!is_orphan(&own));
        let with = |name: &str, value: &str| {
            let mut labels = own.clone();
            labels.insert(format!("{LABEL}.{name}"), value.to_owned());
            labels
        };
        assert!(is_orphan(&with("process", &format!("{} 1", std::process::id()))));
        assert!(is_orphan(&with("process", "4294967295 7")));
        assert!(!is_orphan(&with("machine", "another machine")));
        assert!(!is_orphan(&HashMap::new()));
    }
}
