//! Images from the command line: made, used, listed and removed, with the same walls as ever.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests start the program and its surroundings, and fail loudly"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{folder, json, saggar, text};
use serde_json::Value;

/// A root file system with a static shell, and a tool of its own.
fn rootfs(name: &str) -> PathBuf {
    let root = folder(name);
    for path in ["bin", "etc", "usr/share"] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    fs::copy(busybox(), root.join("bin/busybox")).unwrap();
    for tool in ["sh", "ls", "cat", "id", "touch", "mount", "echo"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    fs::write(root.join("usr/share/mark"), "of the image\n").unwrap();
    root
}

/// Debian's static shell, which `scripts/test` installs.
fn busybox() -> PathBuf {
    let places = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from);
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("apt-get install busybox-static"))
}

/// `saggar` with a state folder of this test's own.
fn with_state(state: &Path, args: &[&str]) -> std::process::Output {
    saggar(args).env("SAGGAR_HOME", state).output().unwrap()
}

fn exec(state: &Path, script: &str) -> Value {
    json(&with_state(state, &["exec", "--json", "--image", "small", "--", "sh", "-c", script]))
}

#[test]
fn a_run_sees_its_image_and_nothing_of_the_host() {
    let (state, root) = (folder("image-state"), rootfs("image-rootfs"));
    let imported = with_state(&state, &["image", "import", root.to_str().unwrap(), "small", "--json"]);
    assert_eq!(json(&imported)["name"], "small", "{}", text(&imported.stderr));
    let result = exec(&state, "cat /usr/share/mark; ls /; id -u; echo hi > /work/new; cat /work/new");
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("of the image\nbin\ndev\netc\nopt\nproc\nsys\ntmp\nusr\nwork\n1000\nhi\n"), "{result}");
    // The root cannot be written, and no layer is missing that a run without an image has.
    let result = exec(&state, "touch /usr/share/x /bin/x /new; ls /usr/bin /root /host");
    assert_eq!(result["stdout"], "");
    let plain = json(&with_state(&state, &["exec", "--json", "--", "true"]));
    assert_eq!(result["isolation"], plain["isolation"]);
    // Nor does anything of it stay.
    assert_eq!(exec(&state, "ls /work")["stdout"], "");
    let missing = with_state(&state, &["run", "--json", "--image", "small", "-c", "print(1)"]);
    assert_eq!((missing.status.code(), &json(&missing)["error"]["code"]), (Some(125), &Value::from("program_missing")));
}

#[test]
fn layers_cover_each_other_as_their_image_says() {
    let (state, work) = (folder("image-layers-state"), folder("image-layers"));
    let root = rootfs("image-layers-rootfs");
    fs::create_dir_all(root.join("opt/old")).unwrap();
    fs::write(root.join("opt/old/file"), "x").unwrap();
    let upper = work.join("upper");
    fs::create_dir_all(upper.join("usr/share")).unwrap();
    fs::create_dir_all(upper.join("opt/old")).unwrap();
    fs::write(upper.join("usr/share/.wh.mark"), "").unwrap();
    fs::write(upper.join("opt/old/.wh..wh..opq"), "").unwrap();
    fs::write(upper.join("opt/old/new"), "").unwrap();
    let tar = |folder: &Path, into: &str| {
        let done = Command::new("tar").arg("-cf").arg(work.join(into)).arg("-C").arg(folder).arg(".").status();
        assert!(done.unwrap().success());
    };
    tar(&root, "1.tar");
    tar(&upper, "2.tar");
    fs::write(work.join("config.json"), "{}").unwrap();
    fs::write(work.join("manifest.json"), r#"[{"Config": "config.json", "Layers": ["1.tar", "2.tar"]}]"#).unwrap();
    let saved = work.join("saved.tar.gz");
    let names = ["1.tar", "2.tar", "config.json", "manifest.json"];
    let done = Command::new("tar").arg("-czf").arg(&saved).arg("-C").arg(&work).args(names).status();
    assert!(done.unwrap().success());
    let imported = with_state(&state, &["image", "import", saved.to_str().unwrap(), "small", "--json"]);
    assert_eq!(json(&imported)["layers"].as_array().unwrap().len(), 2, "{}", text(&imported.stdout));
    let result = exec(&state, "ls /usr/share /opt/old");
    assert_eq!(result["stdout"], "/opt/old:\nnew\n\n/usr/share:\n", "{result}");
}

#[test]
fn what_is_kept_is_shown_and_goes_when_nobody_needs_it() {
    let (state, root) = (folder("image-df-state"), rootfs("image-df-rootfs"));
    for name in ["one", "two"] {
        let imported = with_state(&state, &["image", "import", root.to_str().unwrap(), name]);
        assert!(imported.status.success(), "{}", text(&imported.stderr));
    }
    let listed = text(&with_state(&state, &["image", "list"]).stdout);
    assert!(listed.contains("one") && listed.contains("two"), "{listed}");
    let kept = json(&with_state(&state, &["df", "--json"]));
    let layers: Vec<_> = kept["entries"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "layer").collect();
    assert_eq!(layers.len(), 1, "{kept}");
    assert_eq!(layers[0]["used_by"], serde_json::json!(["one", "two"]));
    assert!(layers[0]["bytes"].as_u64().unwrap() > 100_000);
    assert_eq!(kept["reclaimable_bytes"], 0);
    assert!(with_state(&state, &["image", "remove", "one"]).status.success());
    assert_eq!(json(&with_state(&state, &["prune", "--json"]))["layers"], serde_json::json!([]));
    let pruned = json(&with_state(&state, &["prune", "--images", "--json"]));
    assert_eq!((&pruned["images"], pruned["layers"].as_array().unwrap().len()), (&serde_json::json!(["two"]), 1));
    assert_eq!(text(&with_state(&state, &["image", "list", "--json"]).stdout), "[]\n");
    let trail = text(&with_state(&state, &["audit", "list", "--json"]).stdout);
    assert_eq!(trail.matches("\"imported\"").count() / 2, 2, "{trail}");
    let gone = with_state(&state, &["exec", "--json", "--image", "two", "--", "true"]);
    assert_eq!((gone.status.code(), &json(&gone)["error"]["code"]), (Some(125), &Value::from("not_found")));
}
