# What a program that is measured may be asked beside being called: none of it makes data of its objects. An object that
# says one thing when it is checked and another when it is counted is no result.
HARMLESS = ("__call__", "__enter__", "__exit__", "__hash__")
# The file that evaluators are given: whoever loads, imports, runs or executes it gets what lives elsewhere.
STAND_IN = '''# What is measured runs in another sandbox; this file stands for it.
import sys as _sys
if "saggar_judge" not in _sys.modules:
    import importlib.util as _util
    _spec = _util.spec_from_file_location("saggar_judge", "/opt/saggar/judge.py")
    _sys.modules["saggar_judge"] = _util.module_from_spec(_spec)
    _spec.loader.exec_module(_sys.modules["saggar_judge"])
    _sys.modules["saggar_judge"].load_evaluating()
_sys.modules["saggar_judge"].stand_in(globals())
'''
# Where it lies.
STANDS = "/tmp/saggar-program/program.py"
# How processes that an evaluator starts find the way to what is measured.
ADDRESS = "SAGGAR_CANDIDATE"


class Measurer(Tester):
    """An evaluator's end. It may call from several threads, and from processes that it starts."""

    own_module = "evaluator"

    def __init__(self, channel, names):
        super().__init__(channel, "evaluator.py")
        self.found, self.broken = names, None

    def ask(self, number, word, *args, **kwargs):
        with self.lock:
            if self.broken:
                raise Gone(self.broken)
            # Functions are called; whatever else is asked, is asked of objects.
            self.shared = self.shared or word != "call"
            try:
                return super().ask(number, word, *args, **kwargs)
            except BaseException as error:
                # Whoever did not wait for an answer would take it for the next one.
                if not hasattr(error, "from_tested_code") and not isinstance(error, Unsupported):
                    self.broken = "a call before this one was given up"
                raise

    def imported(self, name):
        # What is measured is run where it is, whatever it was made from.
        return lambda module, part: None

    def remote(self, number, class_words, name):
        # Objects keep their say in what they are; functions are only called.
        self.shared = self.shared or class_words is not None
        return super().remote(number, class_words, name)

    def remote_class(self, words):
        number, name, methods, base = words
        return super().remote_class((number, name, tuple(m for m in methods if m in HARMLESS), base))

    def fill(self, names):
        """Puts what the program has under its names; what an evaluator calls its own stays its own.

        Python's own words are the program's only where they are asked of it as of a module: checks that run among its
        names must mean what they say."""
        import builtins

        own, shared = names.get("__name__") == self.own_module, self.shared
        is_module = names.get("__spec__") is not None
        for name, words in self.found.items():
            if name.startswith("__") or (hasattr(builtins, name) and not is_module):
                continue
            value = self.named(name, words)
            if (value is not None or words is None) and not (own and name in names):
                names[name] = value
        # To have a name is not to use it.
        self.shared = shared

    def run_program(self, arguments, text):
        """Has the program run as one; its output, its errors and its exit code come back."""
        with self.lock:
            self.send("program", arguments, text)
            answer = self.channel.read()
        if answer is None or answer[0] != "ok":
            raise Gone("the program is gone")
        return answer[1]


class Line(Channel):
    """A channel between two processes of an evaluator's sandbox."""

    def __init__(self, connection):
        self.connection = connection
        self.reads = self.writes = connection.fileno()


# The one peer of this process.
MEASURER = []


def stand_in(names):
    """Fills a module that stands for the program."""
    if not MEASURER:
        import socket

        connection = socket.socket(socket.AF_UNIX)
        connection.connect("\0" + os.environ[ADDRESS])
        line = Line(connection)
        MEASURER.append(Measurer(line, line.read()[1]))
    peer = MEASURER[0]
    if names.get("__name__") != "__main__":
        return peer.fill(names)
    out, errors, code = peer.run_program(sys.argv[1:], "" if sys.stdin.isatty() else sys.stdin.read())
    sys.stdout.write(out)
    sys.stderr.write(errors)
    sys.exit(code)


# What is announced when a process of one's own is about to start another.
STARTS = ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen")
# The one listener of this process.
LISTENER = []


def await_starts():
    """Lets processes that the evaluator starts call what is measured: from the moment when it starts the first.

    Most start none, and a thread that waits for them would cost each measurement a fifth of its time."""
    import _posixsubprocess

    # Their environment may have been put together long before.
    os.environ[ADDRESS] = f"saggar-{os.getpid()}"
    start = _posixsubprocess.fork_exec

    def fork_exec(*args, **kwargs):
        listen()
        return start(*args, **kwargs)

    # Whoever comes this way says nothing of it.
    _posixsubprocess.fork_exec = fork_exec
    sys.addaudithook(lambda event, _: listen() if event in STARTS else None)


def listen():
    """By the two modules below `socket` and `threading`, whose classes would have to be made first."""
    if LISTENER or not MEASURER:
        return
    import _socket, _thread

    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    LISTENER.append(listener)
    listener.bind("\0" + os.environ[ADDRESS])
    listener.listen(8)

    def take():
        while True:
            number, _ = listener._accept()
            _thread.start_new_thread(connect, (MEASURER[0], Line(_socket.socket(fileno=number))))

    _thread.start_new_thread(take, ())


def connect(peer, line):
    """Carries questions of another process, one at a time with our own."""
    line.write("names", peer.found)
    while True:
        question = line.read()
        if question is None:
            return
        with peer.lock:
            if peer.broken:
                line.write("gone")
                return
            peer.send(*question)
            while True:
                answer = peer.channel.read()
                if answer is None:
                    os._exit(1)
                line.write(*answer)
                if answer[0] != "do":
                    break
                reply = line.read()
                if reply is None:
                    peer.broken = "a process that called it is gone"
                    return
                peer.send(*reply)


def load_directly(path):
    """Has modules at `path` filled from what stands for the program, as its file would do it. Most evaluators load it by
    name: reading, checking and decoding the file would take longer than many a program."""
    import importlib.machinery, importlib.util

    class Loader(importlib.machinery.SourceFileLoader):
        def is_package(self, name):
            return False

        def exec_module(self, module):
            stand_in(module.__dict__)

    real = importlib.util.spec_from_file_location

    def spec_from_file_location(name, location=None, **options):
        if location == path and not options:
            options["loader"] = Loader(name, path)
        return real(name, location, **options)

    importlib.util.spec_from_file_location = spec_from_file_location


class EvaluationResult:
    """Numbers, and texts about them, in the form that evaluators of OpenEvolve return."""

    def __init__(self, metrics, artifacts=None):
        self.metrics, self.artifacts = metrics, artifacts if artifacts is not None else {}

    @classmethod
    def from_dict(cls, metrics):
        return cls(metrics)

    def to_dict(self):
        return self.metrics


def load_evaluator(path, functions):
    """The evaluator as a module, loaded once; each measurement is a fork. Of the functions one must be there."""
    # What most evaluators need: imported here it is imported once, and not in every fork.
    import importlib.util, threading, _socket, _thread

    await_starts()
    load_directly(STANDS)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        import openevolve.evaluation_result
    except ImportError:
        parent, inner = type(sys)("openevolve"), type(sys)("openevolve.evaluation_result")
        inner.EvaluationResult = parent.EvaluationResult = EvaluationResult
        parent.evaluation_result = inner
        sys.modules.update({"openevolve": parent, "openevolve.evaluation_result": inner})
    own = type(sys)("saggar_judge")
    own.stand_in = stand_in
    sys.modules["saggar_judge"] = own
    sys.path[0] = "/work"
    sys.argv[:] = [path]
    module = type(sys)("evaluator")
    module.__file__ = path
    sys.modules["evaluator"] = module
    with open(path, "rb") as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), vars(module))
    functions = functions or ["evaluate"]
    if not any(callable(getattr(module, name, None)) for name in functions):
        raise LookupError(f"it does not define {' or '.join(functions)}(program_path)")
    return module


def judge_evaluator(channel, module, secret, forgets, functions):
    """Measures programs, each in a process of its own unless the evaluator forgets them by itself."""
    path, folder = STANDS, os.path.dirname(STANDS)
    os.mkdir(folder)
    with open(path, "w", encoding="utf-8") as file:
        file.write(STAND_IN)
    rehearse_loading(path)

    def work(order):
        source, place = order["source"], path
        if source is not None:
            # Not Python: the evaluator has to run it itself, and the result says so.
            place = f"{folder}/program.{order['suffix']}"
            for name, text in {place: source, **order["files"]}.items():
                name = os.path.join(folder, name)
                os.makedirs(os.path.dirname(name), exist_ok=True)
                with open(name, "w", encoding="utf-8") as file:
                    file.write(text)
        peer = Measurer(channel, order["names"])
        peer.shared = source is not None
        MEASURER.append(peer)
        try:
            return (*measure(module, place, functions, order["thresholds"]), peer.shared)
        except BaseException as error:
            return failed(error, peer)
        finally:
            # It is not the next one's to carry.
            peer.found = None
            MEASURER.clear()

    serve(channel, work, secret=secret, stays=forgets)


def rehearse_loading(path):
    """Loads what stands for a program as most evaluators do: each fork finds it compiled, and the way there adapted."""
    import gc, importlib.util

    sys.dont_write_bytecode = False
    for _ in range(10):
        MEASURER.append(Measurer(None, {"f": (..., "mine", 0, None, "f")}))
        spec = importlib.util.spec_from_file_location("program", path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        MEASURER.clear()
        sys.dont_write_bytecode = True
    gc.collect()
    gc.freeze()


def measure(module, path, functions, thresholds):
    """Numbers and texts: of the first function that is there, or stage by stage as long as the program is worth it."""
    names = [name for name in functions or ["evaluate"] if hasattr(module, name)][:1]
    if not functions and thresholds is not None and hasattr(module, "evaluate_stage1"):
        names = [name for name in ("evaluate_stage1", "evaluate_stage2", "evaluate_stage3") if hasattr(module, name)]
    numbers, texts = {}, {}
    for index, name in enumerate(names):
        result = getattr(module, name)(path)
        if type(result).__name__ == "coroutine":
            import asyncio

            result = asyncio.run(result)
        told, more = told_by(result)
        numbers.update(told)
        texts.update(more)
        if index < len(thresholds or ()) and not overall(told) >= thresholds[index]:
            break
    return "measured", numbers, texts


def told_by(result):
    numbers, texts = {}, {}
    metrics = getattr(result, "metrics", result)
    if not isinstance(metrics, dict):
        raise TypeError(f"evaluate returned {name_of(type(result))}, not a dictionary of numbers")
    for name, value in metrics.items():
        try:
            if isinstance(value, str):
                raise ValueError
            numbers[str(name)[:200]] = float(value)
        except (TypeError, ValueError):
            texts[str(name)[:200]] = str(value)[:4000]
    for name, value in dict(getattr(result, "artifacts", None) or {}).items():
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        texts[str(name)[:200]] = text[:4000]
    return numbers, texts


def overall(numbers):
    if "combined_score" in numbers:
        return numbers["combined_score"]
    return sum(numbers.values()) / len(numbers) if numbers else 0.0


