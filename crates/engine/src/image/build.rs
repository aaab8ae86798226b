//! Building an image: packages installed in a sandbox with a way out, sealed as one more layer.
//!
//! The sandbox is an ordinary run, with the walls of any other. What it installs comes back as an archive, and is
//! unpacked with the care that a stranger's gets: a package's own scripts have run beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use types::{BackendKind, ExecRequest, FileContent, InputFile, Limits, LimitsSpec, Network, Outcome, Policy, RelPath};

use super::sources::{Sources, authorities_of_the_house};
use super::{Base, Image, ImageError, Images, check_name};
use crate::audit::{Entry, Kind};
use crate::backend::{Output, Stream};
use crate::engine::{Caller, Delivery, Engine};
use crate::error::RunError;
use crate::files::{Made, Receive, Received};
use crate::layers::{Held, LayerRecord};

/// Where packages of each kind lie inside.
const PYTHON: &str = "/opt/packages/python";
const NODE: &str = "/opt/packages/node";

/// Where the sandbox leaves its archive, and where it finds certificates.
pub(super) const ARCHIVE: &str = "layer.tar.gz";
const AUTHORITIES: &str = "authorities.pem";
/// Where a root of its own has them; see `system.sh`.
const HOUSE: &str = "/usr/local/share/ca-certificates/house.crt";

/// More than a build takes; never more than the ceiling.
const WALL_MS: f64 = 30.0 * 60.0 * 1000.0;
const MEMORY_MB: f64 = 6.0 * 1024.0;
const DISK_MB: f64 = 4.0 * 1024.0;
const INODES: u64 = 1_000_000;

/// Packages of a kind that the trail names.
const MOST_TOLD: usize = 100;

/// What to build.
///
/// Its written form is that of a request. Where packages come from is no part of one: only the owner of the machine names
/// addresses, because a build may reach those that are private.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Build {
    /// What to call it.
    #[serde(skip_serializing)]
    pub name: String,
    /// The image to begin with; the host's system folders if absent.
    #[serde(skip_serializing)]
    pub from: Option<String>,
    /// A whole root of the host's own distribution to begin with, in place of an image.
    pub system: Option<System>,
    /// Debian packages; the image must be a Debian.
    pub apt: Vec<String>,
    /// Python packages, as pip takes them.
    pub pip: Vec<String>,
    /// Node packages, as npm takes them.
    pub npm: Vec<String>,
    /// Where they come from.
    #[serde(skip_deserializing)]
    pub sources: Sources,
    /// Whether to install again what is there already.
    #[serde(skip_serializing)]
    pub fresh: bool,
}

/// A root that is made from the packages of a distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct System {
    /// The major version of the Node that it gets.
    pub node: Option<String>,
}

/// What the trail says of a build. An address may hold a name and a password: these are nobody's business.
fn told(build: &Build) -> serde_json::Value {
    let mut told = serde_json::to_value(build).unwrap_or_default();
    for list in told.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
        match list {
            serde_json::Value::Array(words) => {
                words.truncate(MOST_TOLD);
                words.iter_mut().for_each(hide);
            }
            serde_json::Value::Object(sources) => sources.values_mut().for_each(hide),
            _ => {}
        }
    }
    told
}

fn hide(word: &mut serde_json::Value) {
    if let serde_json::Value::String(text) = word {
        *text = without_credentials(text).chars().take(300).collect();
    }
}

/// Without what stands between `://` and `@`.
fn without_credentials(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let host = part.find(['/', '?', '#', ' ']).unwrap_or(part.len());
        let begin = part[..host].rfind('@').map_or(0, |at| at + 1);
        shown.push_str("://");
        shown.push_str(&part[begin..]);
    }
    shown
}

impl Engine {
    /// Builds an image. `live` hears what the installers say.
    pub async fn build_image(
        &self,
        caller: &Caller,
        mut build: Build,
        live: Option<&mut dyn Output>,
    ) -> Result<Image, RunError> {
        check_name(&build.name)?;
        build.check()?;
        build.sources = build.sources.or(&self.settings.build);
        let images = self.images()?;
        let base = build.from.as_deref().map(|name| images.hold(name)).transpose()?;
        let is_whole = build.system.is_some() || base.as_ref().is_some_and(|held| held.image.base == Base::Own);
        if !build.apt.is_empty() && !is_whole {
            return Err(ImageError::Order("Debian packages need an image to be installed in".to_owned()).into());
        }
        let recipe = self.recipe_of(&build, base.as_ref().map(|held| &held.image));
        let layer = match images.built(&recipe)?.filter(|_| !build.fresh) {
            Some(layer) => layer,
            None => self.install(caller, &build, &images, recipe, live).await?,
        };
        let image = build.image(base.as_ref().map(|held| &held.image), &layer, &images);
        images.put(&image)?;
        let details =
            serde_json::json!({"act": "built", "name": image.name, "image": image.id, "packages": told(&build)});
        let entry = Entry {
            id: crate::id::new_id("image"),
            kind: Kind::Image,
            caller: caller.name.clone(),
            outcome: "built".to_owned(),
            details: details.to_string(),
        };
        self.audit().record(entry).await?;
        Ok(image)
    }

    /// Everything that decides what is installed.
    fn recipe_of(&self, build: &Build, base: Option<&Image>) -> String {
        let beneath = base.filter(|image| image.base == Base::Own).map(|image| image.id.clone());
        // A root of its own is that of the host's distribution, and of nothing else here.
        let release = build.system.as_ref().and_then(|_| std::fs::read_to_string("/usr/lib/os-release").ok());
        let beneath = beneath.or(release).unwrap_or_else(|| {
            let programs = crate::language::visible_interpreters(&self.settings);
            let version = |found: &crate::language::Found| format!("{} {:?}", found.program, found.python_version());
            programs.iter().map(version).collect::<Vec<_>>().join("\n")
        });
        let layers = base.map(|image| image.layers.clone()).unwrap_or_default();
        let mut text =
            serde_json::to_vec(&("build 1", std::env::consts::ARCH, beneath, layers, build)).unwrap_or_default();
        text.extend(build.system.as_ref().and_then(|_| authorities_of_the_house()).unwrap_or_default().into_bytes());
        blake3::hash(&text).to_hex().to_string()
    }

    /// Installs packages in a sandbox, and seals what came of it.
    async fn install(
        &self,
        caller: &Caller,
        build: &Build,
        images: &Images,
        recipe: String,
        live: Option<&mut dyn Output>,
    ) -> Result<(Held, LayerRecord), RunError> {
        let mut files = Vec::new();
        if let Some(text) = build.authorities()? {
            files.push(InputFile { path: RelPath::new(AUTHORITIES)?, content: FileContent::Text(text) });
        }
        let mut argv = vec!["sh".to_owned(), "-c".to_owned(), build.script(), "build".to_owned()];
        argv.extend(build.apt.iter().chain(&build.pip).chain(&build.npm).cloned());
        let request = ExecRequest {
            argv: Some(argv),
            env: build.environment(),
            files,
            image: build.from.clone(),
            network: Network::Open,
            limits: limits(&self.settings.ceiling.0),
            policy: Policy::Off,
            cold: true,
            // Layers are made of sandboxes of this host, whatever else runs elsewhere.
            backend: Some(BackendKind::Native),
            ..ExecRequest::default()
        };
        let mut archive = Archive { draft: images.store().draft().map_err(ImageError::from)?, file: None };
        let mut along = live.map(Along);
        let live = along.as_mut().map(|along| along as &mut dyn Output);
        let reach = build.sources.services();
        let delivery = Delivery { live, out: Some(&mut archive), reach, ..Delivery::default() };
        let result = self.execute(caller, request, delivery).await?;
        let failed = |why: String| RunError::from(ImageError::Build(why));
        match (&result.outcome, archive.file.take()) {
            (Outcome::Exited { code: 0 }, Some(mut file)) => {
                io::Seek::rewind(&mut file).map_err(ImageError::Records)?;
                let (images, note) = (images.clone(), format!("built for {}", build.name));
                let unpacked = tokio::task::spawn_blocking(move || images.layer_of_tar(file, &note, Some(recipe)));
                let lost = |error| ImageError::Records(io::Error::other(error));
                Ok(unpacked.await.map_err(lost)??)
            }
            (Outcome::Exited { code: 0 }, None) => Err(failed("the installers left nothing behind".to_owned())),
            (outcome, _) => Err(failed(not_installed(outcome, &result.stderr))),
        }
    }

    /// Whether scripts may bring their own dependencies by the settings.
    #[must_use]
    pub fn installs_for_scripts(&self) -> bool {
        self.settings.build_for_scripts
    }

    /// The image that a script's own metadata (PEP 723) asks for, built if it is not there; `None` if it asks for none.
    pub async fn image_for_script(
        &self,
        caller: &Caller,
        code: &[u8],
        from: Option<String>,
        live: Option<&mut dyn Output>,
    ) -> Result<Option<String>, RunError> {
        let Some(pip) = super::script::dependencies(code)? else { return Ok(None) };
        let name = blake3::hash(serde_json::to_string(&(&from, &pip)).unwrap_or_default().as_bytes()).to_hex();
        let build = Build { name: format!("script-{}", &name[..16]), from, pip, ..Build::default() };
        Ok(Some(self.build_image(caller, build, live).await?.name))
    }
}

impl Build {
    pub(super) fn check(&self) -> Result<(), ImageError> {
        let wrong = |word: &&String| word.is_empty() || word.starts_with('-') || word.chars().any(char::is_control);
        if let Some(word) = self.apt.iter().chain(&self.pip).chain(&self.npm).find(wrong) {
            let shown: String = word.chars().take(100).filter(|c| !c.is_control()).collect();
            return Err(ImageError::Order(format!("`{shown}` is no package")));
        }
        if let Some(system) = &self.system {
            if self.from.is_some() || !self.pip.is_empty() || !self.npm.is_empty() {
                let why =
                    "a root of its own begins with no image; packages of Python and Node go on top of it, with `from`";
                return Err(ImageError::Order(why.to_owned()));
            }
            let is_version = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if !system.node.as_ref().is_none_or(is_version) {
                return Err(ImageError::Order("a Node is named by its major version, such as 22".to_owned()));
            }
            return Ok(());
        }
        if self.apt.is_empty() && self.pip.is_empty() && self.npm.is_empty() {
            return Err(ImageError::Order("there is nothing to install".to_owned()));
        }
        Ok(())
    }

    /// Certificates that are trusted: those that are named, else, in a root of its own, those that the host trusts beside the
    /// usual ones, for what lies between the host and its sources lies between the image and them too.
    fn authorities(&self) -> Result<Option<String>, RunError> {
        match &self.sources.ca_bundle {
            Some(path) => {
                let unreadable = |source| RunError::Input { path: path.clone(), source };
                Ok(Some(std::fs::read_to_string(path).map_err(unreadable)?))
            }
            None => Ok(self.system.as_ref().and_then(|_| authorities_of_the_house())),
        }
    }

    /// What the sandbox does. Packages are its arguments, so no name is ever read by the shell.
    pub(super) fn script(&self) -> String {
        let mut script = String::from("set -e\nmkdir -p /tmp/root\n");
        let mut first = 1;
        let packages = if self.system.is_some() { SYSTEM } else { APT };
        for (count, step) in [(self.apt.len(), packages), (self.pip.len(), PIP), (self.npm.len(), NPM)] {
            if count == 0 && step != SYSTEM {
                continue;
            }
            let words: Vec<String> = (first..first + count).map(|number| format!("\"${{{number}}}\"")).collect();
            first += count;
            // Writing into memory does not fail.
            let _ = writeln!(script, "{}", step.replace("PACKAGES", &words.join(" ")));
        }
        script.push_str(PACK);
        script
    }

    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let mut env = self.sources.environment(&format!("/work/{AUTHORITIES}"));
        env.insert("DEBIAN_FRONTEND".to_owned(), "noninteractive".to_owned());
        let node = self.system.as_ref().and_then(|system| system.node.clone());
        env.extend(node.map(|version| ("SAGGAR_NODE".to_owned(), version)));
        env
    }

    fn image(&self, base: Option<&Image>, (held, record): &(Held, LayerRecord), images: &Images) -> Image {
        let mut layers: Vec<_> = base.map(|image| image.layers.clone()).unwrap_or_default().into_iter().collect();
        layers.retain(|layer| *layer != held.name);
        let known = |name: crate::layers::LayerName| {
            let record = images.store().record(&name).unwrap_or_default();
            (name, record)
        };
        let mut layers: Vec<_> = layers.into_iter().map(known).collect();
        layers.push((held.name.clone(), record.clone()));
        let mut env = base.map(|image| image.env.clone()).unwrap_or_default();
        let mut path = base.map(|image| image.path.clone()).unwrap_or_default();
        let mut add = |wanted: bool, variable: &str, folder: String, programs: String| {
            if wanted && !path.contains(&programs) {
                env.entry(variable.to_owned()).and_modify(|old| *old = format!("{folder}:{old}")).or_insert(folder);
                path.insert(0, programs);
            }
        };
        add(!self.pip.is_empty(), "PYTHONPATH", PYTHON.to_owned(), format!("{PYTHON}/bin"));
        add(!self.npm.is_empty(), "NODE_PATH", format!("{NODE}/node_modules"), format!("{NODE}/node_modules/.bin"));
        if self.system.as_ref().is_some_and(|system| system.node.is_some()) && matches!(self.authorities(), Ok(Some(_)))
        {
            // Node asks the system for none.
            env.insert("NODE_EXTRA_CA_CERTS".to_owned(), HOUSE.to_owned());
        }
        let packages = [&self.apt, &self.pip, &self.npm].map(|words| words.join(" ")).join(" ");
        let beneath = if self.system.is_some() { Base::Own } else { Base::Host };
        let kind = base.map_or(beneath, |image| image.base);
        let mut image = Image::new(&self.name, kind, &layers, env, format!("built: {}", packages.trim()));
        image.path = path;
        image
    }
}

const PIP: &str =
    "python3 -m pip install --target /tmp/root/opt/packages/python -- PACKAGES\nrm -rf /tmp/pip-* \"$HOME/.cache\"";

const NPM: &str = "mkdir -p /tmp/root/opt/packages/node\nnpm install --prefix /tmp/root/opt/packages/node -- PACKAGES\nrm -rf \"$HOME/.npm\"";

const SYSTEM: &str = include_str!("system.sh");

/// Unpacked without the packages' own scripts: these would need to be root, and to change the whole system.
const APT: &str = r#"mkdir -p /tmp/apt/lists/partial /tmp/apt/cache/archives/partial
apt="apt-get -q -o Dir::State=/tmp/apt -o Dir::State::lists=/tmp/apt/lists -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache=/tmp/apt/cache -o Dir::Log=/tmp/apt -o APT::Sandbox::User= -o Debug::NoLocking=1"
$apt update
$apt install -y --no-install-recommends --download-only PACKAGES
for package in /tmp/apt/cache/archives/*.deb; do dpkg-deb -x "$package" /tmp/root; rm "$package"; done
for folder in bin sbin lib lib32 lib64 libx32; do
  if [ -L "/$folder" ] && [ -d "/tmp/root/$folder" ] && [ ! -L "/tmp/root/$folder" ]; then
    mkdir -p "/tmp/root/usr/$folder"; cp -a "/tmp/root/$folder/." "/tmp/root/usr/$folder/"; rm -rf "/tmp/root/$folder"
  fi
done
rm -rf /tmp/apt"#;

/// Owned by root, where tar can say so, and packed lightly: it does not go far.
const PACK: &str = "if tar --version 2>/dev/null | grep -q GNU; then
  tar --owner=0 --group=0 -I 'gzip -1' -C /tmp/root -cf /work/layer.tar.gz .
else
  tar -C /tmp/root -czf /work/layer.tar.gz .
fi
";

/// Why nothing was installed, in the last words of the installers.
pub(super) fn not_installed(outcome: &Outcome, stderr: &str) -> String {
    let said = stderr.trim_end().rsplit('\n').take(3).collect::<Vec<_>>();
    let said = said.into_iter().rev().collect::<Vec<_>>().join("\n");
    format!("the packages could not be installed ({outcome:?}): {said}")
}

/// As much as a build takes and the ceiling gives.
pub(super) fn limits(most: &Limits) -> LimitsSpec {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    LimitsSpec {
        wall_ms: Some(WALL_MS.min(most.wall.as_secs_f64() * 1000.0)),
        memory_mb: Some(MEMORY_MB.min(mib(most.memory))),
        disk_mb: Some(DISK_MB.min(mib(most.disk))),
        inodes: Some(INODES.min(most.inodes)),
        pids: Some(512.min(most.pids)),
        cpus: Some(2.0_f64.min(most.cpus)),
        ..LimitsSpec::default()
    }
}

/// Whoever reads along, for as long as the installers speak.
pub(super) struct Along<'a>(pub(super) &'a mut dyn Output);

impl Output for Along<'_> {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> ControlFlow<()> {
        self.0.write(stream, bytes)
    }
}

/// Takes the one file that a build leaves.
struct Archive {
    draft: crate::layers::Draft,
    file: Option<std::fs::File>,
}

impl Receive for Archive {
    fn receive(&mut self, made: Made<'_>) -> Result<Received, RunError> {
        if made.path == ARCHIVE {
            let mut file = self.draft.scratch(ARCHIVE).map_err(ImageError::from)?;
            io::copy(made.content, &mut file).map_err(ImageError::Records)?;
            self.file = Some(file);
        }
        Ok(Received::Taken)
    }
}

impl Images {
    /// The layer that was built by a recipe.
    fn built(&self, recipe: &str) -> Result<Option<(Held, LayerRecord)>, ImageError> {
        for (name, record) in self.store.list()? {
            if record.recipe.as_deref() == Some(recipe) {
                return Ok(self.store.hold(&name).ok().map(|held| (held, record)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn the_trail_learns_no_passwords_of_addresses() {
        let sources = Sources {
            index_url: Some("https://name:secret@index.example/simple?x=a@b".to_owned()),
            proxy: Some("http://secret@proxy:3128".to_owned()),
            ..Sources::default()
        };
        let pip = words(&["pkg @ git+https://secret@host/x@v1", "plain==1"]);
        let told = told(&Build { pip, sources, ..Build::default() });
        assert!(!told.to_string().contains("secret"), "{told}");
        assert_eq!(told["sources"]["index_url"], "https://index.example/simple?x=a@b");
        assert_eq!(told["pip"], serde_json::json!(["pkg @ git+https://host/x@v1", "plain==1"]));
    }

    #[test]
    fn no_package_is_ever_an_option_or_a_piece_of_shell() {
        let rooted = |system, pip: &[&str]| Build { system: Some(system), pip: words(pip), ..Build::default() }.check();
        assert!(rooted(System { node: Some("22".to_owned()) }, &[]).is_ok());
        assert!(rooted(System { node: Some("22.*' x".to_owned()) }, &[]).is_err());
        assert!(rooted(System::default(), &["numpy"]).is_err(), "its Python is not there yet");
        for bad in ["", "-r/etc/passwd", "--index-url=http://x", "a\nb"] {
            assert!(Build { pip: words(&[bad]), ..Build::default() }.check().is_err(), "{bad:?}");
        }
        let build = Build { pip: words(&["a; touch /x", "b"]), npm: words(&["$(c)"]), ..Build::default() };
        let script = build.script();
        assert!(script.contains("-- \"${1}\" \"${2}\"\n") && script.contains("-- \"${3}\"\n"), "{script}");
        assert!(!script.contains("touch"));
    }
}
