

# Where the last expression's value is for a moment.
VALUE = "__saggar_value__"
# A flag of code that awaits at the top.
COROUTINE = 0x80


class Plain:
    """Cells as Python's own prompt would take them, with what people expect of a notebook."""

    flavour = "plain"

    def __init__(self, module):
        self.names = module.__dict__
        self.names.update(__builtins__=builtins, __annotations__={})
        self.count = 0
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.module = sys.modules["__main__"] = module
        builtins.display = display
        builtins.__shell__ = self.shell

    def run(self, code):
        """Runs a cell; what it raises is raised."""
        self.count += 1
        name = CELL.file = f"<cell {self.count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = parsed(code, name, self.flags)
        value_of(tree, code)
        try:
            self.execute(compile(tree, name, "exec", flags=self.flags, dont_inherit=True))
        finally:
            value = self.names.pop(VALUE, None)
        if value is not None:
            self.show(value)

    def show(self, value):
        builtins._ = value
        WIRES.tell({"event": "result", "id": CELL.id, "count": self.count, **sendable(bundle_of(value))})

    def adopt(self, code, value):
        self.count = 1
        if value is not None and type(value) not in SIMPLE:
            self.show(value)

    def execute(self, code):
        # A `from __future__` holds for the cells to come.
        for feature in __future__.all_feature_names:
            self.flags |= code.co_flags & getattr(__future__, feature).compiler_flag
        begun = eval(code, self.names)
        if code.co_flags & COROUTINE:
            LOOP.run(begun)

    def shell(self, command):
        self.names["_exit_code"] = shell(command)

    def report(self, error, trace):
        return "".join(traceback.format_exception(type(error), error, trimmed(trace)))


def value_of(tree, code):
    """Gives the last expression's value a name, if it is to be shown. One piece of code, so that all of it runs in the event
    loop where any of it awaits."""
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and not code.rstrip().endswith(";"):
        target = ast.copy_location(ast.Name(VALUE, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)


def parsed(code, name, flags):
    """The cell's tree. Lines of a shell are looked for only where the whole is no Python."""
    flags |= ast.PyCF_ONLY_AST
    try:
        return compile(code, name, "exec", flags=flags, dont_inherit=True)
    except SyntaxError as error:
        first = error
    try:
        # An indented snippet is taken as it was meant.
        other = with_shell(textwrap.dedent(code))
        if other != code:
            return compile(other, name, "exec", flags=flags, dont_inherit=True)
    except SyntaxError as error:
        first = error
    raise first


def with_shell(code):
    """`!command`, `%pip`, `%cd`, and `%%bash` for a whole cell, as calls on the same lines."""
    head, _, body = code.partition("\n")
    if head.strip() in ("%%bash", "%%sh"):
        return f"\n__import__('builtins').__shell__({body!r})"
    lines = []
    for line in code.split("\n"):
        text = line.lstrip()
        word, _, rest = text.partition(" ")
        space = line[: len(line) - len(text)]
        if text.startswith("!"):
            line = f"{space}__import__('builtins').__shell__({text[1:]!r})"
        elif word == "%pip":
            line = f"{space}__import__('builtins').__shell__({sys.executable + ' -m pip ' + rest!r})"
        elif word == "%cd":
            line = f"{space}__import__('os').chdir(__import__('os').path.expanduser({rest.strip() or '~'!r}))"
        elif word == "%matplotlib":
            line = f"{space}pass"
        lines.append(line)
    return "\n".join(lines)


def shell(command):
    """Runs a command of the shell; its output is the cell's. An interrupt ends all of it."""
    flush()
    program = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    child = subprocess.Popen([program, "-c", command], preexec_fn=os.setpgrp)
    try:
        code = child.wait()
        # It may have been an installer.
        see_packages()
        importlib.invalidate_caches()
        return code
    except BaseException:
        for number, patience in ((signal.SIGINT, 1), (signal.SIGKILL, None)):
            try:
                os.killpg(child.pid, number)
                child.wait(patience)
                break
            except (OSError, subprocess.TimeoutExpired):
                pass
        raise


def see_packages():
    """Packages that the user installs for himself are found, also the first ones: their folder may not have been there when
    Python looked for it."""
    folder = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    if folder and folder not in sys.path and os.path.isdir(folder):
        # Before those of everybody, as Python itself has it.
        others = (at for at, path in enumerate(sys.path) if path.endswith("-packages"))
        sys.path.insert(next(others, len(sys.path)), folder)


class Loop:
    """The event loop of top-level `await`; what was started in it goes on while no cell runs."""

    loop = None

    def run(self, coroutine):
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                # Interrupted while it waited: it may tidy up.
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except asyncio.CancelledError:
                    pass
            raise

    def idle(self, descriptor):
        """Returns when there is something to read; until then tasks go on, if there are any."""
        asyncio = sys.modules.get("asyncio")
        if self.loop is None or self.loop.is_closed() or not asyncio.all_tasks(self.loop):
            return
        there = self.loop.create_future()
        self.loop.add_reader(descriptor, lambda: there.done() or there.set_result(None))
        try:
            self.loop.run_until_complete(there)
        finally:
            self.loop.remove_reader(descriptor)


LOOP = Loop()
