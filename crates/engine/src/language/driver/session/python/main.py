

class Cell:
    """What is being run."""

    id = 0
    file = ""
    env = {}
    before = {}


CELL = Cell()


def main():
    global WIRES
    WIRES = Wires()
    signal.signal(signal.SIGINT, INTERRUPTS.handle)
    open_stream("stdout", 1)
    open_stream("stderr", 2)
    sys.stdin = sys.__stdin__ = NoInput()
    sys.argv[:] = [""]
    sys.meta_path.insert(0, Figures)
    kernel = chosen()
    if os.environ.get("E2B_SANDBOX") == "true" and kernel.flavour != "bash":
        as_e2b_shows()
    # A program's own modules are found where it is, from now on.
    sys.path.insert(0, "")
    place = Place()
    os.waitpid(WIRES.between, 0)
    # What is there now stays.
    gc.freeze()
    gc.enable()
    WIRES.tell({"event": "ready", "version": "%d.%d.%d" % sys.version_info[:3], "flavour": kernel.flavour})
    while True:
        if hasattr(kernel, "whole") and (kernel.count or not WIRES.is_asked()):
            kernel = kernel.whole()
        LOOP.idle(WIRES.commands)
        order = WIRES.command()
        if order is None:
            break
        if order.get("op") == "chdir":
            place.restore(order.get("cwd"))
        elif order.get("op") == "adopt":
            os.environ.update(order["env"])
        elif order.get("op") == "execute":
            serve(kernel, order, place)
    # As at the end of any program: what was registered for it is done, and nobody waits for threads.
    flush()
    os._exit(0)


def chosen():
    if "Bash" in globals():
        return Bash()
    try:
        found = importlib.util.find_spec("IPython")
    except (ImportError, ValueError):
        found = None
    if found is None:
        return Plain(type(sys)("__main__"))
    return Early()


class Place:
    """The working directory, by name: the folder behind the name is another one after the disk was swapped."""

    def __init__(self):
        self.path = "/"
        self.note()

    def note(self):
        try:
            self.path = os.getcwd()
        except OSError:
            pass

    def restore(self, path=None):
        try:
            os.chdir(path or self.path)
        except OSError:
            return False
        self.note()
        return True


def serve(kernel, order, place):
    """One cell, from its order to `done`."""
    CELL.id, CELL.file = order["id"], ""
    WIRES.attach()
    wanted = order.get("env") or {}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    CELL.env, CELL.before = wanted, before
    status, code, begun = "ok", 0, os.times()
    try:
        INTERRUPTS.begin()
        try:
            if order.get("cwd"):
                os.chdir(order["cwd"])
            see_packages()
            kernel.run(order["code"])
        finally:
            leave_if_forked()
            INTERRUPTS.end()
    except SystemExit as leaving:
        status, code = "exit", status_of(leaving.code)
    except BaseException as error:
        INTERRUPTS.end()
        status, code = "interrupted" if isinstance(error, KeyboardInterrupt) else "error", 1
        tell_error(kernel, error)
    try:
        show_figures()
    except Exception as error:
        tell_error(kernel, error)
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    place.note()
    done = {"event": "done", "id": CELL.id, "status": status, "code": code, "count": kernel.count}
    WIRES.tell({**done, "cpu_ms": 1000 * (sum(os.times()[:4]) - sum(begun[:4]))})


def leave_if_forked():
    """A child that the cell forked and that came out of it is no interpreter."""
    if os.getpid() != PID:
        flush()
        os._exit(0)


def status_of(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def tell_error(kernel, error):
    trace = error.__traceback__
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == CELL.file else None
    walk = trace
    while walk is not None:
        if walk.tb_frame.f_code.co_filename == CELL.file:
            line = walk.tb_lineno
        walk = walk.tb_next
    try:
        value = str(error)
    except Exception:
        value = "<no text>"
    try:
        text = kernel.report(error, trace)
    except Exception as other:
        text = f"<no traceback: {type(other).__name__}>"
    WIRES.tell(
        {
            "event": "error",
            "id": CELL.id,
            "name": type(error).__name__,
            "value": value if len(json.dumps(value)) < MOST // 2 else shortened(value, MOST // 32),
            "traceback": shortened(text, MOST_TRACE),
            "line": line,
        }
    )


main()
