"""Leaves a record of the exception that ended a program."""
import sys


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
