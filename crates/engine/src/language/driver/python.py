"""Runs a program as `python3 FILE` would, and leaves a record of the exception that ended it.

The program is compiled from its own bytes under its own name: no line is shifted, a coding line and
`from __future__` mean what they say. Called as: python3 THIS RECORD FILE [ARGS...]
"""
import sys


def main():
    _, record, path = sys.argv[:3]
    del sys.argv[:2]
    sys.path[0] = path.rpartition("/")[0]
    import posix

    pid = posix.getpid()
    module = type(sys)("__main__")
    names = module.__dict__
    names.update(__builtins__=__builtins__, __file__=path, __cached__=None, __annotations__={})
    sys.modules["__main__"] = module
    try:
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
            if posix.getpid() == pid:
                leave_record(record, path, error, trace)
        except BaseException:
            pass
        sys.excepthook(type(error), error, trace)
        if isinstance(error, KeyboardInterrupt):
            # As python3 itself does: whoever waits sees the signal.
            import signal

            signal.signal(signal.SIGINT, signal.SIG_DFL)
            posix.kill(pid, signal.SIGINT)
    else:
        return
    raise SystemExit(1)


def leave_record(record, path, error, trace):
    # The program may have modules of the same names as ours; for a moment they are not there.
    folder = sys.path[0]
    paths, modules = sys.path[:], dict(sys.modules)
    sys.path[:] = [entry for entry in paths if entry != folder]
    for name, module in modules.items():
        if str(getattr(module, "__file__", None)).startswith(folder + "/"):
            del sys.modules[name]
    try:
        import json, traceback
    finally:
        sys.path[:] = paths
        sys.modules.update(modules)

    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) and error.filename == path else None
    walk = trace
    while walk is not None:
        if walk.tb_frame.f_code.co_filename == path:
            line = walk.tb_lineno
        walk = walk.tb_next
    try:
        message = str(error)
    except Exception:
        message = "<no text>"
    text = "".join(traceback.format_exception(type(error), error, trace))
    data = {"type": type(error).__name__, "message": message[:8000], "line": line, "traceback": text[-32000:]}
    # The file is there, empty, with room of its own: opened this way it keeps that room on a full disk.
    with open(record, "r+", encoding="utf-8", errors="backslashreplace") as file:
        json.dump(data, file)


main()
