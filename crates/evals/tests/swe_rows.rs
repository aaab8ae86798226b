//! Data sets in every shape: the same rows, whether in lines, in a list or in a table.
#![allow(clippy::unwrap_used, reason = "tests fail loudly")]

use std::path::{Path, PathBuf};

use evals::swe::plan::Plan;
use evals::swe::row;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs/swe").join(name)
}

#[test]
fn tables_are_read_whatever_packed_them() {
    // By pyarrow: snappy with dictionaries, gzip without, in pages of the second kind, and zstd.
    for name in ["rows.parquet", "rows-gzip.parquet", "rows-zstd.parquet"] {
        let instances = row::read(&file(name), &[]).unwrap();
        let ids: Vec<&str> = instances.iter().map(|instance| instance.id.as_str()).collect();
        assert_eq!(ids, ["a__calc-1", "a__calc-2"], "{name}");
        let first = &instances[0];
        assert_eq!(first.fail_to_pass, ["tests/test_x.py::test_a[b c]", "tests/test_x.py::test_ä"], "{name}");
        assert_eq!(first.pass_to_pass, ["tests/test_x.py::test_c"], "{name}");
        assert_eq!(first.base_commit, "0123456789abcdef0123456789abcdef01234567");
        assert!(first.parser.is_some());
        let plan = Plan::of(first).unwrap();
        assert_eq!(
            (plan.python, plan.pins, plan.test.as_str()),
            (Some((3, 9)), vec!["pytest".to_owned()], "pytest -rA")
        );
        // What the second row does not have is absent.
        assert!(instances[1].install_config.is_none() && instances[1].version.is_empty());
    }
}

#[test]
fn what_is_no_table_is_told_by_name() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-table.parquet");
    std::fs::write(&place, "PAR1 and nothing else PAR1").unwrap();
    let error = row::read(&place, &[]).unwrap_err().to_string();
    assert!(error.contains("no-table.parquet"), "{error}");
}

#[test]
fn a_table_that_was_cut_or_changed_is_refused_and_ends_nobody() {
    let whole = std::fs::read(file("rows-zstd.parquet")).unwrap();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("changed.parquet");
    for at in (0..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[at] ^= 0x55;
        std::fs::write(&place, &changed).unwrap();
        // Either it is still a table, or it is told what is wrong with it.
        drop(row::read(&place, &[]));
        std::fs::write(&place, &whole[..at]).unwrap();
        assert!(row::read(&place, &[]).is_err(), "cut at {at}");
    }
}

#[test]
fn a_row_whose_patch_is_the_bug_is_turned_round() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("smith.jsonl");
    let bug = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-right\n+wrong\n";
    let line = serde_json::json!({
        "instance_id": "o__n.1fd52536.combine_file__09vlzwgc", "repo": "swesmith/o__n.1fd52536", "patch": bug,
        "image_name": "jyangballin/swesmith.x86_64.o_1776_n.1fd52536", "FAIL_TO_PASS": ["tests/test_a.py::test_b"],
        "PASS_TO_PASS": ["tests/test_c.py::test_d", "tests/test_a.py::test_e"],
    });
    std::fs::write(&place, line.to_string()).unwrap();
    let instance = row::read(&place, &[]).unwrap().remove(0);
    assert_eq!((instance.repo.as_str(), instance.base_commit.as_str()), ("o/n", "1fd52536"));
    assert_eq!(instance.bug.as_deref(), Some(bug));
    assert_eq!(instance.patch, "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,1 @@\n+right\n-wrong\n");
    let test = Plan::of(&instance).unwrap().test;
    assert!(test.ends_with(" tests/test_a.py tests/test_c.py"), "{test}");
}
