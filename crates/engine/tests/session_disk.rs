//! The disk of a session is watched: who fills it is stopped before it holds much more than it may.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::{Caller, CommandSpec, Engine, GuestUser, Session, SessionSpec, Settings, Spoken};
use types::{ErrorCode, ExecResult, GuestPath, LimitKind, LimitsSpec, Outcome};

const MB: u64 = 1 << 20;
/// What the tests' sessions may hold, in MB.
const LIMIT: u64 = 64;
/// What may be written before somebody is stopped, on a machine that does other things as well.
const EXCESS: u64 = 96;
/// What the programs would write if nobody stopped them; all of them write no more than that.
const ALL: u64 = 1000;

fn open() -> Engine {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let state: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&state);
    Engine::open(Settings { state, ..Settings::default() }).unwrap()
}

async fn create(engine: &Engine, inodes: Option<u64>) -> Arc<Session> {
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let limits = LimitsSpec { disk_mb: Some(LIMIT as f64), inodes, ..LimitsSpec::default() };
    engine.create_session(&Caller::default(), SessionSpec { limits, ..SessionSpec::default() }).await.unwrap()
}

async fn python(engine: &Engine, session: &Arc<Session>, code: &str) -> ExecResult {
    let argv = ["python3", "-c", code].map(str::to_owned).to_vec();
    let command = CommandSpec { argv, ..CommandSpec::default() };
    engine.exec_in_session(&Caller::default(), session, command, Spoken::default()).await.unwrap()
}

async fn held(session: &Session) -> (u64, u64) {
    let usage = session.info_with_usage().await.unwrap().usage.unwrap();
    (usage.disk_bytes / MB, usage.disk_inodes)
}

fn stopped(result: &ExecResult, limit: LimitKind) {
    assert_eq!(result.outcome, Outcome::LimitExceeded { limit }, "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_as_fast_as_he_can_is_stopped_soon_after_the_limit() {
    let engine = open();
    let session = create(&engine, None).await;
    let fill = format!(
        "files = [open(f + '/fill', 'wb', buffering=0) for f in ('/work', '/tmp', '/home/user')]\n\
         for i in range({ALL}): files[i % 3].write(b'z' * (1 << 20))"
    );
    stopped(&python(&engine, &session, &fill).await, LimitKind::Disk);
    let (held, _) = held(&session).await;
    assert!((LIMIT..LIMIT + EXCESS).contains(&held), "{held} MB");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_makes_files_as_fast_as_he_can_is_stopped_soon_after_the_limit() {
    let engine = open();
    let session = create(&engine, Some(1000)).await;
    let fill = "import os\nfor i in range(100_000): os.close(os.open(f'f{i}', os.O_CREAT | os.O_WRONLY))";
    stopped(&python(&engine, &session, fill).await, LimitKind::Inodes);
    let (_, entries) = held(&session).await;
    assert!((1000..5000).contains(&entries), "{entries} files");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_a_name_and_folders_however_deep_count_too() {
    let engine = open();
    let unlinked = "f = open('f', 'wb', buffering=0); os.unlink('f')";
    let deep = "[(os.mkdir('d' * 200), os.chdir('d' * 200)) for _ in range(40)]; f = open('f', 'wb', buffering=0)";
    for hide in [unlinked, deep] {
        let session = create(&engine, None).await;
        let fill = format!("import os\n{hide}\nfor _ in range({ALL}): f.write(b'z' * (1 << 20))");
        stopped(&python(&engine, &session, &fill).await, LimitKind::Disk);
    }
    // Without a descriptor either. What a process has mapped is told to root alone.
    if fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).unwrap() == 0 {
        let session = create(&engine, None).await;
        let fill = format!(
            "import mmap, os\nf = os.open('f', os.O_RDWR | os.O_CREAT); os.truncate(f, {ALL} << 20)\n\
             m = mmap.mmap(f, {ALL} << 20); os.closerange(3, 100); os.unlink('f')\n\
             for i in range({ALL}): m[i << 20:(i + 1) << 20] = b'z' * (1 << 20)"
        );
        stopped(&python(&engine, &session, &fill).await, LimitKind::Disk);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn room_is_taken_by_filling_it_and_holes_and_second_names_take_none() {
    let engine = open();
    let session = create(&engine, None).await;
    let reserve = "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\nf = os.open('f', os.O_RDWR | os.O_CREAT)\n\
                   print(c.fallocate(f, 0, ctypes.c_long(0), ctypes.c_long(1 << 40)), os.strerror(ctypes.get_errno()))\n\
                   os.posix_fallocate(f, 0, 1 << 20); print(os.stat('f').st_blocks * 512 >= 1 << 20)";
    assert_eq!(python(&engine, &session, reserve).await.stdout, "-1 Operation not supported\nTrue\n");
    // Long enough that somebody looks.
    let honest = "import os, time\nopen('a', 'wb').write(b'z' * (30 << 20))\nfor i in range(50): os.link('a', f'a{i}')\n\
                  os.truncate(os.open('b', os.O_RDWR | os.O_CREAT), 1 << 40)\n\
                  for i in range(20): open('c', 'wb').write(b'z' * (10 << 20)); time.sleep(0.05)\nprint('done')";
    assert_eq!(python(&engine, &session, honest).await.stdout, "done\n");
    let (held, _) = held(&session).await;
    assert!((30..LIMIT).contains(&held), "{held} MB");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_session_writes_is_not_held_against_another() {
    let engine = Arc::new(open());
    let (greedy, honest) = (create(&engine, None).await, create(&engine, None).await);
    let (there, other) = (Arc::clone(&engine), Arc::clone(&honest));
    let waiting = tokio::spawn(async move {
        let slow = "import time\nfor i in range(30): open(f'f{i}', 'wb').write(b'z' * (1 << 20)); time.sleep(0.02)\nprint('done')";
        python(&there, &other, slow).await.stdout
    });
    let fill = format!("f = open('f', 'wb', buffering=0)\nfor _ in range({ALL}): f.write(b'z' * (1 << 20))");
    stopped(&python(&engine, &greedy, &fill).await, LimitKind::Disk);
    assert_eq!(waiting.await.unwrap(), "done\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_into_a_session_without_a_program_is_counted() {
    let engine = open();
    let session = create(&engine, None).await;
    for i in 0..100 {
        let files = match session.files_to_write(&Caller::default()).await {
            Ok((files, _pass)) => files,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::ResourcesExhausted);
                return;
            }
        };
        let path = GuestPath::new(format!("/work/f{i}")).unwrap();
        files.write(&path, GuestUser::User, 0o644, &mut &vec![7; 20 << 20][..]).await.unwrap();
    }
    panic!("2 GB were taken");
}
