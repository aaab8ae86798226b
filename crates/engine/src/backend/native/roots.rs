//! What every sandbox's root is made of: the host's system folders, read-only, and a small `/etc` and `/dev` of our own.

use std::fs;
use std::path::Path;

use jail::{Bind, BindKind, Setup};

use crate::language::drivers;

/// Top folders of the system. On most hosts all but `/usr` are links into it.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Parts of the host's `/etc` that programs need and that hold nothing about the host's users or secrets.
const ETC: &[&str] =
    &["/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types", "/etc/R", "/etc/php", "/etc/perl"];

/// Version-numbered folders of `/etc`, by how their names begin.
const ETC_PREFIXES: &[&str] = &["java-", "python3", "lua"];

const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The library that makes an interpreter a zygote, and where it lies inside.
const ZYGOTE: &[u8] = include_bytes!(env!("SAGGAR_ZYGOTE"));
pub(super) const LIBRARY: &str = "/opt/saggar/zygote.so";

const PASSWD: &str = "root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/tmp:/bin/bash\n";
const GROUP: &str = "root:x:0:\nsandbox:x:1000:\n";
const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// The root of sandboxes that also see `extra_roots`, at their own paths.
pub(super) fn setup(extra_roots: &[String], cgroup: Option<String>, zygotes: bool) -> Setup {
    let mut setup = Setup { cgroup, zygotes, ..Setup::default() };
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
    let device = |path: &&str| Bind { host: (*path).to_owned(), guest: (*path).to_owned(), kind: BindKind::Device };
    setup.binds.extend(DEVICES.iter().map(device));
    setup.binds.extend(extra_roots.iter().map(|path| tree(path)));
    for (path, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        setup.links.push((format!("/dev/{path}"), target.to_owned()));
    }
    for (path, content) in
        [("passwd", PASSWD), ("group", GROUP), ("hosts", HOSTS), ("nsswitch.conf", NSSWITCH), ("resolv.conf", "")]
    {
        setup.files.push((format!("/etc/{path}"), content.into()));
    }
    setup.files.extend(drivers().map(|(path, content)| (path.to_owned(), content.into())));
    if zygotes {
        setup.files.push((LIBRARY.to_owned(), ZYGOTE.to_owned()));
    }
    setup
}

fn tree(path: &str) -> Bind {
    Bind { host: path.to_owned(), guest: path.to_owned(), kind: BindKind::Tree }
}
