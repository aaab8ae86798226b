//! Snapshots of sessions: processes go on, what is kept stays as it is.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use common::sessions::{create, open, out, scratch, shell};
use engine::{
    Caller, CellSpec, CommandSpec, Difference, Engine, Heard, Listener, Onto, Running, Session, SessionSpec, Snapshot,
    SnapshotSpec,
};
use types::{ErrorCode, Outcome};

/// A program that is told when to go on.
struct Talk {
    running: Arc<Running>,
    listener: Listener,
    heard: String,
}

impl Talk {
    async fn begin(engine: &Engine, session: &Arc<Session>, script: &str) -> Self {
        let command = CommandSpec { stdin_open: true, ..shell(script) };
        let running = engine.start_in_session(&Caller::default(), session, command).await.unwrap();
        let listener = running.listen();
        Self { running, listener, heard: String::new() }
    }

    /// Waits for a line that it writes.
    async fn line(&mut self) -> String {
        loop {
            if let Some((line, rest)) = self.heard.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.heard = rest;
                return line;
            }
            match self.listener.next().await {
                Some(Heard::Output(_, bytes)) => self.heard.push_str(std::str::from_utf8(&bytes).unwrap()),
                other => panic!("{other:?} after {}", self.heard),
            }
        }
    }

    /// Lets it go on, and waits for its answer.
    async fn ask(&mut self) -> String {
        self.running.write(b"go\n".to_vec()).await.unwrap();
        self.line().await
    }
}

async fn snapshot(engine: &Engine, session: &Arc<Session>) -> Snapshot {
    engine.snapshot_session(&Caller::default(), session.id(), SnapshotSpec::default()).await.unwrap()
}

/// Everything about every file of a layer, as it lies on the host's disk.
fn layer(state: &Path, snapshot: &Snapshot) -> BTreeMap<String, String> {
    let top = state.join("layers").join(&snapshot.layers[0]).join("content");
    let (mut found, mut left) = (BTreeMap::new(), vec![top.clone()]);
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let words = format!(
            "{:o} {} {} {} {}.{} {content:?}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.nlink(),
            meta.mtime(),
            meta.mtime_nsec()
        );
        if meta.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.insert(path.strip_prefix(&top).unwrap().to_string_lossy().into_owned(), words);
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_and_interpreters_go_on_through_snapshots() {
    let state = scratch("go-on");
    let engine = open(&state);
    let session = create(&engine).await;
    let caller = Caller::default();
    out(&engine, &session, "mkdir -p a/b; echo one > a/b/f; echo top > t").await;
    let work = "n=0; echo ready; while read -r line; do n=$((n+1)); echo $n > by-work && cat t; done";
    let mut at_work = Talk::begin(&engine, &session, work).await;
    let deep = "cd a/b; echo ready; while read -r line; do echo $line >> f && echo \"$PWD $(/bin/pwd -P)\"; done";
    let mut below = Talk::begin(&engine, &session, deep).await;
    let home = "cd; trap '' CONT; echo ready; while read -r line; do echo x >> h && wc -l < h; done";
    let mut at_home = Talk::begin(&engine, &session, home).await;
    for talk in [&mut at_work, &mut below, &mut at_home] {
        assert_eq!(talk.line().await, "ready");
    }
    let cell = |code: &str| CellSpec { code: code.to_owned(), ..CellSpec::default() };
    let run = async |code: &str| {
        let result = engine.run_in_session(&caller, &session, cell(code)).await.unwrap();
        assert!(result.run.ok, "{result:?}");
        result.run.stdout
    };
    run("import os, threading\nkept = {'a': 1}\nos.chdir('a')\nevent = threading.Event()\nthread = threading.Thread(target=event.wait)\nthread.start()").await;
    let spinning = shell("while :; do :; done");
    let spinning = engine.start_in_session(&caller, &session, spinning).await.unwrap();

    for round in 1..=3 {
        let before = snapshot(&engine, &session).await;
        let kept = layer(&state, &before);
        assert_eq!(at_work.ask().await, "top");
        assert_eq!(below.ask().await, "/work/a/b /work/a/b");
        assert_eq!(at_home.ask().await, round.to_string());
        assert_eq!(
            run("open('cell', 'a').write('c'); print(kept['a'], os.getcwd(), thread.is_alive())").await,
            "1 /work/a True\n"
        );
        let now = out(&engine, &session, "cat by-work a/cell; echo; wc -l < a/b/f; cat ~/h | wc -l").await;
        assert_eq!(now, format!("{round}\n{}\n{}\n{round}\n", "c".repeat(round), round + 1));
        assert_eq!(layer(&state, &before), kept, "nothing of a snapshot changes");
    }
    assert!(spinning.info().outcome.is_none());
    assert_eq!(run("event.set(); thread.join(); print('joined')").await, "joined\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_writes_is_named_and_only_they_are_killed() {
    let engine = open(&scratch("writers"));
    let session = create(&engine).await;
    let caller = Caller::default();
    let mut quiet =
        Talk::begin(&engine, &session, "echo ready; exec < <(cat); while read -r l; do echo yes; done").await;
    let mut writes = Talk::begin(&engine, &session, "exec 7>>log; echo ready; read -r l").await;
    let map = "import mmap,sys\nf=open('map','w+b'); f.truncate(4096); m=mmap.mmap(f.fileno(),4096); f.close(); print('ready',flush=True); sys.stdin.readline()";
    let mut maps = Talk::begin(&engine, &session, &format!("exec python3 -c \"{map}\"")).await;
    for talk in [&mut quiet, &mut writes, &mut maps] {
        assert_eq!(talk.line().await, "ready");
    }
    let refused = engine.snapshot_session(&caller, session.id(), SnapshotSpec::default()).await.unwrap_err();
    let said = refused.to_string();
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
    assert!(said.contains(&format!("{} bash /work/log", writes.running.pid())), "{said}");
    assert!(said.contains(&format!("{} python3", maps.running.pid())) && said.contains("/work/map"), "{said}");
    assert!(!said.contains(&format!("{} bash /work/log", quiet.running.pid())), "{said}");
    assert_eq!(quiet.ask().await, "yes");
    assert!(writes.running.info().outcome.is_none() && maps.running.info().outcome.is_none(), "all were left alone");
    out(&engine, &session, "echo still writable > w").await;
    assert!(engine.list_snapshots(&caller).unwrap().is_empty());
    let kill = SnapshotSpec { kill: true, ..SnapshotSpec::default() };
    engine.snapshot_session(&caller, session.id(), kill).await.unwrap();
    for talk in [&mut writes, &mut maps] {
        let end = async { while !matches!(talk.listener.next().await, Some(Heard::Ended(_))) {} };
        tokio::time::timeout(std::time::Duration::from_secs(10), end).await.unwrap();
        assert_eq!(talk.running.info().outcome, Some(Outcome::Signaled { signal: 9 }));
    }
    assert_eq!(quiet.ask().await, "yes");
}

/// What a program can try with all that it still holds of the old disk.
const STUBBORN: &str = r"
import os, sys, mmap
folder = os.open('d', os.O_RDONLY)
plain = os.open('d/f', os.O_RDONLY)
path = os.open('d/f', os.O_PATH)
shared = mmap.mmap(plain, 0, mmap.MAP_SHARED, mmap.PROT_READ)
print('ready', flush=True)
sys.stdin.readline()
me = '/proc/self/fd/'
tries = [
    lambda: os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=folder),
    lambda: os.open('f', os.O_WRONLY | os.O_TRUNC, dir_fd=folder),
    lambda: os.unlink('f', dir_fd=folder),
    lambda: os.rename('f', 'g', src_dir_fd=folder, dst_dir_fd=folder),
    lambda: os.link('f', 'h', src_dir_fd=folder, dst_dir_fd=folder),
    lambda: os.mkdir('sub', dir_fd=folder),
    lambda: os.open(me + str(plain), os.O_WRONLY),
    lambda: os.open(me + str(path), os.O_WRONLY),
    lambda: os.open(me + str(folder) + '/f', os.O_RDWR),
    lambda: os.fchmod(plain, 0o777),
    lambda: os.chmod(me + str(path), 0o777),
    lambda: os.utime(plain, (1, 1)),
    lambda: os.setxattr(plain, 'user.x', b'y'),
    lambda: os.fchown(plain, os.getuid(), os.getgid()),
    lambda: os.write(plain, b'x'),
    lambda: os.ftruncate(plain, 0),
]
done = []
for number, attempt in enumerate(tries):
    try:
        attempt()
        done.append(str(number))
    except OSError:
        pass
print('done', *done, shared[:4], flush=True)
";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_process_still_holds_can_change_a_snapshot() {
    let state = scratch("stubborn");
    let engine = open(&state);
    let session = create(&engine).await;
    out(&engine, &session, "mkdir d; echo kept > d/f; chmod 666 d/f; chmod 777 d").await;
    let mut stubborn = Talk::begin(&engine, &session, &format!("exec python3 -c \"{STUBBORN}\"")).await;
    assert_eq!(stubborn.line().await, "ready");
    let before = snapshot(&engine, &session).await;
    let kept = layer(&state, &before);
    assert_eq!(stubborn.ask().await, "done b'kept'");
    out(&engine, &session, "echo more >> d/f; rm -rf d").await;
    assert_eq!(layer(&state, &before), kept);
    engine.rollback_session(&Caller::default(), session.id(), &before.id).await.unwrap();
    assert_eq!(out(&engine, &session, "cat d/f").await, "kept\n");
}

/// What changed, one word and one path each.
async fn diff(engine: &Engine, from: &str, to: &str) -> Vec<String> {
    let found = engine.diff(&Caller::default(), from, to).await.unwrap();
    assert!(!found.truncated);
    let word = |entry: &Difference| {
        format!("{} {}", serde_json::to_value(entry.change).unwrap().as_str().unwrap(), entry.path)
    };
    found.entries.iter().map(word).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_is_told_between_snapshots_and_now() {
    let engine = open(&scratch("diff"));
    let session = create(&engine).await;
    let make = "mkdir -p d/e old; echo 1 > d/a; echo 2 > d/b; echo 3 > d/e/c; echo 4 > old/x; ln -s a d/l; echo same > s; echo h > ~/h";
    out(&engine, &session, make).await;
    let first = snapshot(&engine, &session).await;
    assert!(diff(&engine, &first.id, session.id()).await.is_empty(), "nothing changed yet");
    let change = "echo 9 > d/a; rm d/b; rm -r old; mkdir old; echo 5 > old/y; chmod 600 d/e/c; ln -sfn b d/l; echo same > s; touch s; echo n > new; rm ~/h; mkdir ~/h";
    out(&engine, &session, change).await;
    let changes = [
        "changed /home/user/h",
        "changed /work/d/a",
        "removed /work/d/b",
        "changed /work/d/e/c",
        "changed /work/d/l",
        "added /work/new",
        "removed /work/old/x",
        "added /work/old/y",
    ];
    assert_eq!(diff(&engine, &first.id, session.id()).await, changes);
    let second = snapshot(&engine, &session).await;
    assert_eq!(diff(&engine, &first.id, &second.id).await, changes);
    assert!(diff(&engine, &second.id, session.id()).await.is_empty());
    let back = diff(&engine, &second.id, &first.id).await;
    assert!(back.contains(&"added /work/d/b".to_owned()) && back.contains(&"removed /work/new".to_owned()), "{back:?}");
    assert_eq!(back.len(), changes.len());
    let missing = engine.diff(&Caller::default(), "nothing", session.id()).await.unwrap_err();
    assert_eq!(missing.code(), ErrorCode::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_goes_out_as_a_layer_and_comes_back_the_same() {
    let engine = open(&scratch("export"));
    let session = create(&engine).await;
    let caller = Caller::default();
    let tree = "cd /; find work home tmp -printf '%p %y %m %U %G %l\\n' | sort; find work home tmp -type f -printf '%p %n %T@\\n' | sed 's/[.][0-9]*$//' | sort; find work home tmp -type f -exec sha256sum {} + | sort";
    out(&engine, &session, "mkdir -p d/gone k; echo 1 > d/gone/x; echo 2 > d/b; echo y > k/low").await;
    snapshot(&engine, &session).await;
    let more = "rm -r d/gone; rm -r k; mkdir k; echo z > k/high; head -c 300000 /dev/urandom > big; ln big two; ln -s /etc/passwd link; mkdir -m 700 p; mkfifo pipe; long=$(printf 'n%.0s' $(seq 180)); mkdir -p $long/$long; echo l > $long/$long/f";
    out(&engine, &session, more).await;
    let last = snapshot(&engine, &session).await;
    out(&engine, &session, "rm pipe").await;
    let whole = out(&engine, &session, tree).await;
    let mut archive = engine.export_snapshot(&caller, &last.id).await.unwrap();
    let mut bytes = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut archive.content, &mut bytes).await.unwrap();
    assert_eq!(archive.bytes, bytes.len() as u64);
    let mut names = Vec::new();
    for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
        names.push(String::from_utf8_lossy(&entry.unwrap().path_bytes()).into_owned());
    }
    for wanted in ["work/k/.wh..wh..opq", "work/k/high", "work/d/.wh.gone", "work/two"] {
        assert!(names.iter().any(|name| name == wanted), "{wanted} in {names:?}");
    }
    assert!(!names.iter().any(|name| name == "work/k/low"), "{names:?}");
    let named = SnapshotSpec { name: Some("back".to_owned()), ..SnapshotSpec::default() };
    let back = engine.import_snapshot(&caller, named, Onto::default(), std::io::Cursor::new(bytes)).await.unwrap();
    assert_eq!(back.layers.len(), 1);
    let spec = SessionSpec { from: Some("back".to_owned()), ..SessionSpec::default() };
    let copy = engine.create_session(&caller, spec).await.unwrap();
    assert_eq!(out(&engine, &copy, tree).await, whole);
    let hostile =
        engine.import_snapshot(&caller, SnapshotSpec::default(), Onto::default(), &b"no archive at all"[..]).await;
    assert!(hostile.is_err());
}
