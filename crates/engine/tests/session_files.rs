//! Trees of a session's files: packed, unpacked, watched, and never a way to the host.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::time::{Duration, Instant};

use common::sessions::{create, open, out, scratch, shell};
use engine::{Caller, FileChange, FileEvent, GuestUser, PlaceFiles, Reach};
use tar::{Archive, Builder, EntryType, Header};
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;
use types::{ErrorCode, GuestPath};

fn path(text: &str) -> GuestPath {
    GuestPath::new(text).unwrap()
}

async fn pack(files: &dyn PlaceFiles, at: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    files.pack(&path(at)).await.unwrap().read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// What a tar holds: each path with its kind, and its content or its target.
fn listed(tar: &[u8]) -> BTreeSet<(String, char, String)> {
    let mut archive = Archive::new(tar);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let kind = match entry.header().entry_type() {
            EntryType::Directory => 'd',
            EntryType::Symlink => 'l',
            EntryType::Regular => 'f',
            other => panic!("{name} is {other:?}"),
        };
        let mut text = entry.link_name().unwrap().map(|target| target.display().to_string()).unwrap_or_default();
        if kind == 'f' {
            entry.read_to_string(&mut text).unwrap();
        }
        (name, kind, text)
    });
    entries.collect()
}

fn row(name: &str, kind: char, text: &str) -> (String, char, String) {
    (name.to_owned(), kind, text.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_goes_out_and_into_another_session_as_it_was() {
    let engine = open(&scratch("files"));
    let (first, second) = (create(&engine).await, create(&engine).await);
    let make = "mkdir -p a/b a/empty; echo one > a/1; printf '' > a/b/none; ln -s ../1 a/b/link; chmod 700 a/b; chmod 4755 a/1; mkfifo a/pipe";
    out(&engine, &first, make).await;
    let tar = pack(&*first.files().unwrap(), "/work/a").await;
    let expected = [
        row("1", 'f', "one\n"),
        row("b", 'd', ""),
        row("b/link", 'l', "../1"),
        row("b/none", 'f', ""),
        row("empty", 'd', ""),
    ];
    let shown = listed(&tar).into_iter().map(|(name, kind, text)| (name.trim_end_matches('/').to_owned(), kind, text));
    assert_eq!(shown.collect::<BTreeSet<_>>(), BTreeSet::from(expected), "pipes stay");
    let files = second.files().unwrap();
    let unpacked = files.unpack(&path("/work/deep/er"), GuestUser::User, 100, &mut &tar[..]).await.unwrap();
    assert_eq!((unpacked.entries, unpacked.bytes, unpacked.skipped), (5, 4, 0));
    let seen = out(&engine, &second, "cd deep/er; find . -printf '%p %m %u %l\\n' | sort; cat b/link").await;
    assert_eq!(
        seen,
        ". 755 user \n./1 755 user \n./b 700 user \n./b/link 777 user ../1\n./b/none 644 user \n./empty 755 user \none\n"
    );
    let one = pack(&*files, "/work/deep/er/1").await;
    assert_eq!(listed(&one), BTreeSet::from([row("1", 'f', "one\n")]));
    let full = files.unpack(&path("/work/more"), GuestUser::User, 3, &mut &tar[..]).await.unwrap_err();
    assert_eq!(full.code(), ErrorCode::ResourcesExhausted);
    let cut = files.unpack(&path("/work/cut"), GuestUser::User, 100, &mut &tar[..700]).await;
    assert!(cut.is_err(), "a part is not taken for the whole");
    assert_eq!(files.pack(&path("/nowhere")).await.err().unwrap().code(), ErrorCode::NotFound);
}

/// A tar with whatever names and links, which honest writers refuse to write.
fn hostile(entries: &[(EntryType, &str, &str, &str)]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, name, link, content) in entries {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o6777);
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_archive_reaches_the_host() {
    let state = scratch("files");
    let engine = open(&state);
    let session = create(&engine).await;
    let files = session.files().unwrap();
    let secret = state.join("secret");
    fs::write(&secret, "host").unwrap();
    let host = state.to_str().unwrap();
    let through = hostile(&[
        (EntryType::Symlink, "out", host, ""),
        (EntryType::Regular, "out/secret", "", "guest"),
        (EntryType::Char, "device", "", ""),
        (EntryType::Fifo, "fifo", "", ""),
        (EntryType::Regular, "tool", "", "x"),
    ]);
    // The link leads to a place of that name inside, which is not there.
    let refused = files.unpack(&path("/work"), GuestUser::User, 100, &mut &through[..]).await;
    assert!(refused.is_err(), "{refused:?}");
    let plain = hostile(&[
        (EntryType::Char, "device", "", ""),
        (EntryType::Fifo, "fifo", "", ""),
        (EntryType::Regular, "tool", "", "x"),
    ]);
    let unpacked = files.unpack(&path("/work"), GuestUser::User, 100, &mut &plain[..]).await.unwrap();
    assert_eq!((unpacked.entries, unpacked.skipped), (3, 2));
    assert_eq!(out(&engine, &session, "stat -c '%a' tool; ls").await, "777\nout\ntool\n", "no device, no set-id bit");
    for bad in ["../x", "a/../../x"] {
        let tar = hostile(&[(EntryType::Regular, bad, "", "x")]);
        assert!(files.unpack(&path("/work"), GuestUser::User, 100, &mut &tar[..]).await.is_err(), "{bad}");
    }
    let linked = hostile(&[(EntryType::Link, "hard", &format!("{host}/secret"), "")]);
    assert!(files.unpack(&path("/work"), GuestUser::User, 100, &mut &linked[..]).await.is_err());
    let passwd = hostile(&[(EntryType::Regular, "passwd", "", "x")]);
    assert!(files.unpack(&path("/etc"), GuestUser::User, 100, &mut &passwd[..]).await.is_err());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "host");
    // What is read through no link is not the host's either, and of processes nothing is told.
    out(&engine, &session, &format!("ln -s {host} up; ln -s / root")).await;
    let names: Vec<String> = listed(&pack(&*files, "/work").await).into_iter().map(|(name, ..)| name).collect();
    assert!(!names.iter().any(|name| name.contains("secret") || name.starts_with("root/")), "{names:?}");
    assert!(listed(&pack(&*files, "/proc").await).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_swapped_for_a_link_leads_nowhere() {
    let state = scratch("files");
    let engine = open(&state);
    let session = create(&engine).await;
    fs::create_dir_all(state.join("d")).unwrap();
    fs::write(state.join("d/f"), "HOST").unwrap();
    let swap = format!(
        "mkdir real; echo guest > real/f; while :; do rm -f d; ln -s {} d; rm -f d; ln -s real d; rm -f d; mkdir d; echo guest > d/f; rm -rf d; done",
        state.join("d").display()
    );
    engine.start_in_session(&Caller::default(), &session, shell(&swap)).await.unwrap();
    let files = session.files().unwrap();
    let tar = hostile(&[(EntryType::Regular, "d/f", "", "guest")]);
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < 300 && start.elapsed() < Duration::from_secs(20) {
        rounds += 1;
        let mut bytes = Vec::new();
        if let Ok(mut packed) = files.pack(&path("/work")).await {
            let _ = packed.read_to_end(&mut bytes).await;
        }
        assert!(!bytes.windows(4).any(|four| four == b"HOST"), "the host's file came out");
        let _ = files.unpack(&path("/work"), GuestUser::User, 100, &mut &tar[..]).await;
    }
    assert_eq!(fs::read_to_string(state.join("d/f")).unwrap(), "HOST");
}

/// The next event that is not one of those that a program causes by the way.
async fn next(events: &mut mpsc::Receiver<FileEvent>) -> FileEvent {
    tokio::time::timeout(Duration::from_secs(30), events.recv()).await.unwrap().unwrap()
}

fn event(change: FileChange, path: &str, to: Option<&str>) -> FileEvent {
    FileEvent { change, path: path.to_owned(), to: to.map(str::to_owned) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_to_files_is_told_in_order() {
    let engine = open(&scratch("files"));
    let session = create(&engine).await;
    out(&engine, &session, "mkdir -p w/a/b").await;
    let files = session.files().unwrap();
    let mut flat = files.watch(&path("/work/w"), Reach::Folder).await.unwrap();
    let mut deep = files.watch(&path("/work/w"), Reach::All).await.unwrap();
    let script = "cd w; echo 1 > a/b/f; mv a/b/f a/g; rm a/g; echo 2 > top; mv a/b c; : > c/late; mv c ..; : > ../c/unseen; rm top";
    out(&engine, &session, script).await;
    let expected = [
        event(FileChange::Create, "/work/w/a/b/f", None),
        event(FileChange::Write, "/work/w/a/b/f", None),
        event(FileChange::Rename, "/work/w/a/b/f", Some("/work/w/a/g")),
        event(FileChange::Remove, "/work/w/a/g", None),
        event(FileChange::Create, "/work/w/top", None),
        event(FileChange::Write, "/work/w/top", None),
        event(FileChange::Rename, "/work/w/a/b", Some("/work/w/c")),
        event(FileChange::Create, "/work/w/c/late", None),
        event(FileChange::Remove, "/work/w/c", None),
        event(FileChange::Remove, "/work/w/top", None),
    ];
    for wanted in expected {
        assert_eq!(next(&mut deep).await, wanted);
    }
    let expected = [
        event(FileChange::Create, "/work/w/top", None),
        event(FileChange::Write, "/work/w/top", None),
        event(FileChange::Create, "/work/w/c", None),
        event(FileChange::Remove, "/work/w/c", None),
        event(FileChange::Remove, "/work/w/top", None),
    ];
    for wanted in expected {
        assert_eq!(next(&mut flat).await, wanted);
    }
    // Folders that are made later are watched too, and nothing in them is told twice.
    out(&engine, &session, "cd w; mkdir -p n/e/w; for i in 1 2 3 4 5 6 7 8 9; do : > n/e/w/$i; done; : > n/end").await;
    let mut names: BTreeSet<String> = ["n", "n/e", "n/e/w", "n/end"].map(str::to_owned).into();
    names.extend((1..10).map(|number| format!("n/e/w/{number}")));
    let mut expected: BTreeSet<String> = names.into_iter().map(|name| format!("/work/w/{name}")).collect();
    while !expected.is_empty() {
        let made = next(&mut deep).await;
        assert!(made.change == FileChange::Create && expected.remove(&made.path), "{made:?}");
    }
    out(&engine, &session, ": > w/last").await;
    assert_eq!(next(&mut deep).await, event(FileChange::Create, "/work/w/last", None));
    assert_eq!(files.watch(&path("/nowhere"), Reach::All).await.err().unwrap().code(), ErrorCode::NotFound);
}
