def is_for_pytest(test):
    """Whether the test is pytest's own to run: it is asked for, by name or by an import, and is installed."""
    asked = test["runner"] == "pytest" or (
        test["runner"] == "auto" and test["has_tests"] and "import pytest" in test["source"]
    )
    if not asked:
        return False
    from importlib.util import find_spec

    return find_spec("pytest") is not None


class Reports:
    """The first failure of a session as an exception, and how many tests have passed."""

    def __init__(self, skipped):
        self.count, self.trouble, self.skipped = 0, None, skipped

    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is None:
            self.count += call.when == "call"
        elif self.trouble is None:
            self.trouble = failed(call.excinfo.value, None)[:-1]
            if isinstance(call.excinfo.value, self.skipped):
                self.trouble = ("failed", "skipped", [], "a test was skipped", None)

    def pytest_collection_finish(self, session):
        LOOKING.clear()

    def pytest_collectreport(self, report):
        if not report.passed and self.trouble is None:
            kinds = ["builtins.ImportError"]
            self.trouble = ("failed", "test", kinds, f"the test file cannot be read: {report.longrepr}"[:2000], None)


def run_pytest(space, source):
    """A test file in the hands of pytest: fixtures, parameters and marks as it has them."""
    import builtins, shutil

    # A name of the tested program is one of the file's own without an import, as in other tests.
    for name, value in space.items():
        if not name.startswith("__") and not hasattr(builtins, name):
            setattr(builtins, name, value)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    LOOKING.add("pytest")
    reports = Reports(pytest.skip.Exception)
    folder = "/tmp/saggar-tests"
    os.mkdir(folder)
    try:
        with open(f"{folder}/test_it.py", "w", encoding="utf-8") as file:
            file.write(source)
        words = ["-q", "-s", "-x", "--tb=no", "--no-header", "--noconftest", "-p", "no:cacheprovider", "-c", "/dev/null"]
        status = pytest.main([*words, f"--rootdir={folder}", f"{folder}/test_it.py"], plugins=[reports])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if reports.trouble is not None:
        return reports.count, reports.trouble
    if reports.count == 0:
        return 0, ("failed", "nothing", [], "the test file has no test", None)
    if status != 0:
        return reports.count, ("failed", "test", ["builtins.RuntimeError"], f"pytest ended with {int(status)}", None)
    return reports.count, None


