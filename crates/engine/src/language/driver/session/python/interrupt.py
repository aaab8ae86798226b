

class Interrupts:
    """What SIGINT means: a KeyboardInterrupt in the user's code, and nothing at other times."""

    busy = False
    quiet = 0
    missed = False
    count = 0

    def begin(self):
        self.count, self.missed, self.busy = 0, False, True
        # A cell may have set a handler of its own.
        signal.signal(signal.SIGINT, self.handle)

    def end(self):
        self.busy = False
        sys.settrace(None)

    def handle(self, number, frame):
        if not self.busy or os.getpid() != PID:
            return
        if self.quiet:
            self.missed = True
            return
        self.count += 1
        if self.count > 1:
            insist(frame)
        raise KeyboardInterrupt


INTERRUPTS = Interrupts()


class Quiet:
    """For as long as it lasts an interrupt waits: an event is written whole."""

    def __enter__(self):
        INTERRUPTS.quiet += 1

    def __exit__(self, *error):
        INTERRUPTS.quiet -= 1
        if INTERRUPTS.missed and not INTERRUPTS.quiet and _thread.get_ident() == MAIN:
            INTERRUPTS.missed = False
            if INTERRUPTS.busy:
                raise KeyboardInterrupt


MAIN = _thread.get_ident()


def insist(frame):
    """From the second interrupt on, code that catches the exception gets it again in its own handler."""

    def again(frame, event, argument):
        if is_ours(frame.f_code.co_filename):
            return None
        if event == "exception":
            caught.append(True)
        elif event == "line" and caught:
            raise KeyboardInterrupt
        return again

    caught = []
    while frame is not None:
        if not is_ours(frame.f_code.co_filename):
            frame.f_trace = again
        frame = frame.f_back
    sys.settrace(again)


def is_ours(name):
    return name == OWN_FILE or "/IPython/" in name


def trimmed(trace):
    """A traceback without our own frames at its two ends."""
    while trace is not None and trace.tb_frame.f_code.co_filename == OWN_FILE:
        trace = trace.tb_next
    last = walk = trace
    while walk is not None:
        if walk.tb_frame.f_code.co_filename != OWN_FILE:
            last = walk
        walk = walk.tb_next
    if last is not None:
        last.tb_next = None
    return trace


class NoInput(io.TextIOBase):
    """Standard input of the user's code."""

    def refuse(self, *_):
        raise EOFError("this interpreter has no standard input: put the value into the code, or read it from a file")

    read = readline = readlines = __next__ = refuse
    encoding = "utf-8"

    def readable(self):
        return True
