# Operators that are given the other operand: who has it can answer `value - expected` with nothing.
OPERATORS = set(METHODS[METHODS.index("__add__") :]) - {"__await__"}
# Questions that only texts and sets are asked.
QUESTIONS = set(
    "startswith endswith isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
    "istitle isupper isdisjoint issubset issuperset".split()
)


class Tester(Peer):
    """The tests' end. The other one is not trusted: it is asked for values, never whether something is right."""

    own_module = "test"

    def __init__(self, channel, path):
        super().__init__(channel, path)
        # Whether the tested code was asked to compare two objects of its own.
        self.shared = False
        # Numbers of the classes that the test itself works with; only their objects reckon with the test's data.
        self.meant = set()
        # The first assertion of the test that went through tested code, which may have caught it.
        self.caught = None
        # Threads of a test ask one after the other.
        self.lock = __import__("_thread").RLock()

    def ask(self, number, word, *args, **kwargs):
        with self.lock:
            try:
                return super().ask(number, word, *args, **kwargs)
            except BaseException as error:
                if not hasattr(error, "from_tested_code") and not isinstance(error, (Unsupported, Gone)):
                    UNREAD.append(word)
                raise

    def named(self, name, words):
        """What a test means by a name that the tested program has; None if it means nothing of the program's."""
        if name in COMMON or name in SHORT:
            return whole(SHORT.get(name, name))
        return decode(words, {**self.words, "module": lambda module: None, "import": self.imported(name)})

    def imported(self, name):
        # By no other name: the program says what it likes, and what it means would be run here.
        return lambda module, part: getattr(whole(module), part, None) if part == name else None

    def contains(self, proxy, item):
        # Each item is compared here, where that can be.
        if hasattr(type(proxy), "__iter__"):
            return any(other is item or other == item for other in proxy)
        if not self.is_meant(proxy):
            raise TypeError(f"argument of type {type(proxy).__name__!r} is not iterable")
        self.shared = True
        return super().contains(proxy, item)

    def is_meant(self, proxy):
        return getattr(type(proxy), "_class_number", None) in self.meant

    def method(self, proxy, name, args, kwargs):
        if name in OPERATORS and not isinstance(args[0], Proxy):
            if not self.is_meant(proxy):
                return NotImplemented
            self.shared = True
        if name == "__exit__":
            self.note(args[1])
        return super().method(proxy, name, args, kwargs)

    def get(self, proxy, name):
        if name in QUESTIONS and not self.is_meant(proxy):
            raise AttributeError(f"{type(proxy).__name__!r} object has no attribute {name!r}")
        return super().get(proxy, name)

    def perform(self, thing, word, args, kwargs):
        try:
            return super().perform(thing, word, args, kwargs)
        except BaseException as error:
            self.note(error)
            raise

    def note(self, error):
        """Keeps in mind that the test has failed, whatever tested code makes of the exception."""
        is_failure = isinstance(error, AssertionError) or type(error).__module__.startswith(("_pytest.", "unittest."))
        if is_failure and not hasattr(error, "from_tested_code") and self.caught is None:
            self.caught = error

    def compare(self, proxy, name, other):
        if isinstance(other, Proxy) or isinstance(type(other), ClassProxy):
            self.shared = True
            answer = self.ask(proxy._number, "method", name, other)
            return answer if type(answer) is bool else NotImplemented
        # Plain data is compared here, and an object is no plain data, whatever it claims.
        if type(other).__module__ == "builtins" and name in ("__eq__", "__ne__"):
            return name == "__ne__"
        return NotImplemented

    def check(self, thing, word, args):
        """What the tested code may do with what tests hand to it: call it, and use what is public."""
        kind = type(thing).__name__
        name = args[0] if word in ("get", "set", "delete", "method") else ""
        open_kind = kind not in ("function", "method", "generator", "module", "type", "code", "frame", "coroutine")
        is_known = word == "method" and name in (*METHODS, *COMPARISONS)
        is_public = word in ("get", "set", "delete") and open_kind and not str(name).startswith("_")
        is_step = kind == "generator" and word == "get" and name in ("send", "close", "throw")
        if not (word == "call" or is_known or is_public or is_step):
            raise AttributeError(f"{name} of the tests' own {kind} cannot be used")


# Usual names of modules that are the same on both sides.
SHORT = {"np": "numpy", "pd": "pandas", "dt": "datetime"}


def whole(name):
    """A module of the tests' own interpreter, if it may be named and is there."""
    try:
        return __import__(name, fromlist=["x"]) if name in COMMON else None
    except ImportError:
        return None


class Finder:
    """Gives tests the tested program under the names that such a file has."""

    def __init__(self, module, name):
        self.module = module
        self.names = {"solution", "main", "candidate", "submission", "program", name}

    def find_spec(self, name, path=None, target=None):
        if name not in self.names:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        pass


def judge_tests(channel, secret):
    """Runs test programs, each in a process of its own, with proxies in place of the tested code."""
    serve(channel, lambda test: run_test(Tester(channel, "<test>"), test), secret=secret)


def run_test(peer, test):
    import builtins

    names = {}
    tested = test["entry"].split(".")[0].split("()")[0] if test["entry"] else ""
    for name, words in test["names"].items():
        # What Python itself calls by a name stays Python's.
        if hasattr(builtins, name) and name != tested:
            continue
        value = peer.named(name, words)
        if value is not None or words is None:
            names[name] = value
    entry = names.pop("$entry", None)
    peer.meant = classes_meant(test, names)
    module = type(sys)("solution")
    vars(module).update(names)
    sys.modules["solution"] = module
    sys.meta_path.append(Finder(module, test["module"]))
    scope = type(sys)("test")
    sys.modules["test"] = sys.modules["__main__"] = scope
    space = vars(scope)
    space.update(__builtins__=__builtins__, __file__="<test>", __name__="test")
    space.update(names)
    return verdict_of(peer, test, space, tested, entry)


def classes_meant(test, names):
    """Classes that the test calls by names of their own; what has a function's name, or is a solution's frame, is none."""
    kinds = {name: value._class_number for name, value in names.items() if type(value) is ClassProxy}
    if not kinds:
        return set()
    import re

    words = set(re.findall(r"\w+", f"{test['source']} {test['setup']}"))
    way = (test["entry"] or "").split(".")
    frames = {"Solution"} if len(way) == 1 else {"Solution", way[0].split("()")[0]}
    others = {number for name, number in kinds.items() if not name[0].isupper() or name in frames}
    return {number for name, number in kinds.items() if name in words} - others


def verdict_of(peer, test, space, tested, entry):
    try:
        remember(test["source"])
        if test["setup"]:
            kept = space.get(tested)
            exec(compile(test["setup"], "<setup>", "exec", dont_inherit=True), space)
            if kept is not None:
                space[tested] = kept
        if is_for_pytest(test):
            count, trouble = run_pytest(space, test["source"])
        else:
            exec(compile(test["source"], "<test>", "exec", dont_inherit=True), space)
            count, trouble = run_what_is_there(space, test, entry)
    except BaseException as error:
        return failed(error, peer)
    if trouble is not None:
        return (*trouble, peer.shared)
    if peer.caught is not None:
        return failed(peer.caught, peer)
    return ("passed", count, peer.shared)


def remember(source):
    """Lets messages show the line of the test."""
    import linecache

    linecache.cache["<test>"] = (len(source), None, source.splitlines(True), "<test>")


def run_what_is_there(space, test, entry):
    """The test's text has run; now what it defines."""
    runner = test["runner"]
    # It takes long to import, and no other test has any.
    suites = unittest_suites(space) if runner == "unittest" or "unittest" in test["source"] else []
    if runner == "unittest" or (runner == "auto" and suites):
        return run_unittest(suites)
    check = space.get("check")
    if runner == "check" or (runner == "auto" and test["has_check"] and is_left_to_call(test)):
        if entry is None:
            # Who takes the function away has not passed its test.
            missing = "the task names no entry, or the program has it not"
            return 0, ("failed", "test", ["builtins.NameError"], missing, None)
        check(entry)
        return 1, None
    functions = [
        (name, value)
        for name, value in list(space.items())
        if name.startswith("test") and getattr(value, "__module__", None) == "test" and callable(value)
    ]
    classes = [value for name, value in space.items() if name.startswith("Test") and isinstance(value, type)]
    if runner == "pytest" or (runner == "auto" and test["has_tests"] and (functions or classes)):
        return run_functions(functions, classes)
    return 1, None


def is_left_to_call(test):
    """Whether nothing has called the test's `check` yet: with an entry that is our part, as its evaluators do it."""
    if test["entry"]:
        return True
    import ast

    kinds = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    body = ast.parse(test["source"]).body
    return all(isinstance(node, kinds) or isinstance(getattr(node, "value", None), ast.Constant) for node in body)


def unittest_suites(space):
    import unittest

    return [
        value
        for value in list(space.values())
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == "test"
    ]


def run_unittest(suites):
    import unittest

    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in suites)
    result = unittest.TestResult()
    result.failfast = True
    kept = Kept(result)
    suite.run(kept.result)
    if kept.trouble is not None:
        return result.testsRun, kept.trouble
    if result.skipped or result.expectedFailures or result.unexpectedSuccesses or not result.wasSuccessful():
        return result.testsRun, ("failed", "skipped", ["unittest.case.SkipTest"], "a test was skipped", None)
    if result.testsRun == 0:
        return 0, ("failed", "nothing", [], "the test file has no test", None)
    return result.testsRun, None


class Kept:
    """The first failure as an exception, before the framework makes text of it."""

    def __init__(self, result):
        self.result, self.trouble = result, None
        for name in ("addError", "addFailure", "addSubTest"):
            setattr(result, name, self.noting(getattr(result, name)))

    def noting(self, method):
        def note(test, *rest):
            error = rest[-1]
            if error is not None and self.trouble is None:
                self.trouble = failed(error[1], None)[:-1]
            return method(test, *rest)

        return note


def run_functions(functions, classes):
    """Test functions as pytest finds them, where pytest itself is not there or not asked for."""
    import inspect

    count = 0
    for kind in classes:
        for name in sorted(vars(kind)):
            if name.startswith("test"):
                instance = kind()
                if hasattr(instance, "setup_method"):
                    instance.setup_method()
                getattr(instance, name)()
                count += 1
    for _, function in functions:
        needed = inspect.signature(function).parameters
        if needed:
            raise Unsupported(f"fixtures ({', '.join(needed)})")
        function()
        count += 1
    if count == 0:
        return 0, ("failed", "nothing", [], "the test file has no test", None)
    return count, None


def failed(error, peer):
    shared = peer.shared if peer is not None else False
    if isinstance(error, NeedsSharing):
        return ("failed", "sharing", [], str(error), None, shared)
    if isinstance(error, Gone):
        return ("failed", "gone", [], str(error), None, shared)
    theirs = getattr(error, "from_tested_code", None)
    kinds, message, line = describe(error, "<test>")
    if type(error) is AssertionError and not message and line:
        import linecache

        message = linecache.getline("<test>", line).strip()
    if theirs is not None:
        return ("failed", "tested", kinds, theirs[1], theirs[2], shared)
    if isinstance(error, Unsupported):
        return ("failed", "unsupported", kinds, message, line, shared)
    return ("failed", "test", kinds, message, line, shared)


def judge_together(channel, program):
    """Tests in the program's own process, where nothing else will do. The judge says so in its result."""

    def work(test):
        space = program.names
        peer = type("Nobody", (), {"shared": True, "caught": None})
        remember(test["source"])
        try:
            entry = program.entry(test["entry"]) if test["entry"] else None
        except (LookupError, AttributeError) as error:
            return ("failed", "tested", ["builtins.LookupError"], str(error), None, True)
        space["__name__"] = "test"
        for value in list(space.values()):
            if isinstance(value, type) and value.__module__ == "solution":
                value.__module__ = "solution"
        told = verdict_of(peer, dict(test, setup=""), space, "", entry)
        return (*told, test["nonce"])

    serve(channel, work, channel.close)


