

# Names that mean something only where IPython is, or reach names that do.
OF_IPYTHON = set("get_ipython display In Out exit quit exec eval compile globals locals vars dir".split())
# Modules by which a program could come upon it, or upon what it has done.
NEAR_IPYTHON = {"__future__", "builtins", "code", "codeop", "importlib", "pdb", "runpy"}
# What it changes in `sys`.
OF_SYS = {"displayhook", "excepthook", "last_traceback", "last_type", "last_value", "ps1", "ps2", "ps3"}
# Values that IPython shows as Python does.
SIMPLE = (bool, int, float, str)


class Early:
    """Stands for IPython until it is imported, which takes three times as long as all else before the first cell: one that
    comes before anybody had time for that, and knows nothing of IPython, is run by Python alone. IPython then finds what it
    left, as if it had run it."""

    flavour = "ipython"

    def __init__(self):
        self.module = sys.modules["__main__"] = type(sys)("__main__")
        self.number, self.code, self.value, self.kernel = 0, "", None, None

    @property
    def count(self):
        return self.number if self.kernel is None else self.kernel.count

    def run(self, code):
        tree = alone(code)
        if tree is None:
            return self.whole().run(code)
        self.number, self.code, CELL.file = 1, code, "<cell 1>"
        linecache.cache[CELL.file] = (len(code), None, code.splitlines(True), CELL.file)
        value_of(tree, code)
        names = self.module.__dict__
        try:
            with Elsewhere():
                exec(compile(tree, CELL.file, "exec", dont_inherit=True), names)
        finally:
            self.value = names.pop(VALUE, None)
        if type(self.value) in SIMPLE:
            data = {"text/plain": text_of(self.value), **more_forms(self.value)}
            WIRES.tell({"event": "result", "id": CELL.id, "count": 1, **sendable(data)})
        elif self.value is not None:
            self.whole()

    def report(self, error, trace):
        kernel = self.whole()
        if kernel.flavour == "ipython" and not kernel.trace:
            kernel.showtraceback((type(error), error, trace), tb_offset=0)
        return kernel.report(error, trace)

    def whole(self):
        """What runs all other cells."""
        if self.kernel is None:
            with Quiet():
                self.kernel = loaded(self.module)
            if self.number:
                self.kernel.adopt(self.code, self.value)
            else:
                # What is there before the first cell stays.
                gc.freeze()
            self.value = None
        return self.kernel


def alone(code):
    """The tree of a cell to which IPython makes no difference; None where it might."""
    known = getattr(sys, "stdlib_module_names", frozenset()) - NEAR_IPYTHON
    # It knows better than we whether a semicolon is the last word.
    if not known or ";" in code or "ipython" in code.lower() or "sys.path" in code:
        return None
    try:
        tree = compile(code, "<cell 1>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        # A tree may have what no module may: `await` at the top.
        compile(tree, "<cell 1>", "exec", dont_inherit=True)
        nodes = list(ast.walk(tree))
    except Exception:
        # Not Python, or more than that; it is told, or understood, later.
        return None
    for node in nodes:
        modules = []
        if isinstance(node, ast.Name):
            if node.id in OF_IPYTHON or (node.id.startswith("_") and node.id != "__name__"):
                return None
        elif isinstance(node, ast.Attribute):
            if node.attr in OF_SYS:
                return None
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module if node.module and not node.level else "."]
            if OF_SYS.intersection(alias.name for alias in node.names):
                return None
        for name in [module.partition(".")[0] for module in modules]:
            if name not in known or os.path.exists(f"{name}.py") or os.path.exists(name):
                return None
    return tree


class Elsewhere:
    """For as long as it lasts, no module of the user's is in the way of Python's own: with IPython, most of those are there
    before the first cell."""

    def __enter__(self):
        self.at = sys.path.index("") if "" in sys.path else None
        if self.at is not None:
            del sys.path[self.at]

    def __exit__(self, *error):
        if self.at is not None:
            sys.path.insert(self.at, "")


def loaded(module):
    """IPython's shell for the names of `module`, or without one Python's own."""
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        with Elsewhere():
            import_ahead()
            return rich(module)
    except Exception as error:
        sys.stderr.write(f"IPython is installed and cannot be used, so this is plain Python: {error}\n")
        return Plain(module)
    finally:
        if was_collecting:
            gc.enable()
