

class Bash:
    """A shell that stays, in a process of its own: variables, functions and the folder of one cell are there for the next.

    It reads where each cell lies, and says how it ended; what cells write goes where it would go from Python.
    """

    flavour = "bash"
    count = 0
    shell = None

    def begin(self):
        orders, answers = os.pipe(), os.pipe()
        for fd in (orders[1], answers[0]):
            os.set_inheritable(fd, False)
        # Numbers that no script of a user's is likely to use.
        move = lambda fd, to: (os.dup2(fd, to), os.close(fd))
        move(orders[0], 61)
        move(answers[1], 62)
        program = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        loop = 'while IFS= read -r -u 61 __cell; do . "$__cell" 61<&- 62>&-; printf "%s\\n" "$?" >&62; done'
        self.shell = subprocess.Popen(
            [program, "-c", loop], pass_fds=(61, 62), preexec_fn=self.child, cwd=os.getcwd(), stdin=subprocess.DEVNULL
        )
        os.close(61)
        os.close(62)
        self.orders, self.answers = orders[1], os.fdopen(answers[0])

    @staticmethod
    def child():
        os.setpgrp()
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def run(self, code):
        self.count += 1
        if self.shell is None or self.shell.poll() is not None:
            self.begin()
        before = "".join(assigned(name, value) for name, value in CELL.env.items())
        after = "".join(assigned(name, value) for name, value in CELL.before.items())
        path = f"/tmp/.saggar-cell-{PID}"
        with open(path, "w") as cell:
            # A cell that says `return` or fails still gives back what it was lent.
            cell.write(f"{before}. {path}.sh\n__status=$?\n{after}return $__status\n")
        with open(f"{path}.sh", "w") as cell:
            cell.write(code + "\n")
        os.write(self.orders, f"{path}\n".encode())
        try:
            answer = self.answers.readline()
        except KeyboardInterrupt:
            self.end()
            raise
        if not answer:
            # It has left.
            code = self.shell.wait()
            self.end()
            raise SystemExit(code if code >= 0 else 128 - code)
        status = int(answer)
        if status:
            raise Failed(status)

    def end(self):
        for act in (lambda: os.killpg(self.shell.pid, signal.SIGKILL), self.answers.close, lambda: os.close(self.orders)):
            try:
                act()
            except OSError:
                pass
        self.shell.wait()
        self.shell = None

    def report(self, error, trace):
        return str(error)


class Failed(Exception):
    """A cell whose last command failed."""

    def __init__(self, status):
        super().__init__(f"exit status {status}")


def assigned(name, value):
    """A variable as a shell takes it; other names it cannot have."""
    if not (name.isascii() and name.isidentifier()):
        return ""
    return f"unset {name}\n" if value is None else f"export {name}={quoted(value)}\n"


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"
