//! The audit trail shows every change: one byte, a row removed, moved or inserted, a tail cut off, an older copy.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::settings;
use engine::{Engine, Entry, Filter, Kind, Reader, Settings};
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;

const ENTRIES: i64 = 12;
const COLUMNS: [&str; 7] = ["time", "id", "kind", "caller", "outcome", "details", "hash"];
const WITHOUT_TRIGGERS: &str = "DROP TRIGGER entry_is_not_changed; DROP TRIGGER entry_is_not_removed; \
                                DROP TRIGGER entry_comes_last;";

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("audit-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn entry(number: i64) -> Entry {
    Entry {
        id: format!("run_{number}"),
        kind: Kind::Run,
        caller: "test".to_owned(),
        outcome: "exited".to_owned(),
        details: format!("{{\"number\":{number},\"word\":\"caf\u{e9}\"}}"),
    }
}

/// Writes entries to a trail, as one process does.
fn write(state: &Path, numbers: impl IntoIterator<Item = i64>) {
    let engine = Engine::open(Settings { state: state.to_path_buf(), ..settings() }).unwrap();
    runtime().block_on(async {
        for number in numbers {
            engine.audit().record(entry(number)).await.unwrap();
        }
    });
}

/// A trail with `ENTRIES` entries.
fn trail(name: &str) -> PathBuf {
    let state = folder(name);
    write(&state, 1..=ENTRIES);
    assert_eq!(first_bad(&state), None);
    state
}

/// The same trail elsewhere.
fn copy(from: &Path, name: &str) -> PathBuf {
    let to = folder(name);
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    to
}

fn first_bad(state: &Path) -> Option<i64> {
    let verdict = Reader::open(state).unwrap().verify().unwrap();
    assert_eq!(verdict.ok, verdict.first_bad.is_none());
    verdict.first_bad.map(|bad| bad.seq)
}

/// Changes the database behind our back.
fn tamper(state: &Path, sql: &str) {
    let connection = Connection::open(state.join("audit.db")).unwrap();
    connection.execute_batch(WITHOUT_TRIGGERS).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// Flips bits of one byte of one column; numbers count bytes from their end.
fn flip(state: &Path, seq: i64, column: &str, byte: usize, bits: u8) {
    let connection = Connection::open(state.join("audit.db")).unwrap();
    connection.execute_batch(WITHOUT_TRIGGERS).unwrap();
    let value = connection.query_row(&format!("SELECT {column} FROM entry WHERE seq = ?"), [seq], |row| row.get(0));
    let flip = |mut bytes: Vec<u8>| {
        let place = byte % bytes.len();
        bytes[place] ^= bits;
        bytes
    };
    let set = |sql: &str, value: &dyn rusqlite::ToSql| connection.execute(sql, (value, seq)).unwrap();
    match value.unwrap() {
        Value::Integer(number) => set(
            &format!("UPDATE entry SET {column} = ? WHERE seq = ?"),
            &(number ^ (i64::from(bits) << (8 * (byte % 7)))),
        ),
        Value::Blob(bytes) => set(&format!("UPDATE entry SET {column} = ? WHERE seq = ?"), &flip(bytes)),
        // Through a blob: a changed byte need not be text.
        Value::Text(text) => {
            set(&format!("UPDATE entry SET {column} = CAST(? AS TEXT) WHERE seq = ?"), &flip(text.into_bytes()))
        }
        other => panic!("{other:?}"),
    };
}

#[test]
fn a_change_of_any_column_of_any_entry_is_named() {
    let whole = trail("columns");
    for seq in [1, 5, ENTRIES] {
        for column in COLUMNS {
            let state = copy(&whole, "columns-changed");
            flip(&state, seq, column, 0, 1);
            assert_eq!(first_bad(&state), Some(seq), "{column} of entry {seq}");
        }
        for (column, value) in [("details", "NULL"), ("details", "''"), ("caller", "x'00'"), ("time", "'now'")] {
            let state = copy(&whole, "columns-foreign");
            // Another shape of the table, which takes anything.
            let sql = format!(
                "CREATE TABLE other AS SELECT * FROM entry; DROP TABLE entry; ALTER TABLE other RENAME TO entry; \
                 UPDATE entry SET {column} = {value} WHERE seq = {seq}"
            );
            tamper(&state, &sql);
            assert_eq!(first_bad(&state), Some(seq), "{column} = {value} of entry {seq}");
        }
    }
}

#[test]
fn any_byte_of_any_entry_matters() {
    static CASE: AtomicUsize = AtomicUsize::new(0);
    let whole = trail("bytes");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 200, ..ProptestConfig::default() });
    let change = (1..=ENTRIES, prop::sample::select(&COLUMNS[..]), any::<usize>(), 1_u8..);
    runner
        .run(&change, |(seq, column, byte, bits)| {
            let state = copy(&whole, &format!("bytes-{}", CASE.fetch_add(1, Ordering::Relaxed) % 4));
            flip(&state, seq, column, byte, bits);
            prop_assert_eq!(first_bad(&state), Some(seq));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_changed_byte_of_the_file_is_noticed() {
    let state = trail("file");
    // Whoever reads last leaves everything in the one file.
    assert!(!state.join("audit.db-wal").exists());
    let file = state.join("audit.db");
    let bytes = fs::read(&file).unwrap();
    for number in 1..=ENTRIES {
        let text = format!("\"number\":{number},");
        let place = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
        let mut changed = bytes.clone();
        changed[place + 1] ^= 2;
        fs::write(&file, changed).unwrap();
        assert_eq!(first_bad(&state), Some(number));
    }
    // Anywhere else it is noticed, or changes nothing that can be read: the file has room that holds nothing.
    let readable = |state: &Path| Reader::open(state).unwrap().newest(&Filter::default(), 100).ok();
    fs::write(&file, &bytes).unwrap();
    let whole = readable(&state);
    for place in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x55;
        fs::write(&file, changed).unwrap();
        let verdict = Reader::open(&state).unwrap().verify();
        assert!(!verdict.is_ok_and(|verdict| verdict.ok) || readable(&state) == whole, "byte {place}");
    }
    fs::write(&file, b"not a database, but long enough to be taken for one".repeat(100)).unwrap();
    assert_eq!(first_bad(&state), Some(1));
    fs::write(&file, bytes).unwrap();
    assert_eq!(first_bad(&state), None);
}

#[test]
fn removed_moved_and_inserted_entries_are_named() {
    let whole = trail("rows");
    let all = "time, id, kind, caller, outcome, details, hash";
    let cases = [
        ("the first removed", "DELETE FROM entry WHERE seq = 1".to_owned(), 1),
        ("one in the middle removed", "DELETE FROM entry WHERE seq = 5".to_owned(), 5),
        ("the last removed", "DELETE FROM entry WHERE seq = 12".to_owned(), 12),
        ("the tail cut", "DELETE FROM entry WHERE seq > 7".to_owned(), 8),
        ("all removed", "DELETE FROM entry".to_owned(), 1),
        ("one removed and the others moved up", "DELETE FROM entry WHERE seq = 5; UPDATE entry SET seq = -(seq - 1) WHERE seq > 5; UPDATE entry SET seq = -seq WHERE seq < 0".to_owned(), 5),
        ("two swapped", "UPDATE entry SET seq = 99 WHERE seq = 3; UPDATE entry SET seq = 3 WHERE seq = 4; UPDATE entry SET seq = 4 WHERE seq = 99".to_owned(), 3),
        ("the first moved to the end", "UPDATE entry SET seq = 13 WHERE seq = 1".to_owned(), 1),
        ("a copy added", format!("INSERT INTO entry (seq, {all}) SELECT 13, {all} FROM entry WHERE seq = 12"), 13),
        ("one before the first", format!("INSERT INTO entry (seq, {all}) SELECT 0, {all} FROM entry WHERE seq = 1"), 0),
        ("the table gone", "DROP TABLE entry".to_owned(), 1),
    ];
    for (what, sql, bad) in cases {
        let state = copy(&whole, "rows-changed");
        tamper(&state, &sql);
        assert_eq!(first_bad(&state), Some(bad), "{what}");
    }
}

#[test]
fn the_database_itself_refuses_changes() {
    let state = trail("triggers");
    let connection = Connection::open(state.join("audit.db")).unwrap();
    for sql in [
        "UPDATE entry SET caller = 'nobody' WHERE seq = 3",
        "DELETE FROM entry WHERE seq = 3",
        "INSERT OR REPLACE INTO entry SELECT * FROM entry WHERE seq = 3",
        "REPLACE INTO entry SELECT 3, time, id, kind, caller, outcome, details, hash FROM entry WHERE seq = 4",
    ] {
        let refused = connection.execute_batch(sql).unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{sql}: {refused}");
    }
    assert_eq!(first_bad(&state), None);
}

#[test]
fn an_older_copy_is_noticed_and_stays_noticed() {
    let state = folder("older");
    write(&state, 1..=5);
    let old = copy(&state, "older-copy");
    write(&state, 6..=9);
    for name in ["audit.db", "audit.db-wal", "audit.db-shm"] {
        let _ = fs::remove_file(state.join(name));
        let _ = fs::copy(old.join(name), state.join(name));
    }
    assert_eq!(first_bad(&state), Some(6));
    // Work goes on, and the hole stays: the numbers go on where the head says.
    write(&state, 10..=30);
    assert_eq!(first_bad(&state), Some(6));
    let gaps = Reader::open(&state).unwrap().newest(&Filter { kind: Some("gap".to_owned()), ..Filter::default() }, 9);
    assert_eq!(gaps.unwrap().iter().map(|gap| gap.seq).collect::<Vec<_>>(), [10]);
}

#[test]
fn another_chain_in_its_place_is_noticed_and_stays_noticed() {
    let (state, other) = (trail("replaced"), folder("replaced-other"));
    write(&other, 101..=130);
    for name in ["audit.db", "audit.db-wal"] {
        let _ = fs::remove_file(state.join(name));
        let _ = fs::copy(other.join(name), state.join(name));
    }
    assert_eq!(first_bad(&state), Some(ENTRIES));
    write(&state, 1..=3);
    assert!(first_bad(&state).is_some());
}

#[test]
fn a_head_that_is_gone_or_no_head_is_noticed_and_stays_noticed() {
    for (number, head) in [None, Some(""), Some("nonsense"), Some("00000000000000000003 abc\n")].iter().enumerate() {
        let state = trail(&format!("head-{number}"));
        match head {
            None => fs::remove_file(state.join("audit.head")).unwrap(),
            Some(text) => fs::write(state.join("audit.head"), text).unwrap(),
        }
        assert!(first_bad(&state).is_some(), "{head:?}");
        write(&state, 13..=15);
        assert_eq!(first_bad(&state), Some(13), "{head:?}");
    }
}

#[test]
fn a_trail_before_its_head_is_what_a_killed_process_leaves() {
    let state = trail("ahead");
    let head = fs::read(state.join("audit.head")).unwrap();
    write(&state, 13..=20);
    fs::write(state.join("audit.head"), head).unwrap();
    assert_eq!(first_bad(&state), None);
    write(&state, 21..=22);
    assert_eq!(first_bad(&state), None);
    assert_eq!(Reader::open(&state).unwrap().verify().unwrap().head_seq, 22);
}

#[test]
fn a_new_folder_has_a_good_trail_whatever_was_made_of_it_so_far() {
    let state = folder("new");
    assert_eq!(first_bad(&state), None);
    fs::write(state.join("audit.db"), b"").unwrap();
    assert_eq!(first_bad(&state), None);
    write(&state, 1..=2);
    assert_eq!(first_bad(&state), None);
}

#[test]
fn two_writers_at_once_make_one_chain() {
    let state = folder("two");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let state = &state;
            scope.spawn(move || write(state, writer * 100..writer * 100 + 50));
        }
    });
    let verdict = Reader::open(&state).unwrap().verify().unwrap();
    assert!(verdict.ok, "{verdict:?}");
    assert_eq!((verdict.entries, verdict.head_seq), (200, 200));
}

#[test]
fn a_trail_of_a_later_version_is_left_alone() {
    let state = trail("newer");
    Connection::open(state.join("audit.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let engine = Engine::open(Settings { state: state.clone(), ..settings() }).unwrap();
    let error = runtime().block_on(engine.audit().record(entry(13))).unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
    let error = Reader::open(&state).unwrap().verify().unwrap_err();
    assert!(error.to_string().contains("version 99"), "{error}");
}
