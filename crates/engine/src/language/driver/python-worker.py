"""A zygote: imports the modules that it is told, and each of its forks runs one program."""
import gc, os, sys
# By their own names: what a worker looks up on the way it copies.
from _signal import pause
from posix import _exit as leave, close, fork, listdir, read, readv


def main(run, leave_record, modules, coming, prepared):
    # Held: who lets go of something copies the pages around it.
    wake = prepare(modules, coming, prepared)
    become_worker(wake)
    status = 0
    try:
        run(leave_record)
    except SystemExit as leaving:
        status = status_of(leaving.code)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    end(status, leave)


def prepare(modules, coming, prepared):
    """Makes this process a zygote. Gives what undoes in a worker what was done for the fork.

    Whatever is made on the way is let go of here: in a worker that would copy every page that holds some of it."""
    # Next to nothing that is made here is let go of again: looking for it would take as long as the imports.
    gc.disable()
    usual = set(sys.modules)
    # A program's own modules come first for itself; while we import there is nothing of anybody's in /work.
    sys.path[0] = "/work"
    for module in modules:
        attempt_preload(module, lambda: __import__(module))
    gc.collect()
    gc.freeze()
    # While harnesses are still compiled.
    for _ in range(3):
        warm_up()
    for module, code in coming.items():
        attempt_preload(module, lambda: prepared.update({module: harness(module, code())}))
        sys.path[0] = module.rpartition("/")[0]
    gc.enable()
    for module in set(sys.modules) - usual:
        EARLY.setdefault(module.partition(".")[0], []).append(module)
    KNOWN.update(id(module) for module in sys.modules.values())
    # For the imports alone; a run has its own.
    for name in [name for name in os.environ if name.startswith("LD_") or name.endswith("_NUM_THREADS")]:
        del os.environ[name]
    ENVIRONMENT[:] = [f"{name}={value}" for name, value in sorted(os.environ.items())]
    return calm()


def calm():
    """Spares forks what modules do in each of them, as long as only our own code has run. Gives what each has to call for it."""
    wake_threading, seed = calm_threading(), calm_random()

    def wake():
        wake_threading()
        seed()

    return wake


def calm_random():
    """Every fork has a seed of its own, but asks the generator itself for it: `seed` looks at what it might have been given."""
    random = sys.modules.get("random")
    hook = getattr(getattr(random, "Random", None), "seed", None)
    if getattr(getattr(hook, "__code__", None), "co_freevars", None) != ("__class__",):
        return nothing
    shared = random._inst
    seed = super(random.Random, shared).seed
    kept, hook.__code__ = hook.__code__, unseeded().__code__

    def wake():
        hook.__code__ = kept
        seed()
        if shared.gauss_next is not None:
            shared.gauss_next = None

    return wake


def unseeded():
    __class__ = None

    def seed(self, a=None, version=2):
        return None and __class__

    return seed


def become_worker(wake):
    """Returns in a worker that was lent to a run, with that run's arguments and environment."""
    gc.collect()
    fill_gaps()
    gc.freeze()
    # What these two mean here is written in the library that is loaded into this process.
    pause()
    fork()
    wake()
    if read(3, 1) == b"i":
        warm_up()
    pause()
    length = readv(3, BUFFERS)
    close(3)
    count, *words = str(BUFFERS[0][:length], ENCODING, "surrogateescape").split("\0")
    count = int(count)
    ARGUMENTS[1:] = words[:count]
    ORIGINAL[4:] = words[:count]
    del words[:count]
    # Most runs have nothing of their own in it, and every name that is set copies pages.
    if words != ENVIRONMENT:
        change_environment(os.environ, words)
    if "numpy" in MODULES:
        # Its generator was seeded in the zygote.
        MODULES["numpy"].random.seed()
    # A program's own module of that name must be found first, as it would have been.
    for entry in listdir("/work"):
        for name in EARLY.get(entry.partition(".")[0], ()):
            MODULES.pop(name, None)


def attempt_preload(module, step):
    try:
        step()
    except BaseException as error:
        sys.stderr.write(f"cannot preload {module}: {error}\n")


def change_environment(environment, words):
    environment.clear()
    for word in words:
        name, _, value = word.partition("=")
        environment[name] = value
    if "TZ" in environment:
        import time

        time.tzset()


def harness(path, code):
    """Loads a harness and has it rehearse its part. Gives what a worker calls."""
    names = {"__builtins__": __builtins__, "__name__": "harness", "__file__": path}
    exec(code, names)
    # More brings a worker nothing: most of what it does is done once.
    for _ in range(3):
        names["rehearse"]()
    return names["main"]


def warm_up():
    """Touches what every program touches, so that these pages are copied while nobody waits."""
    names = {"__builtins__": __builtins__, "__name__": "warm_up"}
    exec(compile(SNIPPET, "/work/main.py", "exec", dont_inherit=True), names)
    names.clear()
    os.environ["HOME"] = os.environ.get("HOME", "")
    gc.collect()


def fill_gaps():
    """Takes the places that are free amid what is there: what a worker makes lies together then, on fewer pages.

    Small things lie in pools, each for one size; one that is the first of its pool says that no other has room. Larger
    ones are the C library's, which takes them from its end when nothing else is free. Some 200 KiB, shared by all."""
    pool = 1 << 14 if sys.version_info >= (3, 10) else 1 << 12
    head = sys.getsizeof(b"")
    for size in range(48, 513, 16):
        for _ in range(2000):
            thing = bytes(size - head)
            FILLING.append(thing)
            if id(thing) % pool == 48:
                break
    end = id(bytes(1 << 16))
    for size in range(1 << 13, 1 << 9, -16):
        for _ in range(100):
            thing = bytes(size - head)
            if id(thing) > end:
                break
            FILLING.append(thing)


# What fills gaps; never let go of.
FILLING = []
# The modules that the zygote imported.
KNOWN = set()
# Those of them that a bare interpreter has not, by their first names. Kept: letting go of it copies pages too.
EARLY = {}
# Where a worker reads its order.
BUFFERS = [bytearray(1 << 18)]
# What a worker has in its environment, as orders have it.
ENVIRONMENT = []
ENCODING = sys.getfilesystemencoding()
# What a worker would look up in `sys`. Python 3.9 has no arguments as they were given.
ARGUMENTS, ORIGINAL, MODULES = sys.argv, getattr(sys, "orig_argv", []), sys.modules

SNIPPET = """
def add(first, *rest, scale=1):
    return sum([number * scale for number in (first, *rest)])
class Thing:
    def __init__(self, name):
        self.name = name
    def __repr__(self):
        return f"<{self.name!r:>9}>"
things = {str(number): Thing(f"thing {number}") for number in range(20)}
try:
    things["missing"]
except KeyError as error:
    text = "%s %s" % (error, sorted(things, key=lambda key: -len(key))[:3])
with open("/dev/null", "w") as file:
    print("hello", add(1, 2.5, scale=3), things, [1, (2, 3)], {4}, None, True, sep=", ", file=file)
"""


def status_of(code):
    """What the interpreter makes of sys.exit(code)."""
    if code is None:
        return 0
    if isinstance(code, int):
        # As C does it: what is too large is -1.
        return (code if -(1 << 63) <= code < 1 << 63 else -1) & 0xFF
    try:
        sys.stderr.write(f"{code}\n")
    except BaseException:
        pass
    return 1


def end(status, leave):
    """What the interpreter does at its end, but for taking itself apart: each page touched by that would be copied."""
    try:
        import atexit

        threading = sys.modules.get("threading")
        if threading is not None:
            attempt(threading._shutdown)
        attempt(atexit._run_exitfuncs)
        attempt(let_go_of_modules)
        attempt(flush_files)
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None)):
            try:
                if stream is not None and not stream.closed:
                    stream.flush()
            except BaseException:
                status = status or 120
    finally:
        leave(status)


def attempt(step):
    try:
        step()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)


def let_go_of_modules():
    """The program's own objects hear of the end, as long as what they know is still there.

    What is in the zygote's memory is not looked at: that would copy it."""
    import gc, _weakref

    folder = sys.path[0] + "/"
    own = ["__main__"]
    for name in reversed(sys.modules):
        module = sys.modules[name]
        if id(module) in KNOWN:
            break
        if str(getattr(module, "__file__", None)).startswith(folder):
            own.append(name)
    alive = []
    for name in own:
        module = sys.modules.pop(name, None)
        if type(module) is type(sys):
            alive.append(_weakref.ref(module))
    module = None
    gc.collect()
    for reference in alive:
        module = reference()
        for name in sorted(vars(module), key=lambda name: not str(name).startswith("_")) if module else ():
            if name != "__builtins__":
                vars(module)[name] = None
    module = None
    gc.collect()


def flush_files():
    """Files that something still holds are written, not lost. Only what came after the fork is looked at."""
    import gc, io

    for thing in gc.get_objects():
        if isinstance(thing, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)) and not thing.closed:
            try:
                thing.flush()
            except BaseException:
                pass
