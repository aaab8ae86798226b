"""Calls into a program for the judge, which is outside: inputs come in, plain data goes out, nothing is compared here.

Called by the Python driver as: judge.py FILE. Standard input and output are the conversation: frames of four bytes of
length and that many bytes of marshal, version 2. This process also holds the program, which may do as it likes with it:
whatever it sends is an answer of that program, and only a right value is a right answer.

A value that marshal has no word for is a tuple that starts with an Ellipsis and a name.
"""
import gc
import marshal
import os
import select
import signal
import sys
import time

# By their own names: what is looked up in a module on the way is copied for each program.
from marshal import dumps, loads
from posix import O_RDONLY, O_RDWR, _exit as leave, close, dup2, mkdir, open as opened, read, write

SCALARS = {type(None), bool, int, float, complex, str, bytes}
# What the judge reads of one value, and how deep it may be.
MOST_BYTES = 8 << 20
MOST_DEPTH = 100


class Unsupported(Exception):
    """A value that cannot leave as plain data."""


def is_plain(value, depth=0):
    """Whether marshal's own view of the value is the whole of it: exact builtin types all the way down."""
    kind = type(value)
    if kind in SCALARS:
        return True
    if depth > MOST_DEPTH:
        raise Unsupported("a value nested too deeply, or one that contains itself")
    if kind is dict:
        return is_plain_all(value, depth) and is_plain_all(value.values(), depth)
    if kind in (list, tuple, set, frozenset):
        return is_plain_all(value, depth)
    return False


def is_plain_all(values, depth):
    if set(map(type, values)) <= SCALARS:
        return True
    return all(type(value) in SCALARS or is_plain(value, depth + 1) for value in values)


def encode(value, other=None):
    """Plain data for the judge. `other` is asked about values that are none."""
    if not is_plain(value):
        value = plain(value, other)
    return value


def plain(value, other=None, depth=0):
    kind = type(value)
    if kind in SCALARS:
        return value
    if depth > MOST_DEPTH:
        raise Unsupported("a value nested too deeply, or one that contains itself")
    inner = depth + 1
    if kind in (list, tuple, set, frozenset):
        return kind([plain(item, other, inner) for item in value])
    if kind is dict:
        return {plain(key, other, inner): plain(item, other, inner) for key, item in value.items()}
    tagged = special(kind, value, other, inner)
    if tagged is not None:
        return tagged
    if other is not None:
        return other(value)
    raise Unsupported(f"a value of type {name_of(kind)}")


def special(kind, value, other, inner):
    """Values with a meaning beyond the builtin types; None if there is no word for this one."""
    if kind is bytearray or kind is memoryview:
        return bytes(value)
    if kind is range:
        return (..., "range", value.start, value.stop, value.step)
    if value is ...:
        return (..., "ellipsis")
    module = getattr(kind, "__module__", "")
    if module == "decimal" and kind.__name__ == "Decimal":
        return (..., "decimal", str(value))
    if module == "fractions" and kind.__name__ == "Fraction":
        return (..., "fraction", value.numerator, value.denominator)
    if module == "datetime":
        if kind.__name__ == "timedelta":
            return (..., "timedelta", value.days, value.seconds, value.microseconds)
        if kind.__name__ in ("datetime", "date", "time"):
            return (..., kind.__name__, value.isoformat())
    if module.partition(".")[0] in ("numpy", "pandas"):
        return tabular(kind, value, other, inner)
    return derived(kind, value, other, inner)


def derived(kind, value, other, inner):
    """By fields, or as the builtin type that it is one of."""
    fields = getattr(kind, "__dataclass_fields__", None)
    if type(fields) is dict:
        pairs = tuple((name, plain(getattr(value, name), other, inner)) for name in fields)
        return (..., "record", name_of(kind), "dataclass", pairs)
    bases = kind.__mro__
    if tuple in bases and type(getattr(kind, "_fields", None)) is tuple:
        items = tuple.__iter__(value)
        pairs = tuple((name, plain(item, other, inner)) for name, item in zip(kind._fields, items))
        return (..., "record", name_of(kind), "namedtuple", pairs)
    # A subclass is what it holds, whatever it says of itself.
    if str in bases:
        return str.__str__(value) if type(str.__str__(value)) is str else "".join(str.__iter__(value))
    if int in bases:
        return int.__add__(value, 0)
    if float in bases:
        return float.__add__(value, 0.0)
    if bytes in bases:
        return bytes.__getitem__(value, slice(None))[:]
    if dict in bases:
        items = dict.items(value)
        return {plain(key, other, inner): plain(item, other, inner) for key, item in items}
    for base in (list, tuple, set, frozenset):
        if base in bases:
            return base([plain(item, other, inner) for item in base.__iter__(value)])
    if kind.__module__ == "collections" and kind.__name__ == "deque":
        return [plain(item, other, inner) for item in value]
    if kind in (type({}.keys()), type({}.values()), type({}.items())) and other is None:
        return [plain(item, other, inner) for item in value]
    return None


def tabular(kind, value, other, inner):
    """Arrays and frames as their lists."""
    name = kind.__name__
    if name == "ndarray":
        return (..., "ndarray", str(value.dtype), plain(value.tolist(), other, inner))
    if name == "DataFrame":
        columns = plain([column for column in value.columns], other, inner)
        rows = plain(value.values.tolist(), other, inner)
        return (..., "frame", columns, plain(value.index.tolist(), other, inner), rows)
    if name in ("Series", "Index") or name.endswith("Index"):
        return (..., "ndarray", str(value.dtype), plain(value.tolist(), other, inner))
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return plain(value.item(), other, inner)
    if hasattr(value, "isoformat"):
        return (..., "datetime", value.isoformat())
    return None


def decode(value, other=None):
    """An input as the program gets it."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is tuple and value and value[0] is ...:
        if other is not None and value[1] in other:
            return other[value[1]](*value[2:])
        return WORDS[value[1]](*value[2:])
    if kind is dict:
        return {decode(key, other): decode(item, other) for key, item in value.items()}
    return kind([decode(item, other) for item in value])


def imported(module, name):
    return lambda *words: getattr(__import__(module), name)(*words)


def from_iso(name):
    return lambda text: getattr(__import__("datetime"), name).fromisoformat(text)


def array(kind, values):
    return __import__("numpy").array(decode(values), dtype=kind)


WORDS = {
    "ellipsis": lambda: ...,
    "range": range,
    "decimal": imported("decimal", "Decimal"),
    "fraction": imported("fractions", "Fraction"),
    "timedelta": imported("datetime", "timedelta"),
    "datetime": from_iso("datetime"),
    "date": from_iso("date"),
    "time": from_iso("time"),
    "ndarray": array,
}


def name_of(kind):
    try:
        return str.__str__(kind.__name__)[:200]
    except BaseException:
        return "?"


def describe(error, path):
    """An exception as data: its classes, what it says, and the line of the program."""
    kinds = []
    for kind in type(error).__mro__[:-1]:
        kinds.append(f"{getattr(kind, '__module__', '?')}.{name_of(kind)}")
    try:
        message = str.__str__(str(error))[:8000]
    except BaseException:
        message = "<no text>"
    line = None
    if isinstance(error, SyntaxError) and error.filename == path:
        line = error.lineno
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return kinds, message, line


