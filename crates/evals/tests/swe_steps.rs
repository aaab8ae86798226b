//! The steps of grading, one by one, on a repository that no data set knows: any runner, no environment.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests start git and fail loudly")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use engine::Caller;
use evals::swe::check::{Checked, check_tests};
use evals::swe::grade::Resolution;
use evals::swe::hunks::{self, Fate};
use evals::swe::log::Parser;
use evals::swe::plan::Plan;
use evals::swe::steps::{self, Applied, Repository, Workshop};

const FILES: &[(&str, &str)] = &[
    ("calc.py", "def add(a, b):\n    return a - b\n"),
    (
        "test_calc.py",
        "import unittest\n\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n",
    ),
    ("go.mod", "module calc\n\ngo 1.18\n"),
    ("calc.go", "package calc\n\nfunc Add(a, b int) int {\n\treturn a - b\n}\n"),
    (
        "calc_test.go",
        "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal(Add(1, 2))\n\t}\n}\n\nfunc TestZero(t *testing.T) {\n\tif Add(0, 0) != 0 {\n\t\tt.Fatal(0)\n\t}\n}\n",
    ),
    (
        "junit.sh",
        "grep -q 'a + b' calc.py && inside= || inside='<failure/>'\necho \"<testsuite><testcase classname='T' name='add'>$inside</testcase><testcase classname='T' name='zero'/></testsuite>\"\n",
    ),
];

const FIX: &str = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n--- a/calc.go\n+++ b/calc.go\n@@ -3,3 +3,3 @@\n func Add(a, b int) int {\n-\treturn a - b\n+\treturn a + b\n }\n";

const TIME: Duration = Duration::from_mins(5);

fn repository(name: &str) -> (PathBuf, String) {
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree).unwrap();
    for (path, content) in FILES {
        fs::write(tree.join(path), content).unwrap();
    }
    let git = |words: &[&str]| {
        let own = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "safe.directory=*"];
        let done = Command::new("git").current_dir(&tree).args(own).args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    let commit = git(&["rev-parse", "HEAD"]);
    (tree.join(".git"), commit)
}

/// Tests the tree with a patch, and sets what they came to against the lists.
async fn checked(plan: &Plan, parser: &str, place: &(PathBuf, String), patch: &str, tests: [&str; 2]) -> Checked {
    let workshop = Workshop::new(common::engine(), Caller::default(), None);
    let repository = Repository::Folder(place.0.clone());
    let prepared = workshop.tree(plan, &repository, &place.1).await.unwrap();
    let site = workshop.open(&prepared, plan, TIME).await.unwrap();
    if !patch.is_empty() {
        let (applied, said) = steps::apply(&site, patch, TIME).await.unwrap();
        assert!(matches!(applied, Applied::By(_)), "{said}");
    }
    let tested = steps::test(&site, &plan.before, &plan.test, prepared.packages.as_deref(), TIME).await.unwrap();
    let parser = Parser::named(parser).unwrap();
    // unittest names a test in another way in other versions of Python: by how it begins.
    let statuses = parser.read(&tested.log);
    let full = |begin: &str| {
        let found = statuses.iter().map(|(test, _)| test).find(|test| test.starts_with(begin));
        found.unwrap_or_else(|| panic!("{begin}: {}", tested.log)).to_owned()
    };
    let [mend, keep] = tests.map(|test| vec![full(test)]);
    let nothing = check_tests(&tested, parser, &[], &[], &[]);
    assert_eq!(nothing.resolution, Resolution::No, "no test that was asked for is no success");
    check_tests(&tested, parser, &mend, &keep, &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_work_on_any_repository_and_runner() {
    let place = repository("any");
    let mut go = Plan::new(&[], "go test -v ./...");
    go.env = [("GOCACHE", "/tmp/go"), ("GOFLAGS", "-mod=mod"), ("GOTOOLCHAIN", "local")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let runners = [
        (Plan::new(&[], "python3 -m unittest -v"), "unittest", ["test_add ", "test_zero "]),
        (go, "gotest", ["TestAdd", "TestZero"]),
        (Plan::new(&[], "bash junit.sh"), "junit", ["T::add", "T::zero"]),
    ];
    for (plan, parser, tests) in runners {
        let before = checked(&plan, parser, &place, "", tests).await;
        assert_eq!((before.resolution, before.tests.fail_to_pass.failure.len()), (Resolution::No, 1), "{parser}");
        assert!(before.tests.pass_to_pass.failure.is_empty(), "{parser}: {:?}", before.tests);
        let after = checked(&plan, parser, &place, FIX, tests).await;
        assert_eq!(after.resolution, Resolution::Full, "{parser}: {:?}", after.tests);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_that_does_not_fit_says_which_hunk_and_leaves_the_tree_alone() {
    let (folder, commit) = repository("unfit");
    let plan = Plan::new(&[], "true");
    let workshop = Workshop::new(common::engine(), Caller::default(), None);
    let prepared = workshop.tree(&plan, &Repository::Folder(folder), &commit).await.unwrap();
    let site = workshop.open(&prepared, &plan, TIME).await.unwrap();
    let bad = FIX.replace("-\treturn a - b\n", "-\treturn nothing\n");
    let (applied, said) = steps::apply(&site, &bad, TIME).await.unwrap();
    assert!(matches!(applied, Applied::No(_)), "{said}");
    let fates: Vec<(String, Fate)> = hunks::read(&said).into_iter().map(|hunk| (hunk.file, hunk.fate)).collect();
    assert_eq!(fates, [("calc.py".to_owned(), Fate::Fits), ("calc.go".to_owned(), Fate::Rejected)], "{said}");
    let (changed, _) = steps::changed(&site, TIME).await.unwrap();
    assert_eq!(changed, Vec::<String>::new());
}
