

def rich(module):
    """IPython's own shell, where it is installed: its magics, its tracebacks, its display."""
    from IPython.core.compilerop import CachingCompiler
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Publisher(DisplayPublisher):
        def publish(self, data, *_, **__):
            WIRES.tell({"event": "display", "id": CELL.id, **sendable(data)})

        def clear_output(self, wait=False):
            pass

    class Hook(DisplayHook):
        def write_output_prompt(self):
            pass

        def write_format_data(self, data, metadata=None):
            WIRES.tell({"event": "result", "id": CELL.id, "count": self.prompt_count, **sendable(data)})

    class Names(CachingCompiler):
        def get_code_name(self, raw_code, transformed_code, number):
            CELL.file = f"<cell {number}>"
            return CELL.file

    class Shell(InteractiveShell):
        displayhook_class = Hook
        display_pub_class = Publisher
        compiler_class = Names
        flavour = "ipython"
        trace = ""
        has_begun = False

        def _get_exc_info(self, *known):
            kind, error, trace = super()._get_exc_info(*known)
            return kind, error, trimmed(trace)

        def _showtraceback(self, kind, error, lines):
            self.trace = "\n".join(lines)

        def system_piped(self, command):
            # Names in braces and after a dollar are the user's variables, as everywhere in IPython.
            self.user_ns["_exit_code"] = shell(self.var_expand(command, depth=1))

        system = system_piped

        def init_completer(self):
            """Nobody types here: it is made for who asks for it."""

        @property
        def configurables(self):
            # `%config` knows it too.
            if self.has_begun:
                self.Completer
            return self.__dict__["configurables"]

        @configurables.setter
        def configurables(self, parts):
            self.__dict__["configurables"] = parts

        @property
        def Completer(self):
            if "Completer" not in self.__dict__:
                self.has_begun = False
                super().init_completer()
                self.has_begun = True
            return self.__dict__["Completer"]

        @Completer.setter
        def Completer(self, completer):
            self.__dict__["Completer"] = completer

        def enable_gui(self, gui=None):
            pass

        def ask_exit(self):
            raise SystemExit(0)

        @property
        def count(self):
            # It counts as soon as a cell is over.
            return self.execution_count - 1

        def run(self, code):
            self.trace = ""
            ended = self.run_cell(code, store_history=True)
            error = ended.error_before_exec or ended.error_in_exec
            if error is not None:
                raise error

        def adopt(self, code, value):
            """Takes a cell for its first that was run before it was there."""
            self.compile.cache(code, 1, code)
            self.history_manager.store_inputs(1, code, code)
            # Counted before it is run or after, by its version.
            self.execution_count += 1 - self.displayhook.prompt_count
            if type(value) in SIMPLE:
                # Shown already.
                self.displayhook.update_user_ns(value)
            elif value is not None:
                self.displayhook(value)
            self.execution_count = 2

        def report(self, error, trace):
            return self.trace or "".join(traceback.format_exception(type(error), error, trace))

    # Whoever says sys.exit() ends a cell, and needs no advice.
    warnings.filterwarnings("ignore", message="To exit: use", module="IPython")
    config = Config()
    # No thread and no file: what was typed is kept in memory.
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.ast_node_interactivity = "last_expr"
    folder = os.environ.get("IPYTHONDIR") or "/tmp/.ipython"
    try:
        shell_ = Shell.instance(config=config, ipython_dir=folder, user_module=module)
    except Exception:
        config.InteractiveShell.colors = "nocolor"
        Shell.clear_instance()
        shell_ = Shell.instance(config=config, ipython_dir=folder, user_module=module)
    shell_.has_begun = True
    shell_.loop_runner = LOOP.run
    formatter = shell_.display_formatter
    own = formatter.format

    def with_more(value, *arguments, **options):
        more = more_forms(value)
        data, metadata = own(value, *arguments, **options)
        return {**data, **more} if data else data, metadata

    formatter.format = with_more
    shell_.display_formatter.formatters["image/png"].for_type_by_name(
        "matplotlib.figure", "Figure", lambda figure: picture(figure).get("image/png")
    )
    return shell_
