"""Runs a program as `python3 FILE` would, and leaves a record of the exception that ended it.

The program is compiled from its own bytes under its own name: no line is shifted, a coding line and
`from __future__` mean what they say. Called as: python3 THIS RECORD FILE [ARGS...]

As a zygote (python3 THIS --zygote [MODULE or HARNESS...]) it imports the modules, and each of its forks runs one
program. A harness is named by its file.
"""
import sys
from posix import getpid


def main():
    if sys.argv[1] != "--zygote":
        return run()
    modules = [word for word in sys.argv[2:] if "/" not in word]
    compiled = load("beside.py")["compiled_beside"]
    # First of all: nothing takes longer, and another processor has nothing to do yet.
    coming = {path: compiled(path, lambda path=path: open(path, "rb").read()) for path in sys.argv[2:] if "/" in path}
    for path in coming:
        # Now, and not in each worker.
        main_module(path)
    load("python-worker.py")["main"](run, load("python-record.py")["leave_record"], modules, coming, PREPARED)


def load(name):
    """Our other files are read when they are needed: to compile them takes longer than many a program."""
    names = {"__builtins__": __builtins__}
    with open(f"{__file__.rpartition('/')[0]}/{name}", "rb") as file:
        exec(compile(file.read(), name, "exec"), names)
    return names


# Harnesses that a zygote has loaded for its workers, by their files: what each of them calls.
PREPARED = {}


def main_module(path):
    """Makes what `__main__` is from now on."""
    module = sys.modules["__main__"] = type(sys)("__main__")
    module.__dict__.update(__builtins__=__builtins__, __file__=path, __cached__=None, __annotations__={})
    return module


def run(leave_record=None):
    _, record, path = sys.argv[:3]
    del sys.argv[:2]
    pid = getpid()
    try:
        if path in PREPARED:
            PREPARED[path]()
        else:
            sys.path[0] = path.rpartition("/")[0]
            names = main_module(path).__dict__
            with open(path, "rb") as file:
                source = file.read()
            exec(compile(source, path, "exec", dont_inherit=True), names)
    except SystemExit:
        raise
    except BaseException as error:
        # Our own frame is not the program's business.
        trace = error.__traceback__ = error.__traceback__.tb_next
        try:
            # A forked child that fails is not the program.
            if getpid() == pid:
                leave_record = leave_record or load("python-record.py")["leave_record"]
                leave_record(record, path, error, trace)
        except BaseException:
            pass
        sys.excepthook(type(error), error, trace)
        if isinstance(error, KeyboardInterrupt):
            # As python3 itself does: whoever waits sees the signal.
            import posix, signal

            signal.signal(signal.SIGINT, signal.SIG_DFL)
            posix.kill(pid, signal.SIGINT)
        # The frames it holds would hold ours, and files in them would be closed in any order.
        del trace
    else:
        return
    raise SystemExit(1)


main()
