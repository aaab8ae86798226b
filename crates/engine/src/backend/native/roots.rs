//! What every sandbox's root is made of: the host's system folders, read-only, and a small `/etc` and `/dev` of our own.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use jail::{Bind, BindKind, ByteBuf, Setup};

use super::{PlaceSpec, SandboxSpec};
use crate::error::BackendError;
use crate::image::{Base, HeldImage};
use crate::language::drivers;
use crate::layers::Held;
use crate::network;

/// Top folders of the system. On most hosts all but `/usr` are links into it.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Parts of the host's `/etc` that programs need and that hold nothing about the host's users or secrets.
const ETC: &[&str] =
    &["/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/R", "/etc/php", "/etc/perl"];

/// Version-numbered folders of `/etc`, by how their names begin.
const ETC_PREFIXES: &[&str] = &["java-", "python3", "lua"];

/// Whom the host trusts, for runs that can reach anybody; private keys lie elsewhere.
const AUTHORITIES: &[&str] =
    &["/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted"];

const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Whatever terminal a process has itself.
const TERMINAL: &str = "/dev/tty";

/// The library that makes an interpreter a zygote, and where it lies inside.
const ZYGOTE: &[u8] = include_bytes!(env!("SAGGAR_ZYGOTE"));
pub(super) const LIBRARY: &str = "/opt/saggar/zygote.so";

const PASSWD: &str = "root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/tmp:/bin/bash\n";
const GROUP: &str = "root:x:0:\nsandbox:x:1000:\n";
const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

const SESSION_PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000:user:/home/user:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";
const SESSION_GROUP: &str = "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n";

/// What distinguishes one root from another: each has a keeper of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Root {
    /// Host trees beyond the system's own, at their own paths.
    extra_roots: Vec<String>,
    /// Folders of an image's layers, and what they stand on.
    image: Option<(Base, Vec<String>)>,
    /// Whether names can be looked up.
    network: bool,
    /// Whether its sandboxes stay: they have users with homes, and terminals.
    sessions: bool,
}

impl Root {
    pub(super) fn of(spec: &SandboxSpec) -> Result<Self, BackendError> {
        let image = spec.image.as_ref().map(layers).transpose()?;
        Ok(Self { extra_roots: spec.extra_roots.clone(), image, network: spec.network.is_some(), sessions: false })
    }

    /// The root of sandboxes that stay. Their keepers have no runs to hold up. An image that is a whole root lies on the
    /// disk of each.
    pub(super) fn of_sessions(spec: &PlaceSpec) -> Result<Self, BackendError> {
        let below = spec.image.as_ref().filter(|held| held.image.base == Base::Host);
        let image = below.map(layers).transpose()?;
        // Where nobody answers there is nobody to ask for names either: that is told at once.
        let network = spec.network.as_ref().is_some_and(|rules| !rules.is_silent());
        Ok(Self { extra_roots: spec.extra_roots.clone(), image, network, sessions: true })
    }

    /// Whether interpreters may be forked into its sandboxes.
    pub(super) fn has_zygotes(&self) -> bool {
        !self.is_of_image() && !self.sessions
    }

    /// Whether it is of an image, which may be removed.
    pub(super) fn is_of_image(&self) -> bool {
        self.image.is_some()
    }

    /// What the keeper is told.
    pub(super) fn setup(&self, cgroup: Option<String>, zygotes: bool) -> Setup {
        let mut setup = Setup { cgroup, zygotes, ..Setup::default() };
        let base = self.image.as_ref().map_or(Base::Host, |(base, _)| *base);
        setup.layers = self.image.as_ref().map(|(_, layers)| layers.clone()).unwrap_or_default();
        if base == Base::Host {
            show_system(&mut setup);
            if self.network {
                setup.binds.extend(AUTHORITIES.iter().filter(|path| Path::new(path).exists()).map(|path| tree(path)));
            }
        }
        setup.binds.extend(self.extra_roots.iter().map(|path| tree(path)));
        let resolver = if self.network { format!("nameserver {}\n", network::RESOLVER) } else { String::new() };
        add_own(&mut setup, base, &resolver);
        if self.sessions {
            add_of_sessions(&mut setup);
        }
        if zygotes {
            setup.files.push((LIBRARY.to_owned(), ByteBuf::from(ZYGOTE)));
        }
        setup
    }
}

/// Folders of an image's layers, and what they stand on.
fn layers(held: &Arc<HeldImage>) -> Result<(Base, Vec<String>), BackendError> {
    let folder = |layer: &Held| {
        // The keeper gets paths as text.
        let path = layer.content.to_str().map(str::to_owned);
        path.ok_or_else(|| BackendError::Host(std::io::ErrorKind::InvalidFilename.into()))
    };
    Ok((held.image.base, held.layers.iter().map(folder).collect::<Result<Vec<_>, _>>()?))
}

/// The host's system folders.
fn show_system(setup: &mut Setup) {
    for path in SYSTEM {
        match fs::read_link(path) {
            Ok(target) => setup.links.extend(target.to_str().map(|target| ((*path).to_owned(), target.to_owned()))),
            Err(_) if Path::new(path).is_dir() => setup.binds.push(tree(path)),
            Err(_) => {}
        }
    }
    setup.binds.extend(ETC.iter().filter(|path| Path::new(path).exists()).map(|path| tree(path)));
    for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str().filter(|name| ETC_PREFIXES.iter().any(|p| name.starts_with(p))) {
            setup.binds.push(tree(&format!("/etc/{name}")));
        }
    }
}

/// What every root has, whatever it is made from.
fn add_own(setup: &mut Setup, base: Base, resolver: &str) {
    setup.binds.extend(DEVICES.iter().map(|path| device(path)));
    for (path, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        setup.links.push((format!("/dev/{path}"), target.to_owned()));
    }
    for (path, content) in [("passwd", PASSWD), ("group", GROUP), ("hosts", HOSTS), ("resolv.conf", resolver)] {
        setup.files.push((format!("/etc/{path}"), bytes(content)));
    }
    if base == Base::Host {
        setup.files.push(("/etc/nsswitch.conf".to_owned(), bytes(NSSWITCH)));
    }
    setup.files.extend(drivers().map(|(path, content)| (path.to_owned(), bytes(content))));
}

fn bytes(text: &str) -> ByteBuf {
    ByteBuf::from(text.as_bytes())
}

/// What sandboxes that stay have on top.
fn add_of_sessions(setup: &mut Setup) {
    setup.sessions = true;
    for (path, content) in [("/etc/passwd", SESSION_PASSWD), ("/etc/group", SESSION_GROUP)] {
        setup.files.retain(|(known, _)| known != path);
        setup.files.push((path.to_owned(), bytes(content)));
    }
    setup.links.push(("/dev/ptmx".to_owned(), "pts/ptmx".to_owned()));
    if Path::new(TERMINAL).exists() {
        setup.binds.push(device(TERMINAL));
    }
}

fn device(path: &str) -> Bind {
    Bind { host: path.to_owned(), guest: path.to_owned(), kind: BindKind::Device }
}

fn tree(path: &str) -> Bind {
    Bind { host: path.to_owned(), guest: path.to_owned(), kind: BindKind::Tree }
}
