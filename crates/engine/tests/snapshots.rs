//! Snapshots of sessions: processes go on, what is kept stays as it is.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use common::sessions::{create, open, out, scratch, shell};
use engine::{Caller, CellSpec, CommandSpec, Engine, Heard, Listener, Running, Session, Snapshot, SnapshotSpec};
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
