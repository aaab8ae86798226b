# Methods that Python calls by itself, and that work the same over a wire.
COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
METHODS = (
    "__len__ __getitem__ __setitem__ __delitem__ __contains__ __iter__ __next__ __reversed__ __call__ __bool__ __str__ "
    "__repr__ __format__ __hash__ __int__ __float__ __complex__ __index__ __round__ __abs__ __neg__ __pos__ __invert__ "
    "__enter__ __exit__ __add__ __radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ "
    "__rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __divmod__ __pow__ __rpow__ __matmul__ __rmatmul__ "
    "__and__ __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rshift__ __await__"
).split()


class Gone(BaseException):
    """The other side will not answer any more."""


class NeedsSharing(BaseException):
    """A test that only the tested code's own process can serve."""


# Who looks at everything that a file has, needed or not: it is told that there are no such insides.
LOOKING = set()
# What can be had of a function only where it lives.
INSIDES = ("__code__", "__globals__", "__closure__", "__wrapped__", "__func__", "__self__", "__dict__", "__mro__")


class Proxy:
    """Something that lives on the other side."""

    __slots__ = ("_peer", "_number")

    def __init__(self, peer, number):
        object.__setattr__(self, "_peer", peer)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name):
        if name in INSIDES:
            if LOOKING:
                raise AttributeError(name)
            raise NeedsSharing(f"the test reads {name}")
        return self._peer.get(self, name)

    def __setattr__(self, name, value):
        self._peer.ask(self._number, "set", name, value)

    def __delattr__(self, name):
        self._peer.ask(self._number, "delete", name)

    def __dir__(self):
        return []

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self._peer.ask(self._number, "copy")

    def __reduce_ex__(self, protocol):
        raise Unsupported("an object of the tested program cannot be pickled")


class Function(Proxy):
    """A function of the other side."""

    __slots__ = ("__name__", "__qualname__")

    def __call__(self, *args, **kwargs):
        return self._peer.ask(self._number, "call", *args, **kwargs)

    def __get__(self, instance, owner=None):
        return self


class ClassProxy(type):
    """A class of the other side; its instances here are proxies."""

    def __new__(mcs, name, bases, body):
        if "_class_number" not in body:
            raise NeedsSharing(f"the test derives {name} from a tested class")
        return super().__new__(mcs, name, bases, body)

    def __setattr__(cls, name, value):
        raise NeedsSharing("the test changes a tested class")

    def __call__(cls, *args, **kwargs):
        return cls._class_peer.ask(cls._class_number, "call", *args, **kwargs)

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls._class_peer.ask(cls._class_number, "get", name)


def forwarded(name):
    def method(self, *args, **kwargs):
        return self._peer.method(self, name, args, kwargs)

    method.__name__ = name
    return method


def compared(name):
    def method(self, other):
        return self._peer.compare(self, name, other)

    method.__name__ = name
    return method


class Peer:
    """One end of a conversation about objects: plain data is copied, everything else stays and is asked."""

    def __init__(self, channel, path):
        self.channel, self.path = channel, path
        self.things, self.numbers, self.classes = [], {}, {}
        self.words = {"mine": self.remote, "yours": self.local, "class": self.remote_class}

    def number(self, thing):
        known = self.numbers.get(id(thing))
        if known is None:
            known = self.numbers[id(thing)] = len(self.things)
            self.things.append(thing)
        return known

    def export(self, value):
        kind = type(value)
        if issubclass(kind, Proxy):
            return (..., "yours", value._number)
        if kind is ClassProxy:
            return (..., "yours", value._class_number)
        if isinstance(value, type):
            return (..., "class", self.class_words(value))
        if kind.__name__ in ("function", "builtin_function_or_method", "method"):
            return (..., "mine", self.number(value), None, name_of(value))
        return (..., "mine", self.number(value), self.class_words(kind), "")

    def class_words(self, kind):
        base = ""
        if issubclass(kind, BaseException):
            base = next(b.__name__ for b in kind.__mro__ if b.__module__ == "builtins")
        own = set()
        for part in kind.__mro__[:-1]:
            own.update(vars(part))
        methods = tuple(name for name in (*METHODS, *COMPARISONS) if name in own and getattr(kind, name, None))
        return (self.number(kind), name_of(kind), methods, base)

    def remote(self, number, class_words, name):
        if class_words is not None:
            kind = self.remote_class(class_words)
            if issubclass(kind, BaseException):
                # What a `with` block tells of. It is one of its kind, and nothing is asked of it.
                return kind.__new__(kind)
            proxy = object.__new__(kind)
            Proxy.__init__(proxy, self, number)
            return proxy
        function = Function(self, number)
        object.__setattr__(function, "__name__", name)
        object.__setattr__(function, "__qualname__", name)
        return function

    def remote_class(self, words):
        number, name, methods, base = words
        known = self.classes.get(number)
        if known is None:
            import builtins

            above = getattr(builtins, base, None) if base else None
            if isinstance(above, type) and issubclass(above, BaseException) and name == base:
                known = above
            elif isinstance(above, type) and issubclass(above, BaseException):
                known = type(name, (above,), {"_class_number": number})
            else:
                body = {"_class_peer": self, "_class_number": number, "__slots__": (), "__hash__": Proxy.__hash__}
                for method in METHODS:
                    if method in methods:
                        body[method] = forwarded(method)
                if "__contains__" in methods:
                    body["__contains__"] = lambda proxy, item: self.contains(proxy, item)
                for method in COMPARISONS:
                    body[method] = compared(method)
                known = ClassProxy(name, (Proxy,), body)
            self.classes[number] = known
        return known

    def local(self, number):
        return self.things[number]

    def compare(self, proxy, name, other):
        return self.ask(proxy._number, "method", name, other)

    def contains(self, proxy, item):
        return self.ask(proxy._number, "method", "__contains__", item)

    def method(self, proxy, name, args, kwargs):
        return self.ask(proxy._number, "method", name, *args, **kwargs)

    def get(self, proxy, name):
        return self.ask(proxy._number, "get", name)

    def ask(self, number, word, *args, **kwargs):
        """Has the other side do something, and does for it what it asks meanwhile."""
        packed = encode(list(args), self.export), encode(kwargs, self.export)
        self.send("do", number, word, *packed)
        while True:
            answer = self.channel.read()
            if answer is None:
                raise Gone("the judge is gone")
            kind, *rest = answer
            if kind == "do":
                self.do(*rest)
            elif kind == "ok":
                value, changes = rest
                self.change(args, changes)
                return decode(value, self.words)
            elif kind == "raised":
                raise self.exception(*rest)
            else:
                raise Gone(kind)

    def send(self, *words):
        body = marshal.dumps(words, 2)
        if len(body) > MOST_BYTES:
            raise Unsupported(f"a value of more than {MOST_BYTES >> 20} MiB")
        self.channel.put(body)

    def do(self, number, word, args, kwargs):
        """Does what the other side asks, and tells it what came of it."""
        try:
            before = [marshal.dumps(arg, 2) if type(arg) in (list, dict, set) else None for arg in args]
            args, kwargs = decode(args, self.words), decode(kwargs, self.words)
            thing = self.things[number]
            self.check(thing, word, args)
            value = self.perform(thing, word, args, kwargs)
            changes = []
            for index, (old, arg) in enumerate(zip(before, args)):
                if old is not None:
                    new = encode(arg, self.export)
                    if marshal.dumps(new, 2) != old:
                        changes.append((index, new))
            self.send("ok", encode(value, self.export), changes)
        except Gone:
            raise
        except SystemExit as leaving:
            self.send("left", str(leaving.code)[:200])
        except Unsupported as error:
            self.send("unsupported", str(error))
        except BaseException as error:
            kinds, message, line = describe(error, self.path)
            try:
                words = encode(tuple(error.args), self.export)
                marshal.dumps(words, 2)
            except BaseException:
                words = (message,)
            own = self.export(type(error)) if type(error).__module__ == self.own_module else None
            self.send("raised", kinds, message, line, words, own)

    own_module = "solution"

    def check(self, thing, word, args):
        pass

    def perform(self, thing, word, args, kwargs):
        if word == "call":
            value = thing(*args, **kwargs)
            if type(value).__name__ == "coroutine":
                import asyncio

                value = asyncio.run(value)
            return value
        if word == "method":
            name, *rest = args
            if name in COMPARISONS:
                import operator

                return getattr(operator, name)(thing, *rest)
            return getattr(type(thing), name)(thing, *rest, **kwargs)
        if word == "get":
            return getattr(thing, *args)
        if word == "set":
            return setattr(thing, *args)
        if word == "delete":
            return delattr(thing, *args)
        return __import__("copy").deepcopy(thing)

    def change(self, args, changes):
        """What was given as a copy is now as the other side left it."""
        for index, value in changes:
            if index < len(args):
                old, new = args[index], decode(value, self.words)
                if type(old) is list and type(new) is list:
                    old[:] = new
                elif type(old) in (dict, set) and type(new) is type(old):
                    old.clear()
                    old.update(new)

    def exception(self, kinds, message, line, words, own):
        kind = self.remote_class(own[2]) if own is not None else self.known_exception(kinds)
        error = kind.__new__(kind)
        words = decode(words, self.words)
        error.args = words if type(words) is tuple else (message,)
        error.from_tested_code = (kinds[0], message, line)
        return error

    def known_exception(self, kinds):
        import builtins

        for name in kinds:
            module, _, short = name.rpartition(".")
            if module == "builtins":
                kind = getattr(builtins, short, None)
            elif module in COMMON:
                kind = getattr(__import__(module, fromlist=["x"]), short, None)
            else:
                continue
            if isinstance(kind, type) and issubclass(kind, Exception):
                return kind
        return RuntimeError


# Modules whose names a program may share with its tests.
COMMON = set(
    "abc bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq itertools json "
    "json.decoder math numbers operator random re statistics string typing numpy pandas".split()
)


# Data of a program that tests read by name is copied, up to this.
MOST_NAMES = 4 << 20


def names_of(peer, program, shares=True):
    """What tests may call by name, as words for the other side. Which of it they do is not known here. Whether the other side
    shares the standard library's names with it is."""
    found, room = {}, MOST_NAMES
    for name, value in list(program.names.items()):
        if type(name) is not str or name.startswith("__"):
            continue
        try:
            words = (shares and common(name, value)) or encode(value, peer.export)
            room -= len(marshal.dumps(words, 2))
        except (Unsupported, RecursionError, ValueError):
            words = (..., "mine", peer.number(value), peer.class_words(type(value)), "")
        if room > 0:
            found[name] = words
    return found


def common(name, value):
    """A part of the standard library under its own name is the same on both sides."""
    if type(value) is type(sys):
        if value.__name__ in COMMON:
            return (..., "module", value.__name__)
    elif callable(value) or getattr(value, "__module__", "") == "typing":
        module = getattr(value, "__module__", "")
        if module in COMMON and getattr(sys.modules.get(module), name, None) is value:
            return (..., "import", module, name)
    return None


def judge_candidate(channel, program, entry, shares=True):
    """Answers for the program what tests ask elsewhere."""
    peer = Peer(channel, program.path)
    names = names_of(peer, program, shares)
    missing = None
    if entry:
        try:
            names["$entry"] = peer.export(program.entry(entry))
        except (LookupError, AttributeError) as error:
            missing = str(error)
    channel.write("names", encode(names), missing)

    def work():
        while True:
            order = channel.read()
            if order is None or order[0] != "do":
                return ("done",)
            peer.do(*order[1:])

    serve(channel, work)


