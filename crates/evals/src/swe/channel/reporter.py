"""Tells what became of each test, by a way that nothing which tests print can reach. PYTEST_DONT_REWRITE

Loaded when Python starts, before any tested code: it takes the key from standard input and keeps it to itself.
"""
import os


def _channel(number, key):
    import fcntl
    import hashlib
    import hmac
    import json

    descriptor = fcntl.fcntl(number, getattr(fcntl, "F_DUPFD_CLOEXEC", 1030), 200)
    os.close(number)
    write, getpid, dumps, mac, sha = os.write, os.getpid, json.dumps, hmac.new, hashlib.sha256
    state = [getpid(), 0]

    def tell(*record):
        # A fork of the tests has nothing to tell.
        if getpid() != state[0]:
            return
        text = dumps([state[1]] + list(record))
        line = (mac(key, text.encode("ascii"), sha).hexdigest() + " " + text + "\n").encode("ascii")
        while line:
            line = line[write(descriptor, line):]
        state[1] += 1

    return tell


def _begin():
    how = os.environ.pop("SAGGAR_CHANNEL", None)
    if not how:
        return None
    number, kind, tree = how.split(":", 2)
    key = b""
    while not key.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            return None
        key += piece
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    tell = _channel(int(number), key.strip())
    tell("begin", kind)
    return tell, kind, tree


def _is_of(tree, thing):
    """Whether a function or class was written in the tested tree, or by code that has no file."""
    import sys

    thing = getattr(thing, "__func__", thing)
    code = getattr(thing, "__code__", None)
    if code is not None:
        name = code.co_filename
    elif isinstance(thing, type):
        name = getattr(sys.modules.get(thing.__module__), "__file__", None) or ""
        if thing.__module__ == "builtins":
            return False
    else:
        return False
    return name.startswith(tree + "/") or name.startswith("<")


def _watch(tree, modules):
    """Remembers what the runner is made of; what comes back names what was replaced since by code of the tree."""
    kept = []
    for module in modules:
        for name, thing in list(vars(module).items()):
            if callable(thing):
                kept.append((module, name, thing, getattr(thing, "__code__", None)))
            if isinstance(thing, type) and thing.__module__ == module.__name__:
                for inner, method in list(vars(thing).items()):
                    if callable(method) or isinstance(method, (staticmethod, classmethod, property)):
                        kept.append((thing, inner, method, getattr(method, "__code__", None)))

    def replaced():
        found = []
        for owner, name, thing, code in kept:
            now = vars(owner).get(name)
            if now is thing and getattr(now, "__code__", None) is code:
                continue
            if now is None or now is thing or _is_of(tree, now):
                found.append(getattr(owner, "__name__", "?") + "." + name)
        return found

    return replaced


def _is_a_test(tree, file):
    """Whether a file of the tree is one of its tests, by its name and place."""
    parts = file[len(tree) + 1:].split("/")
    name = parts.pop()
    return name.startswith(("test", "conftest")) or any(part in ("test", "tests", "testing") for part in parts)


def _gives_up(tree, excinfo):
    """Whether it was tested code that called `pytest.xfail`, and not the test."""
    if not any(kind.__name__ == "XFailed" for kind in type(excinfo.value).__mro__):
        return False
    traceback, last = excinfo.tb, ""
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        last = name if name.startswith(tree + "/") else last
        traceback = traceback.tb_next
    return bool(last) and not _is_a_test(tree, last)


def _wrapper(function):
    function.pytest_impl = {
        "wrapper": False, "hookwrapper": True, "optionalhook": False, "tryfirst": True, "trylast": False, "specname": None,
    }
    return function


# Hooks of pytest that decide what becomes of a test.
_DECIDING = (
    "pytest_pyfunc_call", "pytest_runtest_call", "pytest_runtest_protocol", "pytest_runtestloop", "pytest_runtest_makereport",
)


def _for_pytest(tell, tree):
    import sys

    state = {"replaced": None, "core": None, "told": set(), "own": False, "ran": {}}

    def look(which):
        for name in which():
            if name not in state["told"]:
                state["told"].add(name)
                tell("replaced", name)

    def look_at_hooks(config):
        """Hooks that the tested code brought by itself: what tests and their conftest.py have is no patch's work."""
        for name in _DECIDING:
            hook = getattr(config.hook, name, None)
            for each in hook.get_hookimpls() if hasattr(hook, "get_hookimpls") else ():
                function = getattr(each.function, "__func__", each.function)
                code = getattr(function, "__code__", None)
                file = code.co_filename if code is not None else ""
                if not (file.startswith(tree + "/") or file.startswith("<")) or name in state["told"]:
                    continue
                if not _is_a_test(tree, file):
                    state["told"].add(name)
                    tell("replaced", name)

    def pytest_addoption(parser):
        import _pytest

        # It was for this run; what tests start is as it would be without.
        words = os.environ.pop("PYTEST_ADDOPTS", "").split(None, 2)[2:]
        if words:
            os.environ["PYTEST_ADDOPTS"] = words[0]
        # Where pytest itself is what is tested, its own parts are the patch's to change; and what it finds imported
        # already matters to its tests.
        if _pytest.__file__.startswith(tree + "/"):
            state["own"] = True
            return
        import unittest.case

        import pytest

        try:
            import builtins
        except ImportError:
            import __builtin__ as builtins

        parts = [m for n, m in list(sys.modules.items()) if m is not None and n.split(".")[0] in ("_pytest", "pluggy", "pytest")]
        state["replaced"] = _watch(tree, parts + [builtins, unittest.case])
        runner = [sys.modules.get("_pytest." + name) for name in ("runner", "reports")]
        state["core"] = _watch(tree, [part for part in runner if part] + [builtins, unittest.case])
        state["pytest"] = pytest

    def pytest_collection_finish(session):
        if state["replaced"]:
            look(state["replaced"])

    @_wrapper
    def pytest_pyfunc_call(pyfuncitem):
        # Where the runner is tested code itself, it is not believed that it has run a test.
        if not state["own"]:
            yield
            return
        import functools
        import inspect

        original = pyfuncitem.obj
        if inspect.isgeneratorfunction(original) or getattr(inspect, "iscoroutinefunction", bool)(original):
            state["ran"][pyfuncitem.nodeid] = None
            yield
            return
        state["ran"][pyfuncitem.nodeid] = False

        @functools.wraps(original)
        def call(*words, **named):
            __tracebackhide__ = True
            result = original(*words, **named)
            state["ran"][pyfuncitem.nodeid] = True
            return result

        pyfuncitem.obj = call
        yield
        pyfuncitem.obj = original

    @_wrapper
    def pytest_runtest_makereport(item, call):
        outcome = yield
        report = outcome.get_result()
        raised = call.excinfo is not None
        if state["own"] and call.when == "call" and type(item).__name__ == "Function":
            raised = raised or state["ran"].pop(item.nodeid, False) is False
        is_xfail = hasattr(report, "wasxfail")
        said = report.outcome
        if is_xfail and raised and not state["own"] and _gives_up(tree, call.excinfo):
            said, is_xfail = "failed", False
        tell("made", item.nodeid, call.when, said, raised, is_xfail)
        if call.when == "teardown" and state["core"]:
            look(state["core"])
            if sys.modules.get("pytest") is not state["pytest"]:
                tell("replaced", "pytest")

    def pytest_runtest_logreport(report):
        tell("logged", report.nodeid, report.when, report.outcome, hasattr(report, "wasxfail"))

    def pytest_sessionfinish(session, exitstatus):
        if state["replaced"]:
            look(state["replaced"])
            look_at_hooks(session.config)
        tell("end", int(exitstatus))

    return locals()


def _for_unittest(tell, tree):
    import unittest.case
    import unittest.result
    import unittest.suite

    result = unittest.result.TestResult
    names = {
        "addSuccess": "PASSED", "addError": "ERROR", "addFailure": "FAILED", "addSkip": "SKIPPED",
        "addExpectedFailure": "XFAIL", "addUnexpectedSuccess": "FAILED",
    }
    told = set()

    def wrap(name, status):
        original = getattr(result, name)

        def method(self, test, *rest):
            try:
                tell("test", str(test), (test.shortDescription() or ""), status)
            except Exception:
                tell("test", "?", "", "ERROR")
            return original(self, test, *rest)

        setattr(result, name, method)

    for name, status in names.items():
        if hasattr(result, name):
            wrap(name, status)
    sub = getattr(result, "addSubTest", None)
    if sub is not None:
        def add_sub_test(self, test, subtest, err):
            if err is not None:
                tell("test", str(test), (test.shortDescription() or ""), "FAILED")
            return sub(self, test, subtest, err)

        result.addSubTest = add_sub_test
    replaced = _watch(tree, [unittest.case, unittest.result, unittest.suite])
    stop = result.stopTest

    def stop_test(self, test):
        for name in replaced():
            if name not in told and name != "TestResult.stopTest":
                told.add(name)
                tell("replaced", name)
        return stop(self, test)

    result.stopTest = stop_test


def _for_sympy(tell, tree):
    import importlib.util
    import sys

    targets = ("sympy.testing.runtests", "sympy.utilities.runtests")
    statuses = {
        "test_pass": "PASSED", "test_fail": "FAILED", "test_exception": "ERROR", "test_skip": "SKIPPED",
        "test_xfail": "XFAIL", "test_xpass": "FAILED",
    }

    def adapt(module):
        reporter = getattr(module, "PyTestReporter", None)
        if reporter is None:
            return

        def wrap(name, status):
            original = getattr(reporter, name)

            def method(self, *rest, **named):
                test = getattr(self, "_active_f", None)
                tell("test", getattr(test, "__name__", "?"), "", status)
                return original(self, *rest, **named)

            setattr(reporter, name, method)

        for name, status in statuses.items():
            if name in vars(reporter):
                wrap(name, status)

    class Finder(object):
        def find_spec(self, name, path=None, target=None):
            if name not in targets:
                return None
            sys.meta_path.remove(self)
            try:
                spec = importlib.util.find_spec(name)
            finally:
                sys.meta_path.insert(0, self)
            if spec is None or spec.loader is None:
                return spec
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                adapt(module)

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, Finder())


_begun = _begin()
if _begun:
    if _begun[1] == "pytest":
        for _name, _hook in _for_pytest(_begun[0], _begun[2]).items():
            if _name.startswith("pytest_"):
                globals()[_name] = _hook
    elif _begun[1] == "unittest":
        _for_unittest(_begun[0], _begun[2])
    elif _begun[1] == "sympy":
        _for_sympy(_begun[0], _begun[2])
del _begun
