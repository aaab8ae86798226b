//! A layer's tar from anybody: whatever it holds, nothing outside its folder changes.
#![no_main]

use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|archive: &[u8]| {
    let root = std::env::temp_dir().join(format!("saggar-fuzz-{}", std::process::id()));
    let (content, outside) = (root.join("a/b/content"), root.join("precious"));
    fs::create_dir_all(&content).expect("a scratch folder");
    fs::write(&outside, "untouched").expect("a file outside");
    let folder = fs::File::open(&content).expect("the layer's folder");
    let _ = engine::fuzz::unpack_layer(folder.into(), archive);
    assert_eq!(fs::read_to_string(&outside).expect("the file outside"), "untouched");
    let names = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
    assert_eq!((names(&root), names(&root.join("a")), names(&root.join("a/b"))), (2, 1, 1));
    fs::remove_dir_all(&root).expect("the scratch folder goes");
});
