//! Users of a session whose root is an image: those that the image has, and ours.

use std::fs::File;
use std::io::Read;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};

use crate::image::HeldImage;
use crate::layers::Held;

/// The most that is read of an image's own list.
const MOST: u64 = 1 << 20;

/// Files of `/etc` that lie on top of the image's own. The last two are covered by what all sandboxes share.
pub(super) fn files(image: &HeldImage) -> [(&'static str, String); 4] {
    let root = "root:x:0:0:root:/root:/bin/sh\n";
    let passwd =
        with_ours(read(image, "etc/passwd").as_deref().unwrap_or(root), "user:x:1000:1000:user:/home/user:/bin/sh");
    let group = with_ours(read(image, "etc/group").as_deref().unwrap_or("root:x:0:\n"), "user:x:1000:");
    [("passwd", passwd), ("group", group), ("hosts", String::new()), ("resolv.conf", String::new())]
}

/// Ours first: of two of one number the first is found.
fn with_ours(text: &str, ours: &str) -> String {
    let others = text.lines().filter(|line| !line.starts_with("user:"));
    [ours].into_iter().chain(others).fold(String::new(), |all, line| all + line + "\n")
}

/// A file of an image, from the topmost layer that has it.
fn read(image: &HeldImage, path: &str) -> Option<String> {
    image.layers.iter().rev().find_map(|layer| read_in(layer, path))
}

/// No link is followed: strangers made them.
fn read_in(layer: &Held, path: &str) -> Option<String> {
    let folder = open(&layer.content, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let links = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file = openat2(&folder, path, flags, Mode::empty(), links).ok()?;
    let mut text = String::new();
    let is_file = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
    let read = File::from(file).take(MOST).read_to_string(&mut text);
    (is_file && read.is_ok()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_session_is_found_before_an_images_own() {
        let text = with_ours(
            "root:x:0:0:::/bin/sh\nuser:x:7:7::/:/bin/false\nubuntu:x:1000:1000::/:/bin/sh",
            "user:x:1000:1000:user:/home/user:/bin/sh",
        );
        assert_eq!(
            text.lines().map(|line| line.split(':').next().unwrap_or_default()).collect::<Vec<_>>(),
            ["user", "root", "ubuntu"]
        );
    }
}
