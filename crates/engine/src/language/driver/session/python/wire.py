"""A Python interpreter that stays: cells in, events out, one JSON value a line. crates/engine/src/interpreter/mod.rs has
the protocol. It is sent through standard input and has no file of its own: it runs in any image.

The process that runs the user's code has one thread and no reader in it. What is written to descriptors 1 and 2, by
Python, by C or by a child, is read by a second process, the pump, which also passes our own events on. So output is
streamed while code runs that never lets go of the interpreter, and is not lost when the process dies.
"""
OWN_FILE = "<saggar>"
OWN_MODULE = sys.modules["__main__"]  # It stays alive, though its name is given to the user's.
PID = os.getpid()
# The longest event, as JSON; the engine takes no longer line.
MOST = 6 << 20
# How long a line that is not whole may wait for its end, in ms.
REST = 50
# How long the order takes that was waiting for us to be ready, in seconds.
SOON = 0.01
# What may come of a traceback.
MOST_TRACE = 128 << 10


class Wires:
    """The descriptors that are ours, out of the user's way."""

    def __init__(self):
        keep = lambda fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)
        self.commands, answers = keep(0), keep(1)
        out, err, events, heard = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        self.between = os.fork()
        if self.between == 0:
            # Twice, so that it is no child of the user's: nobody waits for it by mistake.
            if os.fork() == 0:
                for fd in (0, 1, self.commands, out[1], err[1], events[1], heard[0]):
                    os.close(fd)
                pump(out[0], err[0], events[0], heard[1], answers)
            os._exit(0)
        self.out, self.err, self.events, self.heard = keep(out[1]), keep(err[1]), keep(events[1]), keep(heard[0])
        for fd in (*out, *err, *events, *heard, answers):
            os.close(fd)
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self.attach()
        self.lock = _thread.allocate_lock()
        self.buffer = b""

    def attach(self):
        """Makes 1 and 2 ours again, whatever a cell has done to them."""
        os.dup2(self.out, 1)
        os.dup2(self.err, 2)
        for name, fd in (("stdout", 1), ("stderr", 2)):
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, "closed", False):
                open_stream(name, fd)

    def tell(self, event):
        """Sends an event, and returns when the pump has it: what is printed afterwards comes after it."""
        if os.getpid() != PID:
            return
        flush()
        line = memoryview(json.dumps(event).encode() + b"\n")
        with Quiet(), self.lock:
            while line:
                line = line[os.write(self.events, line) :]
            if not os.read(self.heard, 1):
                os._exit(1)

    def is_asked(self):
        """Whether an order is there, or is just about to come."""
        return bool(self.buffer or select.select([self.commands], [], [], SOON)[0])

    def command(self):
        """The next line from the engine, or None at the end."""
        while b"\n" not in self.buffer:
            part = os.read(self.commands, 1 << 16)
            if not part:
                return None
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)


def open_stream(name, fd):
    """Written through: what a cell printed is out, however the process ends."""
    raw = io.FileIO(fd, "w", closefd=False)
    stream = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def pump(out, err, events, heard, answers):
    """Passes output and events on, in the order in which they were made, until there are no more events."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    poll, rest = select.poll(), select.poll()
    rest.register(events, select.POLLIN)
    names = {out: "stdout", err: "stderr"}
    decoders = {fd: codecs.getincrementaldecoder("utf-8")("replace") for fd in names}
    for fd in (out, err, events):
        poll.register(fd, select.POLLIN)

    def write(line):
        line = memoryview(line)
        while line:
            line = line[os.write(answers, line) :]

    def relay(fd, patient):
        left = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]
        while left > 0:
            chunk = os.read(fd, min(left, 1 << 16))
            left -= len(chunk)
            rest.register(fd, select.POLLIN)
            # The rest of a line is often on its way, and on a busy machine it takes its time. An event says that it is not,
            # unless both are there: what was written before it comes first.
            while patient and not chunk.endswith(b"\n") and len(chunk) < 1 << 15:
                if fd not in dict(rest.poll(REST)):
                    break
                more = os.read(fd, 1 << 15)
                if not more:
                    break
                chunk += more
            rest.unregister(fd)
            text = decoders[fd].decode(chunk)
            if text:
                write(json.dumps({"event": names[fd], "text": text}).encode() + b"\n")

    line = b""
    while True:
        ready = dict(poll.poll())
        for fd in names:
            if fd in ready and events not in ready:
                relay(fd, True)
                if not ready[fd] & select.POLLIN:
                    # Nobody can write there any more.
                    poll.unregister(fd)
        if events in ready:
            part = os.read(events, 1 << 20)
            line += part
            if line.endswith(b"\n") or not part:
                for fd in names:
                    relay(fd, False)
                write(line)
                line = b""
                if not part:
                    os._exit(0)
                os.write(heard, b".")
