//! Sessions whose root is an image: writable, kept by snapshots, and never a way to the host.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start the program and fail loudly")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use common::session::Server;
use common::{folder, json, text};

/// A root file system with a static shell; what is mounted over in a sandbox are links to the host.
fn rootfs(name: &str) -> PathBuf {
    let root = folder(name);
    for path in ["bin", "etc", "usr/share"] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(Path::new).into_iter().find(|path| path.exists());
    fs::copy(busybox.unwrap_or_else(|| panic!("apt-get install busybox-static")), root.join("bin/busybox")).unwrap();
    for tool in ["sh", "ls", "cat", "id", "touch", "echo", "rm", "mkdir", "ln", "sleep"] {
        symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    fs::write(root.join("usr/share/mark"), "of the image\n").unwrap();
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nwww:x:33:33::/:/bin/sh\n").unwrap();
    for name in ["dev", "proc", "tmp", "work", "home", "opt"] {
        symlink("/host/etc", root.join(name)).unwrap();
    }
    root
}

#[test]
fn an_image_is_the_root_of_a_session_and_snapshots_outlive_it() {
    let server = Server::start("image");
    let root = rootfs("session-image-rootfs");
    let imported = server.saggar(&["image", "import", root.to_str().unwrap(), "small", "--json"]).output().unwrap();
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let created = server.json(&["create", "--image", "small", "--json"]);
    assert_eq!(created["image"], "small");
    let id = created["id"].as_str().unwrap();
    let out = |id: &str, args: &[&str]| {
        let output = server.run(&[&["exec", id, "--json"], args].concat());
        json(&output)["stdout"].as_str().unwrap().to_owned()
    };
    let seen = out(
        id,
        &["--", "sh", "-c", "cat /usr/share/mark; id -un; ls /usr/bin /host; ls -A /tmp /work; echo x > /work/f"],
    );
    assert_eq!(seen, "of the image\nuser\n/tmp:\n\n/work:\n");
    let plain = server.json(&["create", "--json"]);
    assert_eq!(created["isolation"], plain["isolation"], "the same walls as without");
    if created["isolation"]["layers"].as_array().unwrap().iter().any(|layer| layer == "user_ns") && common::is_root() {
        let denied = server.run(&["exec", id, "--json", "--", "touch", "/usr/share/mine"]);
        assert_eq!(json(&denied)["outcome"]["code"], 1, "the root is root's");
        let script =
            "touch /usr/share/mine && echo 'new:x:7:7::/:/bin/sh' >> /etc/passwd; echo x > /etc/resolv.conf; id -un";
        assert_eq!(out(id, &["--user", "root", "--", "sh", "-c", script]), "root\n");
        assert_eq!(out(id, &["--", "cat", "/etc/resolv.conf"]), "", "what all sandboxes share is not to be written");
    } else {
        assert_eq!(out(id, &["--", "sh", "-c", "touch /usr/share/mine && echo made"]), "made\n");
    }
    server.json(&["snapshot", id, "--name", "after", "--json"]);
    let removed = server.saggar(&["image", "remove", "small"]).output().unwrap();
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    server.saggar(&["prune"]).output().unwrap();
    let again = server.json(&["create", "--from", "after", "--json"]);
    let again = again["id"].as_str().unwrap();
    assert_eq!(out(again, &["--", "sh", "-c", "cat /work/f; ls /usr/share"]), "x\nmark\nmine\n");
    let copies = server.json(&["fork", again, "--json"]);
    assert_eq!(out(copies[0]["id"].as_str().unwrap(), &["--", "cat", "/usr/share/mark"]), "of the image\n");
    // Moves between folders are the guest's own business.
    let moved = "mkdir /work/below; echo y > /work/below/one; ln /work/below/one /work/two && cat /work/two";
    assert_eq!(out(again, &["--", "sh", "-c", moved]), "y\n");
    // Who runs stands still for a snapshot, and goes on after it with what he had.
    let counting = "echo before > /tmp/kept; (sleep 600; echo over) >/dev/null 2>&1 & echo $!";
    let pid = out(again, &["--", "sh", "-c", counting]);
    server.json(&["snapshot", again, "--name", "live", "--json"]);
    let alive = format!("kill -0 {} && echo after > /tmp/kept && echo alive", pid.trim());
    assert_eq!(out(again, &["--", "sh", "-c", &alive]), "alive\n");
    let copy = server.json(&["create", "--from", "live", "--json"]);
    let copy = copy["id"].as_str().unwrap();
    assert_eq!(out(copy, &["--", "sh", "-c", "cat /tmp/kept /work/two /usr/share/mine"]), "before\ny\n");
    let gone = server.run(&["exec", copy, "--json", "--", "sh", "-c", &format!("kill -0 {}", pid.trim())]);
    assert_eq!(json(&gone)["outcome"]["code"], 1, "processes are not copied");
    let missing = server.run(&["create", "--image", "small", "--json"]);
    assert_eq!((missing.status.code(), json(&missing)["error"]["code"].clone()), (Some(125), "not_found".into()));
}
