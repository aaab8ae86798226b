//! Images from archives: what honest ones become, and what hostile ones cannot do.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use engine::{ImageError, Images};
use serde_json::json;
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// A state folder that ends with the test, and a folder beside it that nothing may touch.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("saggar-images-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("state")).unwrap();
        fs::create_dir_all(path.join("outside")).unwrap();
        fs::write(path.join("outside/precious"), "untouched").unwrap();
        Self(path)
    }

    fn images(&self) -> Images {
        Images::open(&self.0.join("state")).unwrap()
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn import(&self, archive: &[u8]) -> Result<engine::Imported, ImageError> {
        self.images().import(&self.file("archive.tar", archive), Some("test"), &mut |_| {})
    }

    /// The folder of the only layer.
    fn content(&self) -> PathBuf {
        let images = self.images();
        let layers = images.store().list().unwrap();
        assert_eq!(layers.len(), 1);
        images.store().hold(&layers[0].0).unwrap().content.clone()
    }

    /// Nothing is left of an import that failed, and nothing else was touched.
    fn assert_clean(&self) {
        assert_eq!(fs::read_dir(self.0.join("state/layers")).unwrap().count(), 0);
        assert_eq!(self.images().list().unwrap(), []);
        let outside: Vec<_> = fs::read_dir(self.0.join("outside")).unwrap().flatten().collect();
        assert_eq!(outside.len(), 1);
        assert_eq!(fs::read_to_string(self.0.join("outside/precious")).unwrap(), "untouched");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A tar with whatever names and links, which honest writers refuse to write.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn entry(mut self, kind: EntryType, path: &str, link: &str, mode: u32, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        if matches!(kind, EntryType::Char | EntryType::Block) {
            header.set_device_major(8).unwrap();
            header.set_device_minor(0).unwrap();
        }
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, path: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, path, "", 0o644, content.as_bytes())
    }

    fn folder(self, path: &str) -> Self {
        self.entry(EntryType::Directory, path, "", 0o755, b"")
    }

    fn link(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path, target, 0o777, b"")
    }

    fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Link, path, target, 0o644, b"")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn archives_that_reach_outside_are_refused_whole() {
    let scratch = Scratch::new("hostile");
    let outside = scratch.0.join("outside").to_str().unwrap().to_owned();
    let name = outside.trim_start_matches('/');
    let archives = [
        ("dots", Tar::default().file("../../../outside/precious", "gone")),
        ("dots inside", Tar::default().file("a/../../x", "gone")),
        ("absolute", Tar::default().file(&format!("{outside}/precious"), "gone")),
        ("whiteout of dots", Tar::default().file(".wh...", "")),
        ("whiteout of nothing", Tar::default().file(".wh.", "")),
        ("hard link out", Tar::default().hard_link("x", "../../../outside/precious")),
        ("hard link absolute", Tar::default().hard_link("x", &format!("{outside}/precious"))),
        ("hard link through link", Tar::default().link("l", &outside).hard_link("x", "l/precious")),
        ("hard link to folder", Tar::default().folder("d").hard_link("x", "d")),
        ("hard link to root", Tar::default().hard_link("x", ".")),
        ("file for folder", Tar::default().folder("d").file("d/f", "").file("d", "x")),
        ("file below file", Tar::default().file("f", "x").file("f/g", "x")),
        ("file below loop", Tar::default().link("a", "b").link("b", "a").file("a/f", "x")),
        ("file below dangling link", Tar::default().link("a", &outside).file("a/f", "x")),
        ("link to nothing", Tar::default().link("a", "")),
        ("cut short", Tar(Tar::default().file("f", &"x".repeat(5000)).0[..1024].to_vec())),
    ];
    for (what, archive) in archives {
        let archive = if what == "cut short" { archive.0 } else { archive.end() };
        let refused = scratch.import(&archive);
        assert!(refused.is_err(), "{what}: {refused:?}");
        scratch.assert_clean();
    }
    // Through a link the path stays below the image's own root, where nothing of the host is.
    let through = Tar::default().folder(name).link("out", &outside).file("out/precious", "inside").end();
    scratch.import(&through).unwrap();
    assert_eq!(fs::read_to_string(scratch.content().join(name).join("precious")).unwrap(), "inside");
    assert_eq!(fs::read_to_string(scratch.0.join("outside/precious")).unwrap(), "untouched");
}

#[test]
fn a_link_that_is_replaced_leads_nowhere() {
    let scratch = Scratch::new("replaced");
    let target = scratch.0.join("outside/precious").to_str().unwrap().to_owned();
    let archive = Tar::default().link("etc-passwd", &target).file("etc-passwd", "own").end();
    scratch.import(&archive).unwrap();
    assert_eq!(fs::read_to_string(scratch.content().join("etc-passwd")).unwrap(), "own");
    assert_eq!(fs::read_to_string(scratch.0.join("outside/precious")).unwrap(), "untouched");
}

#[test]
fn set_id_bits_and_devices_do_not_come_in() {
    let scratch = Scratch::new("set-id");
    let archive = Tar::default()
        .entry(EntryType::Directory, "bin", "", 0o2755, b"")
        .entry(EntryType::Regular, "bin/su", "", 0o6755, b"#!/bin/sh")
        .entry(EntryType::Char, "null", "", 0o666, b"")
        .entry(EntryType::Block, "disk", "", 0o666, b"")
        .entry(EntryType::Fifo, "pipe", "", 0o666, b"")
        .hard_link("bin/sudo", "bin/su")
        .end();
    let imported = scratch.import(&archive).unwrap();
    assert_eq!(imported.left_out, 3);
    let content = scratch.content();
    let mode = |name: &str| fs::symlink_metadata(content.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("bin"), mode("bin/su"), mode("bin/sudo")), (0o755, 0o755, 0o755));
    let mut names: Vec<_> = fs::read_dir(&content).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["bin"]);
    let meta = fs::metadata(content.join("bin/su")).unwrap();
    assert_eq!(meta.mtime(), 1_700_000_000);
    // As root no file of an image belongs to anybody of the host.
    if rustix::process::geteuid().is_root() {
        assert!(meta.uid() >= 0x7000_0000, "{}", meta.uid());
    }
}

#[test]
fn a_bomb_is_cut_at_the_budget() {
    let scratch = Scratch::new("bomb");
    // It says that it holds more than any image may; nothing of that size is ever written.
    let mut header = Header::new_gnu();
    header.set_path("zeros").unwrap();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(1 << 50);
    header.set_cksum();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(header.as_bytes()).unwrap();
    packed.write_all(&vec![0; 8 << 20]).unwrap();
    let refused = scratch.import(&packed.finish().unwrap());
    assert!(matches!(refused, Err(ImageError::TooLarge { .. } | ImageError::Archive(_))), "{refused:?}");
    scratch.assert_clean();
}

/// An OCI layout in a folder, of these layers.
fn layout(folder: &Path, layers: &[Vec<u8>], diffs: &[String]) {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |content: &[u8]| {
        fs::write(blobs.join(digest(content)), content).unwrap();
        format!("sha256:{}", digest(content))
    };
    let config =
        json!({"config": {"Env": ["PATH=/opt/bin:/bin", "A=1"]}, "rootfs": {"type": "layers", "diff_ids": diffs}});
    let config = put(config.to_string().as_bytes());
    let layers: Vec<_> = layers.iter().map(|layer| json!({"digest": put(layer), "size": layer.len()})).collect();
    let manifest = put(json!({"config": {"digest": config}, "layers": layers}).to_string().as_bytes());
    let index =
        json!({"manifests": [{"digest": manifest, "annotations": {"org.opencontainers.image.ref.name": "tools:1"}}]});
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).unwrap();
}

fn two_layers() -> (Vec<u8>, Vec<u8>) {
    let lower = Tar::default().folder("etc").file("etc/a", "a").folder("opt").file("opt/old", "x").end();
    let upper =
        Tar::default().file("etc/.wh.a", "").folder("opt").file("opt/.wh..wh..opq", "").file("opt/new", "y").end();
    (lower, upper)
}

#[test]
fn an_oci_layout_becomes_layers_with_overlays_own_whiteouts() {
    let scratch = Scratch::new("oci");
    let (lower, upper) = two_layers();
    let diffs = [&lower, &upper].map(|layer| format!("sha256:{}", digest(layer)));
    let zstd = ruzstd::encoding::compress_to_vec(&upper[..], ruzstd::encoding::CompressionLevel::Fastest);
    let folder = scratch.0.join("layout");
    layout(&folder, &[gzip(&lower), zstd], &diffs);
    let images = scratch.images();
    let image = images.import(&folder, None, &mut |_| {}).unwrap().image;
    assert_eq!((image.name.as_str(), image.layers.len(), image.env["PATH"].as_str()), ("tools:1", 2, "/opt/bin:/bin"));
    let held = images.hold("tools:1").unwrap();
    let upper = &held.layers[1].content;
    let hidden = fs::symlink_metadata(upper.join("etc/a")).unwrap();
    assert!(hidden.file_type().is_char_device() && hidden.rdev() == 0);
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(upper.join("opt"), "user.overlay.opaque", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"y");
    assert!(!upper.join("opt/.wh..wh..opq").exists() && !upper.join("etc/.wh.a").exists());
    // A second image of the same layers takes no more room.
    let again = images.import(&folder, Some("again"), &mut |_| {}).unwrap().image;
    assert_eq!((again.layers, again.id), (image.layers, image.id));
    assert_eq!(images.store().list().unwrap().len(), 2);
}

#[test]
fn a_layer_that_is_not_what_its_digest_says_is_refused() {
    let scratch = Scratch::new("digest");
    let (lower, upper) = two_layers();
    let diffs = [&upper, &lower].map(|layer| format!("sha256:{}", digest(layer)));
    let folder = scratch.0.join("swapped");
    layout(&folder, &[lower.clone(), upper.clone()], &diffs);
    assert!(matches!(scratch.images().import(&folder, None, &mut |_| {}), Err(ImageError::Digest(_))));
    scratch.assert_clean();
    // A blob that is a link is no part of the layout, whatever it points to.
    let folder = scratch.0.join("linked");
    let diffs = [&lower].map(|layer| format!("sha256:{}", digest(layer)));
    layout(&folder, std::slice::from_ref(&lower), &diffs);
    let blob = folder.join("blobs/sha256").join(digest(&lower));
    fs::rename(&blob, scratch.0.join("elsewhere")).unwrap();
    symlink(scratch.0.join("elsewhere"), &blob).unwrap();
    assert!(matches!(scratch.images().import(&folder, None, &mut |_| {}), Err(ImageError::Manifest(_))));
    scratch.assert_clean();
    for digest in ["sha256:../../../../etc/passwd", "md5:00", ""] {
        let index = json!({"manifests": [{"digest": digest}]});
        fs::write(folder.join("index.json"), index.to_string()).unwrap();
        assert!(
            matches!(scratch.images().import(&folder, None, &mut |_| {}), Err(ImageError::Manifest(_))),
            "{digest}"
        );
    }
}

#[test]
fn what_docker_saves_is_read_packed_or_not() {
    let scratch = Scratch::new("docker");
    let (lower, upper) = two_layers();
    let config = json!({"config": {"Env": ["PATH=/bin"]}, "rootfs": {"diff_ids": [format!("sha256:{}", digest(&lower)), format!("sha256:{}", digest(&upper))]}});
    let manifest =
        json!([{"Config": "c.json", "RepoTags": ["house/tools:2"], "Layers": ["1/layer.tar", "2/layer.tar"]}]);
    let mut saved = Builder::new(Vec::new());
    for (name, content) in [
        ("1/layer.tar", lower),
        ("2/layer.tar", upper),
        ("c.json", config.to_string().into_bytes()),
        ("manifest.json", manifest.to_string().into_bytes()),
    ] {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        saved.append_data(&mut header, name, &content[..]).unwrap();
    }
    let saved = saved.into_inner().unwrap();
    let images = scratch.images();
    let plain = images.import(&scratch.file("a.tar", &saved), None, &mut |_| {}).unwrap().image;
    let packed = images.import(&scratch.file("a.tar.gz", &gzip(&saved)), None, &mut |_| {}).unwrap().image;
    assert_eq!((plain.name.as_str(), &plain.layers), ("house/tools:2", &packed.layers));
}

#[test]
fn layers_live_as_long_as_something_refers_to_them_or_uses_them() {
    let scratch = Scratch::new("life");
    let root = scratch.0.join("rootfs");
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::write(root.join("bin/tool"), "x").unwrap();
    symlink("/bin/tool", root.join("link")).unwrap();
    let images = scratch.images();
    let image = images.import(&root, Some("one"), &mut |_| {}).unwrap().image;
    images.import(&root, Some("two"), &mut |_| {}).unwrap();
    assert_eq!(images.store().list().unwrap().len(), 1);
    images.remove("one").unwrap();
    assert_eq!(images.store().list().unwrap().len(), 1);
    let held = images.hold("two").unwrap();
    images.remove(&image.id[..12]).unwrap();
    assert_eq!(images.store().list().unwrap().len(), 1, "it is in use");
    drop(held);
    assert_eq!(images.collect().unwrap().len(), 1);
    assert_eq!(images.store().list().unwrap(), []);
    assert!(matches!(images.get("two"), Err(ImageError::Missing(_))));
}

#[test]
fn what_was_left_half_made_is_gone_at_the_next_start() {
    let scratch = Scratch::new("half");
    scratch.images();
    // As a process leaves it that was killed: files and a lock that nobody holds, and no record.
    let draft = scratch.0.join("state/layers/new-0123");
    fs::create_dir_all(draft.join("content/usr")).unwrap();
    fs::write(draft.join("lock"), "").unwrap();
    scratch.images();
    assert!(!draft.exists());
}

#[test]
fn names_are_names_and_no_paths() {
    let scratch = Scratch::new("names");
    let root = scratch.0.join("rootfs");
    fs::create_dir_all(&root).unwrap();
    let images = scratch.images();
    for bad in ["", "../x", "a/../b", "/a", "a//b", ".hidden", "a b", "a\nb", "-flag", &"x".repeat(300)] {
        assert!(matches!(images.import(&root, Some(bad), &mut |_| {}), Err(ImageError::Name(_))), "{bad:?}");
        assert!(images.get(bad).is_err());
    }
    for good in ["a", "house/tools:1.2", "A_b-c.d"] {
        images.import(&root, Some(good), &mut |_| {}).unwrap();
        assert_eq!(images.get(good).unwrap().name, good);
    }
}
