HOME = "/tmp/home"


class Channel:
    """The conversation with the judge, on descriptors that the program does not expect."""

    def __init__(self, reads=0, writes=1):
        self.reads = dup2(reads, 200, inheritable=False)
        self.writes = dup2(writes, 201, inheritable=False)
        null = opened("/dev/null", O_RDWR)
        dup2(null, reads)
        close(null)
        # What the program prints is its own affair.
        dup2(2, writes)

    def read(self):
        """The next frame; None at the end."""
        head = self.exactly(4)
        if head is None:
            return None
        return loads(self.exactly(int.from_bytes(head, "little")))

    def exactly(self, count):
        whole = read(self.reads, min(count, 1 << 20))
        # Nearly always it is there in one piece.
        if len(whole) == count:
            return whole
        parts = [whole]
        while parts[-1] and count > len(parts[-1]):
            count -= len(parts[-1])
            parts.append(read(self.reads, min(count, 1 << 20)))
        return b"".join(parts) if parts[-1] else None

    def write(self, *words):
        self.put(dumps(words, 2))

    def put(self, *bodies):
        """Frames in one go: whoever listens is woken once."""
        put_all(self.writes, b"".join([len(body).to_bytes(4, "little") + body for body in bodies]))

    def close(self):
        close(self.reads)
        close(self.writes)


def put_all(descriptor, data):
    written = write(descriptor, data)
    if written < len(data):
        view = memoryview(data)[written:]
        while view:
            view = view[write(descriptor, view) :]


def make_home():
    """A place of its own: what is found at home was not put there as a temporary file."""
    try:
        mkdir(HOME)
    except FileExistsError:
        pass


def content_of(path):
    """Without what `open` makes and asks on the way."""
    file = opened(path, O_RDONLY)
    parts = [read(file, PART)]
    # Less than was asked for is the end of a file.
    while len(parts[-1]) == PART:
        parts.append(read(file, PART))
    close(file)
    return b"".join(parts)


PART = 1 << 13


class Program:
    """The code under test, loaded once; each use of it is a fork."""

    def __init__(self, path, setup):
        self.path = path
        self.module = type(sys)("solution")
        self.names = self.module.__dict__
        self.names.update(__builtins__=__builtins__, __file__=path)
        sys.modules["solution"] = sys.modules["__main__"] = self.module
        sys.argv[:] = [path]
        sys.path[0] = "/work"
        if setup:
            exec(compile(setup, "<setup>", "exec", dont_inherit=True), self.names)
        exec(compile(content_of(path), path, "exec", dont_inherit=True), self.names)

    def entry(self, words):
        """What `f`, `Class.method` or `Class().method` names."""
        first, *rest = words.split(".")
        thing = self.step(self.names, first)
        for word in rest:
            thing = self.step(thing, word)
        return thing

    def step(self, place, word):
        name = word[:-2] if word.endswith("()") else word
        if place is self.names:
            if name not in place:
                raise LookupError(f"the program has no `{name}`")
            thing = place[name]
        else:
            thing = getattr(place, name)
        return thing() if word.endswith("()") else thing


def call(program, entry, args, kwargs):
    """Runs one case to its answer."""
    try:
        function = program.entry(entry)
    except (LookupError, AttributeError) as error:
        return ("missing", str(error))
    return use(program, function, args, kwargs)


def call_all(program, entry, calls):
    """Runs the calls of one test, until one of them gives no value that is plain data and nothing but that."""
    try:
        function = program.entry(entry)
    except (LookupError, AttributeError) as error:
        return ("missing", str(error))
    answers = []
    for args, kwargs in calls:
        answers.append(use(program, function, args, kwargs, refuse))
        if answers[-1][0] != "value":
            break
    return ("answers", answers)


def refuse(value):
    raise Unsupported(f"a value of type {name_of(type(value))}")


def use(program, function, args, kwargs, other=None):
    try:
        value = function(*decode(args), **decode(kwargs))
        if type(value).__name__ == "coroutine":
            import asyncio

            value = asyncio.run(value)
    except SystemExit as leaving:
        return ("left", str(leaving.code)[:200])
    except BaseException as error:
        return ("raised", *describe(error, program.path))
    kinds = [name_of(kind) for kind in type(value).__mro__[:-1]]
    try:
        return ("value", encode(value, other), kinds)
    except Unsupported as error:
        return ("unsupported", str(error))
    except RecursionError:
        return ("unsupported", "a value nested too deeply")
    except Exception as error:
        return ("unsupported", f"a value that cannot be read: {name_of(type(error))}")


def packed(answer):
    body = dumps(answer, 2)
    if len(body) > MOST_BYTES:
        body = marshal.dumps(("unsupported", f"a value of more than {MOST_BYTES >> 20} MiB"), 2)
    return body


# What a process asked for and did not wait for: whoever reads next would take the answer for its own.
UNREAD = []


class Child:
    """One use of the program, in a process of its own, which begins with `wake`."""

    def __init__(self, wake, work):
        reads, writes = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(reads)
                os.setsid()
                wake()
                put_all(writes, packed(work()))
                status = len(UNREAD[:1])
            finally:
                os._exit(status)
        os.close(writes)
        self.answer = reads

    def wait(self, seconds):
        """Its answer and how it ended; killed when its time is up."""
        deadline = time.monotonic() + seconds
        parts, size = [], 0
        late = False
        ended = pidfd(self.pid)
        poll = select.poll()
        poll.register(self.answer, select.POLLIN)
        if ended is not None:
            poll.register(ended, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                late = True
                break
            ready = poll.poll(min(left * 1000 + 1, 5.0 if ended is None else 1e6))
            dead = any(number == ended for number, _ in ready) if ended is not None else has_ended(self.pid)
            if dead:
                os.set_blocking(self.answer, False)
            at_end = False
            while True:
                try:
                    part = os.read(self.answer, 1 << 20) if dead or ready else b""
                except BlockingIOError:
                    break
                if not part:
                    at_end = bool(ready)
                    break
                parts.append(part)
                size += len(part)
                if size > MOST_BYTES + 64 or not dead:
                    break
            if dead or size > MOST_BYTES + 64:
                break
            if at_end:
                poll.unregister(self.answer)
        os.close(self.answer)
        if ended is not None:
            os.close(ended)
        kill(self.pid)
        sweep()
        _, status, usage = os.wait4(self.pid, 0)
        reap()
        return b"".join(parts), late, status, usage.ru_utime + usage.ru_stime


def pidfd(pid):
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def has_ended(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def sweep():
    """Nothing that a case started outlives it."""
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        pass


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


FOLDERS = ("/work", "/tmp", "/dev/shm")


def traces():
    """What the writable folders hold, and when each of it was last changed."""
    found = {}
    folders = list(FOLDERS)
    while folders and len(found) < 1000:
        folder = folders.pop()
        try:
            here = os.stat(folder)
            found[folder] = here.st_ctime_ns
            with os.scandir(folder) as entries:
                for entry in entries:
                    about = entry.stat(follow_symlinks=False)
                    found[entry.path] = (about.st_ino, about.st_ctime_ns)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            pass
    return found


def judge_cases(channel, program, entry):
    """One fork for each case, until the judge has no more or a case has left traces."""

    def work(*words):
        if len(words) == 1:
            return call_all(program, entry, *words)
        return call(program, entry, *words)

    serve(channel, work, channel.close)


def serve(channel, work, before=lambda: None, secret=None, stays=False):
    """Forks for each order but the last, after which nothing is needed of this process; for none where it stays as it is."""
    clean, wake = None, nothing
    while True:
        order = channel.read()
        if order is None:
            return
        if secret is not None:
            # What tested code says comes the same way, for a process that reads it, or has ended before.
            if type(order) is not tuple or order[:1] != (secret,):
                os._exit(1)
            order = order[1:]
        number, seconds, last, *words = order
        if last or stays:
            wake()
            answer = packed(work(*words))
            ended = ("ended", number, False, len(UNREAD[:1]), 0.0, last)
            channel.put(dumps(("answer", number), 2), answer, dumps(ended, 2))
            if last:
                return
            # What one has said is let go of before the next is heard.
            order = words = answer = None
            gc.collect()
            continue
        if clean is None:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            clean, wake = traces(), calm_threading()
        answer, late, status, cpu = Child(wake, lambda: before() or work(*words)).wait(seconds)
        spent = traces() != clean
        told = [marshal.dumps(("answer", number), 2), answer] if not late and answer else []
        channel.put(*told, marshal.dumps(("ended", number, late, status, cpu, spent), 2))
        if spent:
            return


