//! What this host can enforce, found by doing it, and how to get the rest.

use std::fs;

use serde::{Deserialize, Serialize};
use types::{BackendKind, Layer, Limits};

use crate::backend::{
    Backend, Cancel, Command, DockerReport, E2b, GuestUser, Output, SandboxSpec, Stdin, Stream, examine_docker,
};
use crate::engine::{Caller, Engine};
use crate::error::{BackendError, RunError};
use crate::language::{self, RECIPES, Recipe};

/// What `saggar doctor` says.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// Whether a default run would be carried out.
    pub ok: bool,
    /// What isolates where a request does not say.
    pub backend: BackendKind,
    /// The kernel's release.
    pub kernel: String,
    /// Every layer of native sandboxes.
    pub layers: Vec<LayerReport>,
    /// Every language.
    pub languages: Vec<LanguageReport>,
    /// What sessions have.
    pub sessions: SessionsReport,
    /// The other place where runs can go.
    pub docker: DockerReport,
}

/// What sessions have on this host.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionsReport {
    /// Who programs can be inside.
    pub users: Vec<GuestUser>,
    /// Why there is one only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How to get the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl SessionsReport {
    fn of_this_host() -> Self {
        if jail::shifts_ids() {
            return Self { users: vec![GuestUser::User, GuestUser::Root], why: None, remedy: None };
        }
        let why = "an ordinary user has one id to give: no `root` inside, so no apt and no files of others";
        let remedy = "run the server as root; sessions are nobody on the host all the same";
        Self { users: vec![GuestUser::User], why: Some(why.to_owned()), remedy: Some(remedy.to_owned()) }
    }
}

/// One layer on this host.
#[derive(Debug, Serialize, Deserialize)]
pub struct LayerReport {
    /// Which.
    pub layer: Layer,
    /// Whether it was really on in a sandbox made just now.
    pub on: bool,
    /// Whether a run is refused without it.
    pub required: bool,
    /// Why it is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// One language on this host.
#[derive(Debug, Serialize, Deserialize)]
pub struct LanguageReport {
    /// The recipe.
    pub language: String,
    /// The program that would be used.
    pub program: Option<String>,
    /// What it says of itself inside a sandbox.
    pub version: Option<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A program's first line is all that is wanted.
#[derive(Default)]
struct FirstLine(Vec<u8>);

impl Output for FirstLine {
    fn write(&mut self, _: Stream, bytes: &[u8]) -> std::ops::ControlFlow<()> {
        let room = 4096_usize.saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        std::ops::ControlFlow::Continue(())
    }
}

impl Engine {
    /// Makes a sandbox and reports what it was made of.
    pub async fn examine(&self) -> Report {
        let spec = self.probe_spec(Vec::new());
        let (capabilities, on) = match self.try_layers(&spec).await {
            Ok(found) => (Ok(found.0), found.1),
            Err(error) => (Err(error), Vec::new()),
        };
        let required = |layer: Layer| {
            (layer.is_wall() && !self.settings.accept_missing.contains(&layer))
                || self.settings.require.contains(&layer)
        };
        let layers: Vec<LayerReport> = Layer::ALL
            .into_iter()
            .map(|layer| {
                let on = on.contains(&layer);
                LayerReport {
                    layer,
                    on,
                    required: required(layer),
                    why: (!on).then(|| reason(layer, &capabilities)),
                    remedy: (!on).then(|| remedy(layer).to_owned()),
                }
            })
            .collect();
        let usable = layers.iter().all(|layer| layer.on || !layer.required);
        let mut languages = Vec::new();
        for recipe in RECIPES {
            languages.push(self.language(recipe, usable).await);
        }
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let (backend, sessions) = (self.settings.backend, SessionsReport::of_this_host());
        let docker = examine_docker(&self.settings.docker, self.probe_spec(Vec::new())).await;
        let ok = match backend {
            BackendKind::Native => usable,
            // A run that names no image needs one.
            BackendKind::Docker => {
                docker.ok && docker.image.is_some() && !docker.missing.iter().any(|layer| required(*layer))
            }
            // More than its settings cannot be tried for nothing.
            BackendKind::E2b => E2b::new(self.settings.e2b.backend.clone()).is_ok(),
        };
        Report { ok, backend, kernel, layers, languages, sessions, docker }
    }

    pub(crate) fn probe_spec(&self, extra_roots: Vec<String>) -> SandboxSpec {
        let accept = self.accepted(&Caller::default());
        // A Java machine tells its version with threads and memory of a whole one.
        SandboxSpec {
            limits: Limits { memory: 1 << 30, ..Limits::default() },
            accept,
            extra_roots,
            image: None,
            digest: None,
            network: None,
            worker: None,
            packages: None,
            ahead: false,
            rehearse: false,
        }
    }

    async fn try_layers(&self, spec: &SandboxSpec) -> Result<(Vec<(Layer, String)>, Vec<Layer>), BackendError> {
        let missing = self.stations.native.backend.capabilities(spec).await?.missing;
        let mut sandbox = self.stations.native.backend.create(spec).await?;
        let programs = vec!["/usr/bin/true".to_owned(), "/bin/true".to_owned()];
        let command = Command { programs, argv: vec!["true".to_owned()], env: Vec::new() };
        let ended = sandbox.run(command, Stdin::Bytes(Vec::new()), &mut FirstLine::default(), never()).await?;
        Ok((missing, ended.layers))
    }

    async fn language(&self, recipe: &'static Recipe, usable: bool) -> LanguageReport {
        let mut report = LanguageReport { language: recipe.name.to_owned(), program: None, version: None, why: None };
        let Some(found) = language::find(recipe.name, recipe.programs, &self.settings) else {
            report.why = Some(format!("not found on PATH: {}", recipe.programs.join(", ")));
            return report;
        };
        report.program = Some(found.program.clone());
        if usable {
            let (backend, spec) = (&*self.stations.native.backend, self.probe_spec(found.roots.clone()));
            match version(backend, &spec, recipe, vec![found.program]).await {
                Ok(version) => {
                    report.why = recipe.too_old(&version).map(|needs| format!("needs {needs}"));
                    report.version = Some(version);
                }
                Err(error) => report.why = Some(error.body().message),
            }
        }
        report
    }
}

/// What a program says of its version, asked in a sandbox.
pub(crate) async fn version(
    backend: &dyn Backend,
    spec: &SandboxSpec,
    recipe: &'static Recipe,
    programs: Vec<String>,
) -> Result<String, RunError> {
    let mut sandbox = backend.create(spec).await?;
    let mut argv = vec![programs.first().cloned().unwrap_or_default()];
    argv.extend(recipe.version.iter().map(|&word| word.to_owned()));
    let env = vec!["PATH=/usr/local/bin:/usr/bin:/bin".to_owned(), "HOME=/tmp".to_owned(), "LANG=C.UTF-8".to_owned()];
    let mut said = FirstLine::default();
    let command = Command { programs, argv, env };
    sandbox.run(command, Stdin::Bytes(Vec::new()), &mut said, never()).await?;
    let text = String::from_utf8_lossy(&said.0);
    Ok(text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit())).unwrap_or("unknown").trim().to_owned())
}

fn never() -> Cancel<'static> {
    Box::pin(std::future::pending())
}

fn reason(layer: Layer, found: &Result<Vec<(Layer, String)>, BackendError>) -> String {
    match found {
        Ok(missing) => missing
            .iter()
            .find(|(of, _)| *of == layer)
            .map_or_else(|| "the host refused it, and the settings accept that".to_owned(), |(_, why)| why.clone()),
        Err(BackendError::Layer { layer: of, step, source }) if *of == layer => {
            format!("{step}: {source}{}", user_namespace_switch(layer).unwrap_or_default())
        }
        Err(error) => format!("not tried, because the sandbox could not be made: {error}"),
    }
}

/// The switch that forbids user namespaces, if one of the usual ones is set.
fn user_namespace_switch(layer: Layer) -> Option<String> {
    let set = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    let switches = [
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/user/max_user_namespaces", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
    ];
    let (path, value) = switches.into_iter().find(|(path, value)| layer == Layer::UserNs && set(path, value))?;
    Some(format!(" ({} is {value})", path.trim_start_matches("/proc/sys/").replace('/', ".")))
}

/// How to get a layer that a host lacks.
pub(crate) fn remedy(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNs => {
            "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000 \
             kernel.apparmor_restrict_unprivileged_userns=0; in Docker: --security-opt seccomp=unconfined \
             --security-opt systempaths=unconfined"
        }
        Layer::MountNs | Layer::PidNs => {
            "the host must allow mounts in a user namespace and show an unmasked /proc; in Docker: --security-opt \
             seccomp=unconfined --security-opt systempaths=unconfined; the root must not be an initramfs"
        }
        Layer::NetNs | Layer::IpcNs | Layer::UtsNs | Layer::CgroupNs => {
            "the kernel must have this namespace (CONFIG_NAMESPACES) and its user.max_*_namespaces must not be 0"
        }
        Layer::NoNewPrivs | Layer::CapsDropped => "needs Linux 5.12 or newer",
        Layer::Seccomp => "the kernel must have CONFIG_SECCOMP_FILTER",
        Layer::LandlockFs => {
            "needs Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK and `landlock` in the boot option lsm="
        }
        Layer::LandlockScope => "needs Linux 6.12 or newer with Landlock",
        Layer::CgroupMemory | Layer::CgroupPids | Layer::CgroupCpu => {
            "run as root, or let root hand over a cgroup and name it in SAGGAR_CGROUP, or with cgroup v2 run under \
             `systemd-run --user --scope -p Delegate=yes`"
        }
        Layer::DiskQuota => "the kernel must have tmpfs (CONFIG_TMPFS)",
    }
}
